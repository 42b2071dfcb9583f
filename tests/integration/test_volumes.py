"""Named volumes: directories with a limit of their own that outlive sandboxes and that several share."""

import json

import pytest
from atoll import box_path, wait_for
from test_restart import VICTIMS

POOL = "volumes are in it"
ZYGOTE = "contexts in boxes with several volumes"

MIB = 1 << 20
SIZE = 64 * MIB


@pytest.fixture(scope="module", autouse=True)
def pool(daemon):
    kind = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if kind["kind"] == "plain":
        pytest.skip(f"no pool on this host: {kind['reason']}")


def make(daemon, name, size=SIZE):
    r = daemon.request("POST", f"/v1/volumes/{name}", {"size": size})
    assert r.status == 201, r
    return r.json()


def delete(daemon, name):
    r = daemon.request("DELETE", f"/v1/volumes/{name}")
    assert r.status == 200, r


@pytest.fixture
def volume(daemon, box):
    """A volume of its own. The box is destroyed first when the test names it too."""
    name = f"v.{box}"
    make(daemon, name)
    yield name
    for user in daemon.request("GET", f"/v1/volumes/{name}").json().get("usedBy", []):
        daemon.destroy(user)
    if daemon.request("GET", f"/v1/volumes/{name}").status == 200:
        delete(daemon, name)


def put(daemon, box, *volumes, **fields):
    """A sandbox with volumes: (name, path) or (name, path, readOnly)."""
    wanted = [dict(zip(("name", "path", "readOnly"), v)) for v in volumes]
    return daemon.request("PUT", box_path(box), {"volumes": wanted, **fields})


def made(daemon, box, *volumes, **fields):
    r = put(daemon, box, *volumes, **fields)
    assert r.status in (200, 201), r
    return r.json()


def run(daemon, box, command):
    r = daemon.execute(box, command)
    assert r["exitCode"] == 0, r
    return r["stdout"]


# ---- the API

def test_make_show_list_resize_and_delete(daemon):
    shown = make(daemon, "a-1")
    assert (shown["name"], shown["size"], shown["users"], shown["usedBy"]) == ("a-1", SIZE, 0, [])
    assert shown["createdAt"] and shown["used"] < MIB
    again = daemon.request("POST", "/v1/volumes/a-1", {"size": 2 * SIZE})
    assert again.status == 200 and again.json()["size"] == 2 * SIZE
    listed = daemon.request("GET", "/v1/volumes").json()["volumes"]
    assert [v["name"] for v in listed] == ["a-1"] and listed[0]["size"] == 2 * SIZE
    assert daemon.request("GET", "/v1/volumes/a-1").json()["createdAt"] == shown["createdAt"]
    delete(daemon, "a-1")
    for method in ("GET", "DELETE"):
        r = daemon.request(method, "/v1/volumes/a-1")
        assert r.status == 404 and r.json()["code"] == "NOT_FOUND", r
    assert daemon.request("GET", "/v1/volumes").json() == {"volumes": []}


def test_a_volume_without_a_size_has_the_default(daemon):
    r = daemon.request("POST", "/v1/volumes/plain")
    assert r.status == 201 and r.json()["size"] == 8 << 30, r
    delete(daemon, "plain")


@pytest.mark.parametrize("name", ["A", "-a", ".a", "a%20b", "x" * 64, "%2e%2e"])
def test_names_that_cannot_be(daemon, name):
    r = daemon.request("POST", f"/v1/volumes/{name}", {})
    assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED", r


def test_the_longest_name(daemon):
    name = "x" * 63
    made = make(daemon, name)
    assert made["name"] == name and daemon.request("GET", f"/v1/volumes/{name}").json() == made
    delete(daemon, name)
    assert daemon.request("GET", f"/v1/volumes/{name}").status == 404
    assert daemon.request("POST", f"/v1/volumes/{name}x", {}).status == 400


@pytest.mark.parametrize("body", [{"size": 16 * MIB - 1}, {"size": (1 << 50) + 1}, {"size": "1g"}, {"size": -1}, {"sise": 1}, []])
def test_sizes_that_cannot_be(daemon, body):
    r = daemon.request("POST", "/v1/volumes/none", body)
    assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED", r
    assert daemon.request("GET", "/v1/volumes/none").status == 404


@pytest.mark.parametrize("path", ["/", "cache", "", "/a/", "/a//b", "/a/../b", "/./a", "/proc", "/proc/1", "/dev/shm", "/sys", "/a\nb",
                                  "/" + "x" * 255, 7, None])
def test_places_that_cannot_be(daemon, box, volume, path):
    r = put(daemon, box, (volume, path))
    assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED", r
    assert daemon.request("GET", box_path(box)).status == 404


def test_the_longest_place(daemon, box, volume):
    path = "/" + "x" * 127 + "/" + "y" * 126
    assert put(daemon, box, (volume, path + "y")).status == 400
    assert made(daemon, box, (volume, path))["volumes"] == [{"name": volume, "path": path}]
    assert run(daemon, box, f"echo hi > {path}/f; stat -c %m {path}/f") == path + "\n", "the volume is mounted there"
    daemon.destroy(box)
    made(daemon, box, (volume, "/v"))
    assert run(daemon, box, "cat /v/f") == "hi\n"


def test_settings_that_cannot_be(daemon, box, volume):
    for wrong in ([(volume, "/a"), (volume, "/a")], [(volume, "/a"), (volume, "/a/b")], [(volume, "/a/b"), (volume, "/a")],
                  [(volume, f"/v{i}") for i in range(9)], [(volume, "/a", "yes")]):
        r = put(daemon, box, *wrong)
        assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED", (wrong, r)
    for body in ({"volumes": "x"}, {"volumes": [volume]}, {"volumes": [{"name": volume, "path": "/a", "mode": 1}]}):
        assert daemon.request("PUT", box_path(box), body).status == 400
    r = put(daemon, box, ("nobody", "/a"))
    assert r.status == 404 and "there is no volume 'nobody'" in r.json()["message"], r


def test_eight_volumes(daemon, box, volume):
    made(daemon, box, *[(volume, f"/v{i}") for i in range(8)])
    assert run(daemon, box, "echo hi > /v0/f; cat /v7/f") == "hi\n"


# ---- in a box

def test_files_outlive_the_box_and_belong_to_its_root(daemon, box, volume):
    shown = made(daemon, box, (volume, "/cache/deep"))
    assert shown["volumes"] == [{"name": volume, "path": "/cache/deep"}]
    assert run(daemon, box, "echo kept > /cache/deep/f; stat -c '%u %g %a' /cache/deep /cache/deep/f") == "0 0 755\n0 0 644\n"
    run(daemon, box, "mkdir -m 777 /cache/deep/open; su -s /bin/sh nobody -c 'echo mine > /cache/deep/open/g'")
    daemon.destroy(box)
    made(daemon, box, (volume, "/elsewhere"))
    assert run(daemon, box, "cat /elsewhere/f; stat -c %U /elsewhere/f /elsewhere/open/g") == "kept\nroot\nnobody\n"
    assert daemon.request("GET", f"/v1/volumes/{volume}").json()["usedBy"] == [box]


def test_two_boxes_share_it_at_the_same_time(daemon, box, volume):
    other = f"{box}-other"
    made(daemon, box, (volume, "/a"))
    made(daemon, other, (volume, "/b", True))
    run(daemon, box, "echo one > /a/f")
    assert run(daemon, other, "cat /b/f; stat -c %u /b/f") == "one\n0\n"
    r = daemon.execute(other, "echo two > /b/f")
    assert r["exitCode"] != 0 and "Read-only file system" in r["stderr"], r
    run(daemon, box, "echo three >> /a/f")
    assert run(daemon, other, "cat /b/f") == "one\nthree\n"
    assert daemon.request("GET", f"/v1/volumes/{volume}").json()["users"] == 2


def test_set_id_programs_and_devices_do_not_work(daemon, box, volume):
    made(daemon, box, (volume, "/v"))
    options = run(daemon, box, "findmnt -no OPTIONS /v || grep ' /v ' /proc/self/mountinfo")
    assert "nosuid" in options and "nodev" in options
    run(daemon, box, "cp /usr/bin/id /v/id; chmod 4755 /v/id")
    assert run(daemon, box, "su -s /bin/sh nobody -c '/v/id -u'") != "0\n"
    assert daemon.execute(box, "umount /v")["exitCode"] != 0
    assert daemon.execute(box, "mount -o remount,suid /v")["exitCode"] != 0


def test_its_size_is_a_limit_of_its_own(daemon, box, volume):
    made(daemon, box, (volume, "/v"), limits={"disk": 32 * MIB})
    r = daemon.execute(box, "dd if=/dev/urandom of=/v/big bs=1M count=200 conv=fsync")
    assert r["exitCode"] != 0 and ("quota exceeded" in r["stderr"] or "No space left" in r["stderr"]), r
    size = int(run(daemon, box, "stat -c %s /v/big"))
    assert 40 * MIB < size <= SIZE
    used = daemon.request("GET", f"/v1/volumes/{volume}").json()["used"]
    assert 40 * MIB < used <= SIZE
    assert daemon.request("GET", box_path(box)).json()["disk"]["used"] < 16 * MIB
    daemon.request("POST", f"/v1/volumes/{volume}", {"size": 4 * SIZE})
    run(daemon, box, "dd if=/dev/urandom of=/v/more bs=1M count=64 conv=fsync")


@pytest.mark.parametrize("plant", [
    "ln -s /etc /place", "ln -s /proc/1/root /place", "ln -s / /up && ln -s up/etc /place", "touch /place"])
def test_a_place_that_is_a_trap_starts_no_box(daemon, box, volume, plant):
    run(daemon, box, plant)
    assert daemon.request("POST", box_path(box, "/stop")).status == 200
    assert put(daemon, box, (volume, "/place/in")).status == 200
    r = daemon.request("POST", box_path(box, "/api/execute"), {"command": "true"})
    assert r.status == 500 and "the place /place/in of a volume" in r.json()["message"], r
    made(daemon, box)
    assert run(daemon, box, "ls /etc/in 2>/dev/null || echo none") == "none\n"


def test_a_snapshot_has_the_place_and_not_the_files(daemon, box, volume):
    made(daemon, box, (volume, "/v"))
    run(daemon, box, "echo shared > /v/f; echo own > /root/own")
    shot = daemon.request("POST", box_path(box, "/snapshots"), {}).json()["id"]
    bare, fork = f"{box}-bare", f"{box}-fork"
    assert daemon.request("PUT", box_path(bare), {"from": {"snapshot": shot}, "volumes": None}).status == 201
    assert run(daemon, bare, "ls -A /v; cat /root/own") == "own\n"
    daemon.destroy(bare)
    assert daemon.request("POST", box_path(box, "/fork"), {"ids": [fork]}).status == 201
    assert run(daemon, fork, "echo again >> /v/f; cat /v/f") == "shared\nagain\n"
    assert run(daemon, box, "cat /v/f") == "shared\nagain\n"


def test_ioctls_of_the_pool_are_closed(daemon, box, volume):
    """Subvolumes and snapshots would evade limits; a sync would write what all boxes have written."""
    made(daemon, box, (volume, "/v"))
    run(daemon, box, """cat > /root/t.py <<'END'
import errno, fcntl, os
fd = os.open("/v", os.O_RDONLY)
def tried(number, size=4096):
    try:
        fcntl.ioctl(fd, number, bytearray(size) if size < 1024 else bytes(size))
        return "done"
    except OSError as e:
        return errno.errorcode[e.errno]
make = bytearray(4096); make[8:12] = b"evil"
try:
    fcntl.ioctl(fd, 0x5000940e, bytes(make)[:1024]); print("made")
except OSError as e:
    print(errno.errorcode[e.errno])
print(*[tried(n, 64) for n in (0x9408, 0x80089418, 0x4008941a, 0x5000940f & 0xffffffff)])
a, b = open("/v/a", "wb"), open("/v/b", "wb")
a.write(b"x" * 8192); a.close()
fcntl.ioctl(b, 0x40049409, os.open("/v/a", os.O_RDONLY)); print("cloned", os.path.getsize("/v/b"))
END
""")
    assert run(daemon, box, "python3 /root/t.py; ls /v | grep -c evil || true") == "ENOTTY\nENOTTY ENOTTY ENOTTY ENOTTY\ncloned 8192\n0\n"


SHARE = """import ctypes, errno, fcntl, os
def tried(what):
    try:
        return what()
    except OSError as e:
        return errno.errorcode[e.errno]
f = os.open('%s', os.O_RDONLY)
print(tried(lambda: fcntl.ioctl(os.open('/w/clone', os.O_CREAT | os.O_RDWR), 0x40049409, f)),
      tried(lambda: fcntl.ioctl(os.open('/w/range', os.O_CREAT | os.O_RDWR), 0x4020940d,
                                b''.join(n.to_bytes(8, 'little') for n in (f, 0, 0, 0)))),
      tried(lambda: os.copy_file_range(f, os.open('/w/copy', os.O_CREAT | os.O_RDWR), 1 << 20)))
"""


@pytest.mark.parametrize("context", ["a command", "a fork of the zygote"])
def test_blocks_are_not_shared_between_volumes(daemon, box, volume, context):
    """The kernel charges a shared block to the volume that wrote it: the other one would hold it for nothing."""
    other = f"{volume}-b"
    make(daemon, other)
    try:
        made(daemon, box, (volume, "/v"), (other, "/w"))
        run(daemon, box, "head -c 4000000 /dev/urandom > /v/f")
        code = SHARE % "/v/f"
        if context == "a command":
            assert run(daemon, box, f"python3 - <<'END'\n{code}\nEND") == "EXDEV EXDEV EXDEV\n"
        else:
            daemon.await_zygote()
            r = daemon.request("POST", box_path(box, "/api/execute/code"), {"code": code, "language": "python"})
            assert "EXDEV EXDEV EXDEV" in r.text, r
        # Programs copy the bytes, and the volume pays for them.
        run(daemon, box, "cp /v/f /w/f; cmp /v/f /w/f; sync /w/f")
        wait_for(lambda: daemon.request("GET", f"/v1/volumes/{other}").json()["used"] >= 4000000, "they are charged")
    finally:
        daemon.destroy(box)
        delete(daemon, other)


def test_a_context_of_the_next_warden_shares_no_blocks(own_daemon):
    """It does not know how many volumes the box has."""
    for name in ("one", "two"):
        make(own_daemon, name)
    made(own_daemon, "several", ("one", "/v"), ("two", "/w"))
    run(own_daemon, "several", "head -c 4000000 /dev/urandom > /v/f")
    own_daemon.await_zygote()
    before = own_daemon.zygotes_started()
    own_daemon.kill_warden()
    own_daemon.await_warden()
    own_daemon.await_zygote(before)
    r = own_daemon.request("POST", box_path("several", "/api/execute/code"), {"code": SHARE % "/v/f", "language": "python"})
    assert "EXDEV EXDEV EXDEV" in r.text, r


# ---- life

def test_it_is_not_deleted_while_used(daemon, box, volume):
    made(daemon, box, (volume, "/v"))
    for _ in range(2):
        r = daemon.request("DELETE", f"/v1/volumes/{volume}")
        assert r.status == 409 and r.json()["code"] == "RESOURCE_BUSY" and "used by 1 sandbox" in r.json()["message"], r
        assert daemon.request("POST", box_path(box, "/stop")).status == 200
    assert daemon.request("PUT", box_path(box), {"volumes": None}).status == 200
    delete(daemon, volume)
    assert run(daemon, box, "ls -A /v") == ""


def test_volumes_of_a_running_box_do_not_change(daemon, box, volume):
    made(daemon, box, (volume, "/v"))
    r = put(daemon, box)
    assert r.status == 409 and "only while it is stopped" in r.json()["message"], r
    made(daemon, box, (volume, "/v"), labels={"a": "b"})


def test_it_survives_stop_and_sleep(daemon, box, volume):
    made(daemon, box, (volume, "/v"))
    run(daemon, box, "echo hi > /v/f")
    for way in ("/sleep", "/stop"):
        assert daemon.request("POST", box_path(box, way)).status == 200
        assert run(daemon, box, "cat /v/f") == "hi\n"


@pytest.mark.parametrize("victim", VICTIMS)
def test_it_survives_kills(own_daemon, own_box, victim):
    make(own_daemon, "kept")
    made(own_daemon, own_box, ("kept", "/v"))
    run(own_daemon, own_box, "echo hi > /v/f")
    VICTIMS[victim](own_daemon)
    wait_for(lambda: own_daemon.request("GET", "/v1/health").json()["warden"], "the warden is there")
    assert run(own_daemon, own_box, "cat /v/f") == "hi\n"
    assert own_daemon.request("POST", box_path(own_box, "/stop")).status == 200
    assert run(own_daemon, own_box, "cat /v/f; echo more > /v/g") == "hi\n"
    assert own_daemon.request("GET", "/v1/volumes/kept").json()["usedBy"] == [own_box]
    own_daemon.destroy(own_box)
    delete(own_daemon, "kept")
    make(own_daemon, "kept")
    made(own_daemon, own_box, ("kept", "/v"))
    assert run(own_daemon, own_box, "ls -A /v") == ""


# ---- the command line

def test_the_command_line(daemon, box):
    name = f"cli.{box}"
    r = daemon.cli("volume", "create", name, "--size", "64m")
    assert (r.returncode, r.stdout, r.stderr) == (0, name.encode() + b"\n", b"")
    assert daemon.cli("create", box, "--volume", f"{name}:/v", "--volume", f"{name}:/ro:ro").returncode == 0
    assert run(daemon, box, "echo hi > /v/f; cat /ro/f") == "hi\n"
    r = daemon.cli("volume", "ls")
    assert daemon.cli("volume", "list").stdout == r.stdout
    assert r.stdout.split()[:4] == [b"NAME", b"SIZE", b"SANDBOXES", b"AGE"] and name.encode() in r.stdout, r
    assert json.loads(daemon.cli("volume", "ls", "--json").stdout)["volumes"][0]["name"] == name
    r = daemon.cli("volume", "rm", name)
    assert r.returncode == 1 and b"is used by 1 box" in r.stderr, r
    assert daemon.cli("rm", box).returncode == 0
    r = daemon.cli("volume", "rm", name)
    assert (r.returncode, r.stdout) == (0, name.encode() + b"\n"), r
    assert daemon.cli("volume").stderr == b"there are no volumes\n"


@pytest.mark.parametrize("words", [["volume", "make"], ["volume", "create"], ["volume", "rm"], ["volume", "ls", "x"],
                                   ["volume", "create", "a", "b"], ["create", "x", "--volume", "a"], ["create", "x", "--volume", "a:/b:rw"]])
def test_command_lines_that_cannot_be(daemon, words):
    assert daemon.cli(*words).returncode == 2


def test_a_daemon_has_1024_volumes_and_no_more(own_daemon):
    for i in range(1024):
        make(own_daemon, f"n{i}", 16 * MIB)
    r = own_daemon.request("POST", "/v1/volumes/more", {})
    assert r.status == 429 and r.json()["code"] == "LIMIT_REACHED", r
    assert own_daemon.request("POST", "/v1/volumes/n7", {"size": 17 * MIB}).status == 200
    delete(own_daemon, "n7")
    make(own_daemon, "more", 16 * MIB)
    own_daemon.kill_daemon()
    wait_for(lambda: own_daemon.request("GET", "/v1/health").json()["warden"], "the warden is there")
    assert len(own_daemon.request("GET", "/v1/volumes").json()["volumes"]) == 1024
