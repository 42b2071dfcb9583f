"""A build and an import that try to reach the host: nothing outside of the image may change, and nothing of the host may be seen."""
import grp
import http.client
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile

import pytest
from atoll import DEADLINE, box_path, wait_for
from boxapi import check_error
from events import Events
from imagelib import (ENDLESS, begin_build, build, built, events, image_instance, import_error, import_image, names, no_work_left, own, run, shell_tree,
                      step_box, tar_of)


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


def link(name, target, kind=tarfile.SYMTYPE):
    return (name, b"", {"type": kind, "linkname": target})


def host_files(images):
    """Everything in the image directory that a box could run or open: no devices, no set-id, all owned by mapped users."""
    for top, dirs, files in os.walk(images / "layers"):
        for name in dirs + files:
            yield os.path.join(top, name), os.lstat(os.path.join(top, name))


def host_marks():
    """Files of the host that a whiteout, an opaque mark or a hard link would hit: there, with as many links as before."""
    return {path: (os.stat(path).st_nlink, os.stat(path).st_size) for path in ("/etc/passwd", "/etc/hostname", "/bin/busybox")}


CAPABILITY = "\x01\x00\x00\x02\x00\x00\x20" + "\x00" * 13
TRICKS = {
    "a link to the root, then a file through it": [link("up", "/"), ("up/evil-file", b"x", {})],
    "a link that climbs out, then a file through it": [("d", None, {}), link("d/up", "../../../../../.."), ("d/up/evil-file", b"x", {})],
    "a chain of links": [link("a", ".."), link("b", "a/.."), link("c", "b/.."), ("c/evil-file", b"x", {})],
    "a link that is replaced by a directory": [link("d", "/tmp"), ("d", None, {}), ("d/evil-file", b"x", {})],
    "a link into proc": [link("p", "/proc/1/root"), ("p/evil-file", b"x", {})],
    "a link to a descriptor": [link("p", "/proc/self/fd/0"), ("p", b"x", {})],
    "a hard link through a link": [link("up", "/"), link("h", "up/etc/hostname", tarfile.LNKTYPE), ("h", b"x", {})],
    "a hard link into proc": [link("h", "proc/self/status", tarfile.LNKTYPE)],
    "a hard link into dev": [link("h", "dev/null", tarfile.LNKTYPE)],
    "a link to a link to a parent": [("d", None, {}), link("d/a", "b"), link("d/b", "../.."), ("d/a/evil-file", b"x", {})],
    "an opaque mark through a link to the root": [link("up", "/"), ("up/.wh..wh..opq", b"", {})],
    "an opaque mark through a link that climbs out": [("d", None, {}), link("d/up", "../../../.."), ("d/up/.wh..wh..opq", b"", {})],
    "a whiteout through a link": [link("up", "/etc"), ("up/.wh.passwd", b"", {})],
    "a whiteout of what is mounted": [(".wh.proc", b"", {}), (".wh.dev", b"", {}), ("proc/.wh.self", b"", {}), ("dev/.wh.null", b"", {})],
    "a directory with the name of an opaque mark": [(".wh..wh..opq", None, {}), (".wh..wh..opq/evil-file", b"x", {})],
    "a link with the name of a whiteout": [link(".wh.etc", "/")],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_path_through_a_link_stays_in_the_image(atoll, trick):
    """It is refused, or lands inside of the image; the host never sees the file."""
    before = host_marks()
    reply = atoll.request("POST", "/v1/images/import?name=tricky", tar_of(shell_tree() + TRICKS[trick]))
    last = events(reply)[-1] if reply.status == 200 else {"type": "error"}
    assert last["type"] in ("done", "error")
    assert host_marks() == before
    for place in ("/", "/tmp", "/etc", "/root", str(atoll.images), str(atoll.images.parent)):
        assert not os.path.lexists(os.path.join(place, "evil-file")), place
    assert no_work_left(atoll)


@pytest.mark.parametrize("entries, sentence", [
    ([("a/b/../../../evil", b"x", {})], "'..'"),
    ([("..", None, {})], "'..'"),
    ([("./../evil", b"x", {})], "'..'"),
    ([("//etc/evil", b"x", {})], "absolute"),
    ([("x" * 256, b"x", {})], "longer than 255"),
    ([link("hard", "../../../../etc/shadow", tarfile.LNKTYPE)], "'..'"),
    ([link("hard", "//etc/shadow", tarfile.LNKTYPE)], "absolute"),
    ([("d", None, {}), ("d/f", b"x", {}), link("d", "/etc")], "twice"),
    ([("d", None, {}), link("d", "e", tarfile.LNKTYPE)], "twice"),
    ([(".wh.", b"", {})], ""),
    ([(".wh..", b"", {})], ""),
    ([(".wh...", b"", {})], ""),
])
def test_names_that_lead_out_are_refused(atoll, entries, sentence):
    assert sentence in import_error(atoll, tar_of(shell_tree() + entries))


def test_a_hard_link_to_a_link_does_not_reach_its_target(atoll):
    tree = shell_tree() + [link("s", "/etc/passwd"), link("h", "s", tarfile.LNKTYPE), ("h2", b"mine", {})]
    import_image(atoll, "hard", tar_of(tree))
    assert run(atoll, "a", "hard", "cat /h2; ls -l /h | cat").startswith("mine")


def test_no_device_no_setid_and_no_capability_reaches_the_disk(atoll):
    tree = shell_tree() + [
        ("dev", None, {}), ("dev/sda", b"", {"type": tarfile.BLKTYPE, "devmajor": 8}),
        ("kmem", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 2}),
        ("su", b"x", {"mode": 0o4755}), ("sg", b"x", {"mode": 0o2755}), ("sd", None, {"mode": 0o3777}),
        ("cap", b"x", {"pax_headers": {"SCHILY.xattr.security.capability": CAPABILITY}}),
        ("trusted", b"x", {"pax_headers": {"SCHILY.xattr.trusted.overlay.redirect": "/etc"}}),
        ("overlay", b"x", {"pax_headers": {"SCHILY.xattr.user.overlay.redirect": "/etc"}}),
        ("label", b"x", {"pax_headers": {"SCHILY.xattr.security.selinux": "x", "SCHILY.xattr.system.posix_acl_access": "x"}}),
        ("system", None, {"pax_headers": {"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.kept": "y"}})]
    import_image(atoll, "devices", tar_of(tree, tarfile.PAX_FORMAT))
    built(atoll, "FROM default\nRUN echo x > /made; chmod 6755 /made; mkdir /d\n", query="tag=setid")
    for path, st in host_files(atoll.images):
        assert not stat.S_ISBLK(st.st_mode), path
        # Whiteouts of the kernel are character devices 0:0, which are nothing.
        assert not stat.S_ISCHR(st.st_mode) or st.st_rdev == 0, path
        if not stat.S_ISLNK(st.st_mode):
            assert "security.capability" not in os.listxattr(path, follow_symlinks=False), path
            attributes = os.listxattr(path, follow_symlinks=False)
            assert not [x for x in attributes if "redirect" in x or "selinux" in x or "posix_acl" in x], path
            if path.endswith("/system"):
                assert "user.kept" in attributes, "attributes of an archive do arrive"
    assert not [path for path, st in host_files(atoll.images) if path.endswith(("/su", "/sg")) and st.st_mode & 0o6000]
    # A program of a build may set the bits: no user of the host reaches the directory, and a box gains nothing by them.
    assert stat.S_IMODE(os.stat(atoll.images).st_mode) & 0o077 == 0


def test_too_many_names_are_refused_in_time(atoll):
    """A tar of a few hundred kilobytes that asks for a deep tree again and again."""
    deep = "/".join(["d"] * 255)
    assert names(atoll)
    import_image(atoll, "deep", tar_of(shell_tree() + [(deep, None, {})] * 50))
    assert "deeper than 256" in import_error(atoll, tar_of(shell_tree() + [(deep + "/d/d", None, {})]))


def test_a_sparse_file_does_not_fill_the_disk(atoll):
    """A header that promises 100 TB, followed by nothing."""
    info = tarfile.TarInfo("huge")
    info.size = 100 << 40
    import_error(atoll, info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))


def sparse_entry(name, size):
    """GNU's sparse format 1.0: a map without any data, of a file of `size` bytes."""
    table = b"1\n0\n0\n"
    return (f"GNUSparseFile.0/{name}", table + bytes(512 - len(table)),
            {"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": str(size)}})


def test_the_holes_of_a_sparse_file_take_no_room(atoll):
    """A file of 4 TB in an archive of some kilobytes. A build makes one as long as its box may: 16 times its disk."""
    made = 120 << 30
    import_image(atoll, "sparse", tar_of(shell_tree() + [sparse_entry("huge", 4 << 40)], tarfile.PAX_FORMAT))
    assert run(atoll, "a", "sparse", "stat -c %s /huge") == f"{4 << 40}\n"
    built(atoll, f"FROM default\nRUN /bin/busybox truncate -s {made} /made\n", query="tag=sparse-build&nocache=1")
    holes = [st for path, st in host_files(atoll.images) if path.endswith(("/huge", "/made")) and st.st_size in (4 << 40, made)]
    assert len(holes) == 2 and all(st.st_blocks < 100 for st in holes)
    # It would be packed as zeros: refused, before the disk is full of them.
    reply = atoll.request("GET", "/v1/images/sparse?export=rootfs")
    assert reply.status != 200 and "the files have more than" in reply.text, reply
    assert no_work_left(atoll)


@pytest.mark.parametrize("program", ["zstd", "xz", "bzip2"])
def test_bombs_of_every_compression_are_refused(atoll, program):
    """Zeros, which these formats make more than a thousand times smaller. gzip cannot: its limit is the size alone."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    entry = tarfile.TarInfo("zeros")
    entry.size = 80 << 20
    packed = subprocess.run([program, "-1", "-c"], input=entry.tobuf() + bytes(entry.size), capture_output=True, check=True).stdout
    assert "inflates to more than" in import_error(atoll, packed)


HOSTILE = r"""FROM default
RUN { cat /proc/1/environ; cat /proc/1/root/etc/shadow; ls /proc/1/cwd/; } 2>/dev/null | cat; echo looked
RUN for p in /var/lib/atoll /run/atoll /root/.ssh /root/.docker /etc/shadow /work /home; do test ! -e $p || echo "sees $p"; done
RUN for d in /dev/*; do test ! -b $d || echo "has the disk $d"; done
RUN touch /proc/sysrq-trigger 2>/dev/null && echo b > /proc/sysrq-trigger && echo rebooted; true
RUN (echo evil > /proc/sys/kernel/core_pattern) 2>/dev/null && echo wrote; true
RUN (echo evil > /sys/kernel/uevent_helper) 2>/dev/null && echo wrote; true
RUN env
"""


def test_a_build_sees_nothing_of_the_host(atoll):
    reply = build(atoll, HOSTILE, query="tag=hostile&nocache=1")
    found = events(reply)
    assert found[-1]["type"] == "done", found[-1]
    output = "".join(e["text"] for e in found if e["type"] == "output")
    assert "sees " not in output and "has the disk" not in output and "wrote" not in output and "rebooted" not in output and "root:" not in output
    assert "looked" in output and "ATOLL_DATA" not in output and "ATOLL_RUN" not in output and "TOKEN" not in output
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        assert "evil" not in f.read()


@pytest.mark.parametrize("step", [
    "COPY ../../../../../..SECRET /x", "COPY SECRET /x", "ADD ../../../../../..SECRET /x", "COPY link /x", "COPY --from=../../.. SECRET /x"])
def test_copy_reaches_nothing_outside_of_the_context(atoll, step, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of-the-host-alone")
    files = [link("link", str(secret)), ("f", b"x", {})]
    reply = build(atoll, f"FROM default\n{step.replace('SECRET', str(secret))}\nRUN cat /x\n", files, "tag=reach&nocache=1")
    assert reply.status in (200, 400, 404) and "of-the-host-alone" not in reply.text
    assert no_work_left(atoll)


def test_a_context_with_hostile_names_is_refused(atoll):
    out = io.BytesIO(tar_of([("Dockerfile", b"FROM default\n", {}), ("../../evil", b"x", {})]))
    reply = atoll.request("POST", "/v1/images/build?tag=evil", out.getvalue())
    said = reply.json()["message"] if reply.status != 200 else events(reply)[-1]["message"]
    assert "'..'" in said and "evil:latest" not in names(atoll) and no_work_left(atoll)


HIDDEN = [("GET", ""), ("DELETE", ""), ("PUT", ""), ("POST", "/api/execute"), ("GET", "/api/read?path=/secret"), ("POST", "/stop"), ("POST", "/sleep"),
          ("POST", "/fork"), ("POST", "/snapshots"), ("POST", "/backups"), ("GET", "/network"), ("GET", "/network/log"), ("GET", "/diff"),
          ("POST", "/ports/8000"), ("GET", "/ports"), ("POST", "/tunnels"), ("GET", "/mounts"), ("POST", "/mounts"), ("GET", "/proxy/8000/"),
          ("POST", "/restore"), ("POST", "/replace")]


def unseen(atoll, box, volume):
    """Neither a list nor a record nor a number that a client reads knows this box; the only one that it knows is `mine`."""
    assert atoll.boxes() == ["mine"] and atoll.request("GET", "/v1/sandboxes").json()["total"] == 1
    for path in ("/v1/events", "/v1/audit", "/v1/approvals", "/metrics", "/v1/volumes", f"/v1/volumes/{volume}"):
        assert box not in atoll.request("GET", path).text, path
    metrics = atoll.request("GET", "/metrics").text
    assert sum(int(n) for n in re.findall(r"^atoll_sandboxes\{.*\} (\d+)$", metrics, re.M)) == 1
    assert sum(atoll.request("GET", "/v1/health").json()["sandboxes"].values()) == 1
    connection = http.client.HTTPConnection(*atoll.address.rsplit(":", 1), timeout=60)
    connection.request("GET", "/v1/events?follow=1", headers={"Authorization": f"Bearer {atoll.token}"})
    with Events(connection, connection.getresponse()) as stream:
        usage = stream.until(lambda e: e["type"] == "usage" and e["samples"])[-1]
    assert [s["sandbox"] for s in usage["samples"]] == ["mine"]


def test_boxes_of_builds_are_in_no_list_and_no_number(atoll):
    """Not even after a restart of the daemon, until it has removed those whose jobs are gone; the image service sees them."""
    box, volume = "image-1-" + "0" * 32, "atoll.build.cache.seen"
    assert atoll.request("PUT", box_path("mine"), {}).status == 201
    assert own(atoll, "POST", f"/v1/volumes/{volume}", {}).status == 201
    settings = {"volumes": [{"name": volume, "path": "/c"}], "network": {"mode": "list", "ask": True}}
    assert own(atoll, "PUT", box_path(box), settings).status == 201
    try:
        # A question of such a box, too, is for the image service alone.
        assert own(atoll, "POST", box_path(box, "/api/execute"), {"command": "(wget -q http://198.51.100.7/ &) </dev/null >/dev/null 2>&1"}).status == 200
        asked = wait_for(lambda: own(atoll, "GET", "/v1/approvals").json()["approvals"], "the box's question")[0]
        assert asked["sandbox"] == box
        answer = {"decision": "allow"}
        check_error(atoll.request("POST", f"/v1/approvals/{asked['id']}", answer), "APPROVAL_NOT_FOUND", 404)
        assert box in own(atoll, "GET", f"/v1/volumes/{volume}").json()["usedBy"]
        unseen(atoll, box, volume)
        assert own(atoll, "POST", f"/v1/approvals/{asked['id']}", {"decision": "deny"}).status == 200
        atoll.kill_daemon()
        unseen(atoll, box, volume)
    finally:
        assert own(atoll, "DELETE", box_path(box)).status in (204, 404)
        assert atoll.request("DELETE", box_path("mine")).status == 204
        assert atoll.request("DELETE", f"/v1/volumes/{volume}").status == 200
    assert box not in atoll.request("GET", "/v1/audit").text


def test_boxes_of_builds_are_out_of_reach_of_clients(atoll):
    """A build's secret was read, and a cached step poisoned, by an exec in its box."""
    assert atoll.request("PUT", box_path("mine"), {}).status == 201
    connection = begin_build(atoll, ENDLESS)
    try:
        box = step_box(atoll)
        assert re.fullmatch(r"image-\d+-[0-9a-f]{32}", box)
        assert atoll.boxes() == ["mine"] and atoll.request("GET", "/v1/sandboxes").json()["total"] == 1
        for path in ("/v1/events", "/v1/audit", "/metrics"):
            assert box not in atoll.request("GET", path).text, path
        body = {"command": "cat /secret", "ids": ["x"], "from": {"sandbox": "mine"}, "port": 8000}
        for unix, token in ((True, False), (False, True)):
            for method, rest in HIDDEN:
                reply = atoll.request(method, box_path(box, rest), None if method in ("GET", "DELETE") else body, unix=unix, token=token)
                code = (reply.status, reply.json()["code"])
                assert code in ((404, "SANDBOX_NOT_FOUND"), (400, "RESERVED_SANDBOX_ID")), (method, rest, reply)
        for method, path in (("PUT", "new"), ("POST", "mine")):
            reply = atoll.request(method, box_path(path, "" if method == "PUT" else "/replace"), {"from": {"sandbox": box}})
            check_error(reply, "SANDBOX_NOT_FOUND", 404)
        assert step_box(atoll) == box
    finally:
        connection.close()
    wait_for(lambda: no_work_left(atoll))
    assert atoll.request("DELETE", box_path("mine")).status == 204


@pytest.mark.parametrize("name", ["image-mine", "image-1-" + "0" * 32, "docker-x", "bridge-x", "backup-x"])
def test_ids_that_atoll_gives_are_none_of_a_clients(atoll, name):
    execute = {"command": "true"}
    for method, rest, body in (("PUT", "", {}), ("POST", "/api/execute", execute), ("POST", "/ports/80", {}), ("GET", "/proxy/80/", None)):
        check_error(atoll.request(method, box_path(name, rest), body), "RESERVED_SANDBOX_ID", 400)
    assert atoll.request("GET", box_path(name)).status == 404
    assert atoll.request("PUT", box_path("parent"), {}).status == 201
    check_error(atoll.request("POST", box_path("parent", "/fork"), {"ids": [name]}), "VALIDATION_FAILED", 400)
    assert atoll.boxes() == ["parent"]
    atoll.request("DELETE", box_path("parent"))


def test_a_sandbox_with_such_an_id_goes_on(atoll):
    """One of an earlier version, or a container of the Docker socket."""
    assert own(atoll, "PUT", box_path("docker-old"), {}).status == 201
    try:
        assert atoll.boxes() == ["docker-old"]
        assert atoll.execute("docker-old", "echo hi")["stdout"] == "hi\n"
        check_error(atoll.request("POST", box_path("docker-old", "/fork"), {"count": 1}), "RESERVED_SANDBOX_ID", 400)
        assert atoll.boxes() == ["docker-old"]
        assert atoll.request("PUT", box_path("docker-old"), {"labels": {"a": "b"}}).status == 200
    finally:
        assert atoll.request("DELETE", box_path("docker-old")).status == 204


def test_the_libraries_ids_are_not_refused(atoll):
    name = "backup-" + "0" * 8 + "-0000" * 3 + "-" + "0" * 12
    assert atoll.request("PUT", box_path(name), {}).status == 201
    assert atoll.request("DELETE", box_path(name)).status == 204


def test_volumes_of_builds_are_none_of_a_clients(atoll):
    mounting = "FROM default\nRUN --mount=type=cache,target=/c echo good > /c/f\n"
    built(atoll, mounting, query="tag=filled&nocache=1")
    cache = next(v["name"] for v in atoll.request("GET", "/v1/volumes").json()["volumes"] if v["name"].startswith("atoll.build.cache."))
    check_error(atoll.request("POST", "/v1/volumes/atoll.build.cache.mine", {}), "VALIDATION_FAILED", 400)
    reply = atoll.request("PUT", box_path("reader"), {"volumes": [{"name": cache, "path": "/c"}]})
    assert check_error(reply, "VALIDATION_FAILED", 400)["context"]["validationErrors"][0]["field"] == "volumes"
    assert atoll.boxes() == []
    assert atoll.request("DELETE", f"/v1/volumes/{cache}").status == 200


def test_a_sandbox_keeps_the_volumes_of_builds_that_it_has_and_no_more(atoll):
    names = [f"atoll.build.cache.{c}" for c in "ab"]
    volumes = [{"name": name, "path": f"/{name[-1]}"} for name in names]
    for name in names:
        assert own(atoll, "POST", f"/v1/volumes/{name}", {}).status == 201
    assert own(atoll, "PUT", box_path("older"), {"volumes": volumes[:1]}).status == 201
    try:
        assert atoll.request("PUT", box_path("older"), {"volumes": volumes[:1]}).status == 200
        for wanted in (volumes, volumes[1:]):
            check_error(atoll.request("PUT", box_path("older"), {"volumes": wanted}), "VALIDATION_FAILED", 400)
    finally:
        assert atoll.request("DELETE", box_path("older")).status == 204
        for name in names:
            assert atoll.request("DELETE", f"/v1/volumes/{name}").status == 200


def token_of(atoll, name):
    reply = atoll.request("POST", "/v1/tokens", {"name": name})
    assert reply.status == 201, reply
    return reply.json()["token"]


def test_each_token_has_caches_and_cached_steps_of_its_own(atoll):
    text = "FROM default\nRUN --mount=type=cache,id=shared,target=/c cat /c/f; echo WHO > /c/f\n"
    seen = {}
    for who in ("ann", "bob", "ann", ""):
        headers = {"Authorization": f"Bearer {token_of(atoll, who)}"} if who and who not in seen else seen.get(who, ({}, ))[0]
        body = tar_of([("Dockerfile", text.replace("WHO", "$(date +%N)").encode(), {})])
        found = events(atoll.request("POST", f"/v1/images/build?tag=own-{who or 'root'}", body, headers, unix=not who, token=False))
        kinds = {e["type"] for e in found}
        assert found[-1]["type"] == "done", found[-1]
        assert ("cached" in kinds) == (who in seen), (who, kinds)
        seen[who] = (headers,)
    caches = [v for v in atoll.request("GET", "/v1/volumes").json()["volumes"] if v["name"].startswith("atoll.build.cache.")]
    assert len(caches) == 3, caches
    forged = {"X-Atoll-Owner": "token:ann"}
    body = tar_of([("Dockerfile", text.replace("WHO", "$(date +%N)").encode(), {})])
    found = events(atoll.request("POST", "/v1/images/build?tag=own-root", body, forged))
    assert "cached" in {e["type"] for e in found}  # root's own
    for who in ("ann", "bob"):
        assert atoll.request("DELETE", f"/v1/tokens/{who}").status in (200, 204)


AS_USER = """
import socket, sys
body = sys.stdin.buffer.read()
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"POST /v1/images/build?tag=%s HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n"
          % (sys.argv[2].encode(), len(body)) + body)
while piece := s.recv(65536):
    sys.stdout.buffer.write(piece)
"""


def build_as(atoll, uid, tag, context):
    """The kinds of events of a build that a user of the group `atoll` asks for over the unix socket."""
    r = subprocess.run([sys.executable, "-c", AS_USER, atoll.socket, tag], input=context, capture_output=True, check=False, timeout=DEADLINE,
                       user=uid, group=grp.getgrnam("atoll").gr_gid, extra_groups=[], cwd="/")
    assert r.returncode == 0 and b"HTTP/1.1 200 " in r.stdout, r
    found = [json.loads(line) for line in re.findall(rb"^data: (.*?)\r?$", r.stdout, re.M)]
    assert found[-1]["type"] == "done", found[-1]
    return {e["type"] for e in found}


def test_each_user_of_the_socket_has_caches_and_cached_steps_of_its_own(atoll):
    """Users of the group are told apart by the kernel's word for their connection; root is an owner of its own."""
    text = "FROM default\nRUN --mount=type=cache,id=users,target=/c cat /c/f; date +%N > /c/f\n"
    context = tar_of([("Dockerfile", text.encode(), {})])
    before = {v["name"] for v in atoll.request("GET", "/v1/volumes").json()["volumes"]}
    first, second = 54321, 54322
    for uid, cached in ((first, False), (second, False), (0, False), (first, True), (second, True), (0, True)):
        assert ("cached" in build_as(atoll, uid, f"by-{uid}", context)) == cached, uid
    made = {v["name"] for v in atoll.request("GET", "/v1/volumes").json()["volumes"]} - before
    assert len(made) == 3 and all(name.startswith("atoll.build.cache.") for name in made), made
