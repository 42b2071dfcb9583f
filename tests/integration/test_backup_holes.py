"""Backups of files with holes: what a hole costs, how long files may be, and that what comes back is equal to what was kept."""

import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from atoll import Instance, box_path, seed, wait_for
from test_backups import MIB, ask, backup, delete, listed, objects, processes, restore, run

POOL = "files of boxes have limits, and backups"
ZYGOTE = "contexts have the limit of files"
GIB = 1 << 30
SPARSE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def punch(f, at, size):
    if libc.fallocate(f, 3, ctypes.c_long(at), ctypes.c_long(size)):
        raise OSError(ctypes.get_errno(), 'fallocate')
"""


@pytest.fixture(scope="module", autouse=True)
def pool(daemon):
    """Everything here needs a pool."""
    kind = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if kind["kind"] == "plain":
        pytest.skip(f"no pool on this host: {kind['reason']}")


@pytest.fixture(autouse=True)
def nothing_left(daemon):
    yield
    for one in reversed(listed(daemon)):
        delete(daemon, one)
    wait_for(lambda: list(objects(daemon).iterdir()) == [], "no object is left")


def made(daemon, box, disk):
    ask(daemon, "PUT", box_path(box), {"limits": {"disk": disk}}, (200, 201))


def python(daemon, box, code):
    return run(daemon, box, f"python3 - <<'END'\n{SPARSE}{code}\nEND")


def sparse(size):
    """A file of this length with four blocks of data, the last at its end."""
    return f"""
f = os.open('/root/sparse', os.O_RDWR | os.O_CREAT, 0o644)
for i in range(4):
    os.pwrite(f, os.urandom(4096), ({size} - 4096) // 3 * i // 4096 * 4096)
os.ftruncate(f, {size})
os.fsync(f)
"""


LOOK = ("stat -c '%s %b' /root/sparse; "
        "python3 -c \"import os; f = os.open('/root/sparse', 0); print([os.pread(f, 4096, os.lseek(f, 0, 3)).hex()[:16], os.lseek(f, 0, 3)])\"")


def test_a_new_hole_of_a_gibibyte_costs_nothing(daemon, box):
    made(daemon, box, 256 * MIB)
    python(daemon, box, sparse(GIB))
    first = backup(daemon, box)
    python(daemon, box, f"f = os.open('/root/sparse', os.O_RDWR); punch(f, 0, {GIB // 2}); os.fsync(f)")
    then = run(daemon, box, LOOK)
    second = backup(daemon, box)
    assert second["parent"] == first["id"] and second["bytes"] < MIB, second
    run(daemon, box, "rm /root/sparse")
    restore(daemon, box, second)
    assert run(daemon, box, LOOK) == then
    assert ask(daemon, "GET", box_path(box))["disk"]["used"] < 32 * MIB


def test_a_stream_past_the_disk_is_followed_by_a_whole_one(daemon, box):
    made(daemon, box, 256 * MIB)
    python(daemon, box, sparse(3 * GIB))
    backup(daemon, box)
    python(daemon, box, f"f = os.open('/root/sparse', os.O_RDWR); punch(f, 4096, {3 * GIB - 8192}); os.fsync(f)")
    then = run(daemon, box, LOOK)
    second = backup(daemon, box)
    assert second["parent"] is None and second["state"] == "ready" and second["bytes"] < MIB, second
    # The whole one is the base of the next.
    assert backup(daemon, box)["parent"] == second["id"]
    run(daemon, box, "rm /root/sparse")
    restore(daemon, box, second)
    assert run(daemon, box, LOOK) == then


def test_a_chain_past_twice_the_disk_is_followed_by_a_whole_one(daemon, box):
    """A restore receives all streams of a chain."""
    made(daemon, box, 64 * MIB)
    kept = []
    for _ in range(9):  # with the base, twice this must fit the disk
        run(daemon, box, "head -c 24000000 /dev/urandom > /root/f && sync")
        kept.append((backup(daemon, box), run(daemon, box, "sha256sum /root/f")))
    whole = [i for i, (b, _) in enumerate(kept) if b["parent"] is None]
    assert whole == [0, 8], [b for b, _ in kept]
    for one, then in (kept[7], kept[8]):
        restore(daemon, box, one)
        assert run(daemon, box, "sha256sum /root/f") == then


# Blocks that one file shares with itself 16,384 times: the kernel follows 1,024, and then writes them all.
SHARED = """
import fcntl, os
f = os.open('/root/shared', os.O_RDWR | os.O_CREAT)
os.pwrite(f, os.urandom(65536), 0)
os.fsync(f)
for at in range(65536, 1 << 30, 65536):
    fcntl.ioctl(f, 0x4020940d, b''.join(n.to_bytes(8, 'little') for n in (f, 0, 65536, at)))
os.fsync(f)
"""


def test_a_whole_one_past_the_disk_is_an_error_with_a_sentence(daemon, box):
    made(daemon, box, 64 * MIB)
    python(daemon, box, SHARED)
    one = ask(daemon, "POST", box_path(box, "/backups"), {"wait": False}, (202,))
    look = wait_for(lambda: (b := ask(daemon, "GET", f"/v1/backups/{one['id']}"))["state"] != "making" and b, "it ends", 240)
    assert look["state"] == "failed" and "blocks that files share more often than the kernel follows" in look["error"], look
    wait_for(lambda: not list(objects(daemon).iterdir()), "its rest is deleted")


def test_a_file_of_petabytes_costs_nothing(daemon, box):
    made(daemon, box, 1 << 50)
    python(daemon, box, sparse((1 << 54) - 4096))
    then = run(daemon, box, LOOK)
    kept = backup(daemon, box)
    assert kept["bytes"] < MIB
    run(daemon, box, "rm /root/sparse")
    restore(daemon, box, kept)
    assert run(daemon, box, LOOK) == then


LONG = "python3 -c \"open('/root/long', 'w').truncate(%d)\""


def may_set_limits():
    """Whether this host gives root CAP_SYS_RESOURCE."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("CapBnd"))
    return int(line.split()[1], 16) >> 24 & 1


def longest(daemon, box):
    """The limits of all processes of a box."""
    lines = run(daemon, box, "cat /proc/[0-9]*/limits | grep 'Max file size'").splitlines()
    return {tuple(line.split()[3:5]) for line in lines}


def test_files_are_at_most_16_times_as_long_as_the_disk(daemon, box):
    made(daemon, box, 64 * MIB)
    run(daemon, box, "sleep 600 >/dev/null 2>&1 &")
    assert longest(daemon, box) == {(str(GIB), str(GIB))}
    run(daemon, box, LONG % GIB)
    r = daemon.execute(box, LONG % (GIB + 1))
    assert r["exitCode"] != 0 and "File too large" in r["stderr"], r
    assert daemon.execute(box, "prlimit --fsize=unlimited true || ulimit -f unlimited")["exitCode"] != 0
    for disk in (128, 32):
        ask(daemon, "PUT", box_path(box), {"limits": {"disk": disk * MIB}})
        if not may_set_limits():  # then it counts from the next start
            ask(daemon, "POST", box_path(box, "/stop"))
        assert longest(daemon, box) == {(str(16 * disk * MIB),) * 2}
        run(daemon, box, LONG % (16 * disk * MIB))
        assert daemon.execute(box, LONG % (16 * disk * MIB + 1))["exitCode"] != 0


def test_the_largest_volume_counts(own_daemon):
    """The limit belongs to processes: it must not be smaller than a volume needs."""
    assert own_daemon.request("POST", "/v1/volumes/long", {"size": 4 * GIB}).status == 201
    place = box_path("large")
    ask(own_daemon, "PUT", place, {"limits": {"disk": 64 * MIB}, "volumes": [{"name": "long", "path": "/v"}]}, (201,))
    run(own_daemon, "large", "sleep 600 >/dev/null 2>&1 &")
    assert longest(own_daemon, "large") == {(str(64 * GIB),) * 2}
    run(own_daemon, "large", "truncate -s 2G /v/f && test $(stat -c %s /v/f) = $((2 << 30))")
    for change in (("PUT", place, {"limits": {"disk": 128 * MIB}}), ("POST", "/v1/volumes/long", {"size": 8 * GIB})):
        ask(own_daemon, *change)
        if not may_set_limits():
            ask(own_daemon, "POST", f"{place}/stop")
        size = own_daemon.request("GET", "/v1/volumes/long").json()["size"]
        wait_for(lambda: longest(own_daemon, "large") == {(str(16 * size),) * 2}, "all processes have the limit")
    own_daemon.await_zygote()
    before = own_daemon.zygotes_started()
    own_daemon.kill_warden()
    own_daemon.await_warden()
    own_daemon.await_zygote(before)
    code = "print([l for l in open('/proc/self/limits') if 'file size' in l][0])"
    r = own_daemon.request("POST", f"{place}/api/execute/code", {"code": code, "language": "python"})
    assert r.status == 200 and str(128 * GIB) in r.body.decode(), r


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_contexts_have_the_limit_too(daemon, box, language):
    made(daemon, box, 64 * MIB)
    daemon.await_zygote()
    code = {"python": "print([l for l in open('/proc/self/limits') if 'file size' in l][0])",
            "javascript": "console.log(require('fs').readFileSync('/proc/self/limits', 'utf8').split('\\n').find(l => l.includes('file size')))"}
    r = daemon.request("POST", box_path(box, "/api/execute/code"), {"code": code[language], "language": language})
    assert r.status == 200 and f"Max file size {' ' * 12}{GIB}" in r.body.decode(), r


# ---- what is ready comes back ----

STEP = SPARSE + """
import fcntl, hashlib, random
r = random.Random(%(seed)d)
BLOCK, LENGTH = 4096, 64 << 20
files = ['/root/p%%d' %% i for i in range(5)]
def place(n=LENGTH):
    return r.randrange(n // BLOCK) * BLOCK
for i in range(12):
    path = r.choice(files)
    f = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    what = r.choice(['write', 'write', 'punch', 'punch', 'clone', 'truncate', 'sparse', 'remove'])
    if what == 'write':
        os.pwrite(f, r.randbytes(r.randrange(1, 16) * BLOCK), place())
    elif what == 'punch':
        punch(f, place(), r.randrange(1, LENGTH // BLOCK) * BLOCK)
    elif what == 'clone':
        other = r.choice(files)
        if other != path and os.path.exists(other):
            g = os.open(other, os.O_RDONLY)
            size = os.fstat(g).st_size // BLOCK * BLOCK
            at = place(size) if size else 0
            if size:
                fcntl.ioctl(f, 0x4020940d, b''.join(n.to_bytes(8, 'little') for n in (g, at, size - at, place())))
            os.close(g)
    elif what == 'truncate':
        os.ftruncate(f, place() + r.choice([0, 0, 1234]))
    elif what == 'sparse':
        os.ftruncate(f, 0)
        os.ftruncate(f, LENGTH)
        os.pwrite(f, r.randbytes(BLOCK), place())
    else:
        os.unlink(path)
    os.close(f)
os.sync()
"""
# Content, and the blocks that are allocated for it. A block of zeros, as the kernel leaves at the end of a file that is cut,
# may come back as a hole.
SEEN = """
import glob, hashlib, os
for path in sorted(glob.glob('/root/p*')):
    f = os.open(path, os.O_RDONLY)
    os.fsync(f)
    h, at, st, zeros, full = hashlib.sha256(), 0, os.fstat(f), 0, 0
    while at < st.st_size:
        try:
            data = os.lseek(f, at, os.SEEK_DATA)
        except OSError:
            break
        at = os.lseek(f, data, os.SEEK_HOLE)
        for block in range(data, at, 4096):
            b = os.pread(f, 4096, block)
            if b.count(0) == len(b):
                zeros += 1
                continue
            full += 1
            h.update(b'%d ' % block + b)
    print(path, st.st_size, st.st_blocks - 8 * zeros, full, h.hexdigest())
"""


def seen(daemon, box):
    return run(daemon, box, f"python3 - <<'END'\n{SEEN}\nEND")


def test_every_backup_that_is_ready_restores_equal_files(daemon, box):
    base = seed(20261118)
    rounds = int(os.environ.get("ATOLL_BACKUP_ROUNDS", "8"))
    made(daemon, box, 256 * MIB)
    kept = []
    for i in range(rounds):
        run(daemon, box, f"python3 - <<'END'\n{STEP % {'seed': base + i}}\nEND")
        then = seen(daemon, box)
        kept.append((backup(daemon, box), then))
    assert [b["parent"] for b, _ in kept] == [None] + [b["id"] for b, _ in kept[:-1]]
    order = random.Random(base).sample(kept, rounds)
    for one, then in order:
        assert restore(daemon, box, one)["state"] == "stopped"
        assert seen(daemon, box) == then, f"seed {base}: {one['id']} of {[b['id'] for b, _ in kept]}"


# ---- places and time ----

def test_a_place_comes_free_however_long_others_take(daemon, box):
    slow = [f"{box}-{i}" for i in range(4)]
    try:
        for one in [*slow, box]:
            run(daemon, one, "head -c 24000000 /dev/urandom > /root/f")
        started = []
        for one in slow:
            started.append(ask(daemon, "POST", box_path(one, "/backups"), {"wait": False}, (202,)))
            wait_for(lambda: len(processes(daemon, "atoll-backup")) == len(started), "it is being made")
            for pid in processes(daemon, "atoll-backup"):
                os.kill(pid, signal.SIGSTOP)
        # All four places have a job that does not get on. A fifth one is made all the same.
        assert backup(daemon, box)["state"] == "ready"
        assert all(ask(daemon, "GET", f"/v1/backups/{b['id']}")["state"] == "making" for b in started)
        for pid in processes(daemon, "atoll-backup"):
            os.kill(pid, signal.SIGCONT)
        for b in started:
            wait_for(lambda b=b: ask(daemon, "GET", f"/v1/backups/{b['id']}")["state"] == "ready", "it goes on")
    finally:
        for pid in processes(daemon, "atoll-backup"):
            os.kill(pid, signal.SIGCONT)
        with ThreadPoolExecutor(4) as several:
            list(several.map(daemon.destroy, slow))


def cpu_group(pid):
    """The cgroup of a process in the hierarchy with the controller of processor time, and its share."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return path
    return next(line[3:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::"))


def test_a_backup_is_made_in_the_background(daemon, box):
    run(daemon, box, "head -c 24000000 /dev/urandom > /root/f")
    one = ask(daemon, "POST", box_path(box, "/backups"), {"wait": False}, (202,))
    wait_for(lambda: processes(daemon, "atoll-backup"), "it is being made")
    (pid,) = processes(daemon, "atoll-backup")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert Path(f"/proc/{pid}/comm").read_text() == "atoll-backup\n"
        wait_for(lambda: cpu_group(pid).endswith("/background"), "it is in the group of work in the background")
        jobs = [p for p in processes(daemon, "atoll-storer") if cpu_group(p).endswith("/background")]
        assert len(jobs) == 1
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: ask(daemon, "GET", f"/v1/backups/{one['id']}")["state"] == "ready", "it is ready")


def test_a_backup_that_takes_too_long_is_an_error_with_a_sentence():
    with Instance({"ATOLL_BACKUP_TIME": "1s"}) as daemon:
        ask(daemon, "PUT", box_path("late"), {"limits": {"disk": 40 * MIB}}, (201,))
        run(daemon, "late", "head -c 24000000 /dev/urandom > /root/f")  # enough to be caught at it
        one = ask(daemon, "POST", box_path("late", "/backups"), {"wait": False}, (202,))
        wait_for(lambda: processes(daemon, "atoll-backup"), "it is being made")
        for pid in processes(daemon, "atoll-backup"):
            os.kill(pid, signal.SIGSTOP)
        look = wait_for(lambda: (b := ask(daemon, "GET", f"/v1/backups/{one['id']}"))["state"] == "failed" and b, "it fails")
        assert "was not made within 6 s" in look["error"] and "ATOLL_BACKUP_TIME" in look["error"]
        wait_for(lambda: not list(objects(daemon).iterdir()), "its rest is deleted")
