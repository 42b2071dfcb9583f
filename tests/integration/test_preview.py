"""Previews: a URL that leads to a server in a box, what everybody else gets, and for which names the daemon answers."""

import os
import re
import signal
import subprocess
import threading

import boxapp
import pytest
from atoll import BIN, Instance, box_path, wait_for
from boxapi import Api
from fixtures import what_is_missing

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
JSON = {"Accept": "application/json"}
ECHO = """
def handle(c):
    for h in heads(c):
        reply(c, h, extra=b"X-App: yes\\r\\n")
"""


def expose(daemon, box, port, **body):
    r = daemon.request("POST", box_path(box, f"/ports/{port}"), body)
    assert r.status in (200, 201), r
    return r.json()


def host_of(port):
    return port["url"].split("/")[2]


def get(daemon, host, path="/", method="GET", headers=None, unix=False):
    return daemon.request(method, path, headers={"Host": host, **(headers or {})}, unix=unix, token=False)


def curl(*args):
    r = subprocess.run(["curl", "-sS", "--max-time", "30", *args], capture_output=True, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout.decode()


def log_of(daemon, box, port):
    return daemon.request("GET", box_path(box, f"/ports/{port}/requests")).json()["requests"]


@pytest.fixture
def echo(api):
    """A server on port 8080 that answers with the head of the request, exposed."""
    boxapp.raw(api, 8080, ECHO)
    return expose(api.daemon, api.box, 8080)


# ---- to the app


def test_the_url_works_as_it_is(echo):
    text = curl(echo["url"] + "a/b?c=d")
    assert text.startswith("GET /a/b?c=d HTTP/1.1\r\n") and f"\r\nHost: {host_of(echo)}\r\n" in text
    assert curl("-I", echo["url"]).startswith("HTTP/1.1 200")


def test_hosts_are_names_in_any_case_with_any_port(daemon, echo):
    host = host_of(echo)
    name = host.rsplit(":", 1)[0]
    for same in (host, host.upper(), name, name + ":1", name + ".", name + ".:9"):
        r = get(daemon, same)
        assert (r.status, r.headers["X-App"]) == (200, "yes"), same
    assert get(daemon, host, unix=True).status == 200


def test_the_app_sees_who_asked_and_no_credentials(daemon, echo):
    host = host_of(echo)
    r = get(daemon, host, headers={"Authorization": f"Bearer {daemon.token}", "Cookie": "a=1; atoll_session=secret; b=2"})
    assert daemon.token not in r.text and "secret" not in r.text and "Authorization" not in r.text
    assert "\r\nCookie: a=1; b=2\r\n" in r.text
    assert f"\r\nX-Forwarded-Host: {host}\r\n" in r.text and "\r\nX-Forwarded-Proto: http\r\n" in r.text
    assert "\r\nAuthorization: Basic YTpi\r\n" in get(daemon, host, headers={"Authorization": "Basic YTpi"}).text
    lies = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"}
    r = get(daemon, host, headers=lies)
    assert r.status == 200 and "6.6.6.6" not in r.text and "evil.example" not in r.text


def test_cookies_stay_with_the_host_of_the_preview(daemon, api):
    boxapp.raw(api, 8080, """
        COOKIES = [b"a=1; Path=/; Domain=localhost; HttpOnly", b"b=2; DOMAIN = .localhost", b"c=3;domain=x;Domain=localhost",
                   b"d=4; Domain", b'e="5; Domain=localhost"', b"__Host-f=6; Secure; Path=/; Domain=localhost", b"Domain=g",
                   b"h=8; Path=/domain", b"=atoll_session=planted; Domain=localhost"]
        def handle(c):
            for h in heads(c):
                c.sendall(b"HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\nSet-Cookie: early=1; Domain=localhost\\r\\n\\r\\n")
                reply(c, b"", extra=b"".join(b"Set-Cookie: " + cookie + b"\\r\\n" for cookie in COOKIES))
        """)
    host = host_of(expose(daemon, api.box, 8080))
    want = ["a=1; Path=/; HttpOnly", "b=2", "c=3", "d=4", 'e="5', "__Host-f=6; Secure; Path=/", "Domain=g", "h=8; Path=/domain"]
    out = daemon.raw(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()).decode()
    assert [line[12:] for line in out.split("\r\n") if line.lower().startswith("set-cookie: ")] == want
    assert out.startswith("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 ")


def test_a_preview_is_never_the_api(daemon, echo):
    for path in ("/v1/health", "/v1/sandboxes", "/metrics", "/openapi.json"):
        r = get(daemon, host_of(echo), path, headers={"Authorization": f"Bearer {daemon.token}"})
        assert r.text.startswith(f"GET {path} HTTP/1.1\r\n")


def test_every_request_method_and_an_absolute_target(daemon, echo):
    host = host_of(echo)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert get(daemon, host, "/x", method).text.startswith(f"{method} /x HTTP/1.1\r\n")
    out = daemon.raw(f"GET http://{host}/abs?x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert b"\r\n\r\nGET /abs?x HTTP/1.1\r\n" in out


def test_it_survives_a_restart_of_the_daemon(own_daemon, own_box):
    api = Api(own_daemon, own_box)
    boxapp.raw(api, 8080, ECHO)
    port = expose(own_daemon, own_box, 8080, token="kept")
    own_daemon.kill_daemon()
    assert get(own_daemon, host_of(port)).headers["X-App"] == "yes"


# ---- everything else is one answer


def same(reply):
    return reply.status, [(k, v) for k, v in reply.headers.items() if k != "Date"], reply.body


def wrong_hosts(box, token, domain):
    labels = [f"8080-{box}-{'x' * len(token)}", f"8080-{box}-{token[:-1]}", f"8080-{box}-{token}x", f"8081-{box}-{token}",
              f"8082-{box}-{token}", f"3000-{box}-{token}", f"8080-nobody-{token}", f"8080-{token}", f"8080-{box}", "8080", "x",
              f"08080-{box}-{token}", f"80-{box}-{token}", f"99999-{box}-{token}", f"8080--{token}", f"8080-{box}-",
              f"-{box}-{token}", f"8080-{box}-{token}-", f"8080-{box}-{token}.x", f"www.8080-{box}-{token}",
              "8080-" + "y" * 60 + "-z", f"8080-{box}%2d{token}"]
    return [f"{label}.{domain}" for label in labels]


@pytest.mark.parametrize("accept", [HTML, JSON], ids=["html", "json"])
def test_whatever_is_wrong_looks_the_same(daemon, echo, box, accept):
    expose(daemon, box, 8082, token="other")  # exposed under another token
    domain = host_of(echo).split(".", 1)[1]
    answers = {host: get(daemon, host, "/v1/health?a", headers=accept) for host in wrong_hosts(box, echo["token"], domain)}
    gone = box + "-gone"
    dead = host_of(expose(daemon, gone, 8080))
    assert daemon.destroy(gone).status == 204
    answers["destroyed"] = get(daemon, dead, headers=accept)
    daemon.request("DELETE", box_path(box, "/ports/8082"))
    answers["unexposed"] = get(daemon, f"8082-{box}-other.{domain}", headers=accept)
    first = next(iter(answers.values()))
    assert first.status == 404 and box.encode() not in first.body and b"8080" not in first.body
    for host, answer in answers.items():
        assert same(answer) == same(first), host
    if accept is JSON:
        assert first.json()["code"] == "INVALID_TOKEN"
    assert gone not in daemon.boxes() and "nobody" not in daemon.boxes(), "nothing was made"
    assert get(daemon, host_of(echo)).status == 200


def test_a_destroyed_box_is_not_made_again_by_those_who_wait(daemon, box):
    api = Api(daemon, box)
    boxapp.raw(api, 8080, ECHO)
    host, statuses = host_of(expose(daemon, box, 8080)), []

    def ask():
        for _ in range(20):
            statuses.append(get(daemon, host).status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    wait_for(lambda: len(statuses) > 8, "previews are looked at")
    assert daemon.destroy(box).status == 204
    for t in threads:
        t.join()
    assert get(daemon, host).status == 404 and box not in daemon.boxes()
    assert set(statuses) <= {200, 404, 500, 502}, set(statuses)


# ---- pages


def test_nothing_listens(daemon, box):
    host = host_of(expose(daemon, box, 8099))
    page = get(daemon, host, headers=HTML)
    assert page.status == 502 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "port 8099" in page.text and "location.reload" in page.text and page.headers["X-Atoll-Preview"] == "waiting"
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and page.headers["Cache-Control"] == "no-store"
    assert not re.search(r'(src|href)=', page.text), "nothing from elsewhere"
    for headers in (JSON, {}, {"Accept": "*/*"}):
        r = get(daemon, host, headers=headers)
        assert (r.status, r.json()["code"], r.json()["context"]) == (502, "SERVICE_NOT_RESPONDING", {"port": 8099})
    form = get(daemon, host, method="POST", headers=HTML)
    assert form.status == 502 and "<script>" not in form.text, "a form must not be sent again by a reload"


def test_a_server_that_talks_nonsense(daemon, api, box):
    boxapp.raw(api, 8080, "def handle(c):\n    head(c)\n    c.sendall(b'<b>nonsense</b>')\n")
    host = host_of(expose(daemon, box, 8080))
    page = get(daemon, host, headers=HTML)
    assert page.status == 502 and page.headers["X-Atoll-Preview"] == "failed" and b"<b>" not in page.body
    assert get(daemon, host, headers=JSON).json()["code"] == "BAD_GATEWAY"


def test_a_stopped_box_stays_stopped(daemon, box):
    api = Api(daemon, box)
    boxapp.raw(api, 8080, ECHO)
    host = host_of(expose(daemon, box, 8080))
    os.kill(api.agent_pid(), signal.SIGKILL)
    wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "its end is noticed")
    r = get(daemon, host, headers=JSON)
    assert (r.status, r.json()["code"]) == (410, "STALE_PREVIEW_URL")
    assert "stopped" in get(daemon, host, headers=HTML).text
    assert daemon.inspect(box)["state"] == "stopped"
    assert daemon.request("GET", box_path(box, "/ports/8080")).json()["status"] == "inactive"
    boxapp.raw(api, 8080, ECHO)
    assert get(daemon, host).headers["X-App"] == "yes", "the URL is the same after a start"


# ---- activity


def asleep(daemon, box):
    return daemon.inspect(box)["state"] == "asleep"


def test_a_look_wakes_a_sleeping_box(daemon, box, api):
    boxapp.raw(api, 8080, ECHO)
    host = host_of(expose(daemon, box, 8080))
    daemon.request("PUT", box_path(box), {"sleepAfter": 1})
    wait_for(lambda: asleep(daemon, box), "it sleeps")
    assert get(daemon, "8080-" + box + "-wrong." + host.split(".", 1)[1]).status == 404
    assert asleep(daemon, box), "a wrong token wakes nobody"
    r = get(daemon, host)
    assert r.status == 200 and r.headers["X-App"] == "yes", r


def test_a_page_that_waits_does_not_keep_the_box_awake(daemon, box):
    host = host_of(expose(daemon, box, 8080))
    daemon.request("PUT", box_path(box), {"sleepAfter": 1})
    poll = {"X-Atoll-Poll": "1", "Accept": "*/*"}

    def looks_and_sleeps():
        r = get(daemon, host, method="HEAD", headers=poll)
        assert (r.status, r.headers["X-Atoll-Preview"]) == (502, "waiting")
        return asleep(daemon, box)

    wait_for(looks_and_sleeps, "it sleeps although it is looked at")
    assert looks_and_sleeps(), "and looking does not wake it"
    assert log_of(daemon, box, 8080) == [], "nor is it worth remembering"


# ---- what came through


def test_the_last_requests_are_remembered(daemon, box, echo):
    host = host_of(echo)
    get(daemon, host, "/first?secret=1")
    wait_for(lambda: log_of(daemon, box, 8080), "it is in the log")
    entry = log_of(daemon, box, 8080)[0]
    assert (entry["method"], entry["path"], entry["query"], entry["status"]) == ("GET", "/first", True, 200)
    assert entry["ms"] > 0 and entry["bytesIn"] == 0 and entry["bytesOut"] > 50
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])
    assert "secret" not in daemon.request("GET", box_path(box, "/ports/8080/requests")).text
    for i in range(105):
        get(daemon, host, f"/n{i}")
    wait_for(lambda: log_of(daemon, box, 8080)[0]["path"] == "/n104", "the last one is in the log")
    assert [e["path"] for e in log_of(daemon, box, 8080)] == [f"/n{i}" for i in range(104, 4, -1)]
    get(daemon, host, "/" + "p" * 500)
    wait_for(lambda: log_of(daemon, box, 8080)[0]["path"] == "/" + "p" * 159, "a long path is cut")
    assert "/n104" in daemon.cli("requests", box, "8080").stdout.decode()


def headers_of(entry, which):
    return {h["name"].lower(): h["value"] for h in entry[which]}


def test_headers_of_the_newest_requests_are_remembered(daemon, box, echo):
    host = host_of(echo)
    secrets = {"Cookie": "sid=hidden1", "X-Api-Key": "hidden2", "Proxy-Authorization": "hidden3"}
    get(daemon, host, "/heads", headers={"X-Plain": "seen", "Referer": "http://else.test/a?hidden4", "X-Long": "v" * 3000, **secrets})
    wait_for(lambda: log_of(daemon, box, 8080), "it is in the log")
    entry = log_of(daemon, box, 8080)[0]
    asked, answered = headers_of(entry, "requestHeaders"), headers_of(entry, "responseHeaders")
    assert asked["x-plain"] == "seen" and asked["referer"] == "http://else.test/a" and asked["cookie"] == "…"
    assert "x-long" not in asked and answered["x-app"] == "yes" and 0 < entry["firstMs"] <= entry["ms"]
    assert "hidden" not in daemon.request("GET", box_path(box, "/ports/8080/requests")).text
    for i in range(16):
        get(daemon, host, f"/n{i}")
    wait_for(lambda: log_of(daemon, box, 8080)[0]["path"] == "/n15", "the last one is in the log")
    assert ["requestHeaders" in e for e in log_of(daemon, box, 8080)] == [True] * 16 + [False]


def test_ports_are_counted(daemon, box, echo):
    labels = f'sandbox="{box}",port="8080"'

    def metrics():
        return daemon.request("GET", "/metrics").text

    for _ in range(3):
        get(daemon, host_of(echo))
    expose(daemon, box, 8099)
    wait_for(lambda: f'atoll_port_requests_total{{{labels},status="2xx"}} 3\n' in metrics(), "three are counted")
    text = metrics()
    assert f"atoll_port_request_seconds_count{{{labels}}} 3\n" in text
    assert re.search(rf'atoll_port_sent_bytes_total{{{re.escape(labels)}}} [1-9]', text)
    assert f'sandbox="{box}",port="8099"' not in text, "what is not used has no series"
    daemon.request("DELETE", box_path(box, "/ports/8080"))
    assert labels not in metrics()


# ---- names


def test_foreign_names_are_refused(daemon):
    for path in ("/", "/v1/health", "/v1/sandboxes", "/metrics", "/v1/sandboxes/x/api/ping"):
        for host in ("evil.example", "localhost.evil.example", "xlocalhost", "localhost@evil.example", "127.0.0.1.evil.example", "2130706433", "0x7f.1"):
            r = daemon.request("GET", path, headers={"Host": host}, unix=False)
            # A name that cannot be one at all may be refused as such before.
            assert (r.status, r.json()["code"]) in ((421, "MISDIRECTED_REQUEST"), (400, "INVALID_REQUEST")), (path, host, r)
    assert "x" not in daemon.boxes()
    out = daemon.raw(b"GET http://evil.example/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert out.startswith((b"HTTP/1.1 421", b"HTTP/1.1 400")), out
    assert "atoll_foreign_hosts_total" in daemon.request("GET", "/metrics").text


def test_own_names_are_served(daemon):
    for host in ("localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:8700", "[::1]", "[::1]:8700", "10.1.2.3", "[fe80::1]:80"):
        assert daemon.request("GET", "/v1/health", headers={"Host": host}, unix=False).status == 200, host
    assert daemon.request("GET", "/v1/health", headers={"Host": "anything"}, unix=True).status == 200
    assert daemon.raw(b"GET /v1/health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


# What a request may say to be taken for one of the other kind, and what comes of it. {h} is a preview's host.
TRICKS = [
    ("GET / HTTP/1.1|Host: {h}|Host: localhost", 400), ("GET / HTTP/1.1|Host: {h}|Host: {h}", 400), ("GET / HTTP/1.1", 400),
    ("GET / HTTP/1.1|Host:", 421), ("GET / HTTP/1.1|Host: localhost, {h}", 400), ("GET / HTTP/1.1|Host : {h}", 400),
    ("GET / HTTP/1.1|Host: {h}\nX: y", 400), ("GET / HTTP/1.1|Host: localhost@{h}", 400), ("GET / HTTP/1.1|Host: {h}/", 400),
    ("GET http://user:pw@{h}/ HTTP/1.1|Host: {h}", 400), ("GET http://localhost@{h}/ HTTP/1.1|Host: localhost", 400),
    ("GET https://{h}/ HTTP/1.1|Host: {h}", 400), ("GET http://evil.example/ HTTP/1.1|Host: {h}", 421),
    ("GET /\0 HTTP/1.1|Host: {h}", 400), ("CONNECT {h} HTTP/1.1|Host: {h}", 405), ("OPTIONS * HTTP/1.1|Host: {h}", 404),
    ("POST / HTTP/1.1|Host: {h}|Content-Length: 4|Transfer-Encoding: chunked", 400),
    ("GET / HTTP/1.1|Host: {h}|X-A: b\rX-B: c", 400),
]


def test_tricks_with_heads(daemon, echo):
    for lines, status in TRICKS:
        head = lines.format(h=host_of(echo)).replace("|", "\r\n")
        out = daemon.raw(f"{head}\r\nConnection: close\r\n\r\n".encode())
        assert out.startswith(f"HTTP/1.1 {status} ".encode()), (lines, out)
        assert b"X-App" not in out and b"uptimeSeconds" not in out, lines


def test_an_absolute_target_says_which(daemon, echo):
    """As the RFC has it: the Host header is ignored then."""
    out = daemon.raw(f"GET http://{host_of(echo)}/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert b"X-App: yes" in out and b"uptimeSeconds" not in out
    out = daemon.raw(f"GET //localhost/v1/health HTTP/1.1\r\nHost: {host_of(echo)}\r\nConnection: close\r\n\r\n".encode())
    assert b"\r\n\r\nGET //localhost/v1/health HTTP/1.1\r\n" in out


@pytest.fixture(scope="module")
def configured():
    if what_is_missing():
        pytest.skip(what_is_missing())
    with Instance({"ATOLL_PREVIEW_DOMAIN": "Preview.Example.org:8443", "ATOLL_HOSTS": "console.example.org, other.example",
                   "ATOLL_TRUSTED_PROXIES": "10.0.0.0/8,127.0.0.1"}) as instance:
        yield instance


def test_a_domain_and_names_of_ones_own(configured):
    box = "b-1"
    boxapp.raw(Api(configured, box), 8080, ECHO)
    port = expose(configured, box, 8080, token="tok")
    assert port["url"] == "https://8080-b-1-tok.preview.example.org:8443/", "behind a proxy that is believed: https"
    for host in ("8080-b-1-tok.preview.example.org", "8080-b-1-tok.PREVIEW.example.org:8443"):
        assert get(configured, host).headers["X-App"] == "yes"
    for host in ("console.example.org", "OTHER.example:99", "preview.example.org", "localhost"):
        assert get(configured, host, "/v1/health").status == 200, host
    for host in ("8080-b-1-tok.localhost", "8080-b-1-tok.example.org", "example.org", "xpreview.example.org"):
        assert get(configured, host, "/v1/health").status == 421, host
    assert get(configured, "x.preview.example.org", "/v1/health").status == 404


def test_a_proxy_that_is_believed(configured):
    box = "b-2"
    boxapp.raw(Api(configured, box), 8080, ECHO)
    host = host_of(expose(configured, box, 8080, token="tok"))
    r = get(configured, "localhost", "/x", headers={"X-Forwarded-Host": host, "X-Forwarded-Proto": "https", "X-Forwarded-For": "9.9.9.9"})
    assert r.status == 200 and "\r\nX-Forwarded-Proto: https\r\n" in r.text
    assert "\r\nX-Forwarded-For: 9.9.9.9, 127.0.0.1\r\n" in r.text
    r = get(configured, "localhost", "/v1/health", headers={"X-Forwarded-Host": "evil.example"})
    assert r.status == 421
    r = get(configured, "localhost", "/x", headers={"X-Forwarded-Host": f"evil.example, {host}"})
    assert r.status == 200, "the proxy next to us has the last word"


def test_who_is_not_believed(daemon, echo):
    r = get(daemon, "localhost", "/v1/health", headers={"X-Forwarded-Host": host_of(echo)})
    assert r.status == 200 and "uptimeSeconds" in r.text


@pytest.mark.parametrize("name,value", [("ATOLL_PREVIEW_DOMAIN", "127.0.0.1:8700"), ("ATOLL_PREVIEW_DOMAIN", "a..b"), ("ATOLL_PREVIEW_DOMAIN", "x:0"),
                                        ("ATOLL_HOSTS", "a b"), ("ATOLL_HOSTS", "a:80"), ("ATOLL_TRUSTED_PROXIES", "10.0.0.0/33"),
                                        ("ATOLL_TRUSTED_PROXIES", "example.org"), ("ATOLL_APP_TIMEOUT", "soon"), ("ATOLL_APP_TIMEOUT", "86401")])
def test_settings_that_cannot_be(daemon, tmp_path, name, value):
    env = {**daemon.env, "ATOLL_DATA": str(tmp_path), "ATOLL_RUN": str(tmp_path), name: value}
    r = subprocess.run([BIN / "atolld"], env=env, capture_output=True, timeout=60, check=False)
    assert r.returncode == 78 and name in r.stderr.decode(), r
