"""The daemon's own routes, as a client sees them: what they answer, and what they refuse with which words."""

import json
import re
from pathlib import Path

import pytest
from atoll import BIN, ROOT, box_path, wait_for
from boxapi import check_error

MIB = 1024 * 1024


# ---- who may ask


def test_tcp_needs_the_token(daemon):
    for method, path in (("GET", "/v1/sandboxes"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/nope"),
                         ("PUT", "/v1/sandboxes/x"), ("POST", "/v1/sandboxes/x/api/execute"), ("GET", "/v1/sandboxes/-")):
        for headers in ({}, {"Authorization": "Bearer " + "0" * 64}, {"Authorization": f"Basic {daemon.token}"},
                        {"Authorization": f"Bearer {daemon.token}0"}, {"Authorization": "Bearer "}):
            r = daemon.request(method, path, headers=headers, unix=False, token=False)
            check_error(r, "UNAUTHORIZED", 401)
            assert r.headers["WWW-Authenticate"].startswith("Bearer")
    assert daemon.boxes() == []


def test_tcp_with_the_token_and_the_unix_socket_without(daemon):
    assert daemon.request("GET", "/v1/sandboxes", unix=False).status == 200
    assert daemon.request("GET", "/v1/sandboxes", unix=True, token=False).status == 200


def test_the_token_is_a_secret_file_of_the_daemons_user(daemon):
    st = (daemon.data / "token").stat()
    assert st.st_mode & 0o7777 == 0o600 and st.st_uid != 0
    assert re.fullmatch(r"[0-9a-f]{64}", daemon.token)


def test_the_unix_socket_is_for_root_and_the_group(daemon):
    st = Path(daemon.socket).stat()
    assert st.st_mode & 0o7777 == 0o660 and st.st_gid != 0


def test_it_runs_without_privileges(daemon):
    status = Path(f"/proc/{daemon.daemon_pid}/status").read_text()
    field = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert "0" not in field["Uid"].split() and "0" not in field["Gid"].split()
    assert "0" not in field["Groups"].split()
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(field[name], 16) == 0, name
    assert field["NoNewPrivs"] == "1"


# ---- about itself


def test_health_needs_no_token_and_tells_more_with_it(daemon):
    plain = daemon.request("GET", "/v1/health", unix=False, token=False).json()
    assert set(plain) == {"status", "version", "uptimeSeconds", "warden", "timestamp"}
    assert (plain["status"], plain["warden"]) == ("ok", True)
    full = daemon.request("GET", "/v1/health", unix=False).json()
    assert full["host"]["memory"] > 0 and full["host"]["cpu"] > 0 and full["host"]["pids"] > 0
    assert full["defaults"] == {"memory": 512 * MIB, "cpu": 1, "pids": 256, "disk": 8192 * MIB}
    assert full["sandboxes"] == {"creating": 0, "running": 0, "asleep": 0, "stopped": 0, "failed": 0}


def test_the_page_says_what_this_is(daemon):
    r = daemon.request("GET", "/", unix=False, token=False)
    assert r.status == 200 and r.headers["Content-Type"].startswith("text/html") and b"Atoll" in r.body


def test_the_contract_describes_what_there_is(daemon):
    doc = daemon.request("GET", "/openapi.json").json()
    assert doc["openapi"].startswith("3.") and doc["info"]["version"] == daemon.request("GET", "/v1/health").json()["version"]
    outside = {path for path in doc["paths"] if not re.match(r"/v1/sandboxes/\{id\}/(api|ws|rpc)(/|$)", path)}
    table = (ROOT / "src/daemon/routes.c").read_text(encoding="utf-8")
    elsewhere = r"\{id\}/(api|ws|rpc|proxy/\{port\})$|^/assets/|^/v1/sandbox$|^/health$"
    rows = re.findall(r'\t\{"(/[^"]*)",(?:\s*"[^"]*",)?(?:\s*\.label = "([^"]*)",)?', table)
    routes = {label or path for path, label in rows if not re.search(elsewhere, label or path)}
    # Some rows of the table stand for everything below them.
    below = {path for path in outside if path.startswith("/v1/images/")}
    assert outside - below == routes | {"/v1/sandboxes/{id}/proxy/{port}/{path}"}
    refs = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(doc)))
    for ref in refs:
        node = doc
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]


def metrics(daemon):
    """{name{labels}: value}; every line must be one that Prometheus reads."""
    values = {}
    for line in daemon.request("GET", "/metrics").text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        found = re.fullmatch(r'([a-z_]+(?:\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})?) ([0-9.e+-]+)', line)
        assert found, line
        values[found[1]] = float(found[2])
    return values


def test_metrics_count(daemon, box):
    before = metrics(daemon)
    daemon.execute(box, "true")
    daemon.request("GET", "/nope")
    after = metrics(daemon)

    def grew(name):
        return after.get(name, 0) - before.get(name, 0)

    assert grew('atoll_requests_total{route="/v1/sandboxes/{id}/api",status="200"}') == 1
    assert grew('atoll_requests_total{route="unknown",status="404"}') == 1
    assert grew('atoll_request_seconds_count{route="/v1/sandboxes/{id}/api"}') == 1
    assert grew('atoll_request_seconds_bucket{route="/v1/sandboxes/{id}/api",le="+Inf"}') == 1
    assert grew("atoll_create_seconds_count") == 1 and grew("atoll_create_seconds_sum") > 0
    assert grew('atoll_sandboxes{state="running"}') == 1
    assert grew("atoll_warden_calls_total") >= 1
    assert grew("atoll_received_bytes_total") > 100 and grew("atoll_sent_bytes_total") > 100
    assert after["atoll_warden_up"] == 1 and after["atoll_connections"] >= 1
    assert after["process_open_fds"] > 5 and after["process_resident_memory_bytes"] > MIB


# ---- wrong routes, methods, ids, bodies


def test_unknown_routes_are_404(daemon):
    for path in ("/nope", "/v1", "/v1/", "/v1/health/", "/v1/sandboxes/a/", "/v1/sandboxes/a/apix", "/v1/sandboxes/a/internal/env",
                 "//v1/health", "/v1/../v1/health", "/v1/%68ealth"):
        check_error(daemon.request("GET", path), "NOT_FOUND", 404)


@pytest.mark.parametrize("method, path, allow", [
    ("POST", "/v1/sandboxes", "GET, HEAD"), ("DELETE", "/v1/health", "GET, HEAD"), ("PUT", "/", "GET, HEAD"),
    ("POST", "/metrics", "GET, HEAD"), ("PATCH", "/v1/sandboxes/a", "GET, HEAD, PUT, DELETE"),
    ("OPTIONS", "/v1/sandboxes/a", "GET, HEAD, PUT, DELETE")])
def test_wrong_methods_are_405_with_allow(daemon, method, path, allow):
    r = daemon.request(method, path)
    check_error(r, "METHOD_NOT_ALLOWED", 405)
    assert r.headers["Allow"] == allow


def test_head_is_get_without_the_body(daemon):
    for path in ("/", "/v1/health", "/v1/sandboxes", "/metrics", "/openapi.json"):
        r = daemon.request("HEAD", path)
        assert (r.status, r.body) == (200, b"")


@pytest.mark.parametrize("segment, code, words", [
    ("", "INVALID_SANDBOX_ID_LENGTH", "1-63"), ("a" * 64, "INVALID_SANDBOX_ID_LENGTH", "1-63"),
    ("-a", "INVALID_SANDBOX_ID_HYPHENS", "hyphen"), ("a-", "INVALID_SANDBOX_ID_HYPHENS", "hyphen"),
    ("Admin", "RESERVED_SANDBOX_ID", "reserved"), ("a%2fb", "INVALID_SANDBOX_ID_CHARACTERS", "printable"),
    ("a%20b", "INVALID_SANDBOX_ID_CHARACTERS", "printable"), ("a%00b", "INVALID_SANDBOX_ID_CHARACTERS", "percent-encoded"),
    ("a%zz", "INVALID_SANDBOX_ID_CHARACTERS", "percent-encoded"), ("%c3%a4", "INVALID_SANDBOX_ID_CHARACTERS", "printable")])
def test_bad_ids_name_the_rule(daemon, segment, code, words):
    for method, rest in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/api/execute"), ("GET", "/ws/pty")):
        e = check_error(daemon.request(method, f"/v1/sandboxes/{segment}{rest}"), code, 400)
        assert words in e["message"]


def test_bad_json_names_line_and_column(daemon, box):
    e = check_error(daemon.request("PUT", box_path(box), b'{\n  "limits": ,\n}'), "INVALID_JSON", 400)
    assert "line 2 column 13" in e["message"]
    for body in (b"{", b"{}{}", b"\xff", b'{"a":1,"a":2}', b"[" * 200, b'{"limits":{"memory":01}}'):
        check_error(daemon.request("PUT", box_path(box), body), "INVALID_JSON", 400)
    assert daemon.inspect(box) is None


@pytest.mark.parametrize("body, field", [
    ({"foo": 1}, "foo"), ({"limits": {"gpu": 1}}, "limits.gpu"), ({"limits": 1}, "limits"),
    ({"limits": {"memory": "1g"}}, "limits.memory"), ({"image": "../x"}, "image"), ({"env": {"A-B": "c"}}, "env"),
    ({"env": {"A": 1}}, "env"), ({"labels": {"a b": "c"}}, "labels"), ({"sleepAfter": "1d"}, "sleepAfter"),
    ({"keepAlive": "yes"}, "keepAlive")])
def test_wrong_fields_are_named(daemon, box, body, field):
    e = check_error(daemon.request("PUT", box_path(box), body), "VALIDATION_FAILED", 400)
    assert e["context"]["validationErrors"][0]["field"] == field
    assert daemon.inspect(box) is None


def test_limits_beyond_the_host_are_400(daemon, box):
    host = daemon.request("GET", "/v1/health").json()["host"]
    for limits in ({"memory": host["memory"] + 1}, {"cpu": host["cpu"] + 0.001}, {"memory": 1}, {"cpu": 0.001},
                   {"cpu": -1}, {"cpu": 1e300}, {"pids": 7}, {"pids": 40000}):
        e = check_error(daemon.request("PUT", box_path(box), {"limits": limits}), "INVALID_LIMITS", 400)
        assert f"limits.{next(iter(limits))}" in e["message"]
    assert daemon.inspect(box) is None
    assert daemon.request("PUT", box_path(box), {"limits": {"cpu": host["cpu"]}}).status == 201


def test_a_body_that_is_too_large_is_413(daemon, box):
    r = daemon.request("PUT", box_path(box), b'{"env":{"A":"' + b"x" * 300_000 + b'"}}')
    check_error(r, "PAYLOAD_TOO_LARGE", 413)
    check_error(daemon.request("PUT", box_path(box), {"env": {"A": "x" * 65536}}), "VALIDATION_FAILED", 400)
    assert daemon.inspect(box) is None
    check_error(daemon.request("PUT", box_path(box), b"{}".ljust(256 * 1024 + 1)), "PAYLOAD_TOO_LARGE", 413)
    assert daemon.request("PUT", box_path(box), b"{}".ljust(256 * 1024)).status == 201


def test_a_preview_host_never_reaches_the_api(daemon):
    for host in ("8080-a-token.localhost:8700", "x.LOCALHOST:8700"):
        r = daemon.request("GET", "/v1/health", headers={"Host": host})
        assert (r.status, r.json()["code"]) == (404, "INVALID_TOKEN")
    assert daemon.request("GET", "/v1/health", headers={"Host": "localhost:8700"}).status == 200
    assert daemon.request("GET", "/v1/health", headers={"Host": "xlocalhost:8700"}).status == 200


# ---- make, look, change, destroy


def test_put_makes_and_shows_what_was_asked(daemon, box):
    r = daemon.request("PUT", box_path(box), {"limits": {"memory": 128 * MIB, "cpu": 0.5, "pids": 64},
                                              "labels": {"team/x": "a\"b"}, "env": {"GREETING": "hello world", "EMPTY": ""},
                                              "sleepAfter": "10m", "keepAlive": True})
    assert r.status == 201
    shown = r.json()
    assert shown["limits"] == {"memory": 128 * MIB, "cpu": 0.5, "pids": 64, "disk": 8192 * MIB}
    assert (shown["id"], shown["state"], shown["image"]) == (box, "running", "default")
    assert (shown["labels"], shown["sleepAfter"], shown["keepAlive"]) == ({"team/x": "a\"b"}, 600, True)
    assert sorted(shown["envNames"]) == ["EMPTY", "GREETING"] and "hello" not in r.text
    daemon.execute(box, "sync -f /")  # the kernel counts a new layer when it writes its tree
    seen = daemon.inspect(box)
    usage = seen.pop("usage")
    if "disk" in seen:
        assert seen["disk"].pop("used") == usage["disk"] > 0
    assert seen == shown
    assert usage["memory"] > 0 and usage["pids"] >= 1 and usage["oomKills"] == 0
    out = daemon.execute(box, 'echo "$GREETING|${EMPTY-unset}"')
    assert out["stdout"] == "hello world|\n"


def test_put_is_idempotent(daemon, box):
    body = {"limits": {"memory": 64 * MIB}}
    assert daemon.request("PUT", box_path(box), body).status == 201
    first = daemon.inspect(box)
    assert daemon.request("PUT", box_path(box), body).status == 200
    assert daemon.request("PUT", box_path(box)).status == 200
    again = daemon.inspect(box)
    for seen in (first, again):
        seen.pop("usage")
    assert again == first


def test_put_changes_the_limits_of_a_living_box(daemon, box):
    daemon.execute(box, "true")
    assert daemon.request("PUT", box_path(box), {"limits": {"pids": 16}}).json()["limits"]["pids"] == 16
    r = daemon.execute(box, "for i in $(seq 40); do sleep 0.3 & done; wait")
    assert "fork" in r["stderr"] or "Resource temporarily unavailable" in r["stderr"]
    assert daemon.request("PUT", box_path(box), {"limits": {"pids": 200}}).status == 200
    assert daemon.inspect(box)["limits"] == {"memory": 512 * MIB, "cpu": 1, "pids": 200, "disk": 8192 * MIB}


def test_the_image_of_a_sandbox_stays(daemon, box):
    daemon.execute(box, "true")
    e = check_error(daemon.request("PUT", box_path(box), {"image": "other"}), "INVALID_STATE", 409)
    assert "default" in e["message"]


@pytest.mark.parametrize("image", ["no-such-image", "no-such-image:1", "registry.invalid/no-such-image:tag", "registry.invalid/no-such-image/" + "x" * 80])
def test_an_image_that_is_not_there(daemon, box, image):
    for _ in range(2):
        check_error(daemon.request("PUT", box_path(box), {"image": image}), "IMAGE_NOT_FOUND", 404)
        about = daemon.inspect(box)
        shown = image if len(image) <= 63 else image[:59] + ":..."
        assert (about["state"], about["image"]) == ("failed", shown) and about["reason"].startswith("IMAGE_NOT_FOUND: "), about
    for method, route, body in (("POST", "/api/execute", {"command": "true"}), ("GET", "/api/ping", None), ("GET", "/proxy/80/", None)):
        e = check_error(daemon.request(method, box_path(box, route), body), "IMAGE_NOT_FOUND", 404)
        assert "no-such-image" in e["message"]
    assert daemon.inspect(box)["state"] == "failed"
    assert daemon.request("PUT", box_path(box), {"image": "default", "limits": {"pids": 64}}).status == 201
    assert daemon.execute(box, "echo hi")["stdout"] == "hi\n"
    assert daemon.inspect(box)["limits"]["pids"] == 64


@pytest.mark.parametrize("image", ["no-such-image", "no-such-image:1"])
def test_a_failed_sandbox_can_be_deleted(daemon, box, image):
    check_error(daemon.request("PUT", box_path(box), {"image": image}), "IMAGE_NOT_FOUND", 404)
    check_error(daemon.request("PUT", box_path(box), {}), "IMAGE_NOT_FOUND", 404)
    assert box in [s["id"] for s in daemon.request("GET", "/v1/sandboxes").json()["sandboxes"]]
    assert daemon.request("DELETE", box_path(box)).status == 204
    assert daemon.inspect(box) is None
    assert daemon.execute(box, "echo hi")["stdout"] == "hi\n"


def test_delete(daemon, box):
    check_error(daemon.request("DELETE", box_path(box)), "SANDBOX_NOT_FOUND", 404)
    daemon.execute(box, "echo x >/workspace/f")
    r = daemon.request("DELETE", box_path(box))
    assert (r.status, r.body) == (204, b"")
    check_error(daemon.request("GET", box_path(box)), "SANDBOX_NOT_FOUND", 404)
    check_error(daemon.request("DELETE", box_path(box)), "SANDBOX_NOT_FOUND", 404)
    assert daemon.execute(box, "cat /workspace/f")["exitCode"] == 1


def test_ids_with_odd_characters(daemon):
    for name in ("me@example.org", "..a", "a%b", "Ä".encode().hex(), "A", "a", "x~!$&'()*+,;=:@"):
        try:
            assert daemon.execute(name, "echo ok")["stdout"] == "ok\n"
            assert daemon.inspect(name)["id"] == name
        finally:
            assert daemon.destroy(name).status == 204


def test_ids_of_dots_alone_are_refused(daemon):
    for name in (".", "..", "...", "%2e", "%2E%2e", "%2E."):
        for method, rest in (("PUT", ""), ("GET", ""), ("DELETE", ""), ("POST", "/api/execute"), ("GET", "/proxy/8080/")):
            check_error(daemon.request(method, f"/v1/sandboxes/{name}{rest}"), "INVALID_SANDBOX_ID_CHARACTERS", 400)
    for words in (("create", ".."), ("exec", "..", "--", "true"), ("rm", ".")):
        r = daemon.cli(*words)
        assert r.returncode != 0 and b"dots alone" in r.stderr, (words, r)


def test_pages_of_the_list(daemon):
    names = sorted(f"page-{i:02}" for i in range(12))
    try:
        for name in names:
            assert daemon.request("PUT", box_path(name), {"labels": {"n": name}}).status == 201
        seen, after, pages = [], "", 0
        while after is not None:
            page = daemon.request("GET", f"/v1/sandboxes?limit=5&after={after}").json()
            assert page["total"] == 12 and len(page["sandboxes"]) <= 5
            seen += [s["id"] for s in page["sandboxes"]]
            after, pages = page["next"], pages + 1
        assert seen == names and pages == 3
        assert len(daemon.request("GET", "/v1/sandboxes?limit=1000").json()["sandboxes"]) == 12
        exact = daemon.request("GET", "/v1/sandboxes?limit=12").json()
        assert exact["next"] is None and len(exact["sandboxes"]) == 12
        assert daemon.request("GET", "/v1/sandboxes?state=running&limit=1").json()["next"] == names[0]
        assert daemon.request("GET", "/v1/sandboxes?state=stopped").json()["sandboxes"] == []
        for query in ("limit=0", "limit=1001", "limit=x", "state=gone", "after=%zz", "after=" + "a" * 64):
            check_error(daemon.request("GET", "/v1/sandboxes?" + query), "VALIDATION_FAILED", 400)
    finally:
        for name in names:
            daemon.destroy(name)


def test_a_list_that_nobody_reads_costs_little(daemon):
    """Forty sandboxes with 8 KB of labels each are more than a connection may buffer."""
    if b"__asan_init" in (BIN / "atolld").read_bytes():
        pytest.skip("atolld is built with a sanitizer, which keeps freed memory")
    names = [f"fat-{i:02}" for i in range(40)]
    before = metrics(daemon)["process_resident_memory_bytes"]
    try:
        for name in names:
            assert daemon.request("PUT", box_path(name), {"labels": {f"l{i}": "x" * 1000 for i in range(8)}}).status == 201
        stalled = []
        for _ in range(30):
            s = daemon.connect(unix=True)
            s.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n\r\n")
            stalled.append(s)
        wait_for(lambda: metrics(daemon)["atoll_connections"] >= 30, "all have connected")
        assert metrics(daemon)["process_resident_memory_bytes"] - before < 30 * 256 * 1024 + 8 * MIB
        body = b""
        while b"\r\n0\r\n\r\n" not in body:
            body += stalled[0].recv(1 << 20)
        assert body.count(b'"id":"fat-') == 40
        for s in stalled:
            s.close()
    finally:
        for name in names:
            daemon.destroy(name)


def test_instance_types_are_limits_by_name(daemon, box):
    shown = daemon.request("PUT", box_path(box), {"instance": "lite"}).json()
    assert (shown["instance"], shown["limits"]["memory"], shown["limits"]["cpu"]) == ("lite", 256 << 20, 0.063)
    shown = daemon.request("PUT", box_path(box), {"instance": "basic", "limits": {"memory": 300 << 20}}).json()
    assert (shown["instance"], shown["limits"]["memory"], shown["limits"]["cpu"]) == ("basic", 300 << 20, 0.25)
    quota = daemon.execute(box, "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max 2>/dev/null; nproc")
    assert quota["exitCode"] == 0
    for bad in ("huge", 3, ["lite"]):
        check_error(daemon.request("PUT", box_path(box), {"instance": bad}), "VALIDATION_FAILED", 400)
    assert daemon.inspect(box)["instance"] == "basic"


def test_an_instance_that_the_host_is_too_small_for_is_refused(daemon, box):
    host = daemon.request("GET", "/v1/health").json()["host"]
    if host["cpu"] >= 4 and host["memory"] >= 12 << 30:
        pytest.skip("this host has room for the largest type")
    r = daemon.request("PUT", box_path(box), {"instance": "standard-4"})
    check_error(r, "INVALID_LIMITS", 400)
    assert "instance 'standard-4'" in r.json()["message"] and "the host has" in r.json()["message"]
    assert daemon.inspect(box) is None
