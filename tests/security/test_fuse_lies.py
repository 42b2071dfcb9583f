"""FUSE servers that lie, places that must not be covered, and races for mount points: a box harms itself and nobody else."""

import concurrent.futures

import fusebox
import pytest
from atoll import box_path, wait_for

LIMIT = 64  # BOX_FUSE_MOUNTS

# Every name is a file of the size that the command line says; reads give one megabyte of zeroes, however much was asked for.
LIAR = r'''
import os, random, struct, sys, threading
sys.argv[1:], how = ["serve"] + sys.argv[2:4], sys.argv[1]
exec(open("/tmp/fs.py").read().split("mode, path = ")[0])
size, mode = {"huge": (1 << 62, 0o104755), "negative": ((1 << 64) - 1, 0o100644), "nothing": (0, 0o100644), "shifting": (0, 0),
              "noise": (10, 0o100644), "endless": (10, 0o100644)}[how]
fd = mount(sys.argv[2], "rw,allow_other")

def attr(ino):
    kind = random.choice((0o40755, 0o100644, 0o120777, 0o020666, 0o060666, 0)) if how == "shifting" else 0o40755 if ino == 1 else mode
    return struct.pack("<6Q10I", ino, random.getrandbits(63) if how == "shifting" else size, 1 << 60, 0, 0, 0, 0, 0, 0, kind, 1, 0, 0, 0x10001, 1 << 31, 0)

def entry(n):
    text = b"f%d" % n
    return (struct.pack("<QQII", n + 2, n + 1, len(text), 8) + text).ljust((24 + len(text) + 7) & ~7, b"\0")

def answer(op, asked):
    if op == 26:
        return struct.pack("<IIIIHHIIHHI", 7, 31, 4096, 0, 8, 8, 65536, 1, 1, 0, 0).ljust(64, b"\0")
    if op == 3:
        return struct.pack("<QII", 0, 0, 0) + attr(1 if how != "shifting" else 2)
    if op == 1:
        return struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attr(2)
    if op in (14, 27):
        return struct.pack("<QII", 1, 0, 0)
    if op == 15:
        return bytes(1 << 20) if how != "nothing" else bytes(4096)
    if op == 28:
        begin = 0 if how == "endless" else struct.unpack_from("<Q", asked, 48)[0]
        return os.urandom(512) if how == "noise" else b"".join(entry(n) for n in range(begin, 50))
    return b""

def noise():
    while True:
        n = random.choice((0, 1, 15, 16, 17, 64, 5000))
        head = struct.pack("<IiQ", random.choice((n + 16, 0, 1 << 31)), random.choice((0, 1, 2, 3, 4, 5, -1, -600)), random.choice((0, random.getrandbits(64))))
        try:
            os.write(fd, head + os.urandom(n))
        except OSError:
            pass

while True:
    try:
        request = os.read(fd, 1 << 20)
    except OSError:
        sys.exit()
    length, op, unique, node = struct.unpack_from("<IIQQ", request)
    if op in (2, 42):
        continue
    body = answer(op, request)
    if node == 1 and op == 3 and how != "shifting":
        body = struct.pack("<QII", 0, 0, 0) + attr(1)
    try:
        os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
    except OSError:
        try:
            os.write(fd, struct.pack("<IiQ", 16, -5, unique))
        except OSError:
            pass
    if op == 26:
        print("ready", flush=True)
        if how == "noise":
            threading.Thread(target=noise, daemon=True).start()
'''


@pytest.fixture
def other(daemon):
    daemon.execute("neighbour", "true")
    yield "neighbour"
    daemon.destroy("neighbour")


def lie(api, how):
    fusebox.put(api)
    api.put("/tmp/liar.py", LIAR.encode())
    api.sh("mkdir -p /tmp/h; rm -f /tmp/liar.log; mkfifo /tmp/liar.log")
    api.ok("/api/process/start", command=f"exec python3 /tmp/liar.py {how} /tmp/h >/tmp/liar.log")
    assert api.sh("timeout 60 head -n1 /tmp/liar.log") == "ready\n"


def well(daemon, api, other):
    assert api.sh("echo on") == "on\n"
    assert daemon.execute(other, "echo well")["stdout"] == "well\n"
    assert daemon.request("GET", "/v1/health").status == 200


@pytest.mark.parametrize("how", ["huge", "negative", "nothing", "shifting", "noise"])
def test_a_server_that_lies_harms_its_readers_only(daemon, api, box, other, how):
    lie(api, how)
    agent = api.agent_pid()
    for rest, body in (("/api/read", {"path": "/tmp/h/f"}), ("/api/read", {"path": "/tmp/h/f", "encoding": "base64"}), ("/api/list-files", {"path": "/tmp/h"}),
                       ("/api/exists", {"path": "/tmp/h/f"}), ("/api/write", {"path": "/tmp/h/f", "content": "x"}), ("/api/delete", {"path": "/tmp/h/f"}),
                       ("/api/rename", {"oldPath": "/tmp/h/f", "newPath": "/tmp/h/g"}), ("/api/mkdir", {"path": "/tmp/h/d"})):
        r = daemon.request("POST", box_path(box, rest), body)
        assert r.status, rest
        well(daemon, api, other)
    for command in ("/tmp/h/f", "ls -laR /tmp/h", "cp /tmp/h/f /tmp/copy", "head -c 100000 /tmp/h/f | wc -c",
                    "python3 -c 'import mmap; f = open(\"/tmp/h/f\", \"rb\"); "
                    "print(len(mmap.mmap(f.fileno(), 4096, prot=1)[:]))'", "tar cf /tmp/t /tmp/h"):
        api.run(f"ulimit -f 2048; timeout 10 {command} 2>&1 | head -c 1000")
    well(daemon, api, other)
    assert api.agent_pid() == agent
    assert daemon.request("POST", box_path(box, "/snapshots"), {}).status == 201
    assert daemon.request("DELETE", box_path(box)).status in (200, 204)


def test_a_directory_without_end_is_listed_until_the_client_leaves(daemon, api, box, other):
    lie(api, "endless")
    body = b'{"path":"/tmp/h"}'
    with daemon.connect(unix=True) as s:
        s.sendall(f"POST {box_path(box, '/api/list-files')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
        well(daemon, api, other)
    well(daemon, api, other)


def mounted(api):
    """Mount points of FUSE."""
    return [line.split()[4] for line in api.sh("grep ' - fuse' /proc/self/mountinfo || true").splitlines()]


def test_over_workspace_and_through_links(api):
    fusebox.put(api)
    api.sh("echo mine >/workspace/f; ln -sfn /workspace /tmp/w; ln -sfn /proc /tmp/p; ln -sfn /dev/shm /tmp/s; ln -sfn / /tmp/root; "
           "ln -sfn /tmp/loop /tmp/loop")
    for place in ("/tmp/p", "/tmp/p/1", "/tmp/s", "/tmp/root", "/tmp/root/proc", "/tmp/w/../proc", "/tmp/loop", "/proc/self/root", "/proc/self/cwd"):
        assert api.run(f"python3 /tmp/fs.py ask {place}")["exitCode"] != 0, place
    assert mounted(api) == []
    fusebox.start(api, "empty", "/tmp/w")
    assert mounted(api) == ["/workspace"]
    assert api.sh("cd /; stat -c %F /workspace") == "directory\n"
    api.sh("cd /; fusermount3 -uz /workspace")
    assert api.sh("cat /workspace/f") == "mine\n" and mounted(api) == []


def test_a_race_for_the_mount_point_ends_at_an_allowed_place(api):
    """The path leads to a directory, to /proc and to /dev in turns while it is mounted on."""
    fusebox.put(api)
    api.sh("mkdir -p /tmp/d/shm /tmp/d/1; ln -sfn /tmp/d /tmp/x")
    api.ok("/api/process/start", command="while :; do for t in /tmp/d /proc /dev; do ln -sfn $t /tmp/x.new; mv -T /tmp/x.new /tmp/x; done; done")
    api.sh("for i in $(seq 40); do for n in 1 shm; do python3 /tmp/fs.py ask /tmp/x/$n >/dev/null 2>&1; done; done; true", timeoutMs=300000)
    places = set(mounted(api))
    assert places <= {"/tmp/d/1", "/tmp/d/shm"}, places
    assert api.sh("readlink /proc/self/cwd >/dev/null; ls -d /proc/1/ns /dev/shm") == "/dev/shm\n/proc/1/ns\n"


def test_many_at_once_keep_to_the_limit(daemon, box, api, other):
    fusebox.put(api)
    api.sh(f"for i in $(seq {LIMIT + 36}); do mkdir -p /tmp/n/$i; done")
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        script = "for i in $(seq {0} 10 {1}); do python3 /tmp/fs.py ask /tmp/n/$i >/dev/null 2>&1; done; true"
        list(pool.map(lambda n: daemon.request("POST", box_path(box, "/api/execute"), {
            "command": script.format(n, LIMIT + 36), "sessionId": "__DISABLE_SESSION__", "timeoutMs": 200000}, timeout=240), range(1, 11)))
    assert 0 < len(mounted(api)) <= LIMIT
    well(daemon, api, other)


def test_a_hung_server_holds_neither_snapshot_nor_stop(daemon, box, api, other):
    """A client waits for it: the box cannot be frozen. The snapshot is refused and the box runs on; a stop ends both."""
    fusebox.put(api)
    fusebox.start(api, "hang", "/tmp/h")
    api.ok("/api/process/start", command="exec ls /tmp/h")
    wait_for(lambda: api.run("cat /proc/$(pgrep -x ls)/wchan")["stdout"] == "request_wait_answer", "ls waits in the mount")
    for rest, body in (("/snapshots", {}), ("/fork", {"count": 1}), ("/backups", {})):
        r = daemon.request("POST", box_path(box, rest), body)
        assert r.status == 409 and r.json()["code"] == "INVALID_STATE", r
        well(daemon, api, other)
    assert daemon.request("GET", box_path(box, "/snapshots")).json()["snapshots"] == []
    assert daemon.request("POST", box_path(box, "/stop")).status == 200
    assert mounted(api) == [] and api.sh("ls -A /tmp/h") == ""
