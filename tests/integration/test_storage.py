"""Files of sandboxes: limits of the disk, snapshots, forks, and kills in the middle of all of it."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import imagelib
import pytest
import shared
from atoll import BIN, Instance, box_path, wait_for
from test_restart import VICTIMS, start_counter, still_counts, ticks

OWN_DAEMON = "it kills the warden"
POOL = "it is what is tested"

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def pool(daemon):
    """Everything here needs a pool."""
    kind = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if kind["kind"] == "plain":
        pytest.skip(f"no pool on this host: {kind['reason']}")


def put(daemon, box, **fields):
    r = daemon.request("PUT", box_path(box), fields)
    assert r.status in (200, 201), r
    return r.json()


def post(daemon, box, what, body=None, status=(200, 201)):
    r = daemon.request("POST", box_path(box, what), body)
    assert r.status in status, r
    return r.json()


def disk(daemon, box):
    return daemon.request("GET", box_path(box)).json()["disk"]


def read(daemon, box, path):
    r = daemon.execute(box, f"cat {path}")
    return r["stdout"] if r["exitCode"] == 0 else None


def fill(daemon, box, name, mib):
    return daemon.execute(box, f"dd if=/dev/urandom of={name} bs=1M count={mib} conv=fsync")


# ---- limits

def test_a_box_cannot_write_more_than_its_limit(daemon, box):
    assert put(daemon, box, limits={"disk": 48 * MIB})["limits"]["disk"] == 48 * MIB
    r = fill(daemon, box, "/root/big", 200)
    assert r["exitCode"] != 0 and ("quota exceeded" in r["stderr"] or "No space left" in r["stderr"]), r
    size = int(daemon.execute(box, "stat -c %s /root/big")["stdout"])
    assert 32 * MIB < size <= 48 * MIB
    now = disk(daemon, box)
    assert now["allowed"] == 48 * MIB and 32 * MIB < now["used"] <= 48 * MIB
    refused = daemon.request("POST", box_path(box, "/api/write"), {"path": "/root/more", "content": "x" * MIB})
    assert refused.status == 500 and refused.json()["code"] == "NO_SPACE", refused
    assert daemon.execute(box, "rm /root/big; echo fine > /root/small; cat /root/small")["stdout"] == "fine\n"


def test_the_limit_changes_while_the_box_runs(daemon, box):
    put(daemon, box, limits={"disk": 32 * MIB})
    assert fill(daemon, box, "/root/a", 64)["exitCode"] != 0
    daemon.execute(box, "rm /root/a")
    assert put(daemon, box, limits={"disk": 128 * MIB})["disk"]["allowed"] == 128 * MIB
    assert fill(daemon, box, "/root/a", 64)["exitCode"] == 0
    daemon.destroy(box)


def test_limits_that_make_no_sense_are_refused(daemon, box):
    for bad in (1, 16 * MIB - 1, (1 << 50) + 1):
        r = daemon.request("PUT", box_path(box), {"limits": {"disk": bad}})
        assert r.status == 400 and r.json()["code"] == "INVALID_LIMITS", r


def test_the_limit_survives_a_stop(daemon, box):
    put(daemon, box, limits={"disk": 40 * MIB})
    post(daemon, box, "/stop")
    assert disk(daemon, box)["allowed"] == 40 * MIB
    assert fill(daemon, box, "/root/a", 64)["exitCode"] != 0


def test_sync_answers_at_once_and_fsync_is_real(daemon, box):
    code = "import os; fd = os.open('/root/f', os.O_CREAT | os.O_WRONLY); os.write(fd, b'x' * 4096); os.fsync(fd); os.sync()"
    assert daemon.execute(box, f'python3 -c "{code}" && sync && sync -f /root/f')["exitCode"] == 0
    mounts = daemon.execute(box, "grep ' / overlay' /proc/mounts")["stdout"]
    assert "volatile" not in mounts
    put(daemon, box, durable=False)
    post(daemon, box, "/stop")
    assert "volatile" in daemon.execute(box, "grep ' / overlay' /proc/mounts")["stdout"]
    put(daemon, box, durable=True)
    post(daemon, box, "/stop")
    assert "volatile" not in daemon.execute(box, "grep ' / overlay' /proc/mounts; cat /root/f | wc -c")["stdout"]


# ---- snapshots

def test_a_snapshot_is_one_moment_of_a_running_box(daemon, box):
    put(daemon, box, env={"A": "1"})
    counter = start_counter(daemon, box)
    daemon.execute(box, "echo one > /root/f; mkdir /root/d; echo deep > /root/d/e")
    before = ticks(daemon, box, counter)
    made = post(daemon, box, "/snapshots", {"name": "first"}, status=(201,))
    assert made["sandbox"] == box and made["name"] == "first" and made["size"] > 0 and made["createdAt"]
    still_counts(daemon, box, counter, before)
    listed = daemon.request("GET", box_path(box, "/snapshots")).json()["snapshots"]
    assert listed == [made] and daemon.request("GET", box_path(box, f"/snapshots/{made['id']}")).json() == made
    daemon.execute(box, "echo two > /root/f; rm -r /root/d; echo new > /root/n")
    changes = daemon.request("GET", box_path(box, "/diff?from=first")).json()
    assert "/root/n" in changes["added"] and "/root/f" in changes["changed"], changes
    assert {"/root/d", "/root/d/e"} <= set(changes["deleted"]) and changes["truncated"] is False
    assert post(daemon, box, "/restore", {"snapshot": made["id"]})["state"] == "stopped"
    assert read(daemon, box, "/root/f") == "one\n" and read(daemon, box, "/root/d/e") == "deep\n"
    assert read(daemon, box, "/root/n") is None
    assert daemon.execute(box, f"kill -0 {counter}")["exitCode"] != 0  # the processes have ended
    # Twice, and by name.
    daemon.execute(box, "echo three > /root/f")
    post(daemon, box, "/restore", {"snapshot": "first"})
    assert read(daemon, box, "/root/f") == "one\n"
    assert daemon.request("DELETE", box_path(box, f"/snapshots/{made['id']}")).status == 204
    assert daemon.request("GET", box_path(box, "/snapshots")).json() == {"snapshots": []}
    gone = daemon.request("POST", box_path(box, "/restore"), {"snapshot": made["id"]})
    assert gone.status == 404 and gone.json()["code"] == "SNAPSHOT_NOT_FOUND"


def test_a_snapshot_right_after_a_create_shows_a_finished_box(daemon, box):
    """The agent of a new box writes files of /etc. Here it is slow, and the snapshot comes at once."""
    for _ in range(10):
        put(daemon, box, limits={"cpu": 0.02})
        post(daemon, box, "/snapshots", {"name": "early"})
        put(daemon, box, limits={"cpu": 1})
        daemon.execute(box, "true")
        found = daemon.request("GET", box_path(box, "/diff?from=early")).json()
        assert not [path for change in ("added", "changed", "deleted") for path in found[change] if "hosts" in path or "resolv" in path], found
        daemon.destroy(box)


def test_a_snapshot_of_a_sleeping_and_of_a_stopped_box(daemon, box):
    daemon.execute(box, "echo 1 > /root/f")
    for state in ("sleep", "stop"):
        post(daemon, box, f"/{state}")
        shown = daemon.request("GET", box_path(box)).json()["state"]
        snap = post(daemon, box, "/snapshots")
        assert daemon.request("GET", box_path(box)).json()["state"] == shown
        new = f"{box}-{state}"
        put(daemon, new, **{"from": {"snapshot": snap["id"]}})
        assert read(daemon, new, "/root/f") == "1\n"
        daemon.destroy(new)


def test_a_snapshot_and_a_restore_do_not_evade_the_limit(daemon, box):
    put(daemon, box, limits={"disk": 64 * MIB})
    assert fill(daemon, box, "/root/a", 40)["exitCode"] == 0
    snap = post(daemon, box, "/snapshots")
    daemon.execute(box, "rm /root/a")
    assert fill(daemon, box, "/root/b", 40)["exitCode"] != 0  # the snapshot still holds the first
    daemon.execute(box, "rm -f /root/b")
    post(daemon, box, "/restore", {"snapshot": snap["id"]})
    assert fill(daemon, box, "/root/b", 40)["exitCode"] != 0
    daemon.execute(box, "rm -f /root/a /root/b")
    assert daemon.request("DELETE", box_path(box, f"/snapshots/{snap['id']}")).status == 204
    wait_for(lambda: disk(daemon, box)["used"] < 16 * MIB, "the space of the snapshot comes back")
    assert fill(daemon, box, "/root/b", 40)["exitCode"] == 0


# ---- sandboxes from others

def test_settings_come_along_and_urls_do_not(daemon, box):
    put(daemon, box, env={"TOKEN": "t"}, labels={"team": "a"}, limits={"memory": 256 * MIB, "disk": 100 * MIB},
        network={"mode": "list", "allow": ["example.org"]}, sleepAfter="1h")
    daemon.execute(box, "echo mine > /root/f")
    daemon.request("POST", box_path(box, "/ports/8080"))
    copy = put(daemon, f"{box}-copy", **{"from": {"sandbox": box}, "labels": {"team": "b"}})
    assert copy["state"] == "running" and copy["labels"] == {"team": "b"} and copy["envNames"] == ["TOKEN"]
    assert copy["limits"]["memory"] == 256 * MIB and copy["limits"]["disk"] == 100 * MIB and copy["sleepAfter"] == 3600
    policy = daemon.request("GET", box_path(f"{box}-copy", "/network")).json()
    assert policy["own"] == {"mode": "list", "allow": ["example.org"]}
    assert daemon.request("GET", box_path(f"{box}-copy", "/ports")).json()["ports"] == []
    assert daemon.execute(f"{box}-copy", "cat /root/f; echo $TOKEN")["stdout"] == "mine\nt\n"
    taken = daemon.request("PUT", box_path(f"{box}-copy"), {"from": {"sandbox": box}})
    assert taken.status == 409, taken
    daemon.destroy(f"{box}-copy")


def test_a_fork_cannot_evade_the_limit(daemon, box):
    put(daemon, box, limits={"disk": 64 * MIB})
    assert fill(daemon, box, "/root/a", 40)["exitCode"] == 0
    fork = post(daemon, box, "/fork", {"ids": [f"{box}-f"]})["sandboxes"][0]["id"]
    assert disk(daemon, fork)["used"] >= 40 * MIB
    assert fill(daemon, fork, "/root/b", 40)["exitCode"] != 0
    daemon.destroy(box)
    assert fill(daemon, fork, "/root/b", 40)["exitCode"] != 0
    assert daemon.execute(fork, "stat -c %s /root/a")["stdout"] == f"{40 * MIB}\n"
    daemon.destroy(fork)


def test_many_forks_at_once(daemon, box):
    daemon.execute(box, "echo parent > /root/f")
    put(daemon, f"{box}-2")
    made = post(daemon, box, "/fork", {"count": 5}, status=(201,))["sandboxes"]
    ids = [s["id"] for s in made]
    assert ids == [f"{box}-{n}" for n in (1, 3, 4, 5, 6)]  # 2 is taken
    for i, fork in enumerate(ids):
        assert daemon.execute(fork, f"cat /root/f; echo {i} > /root/f")["stdout"] == "parent\n"
    assert read(daemon, box, "/root/f") == "parent\n"
    assert [read(daemon, fork, "/root/f") for fork in ids] == [f"{i}\n" for i in range(5)]
    # The winner becomes the parent; it runs on itself.
    counter = start_counter(daemon, ids[3])
    post(daemon, box, "/replace", {"from": {"sandbox": ids[3]}})
    assert read(daemon, box, "/root/f") == "3\n"
    still_counts(daemon, ids[3], counter, 0)
    for fork in [*ids, f"{box}-2"]:
        daemon.destroy(fork)
    assert read(daemon, box, "/root/f") == "3\n"


def test_a_destroyed_box_leaves_its_forks_alone(daemon, box):
    daemon.execute(box, "echo kept > /root/f")
    snap = post(daemon, box, "/snapshots")
    put(daemon, f"{box}-child", **{"from": {"snapshot": snap["id"]}})
    daemon.destroy(box)
    assert read(daemon, f"{box}-child", "/root/f") == "kept\n"
    gone = daemon.request("PUT", box_path(f"{box}-late"), {"from": {"snapshot": snap["id"]}})
    assert gone.status == 404 and gone.json()["code"] == "SNAPSHOT_NOT_FOUND", gone
    daemon.execute(box, "true")  # another one of the same name has none of its snapshots
    assert daemon.request("GET", box_path(box, "/snapshots")).json() == {"snapshots": []}
    daemon.destroy(f"{box}-child")


@pytest.mark.parametrize("path,body,code", [
    ("/snapshots", {"name": "x" * 101}, 400), ("/snapshots", {"nome": "x"}, 400), ("/snapshots", [], 400),
    ("/restore", {}, 400), ("/restore", {"snapshot": 5}, 400), ("/restore", {"snapshot": "../.."}, 404),
    ("/fork", {}, 400), ("/fork", {"count": 0}, 400), ("/fork", {"count": 101}, 400), ("/fork", {"ids": []}, 400),
    ("/fork", {"ids": ["a/b"]}, 400), ("/fork", {"ids": ["x", "x"]}, 400), ("/fork", {"ids": [5]}, 400),
    ("/fork", {"count": 1, "ids": ["x"]}, 400), ("/replace", {"from": {}}, 400), ("/replace", {"from": {"sandbox": "nobody-here"}}, 404),
    ("/replace", {"from": {"snapshot": "snap-0"}}, 404), ("/replace", {"from": {"snapshot": "a", "sandbox": "b"}}, 400)])
def test_bad_requests_are_refused(daemon, box, path, body, code):
    daemon.execute(box, "true")
    r = daemon.request("POST", box_path(box, path), body)
    assert r.status == code, r
    assert daemon.request("POST", box_path(f"{box}-none", path), body).status == 404


def test_names_of_files_are_hostile(daemon, box):
    daemon.execute(box, "mkdir /root/d")
    snap = post(daemon, box, "/snapshots")["id"]
    code = ("import os\nos.chdir('/root/d')\nfor n in (b'\\xff\\xfe', b'a\\nb', b'E', b'\"'): open(n, 'w').close()\n"
            "for _ in range(150): os.mkdir('x'); os.chdir('x')\n")
    daemon.request("POST", box_path(box, "/api/write"), {"path": "/root/names.py", "content": code})
    assert daemon.execute(box, "python3 /root/names.py")["exitCode"] == 0
    found = daemon.request("GET", box_path(box, f"/diff?from={snap}")).json()
    assert {"/root/d/a\nb", "/root/d/E", '/root/d/"', "/root/d/\ufffd\ufffd"} <= set(found["added"])
    assert found["truncated"] is True  # it is deeper than a comparison goes


def test_a_comparison_knows_all_layers_of_the_image(own_daemon):
    """Files of an image that was made here, and of a directory that was deleted and made again."""
    steps = "FROM default\nRUN mkdir /opt/d && echo 1 | tee /opt/d/f /opt/d/g /opt/d/h\nRUN rm /opt/d/h && echo 2 > /opt/d/g\n"
    imagelib.built(own_daemon, steps, query="tag=two")
    for image, there in (("two", "/opt/d"), ("default", "/etc/alternatives")):
        put(own_daemon, image, image=image)
        names = own_daemon.execute(image, f"ls -A {there}")["stdout"].split()
        snap = post(own_daemon, image, "/snapshots")["id"]
        first = f"{there}/{names[0]}"
        own_daemon.execute(image, f"cp {first} /tmp/x; rm {first}; cp /tmp/x {first}; echo >> /etc/issue; echo > {there}/h")
        found = own_daemon.request("GET", box_path(image, f"/diff?from={snap}")).json()
        assert {first, "/etc/issue"} <= set(found["changed"]) and not found["deleted"]
        assert {p for p in found["added"] if not p.startswith("/tmp/")} == {f"{there}/h"}
        own_daemon.execute(image, f"rm -r {there}; mkdir {there}; echo > {there}/new")
        found = own_daemon.request("GET", box_path(image, f"/diff?from={snap}")).json()
        assert sorted(found["deleted"]) == sorted(f"{there}/{n}" for n in names)
        assert {p for p in found["added"] if not p.startswith("/tmp/")} == {f"{there}/new"}
        own_daemon.destroy(image)


# ---- kills

@pytest.mark.parametrize("victim", sorted(VICTIMS))
def test_kills_lose_no_snapshot_and_leave_no_half(daemon, box, victim):
    daemon.execute(box, "echo one > /root/f")
    counter = start_counter(daemon, box)
    kept = post(daemon, box, "/snapshots", {"name": "kept"})["id"]
    stop, deleted = threading.Event(), set()

    def load():
        n = 0
        while not stop.is_set():
            n += 1
            time.sleep(0.01)
            for work in (lambda: daemon.request("POST", box_path(box, "/snapshots"), {"name": f"n{n}"}),
                         lambda: daemon.request("PUT", box_path(f"{box}-k{n}"), {"from": {"sandbox": box}}),
                         lambda: deleted.add(f"{box}-k{n}"), lambda: daemon.request("DELETE", box_path(f"{box}-k{n}"))):
                try:
                    work()
                except (OSError, ValueError):
                    pass  # refused or cut: the daemon was killed

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(3):
            time.sleep(0.15)  # no event: the kill comes at any moment
            VICTIMS[victim](daemon)
            daemon.await_warden()
    finally:
        stop.set()
        thread.join()
    daemon.await_warden()
    still_counts(daemon, box, counter, 0)
    listed = daemon.request("GET", box_path(box, "/snapshots")).json()["snapshots"]
    assert kept in [s["id"] for s in listed]
    for snap in listed:  # what is listed is whole
        new = f"{box}-check"
        put(daemon, new, **{"from": {"snapshot": snap["id"]}})
        assert read(daemon, new, "/root/f") == "one\n"
        daemon.destroy(new)
    for other in [b for b in daemon.boxes() if b.startswith(f"{box}-k")]:
        assert other in deleted or read(daemon, other, "/root/f") == "one\n"  # a delete that was cut may have lost the files
        daemon.destroy(other)


# ---- the command line

def test_the_command_line(daemon, box):
    def atoll(*words):
        r = subprocess.run([BIN / "atoll", *words], env={**daemon.env, "ATOLL_RUN": str(daemon.run)}, capture_output=True, text=True,
                           check=False)
        assert r.returncode == 0, r
        return r.stdout

    atoll("create", box, "--disk", "100m")
    daemon.execute(box, "echo 1 > /root/f")
    snap = atoll("snapshot", box, "before").strip()
    daemon.execute(box, "echo 2 > /root/f; touch /root/new")
    assert "A /root/new" in atoll("diff", box, "before") and "C /root/f" in atoll("diff", box, snap)
    assert snap in atoll("snapshots", box) and "before" in atoll("snapshots", box)
    forks = atoll("fork", box, "--count", "2").split()
    assert forks == [f"{box}-1", f"{box}-2"] and atoll("fork", box, f"{box}-x").split() == [f"{box}-x"]
    atoll("restore", box, "before")
    assert read(daemon, box, "/root/f") == "1\n"
    atoll("replace", box, f"{box}-1")
    assert read(daemon, box, "/root/f") == "2\n"
    shown = json.loads(atoll("stats", box, "--json"))["sandboxes"][0]
    assert shown["diskLimit"] == 100 * MIB and shown["disk"] > 0
    atoll("snapshots", box, "rm", snap)
    assert atoll("snapshots", box) == ""
    for other in [*forks, f"{box}-x"]:
        daemon.destroy(other)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_sandbox_at_its_limit_starts_again(daemon, box, way):
    """The overlay makes directories at its mount; a full layer must have room for them."""
    assert daemon.request("PUT", box_path(box), {"limits": {"disk": 16 * MIB}}).status == 201
    for _ in range(3):
        daemon.execute(box, "i=0; while head -c 100000 /dev/urandom >/root/full-$i 2>/dev/null; do i=$((i+1)); done; "
                       "while touch /root/t-$RANDOM 2>/dev/null; do :; done")
        if way == "kill":
            daemon.kill_warden()
            daemon.await_warden()
        assert daemon.request("POST", box_path(box, "/stop")).status == 200
        r = daemon.execute(box, "echo on; head -c 300000 /dev/urandom >/root/more")
        assert r["stdout"] == "on\n" and r["exitCode"] != 0, r
    assert daemon.execute(box, "rm /root/full-*; echo room >/root/f; cat /root/f")["stdout"] == "room\n"


# ---- the pool itself

@pytest.fixture(scope="module")
def small_pool():
    with Instance({"ATOLL_POOL_SIZE": "300M", "ATOLL_ZYGOTE": "off"}) as instance:
        yield instance


@pytest.fixture
def small(small_pool):
    yield small_pool
    shared.reset(small_pool, [])


def test_a_full_pool_hurts_boxes_only(small):
    r = fill(small, "a", "/root/big", 400)
    assert r["exitCode"] != 0 and "No space left" in r["stderr"], r
    assert small.request("GET", "/v1/health").json()["status"] == "ok"
    assert small.request("PUT", box_path("a"), {"labels": {"still": "there"}}).status == 200
    # What was written last may still be on its way to the disk.
    wait_for(lambda: small.request("PUT", box_path(f"b{time.monotonic_ns()}")).status >= 400, "a new sandbox is refused")
    for n in range(40):
        refused = small.request("PUT", box_path(f"b{n}"))
        assert refused.status >= 400 and refused.json()["code"] == "NO_SPACE" and "pool is full" in refused.json()["message"], refused
    # The space of deleted files comes back with a commit: the next create waits for it.
    small.execute("a", "rm /root/big; true")
    assert small.execute("c", "echo hi")["stdout"] == "hi\n"


def test_a_sandbox_that_is_destroyed_in_a_full_pool_leaves_nothing(small):
    for n in range(3):
        r = fill(small, "a", f"/root/big{n}", 400)
        assert r["exitCode"] != 0 and "No space left" in r["stderr"], r
        assert small.request("DELETE", box_path("a")).status == 204
        assert small.execute("a", "ls /root")["stdout"] == ""
    assert not small.logged("files of a destroyed sandbox are left")


def test_plain_directories_stay_as_a_fallback():
    with Instance({"ATOLL_POOL": "plain", "ATOLL_ZYGOTE": "off"}) as plain:
        pool = plain.request("GET", "/v1/health").json()["host"]["pool"]
        assert pool == {"kind": "plain", "reason": "ATOLL_POOL is 'plain'"}
        assert plain.execute("a", "echo hi > /root/f")["exitCode"] == 0
        r = plain.request("POST", box_path("a", "/snapshots"))
        assert r.status == 500 and r.json()["code"] == "HOST_UNSUPPORTED" and "plain" in r.json()["message"]
        assert "disk" not in plain.request("GET", box_path("a")).json()


def test_the_pool_is_allocated_and_its_device_goes_with_it():
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_POOL_SIZE": "1G"}) as one:
        image = one.data / "pool.img"
        st = image.stat()
        assert st.st_blocks * 512 >= st.st_size == 1 << 30 and st.st_mode & 0o777 == 0o600
        one.execute("a", "dd if=/dev/zero of=/root/x bs=1M count=50; rm /root/x")
        assert image.stat().st_blocks * 512 >= st.st_size  # nothing was discarded
        devices = [d for d in Path("/sys/block").glob("loop*/loop/backing_file") if str(image) in d.read_text()]
        assert len(devices) == 1
        assert (devices[0].parent / "autoclear").read_text() == "1\n"
        one.kill_warden()
        one.await_warden()
        assert one.execute("a", "echo hi")["stdout"] == "hi\n"
        again = [d for d in Path("/sys/block").glob("loop*/loop/backing_file") if str(image) in d.read_text()]
        assert again == devices
    wait_for(lambda: not [d for d in Path("/sys/block").glob("loop*/loop/backing_file") if os.path.exists(d) and str(image) in d.read_text()],
             "the loop device is gone")


# ---- from plain directories

FILES = """( set -e; mkdir -p /root/t/deep/er; cd /root/t; echo one > a; ln a b; ln -s a c; ln -s /nowhere d; mkfifo p; chmod 4755 a; chmod 1777 deep
echo x > deep/er/f; chown 1000:1000 deep/er/f; touch -d 2001-02-03T04:05:06 deep/er/f; truncate -s 100M hole; printf end >> hole
rm /etc/hostname; rm -rf /usr/share/doc; mkdir /usr/share/doc; echo mine > /usr/share/doc/x; echo >> /etc/passwd
python3 -c "import os; os.setxattr('/root/t/b', 'user.note', b'hi'); open(b'/root/t/\\xff\\n', 'w').close()" )
"""
LOOK = """cd /root/t; find . -type d -printf '%P %m %U %G %T@\\n' | sort; find . ! -type d -printf '%P %y %m %U %G %s %n %T@ %l\\n' | sort
sha256sum a deep/er/f hole; stat -c %i a b | uniq | wc -l
ls /etc/hostname /usr/share/doc; tail -c 20 /etc/passwd; python3 -c "import os; print(os.getxattr('/root/t/b', 'user.note'))"
"""


def test_sandboxes_move_from_plain_directories_into_the_pool():
    with Instance({"ATOLL_POOL": "plain", "ATOLL_ZYGOTE": "off"}) as one:
        made = one.execute("stays", FILES)
        assert made["exitCode"] == 0, made
        before = one.execute("stays", LOOK)["stdout"]
        put(one, "stays", limits={"disk": 300 * MIB})
        one.execute("runs", "echo 1 > /root/f")
        counter = start_counter(one, "runs")
        post(one, "stays", "/stop")
        assert one.interrupt() == 0
        del one.env["ATOLL_POOL"]
        one.start()
        plain = one.data / "boxes"
        # The stopped one moves at once, the running one does not notice.
        wait_for(lambda: not (plain / "stays").exists(), "a stopped sandbox moves")
        assert one.execute("stays", LOOK)["stdout"] == before
        assert disk(one, "stays")["allowed"] == 300 * MIB and disk(one, "stays")["used"] > 0
        post(one, "stays", "/snapshots")
        still_counts(one, "runs", counter, 0)
        refused = one.request("POST", box_path("runs", "/snapshots"))
        assert refused.status == 409 and "not in the pool yet" in refused.json()["message"]
        assert one.request("GET", "/v1/health").json()["host"]["pool"]["plainSandboxes"] == 1
        post(one, "runs", "/stop")
        wait_for(lambda: not (plain / "runs").exists(), "it moves when it stops")
        assert read(one, "runs", "/root/f") == "1\n"
        assert one.request("GET", "/v1/health").json()["host"]["pool"]["plainSandboxes"] == 0
        wait_for(lambda: one.logged("files moved into the pool") == 2, "both moves are told")


def test_a_move_into_the_pool_can_be_interrupted():
    with Instance({"ATOLL_POOL": "plain", "ATOLL_ZYGOTE": "off"}) as one:
        make = "mkdir /root/m; cd /root/m; for i in $(seq 3000); do echo $i > $i; done; cat * | sha256sum"
        for box in ("a", "b"):
            sum_ = one.execute(box, make)["stdout"]
            post(one, box, "/stop")
        assert one.interrupt() == 0
        del one.env["ATOLL_POOL"]
        one.start()
        # Requests come while the move is under way, and so do kills.
        for turn in range(4):
            if turn % 2:
                one.kill_warden()
                one.await_warden()
            assert one.execute("a", "cd /root/m; cat * | sha256sum")["stdout"] == sum_
            post(one, "a", "/stop")
        wait_for(lambda: not list((one.data / "boxes").iterdir()), "both have moved")
        for box in ("a", "b"):
            assert one.execute(box, "cd /root/m; cat * | sha256sum")["stdout"] == sum_
