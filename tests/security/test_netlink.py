"""Netlink sockets go through the broker in the agent: programs do not notice, hoards are bounded, no kill of ours ends it.

The attack itself is the check netlink-memory of the escape suite; here is what must go on working beside it.
"""
import ast
import json
import os
import signal

import atoll as lib
import boxapi
import escape
import leaks
import pytest
from codeapi import Context

ZYGOTE = True
LIMIT = 64  # BOX_NETLINK_SOCKETS
SIZE = 65536  # of a buffer, as the kernel doubles NETLINK_BUFFER

OPEN = "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)"
HOARD = f"""
import errno, socket
held = []
try:
    while len(held) <= {LIMIT}:
        held.append({OPEN})
    why = "no end"
except OSError as e:
    why = errno.errorcode[e.errno]
"""


def python(daemon, box, code):
    """What a Python program in the box prints."""
    done = escape.execute(daemon, box, "python3 -", stdin=code)
    assert done["exitCode"] == 0, done
    return done["stdout"].strip()


def test_programs_see_their_interfaces(daemon, box):
    assert "127.0.0.1/8" in escape.execute(daemon, box, "ip addr")["stdout"]
    assert "lo" in json.loads(escape.execute(daemon, box, "node -p 'JSON.stringify(os.networkInterfaces())'")["stdout"])
    assert python(daemon, box, "import socket; print(socket.if_nameindex())") == "[(1, 'lo')]"
    assert "127.0.0.1" in escape.execute(daemon, box, "getent ahosts localhost")["stdout"]


def test_a_socket_is_what_was_asked_for(daemon, box):
    code = """
import fcntl, os, socket
for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK):
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        s = socket.socket(fileno=ctypes_socket(16, kind | flags))
        print(s.type == kind, bool(fcntl.fcntl(s, fcntl.F_GETFD)) == bool(flags & socket.SOCK_CLOEXEC),
              bool(fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK) == bool(flags & socket.SOCK_NONBLOCK))
        s.bind((0, 0))
        print(s.getsockname()[0] == os.getpid() or s.getsockname()[0] != 0)
try:
    socket.socket(16, socket.SOCK_STREAM, 0)
except OSError as e:
    print(e.errno == 94)
"""
    head = "import ctypes\ndef ctypes_socket(*a): return ctypes.CDLL(None).socket(*a, 0)\n"
    assert set(python(daemon, box, head + code).split()) == {"True"}


def test_sizes_of_buffers(daemon, box):
    """Bounded for netlink; as the kernel has it for all others, from any thread."""
    code = f"""
import socket, threading
n, t = {OPEN}, socket.socket()
def sizes(s, values):
    for v in values:
        s.setsockopt(socket.SOL_SOCKET, option, v)
        print(s.getsockopt(socket.SOL_SOCKET, option), end=" ")
for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
    sizes(n, (8000, 1 << 20, -1))
    thread = threading.Thread(target=sizes, args=(t, (8000, 60000)))
    thread.start()
    thread.join()
try:
    t.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, b"")
except OSError as e:
    print(e.errno)
"""
    assert python(daemon, box, code).split() == ["16000", str(SIZE), str(SIZE), "16000", "120000"] * 2 + ["22"]


def test_another_user_of_the_box(daemon, box):
    """The agent may not look into its files: sockets are given, sizes stay as they are."""
    code = f"""
import os, socket
os.setgid(1000); os.setuid(1000)
n, t = {OPEN}, socket.socket()
before = t.getsockopt(1, 8)
for s in (n, t):
    s.setsockopt(1, 8, 1 << 20)
print(n.getsockopt(1, 8) <= {SIZE}, t.getsockopt(1, 8) == before, socket.if_nameindex())
"""
    assert python(daemon, box, code) == "True True [(1, 'lo')]"


def test_many_processes_at_once(daemon, box):
    """More than there are places: they wait for each other."""
    code = """
import os, socket
children = []
for _ in range(150):
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(20):
                assert socket.if_nameindex() == [(1, "lo")]
                socket.getaddrinfo("localhost", 80)
            os._exit(0)
        except BaseException as e:
            print(repr(e), flush=True)
            os._exit(1)
    children.append(pid)
print(sum(os.waitpid(pid, 0)[1] == 0 for pid in children))
"""
    assert python(daemon, box, code) == "150"


def test_a_full_box_gets_sockets_again(daemon, box):
    code = HOARD + f"""
print(len(held), why)
held.pop().close()
print({OPEN}.fileno() > 0)
pid = __import__("os").fork()
if pid == 0:
    [s.detach() for s in held]
    __import__("time").sleep(1000)
for s in held: s.close()
try: [{OPEN} for _ in range(3)]; print("given")
except OSError as e: print(errno.errorcode[e.errno])
__import__("os").kill(pid, 9); __import__("os").waitpid(pid, 0)
print({OPEN}.fileno() > 0)
"""
    assert python(daemon, box, code).split() == [str(LIMIT), "ENOBUFS", "True", "ENOBUFS", "True"]


def test_signals_to_the_broker_do_nothing(daemon, box):
    code = f"""
import ctypes, os, signal, socket
tids = [int(t) for t in os.listdir("/proc/1/task")]
libc = ctypes.CDLL(None)
for tid in tids:
    for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV):
        libc.tgkill(1, tid, int(sig))
print(len(tids), {OPEN}.fileno() > 0)
"""
    assert python(daemon, box, code) == "2 True"


def test_interrupted_callers_leave_nothing_behind(daemon, box):
    """Signals hit callers in the middle: each call gives a socket or EINTR, and all are free when the program has ended."""
    code = f"""
import os, signal, socket
def storm():
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    for _ in range(1000):
        try:
            with {OPEN} as s: assert s.fileno() > 2
        except InterruptedError: pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    os._exit(0 if hits else 3)
pid = os.fork()
if pid == 0: storm()
print(os.waitpid(pid, 0)[1])
""" + HOARD + "\nprint(len(held), why)"
    assert python(daemon, box, code).split() == ["0", str(LIMIT), "ENOBUFS"]


FROZEN = """
import os, socket
for fd in range(3): os.fstat(fd)
while True:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s: assert s.fileno() > 2
    for fd in range(3): os.fstat(fd)
"""


def test_a_busy_box_can_be_frozen(daemon, box):
    """The freezer interrupts callers and broker alike: it is not held up, and no caller gets a wrong answer."""
    escape.execute(daemon, box, "cat >/tmp/busy.py", stdin=FROZEN)
    escape.execute(daemon, box, "for i in 1 2 3; do python3 /tmp/busy.py >>/tmp/out 2>&1 </dev/null & done; true")
    group = next(line.split(":")[2].strip() for line in lib.Path(f"/proc/{escape.init_of(daemon, box)}/cgroup").open() if line.startswith("0:"))
    group = leaks.group_of(group)[0]
    assert daemon.cgroup in group
    mount = next(line.split()[1] for line in lib.Path("/proc/mounts").open() if line.split()[2] == "cgroup2")
    for _ in range(30):
        lib.Path(f"{mount}{group}/cgroup.freeze").write_text("1")
        lib.wait_for(lambda: "frozen 1" in lib.Path(f"{mount}{group}/cgroup.events").read_text(), "the box is frozen")
        lib.Path(f"{mount}{group}/cgroup.freeze").write_text("0")
        assert python(daemon, box, "import socket; print(socket.if_nameindex())") == "[(1, 'lo')]"
    assert escape.execute(daemon, box, "cat /tmp/out; pgrep -fc 'python3 /tmp/[b]usy.py'")["stdout"] == "3\n"


@pytest.fixture
def context(daemon, box):
    """A context that was forked from the zygote."""
    daemon.await_zygote()
    api = boxapi.Api(daemon, box)
    made = Context(api)
    assert api.call("/api/contexts", method="GET").json()["contexts"][0]["preloaded"] is True
    return made


def test_a_context_and_commands_share_the_count(daemon, box, context):
    assert context("import socket; socket.if_nameindex()").result["text"] == "[(1, 'lo')]"
    got = context(HOARD + "\n(len(held), why, held[0].setsockopt(1, 8, 1 << 20), held[0].getsockopt(1, 8))").result["text"]
    assert ast.literal_eval(got) == (LIMIT, "ENOBUFS", None, SIZE)
    assert python(daemon, box, HOARD + "\nprint(len(held), why)") == "0 ENOBUFS"
    context("[s.close() for s in held]; None")
    assert python(daemon, box, HOARD + "\nprint(len(held), why)") == f"{LIMIT} ENOBUFS"
    context.delete()
    assert python(daemon, box, "import socket; print(socket.if_nameindex())") == "[(1, 'lo')]"


def test_scores_cannot_be_lowered_through_the_agents_own_procfs(daemon, box):
    """The agent has a writable procfs. No path of the API leads there."""
    api = boxapi.Api(daemon, box)
    pid = api.run("sleep 60 >/dev/null 2>&1 & echo $!")["stdout"].strip()
    assert api.run(f"cat /proc/{pid}/oom_score_adj")["stdout"] == "200\n"
    for fd in range(300):
        api.call("/api/write", {"path": f"/proc/self/fd/{fd}/{pid}/oom_score_adj", "content": "0"})
    api.call("/api/write", {"path": f"/proc/{pid}/oom_score_adj", "content": "0"})
    assert api.run(f"cat /proc/{pid}/oom_score_adj; kill {pid}")["stdout"] == "200\n"


def test_kills_of_warden_daemon_and_up_change_nothing(own_daemon, own_box):
    """A program in the box asks all the time, also while nobody is there."""
    loop = "import socket\nn = 0\nwhile socket.if_nameindex():\n    n += 1\n    open('/tmp/n', 'w').write(str(n))"
    escape.execute(own_daemon, own_box, "cat >/tmp/loop.py", stdin=loop)
    escape.execute(own_daemon, own_box, "python3 /tmp/loop.py >/tmp/out 2>&1 & true")
    init = escape.init_of(own_daemon, own_box)

    def count():
        try:
            return int(lib.Path(f"/proc/{init}/root/tmp/n").read_text() or 0)
        except (OSError, ValueError):
            return 0

    def goes_on():
        now = count()
        lib.wait_for(lambda: count() > now, "the program goes on")

    goes_on()
    for pid in (own_daemon.warden_pid, own_daemon.daemon_pid):
        os.kill(pid, signal.SIGKILL)
    goes_on()
    own_daemon.await_warden()
    own_daemon.kill_up()
    goes_on()
    own_daemon.start()
    assert python(own_daemon, own_box, "import socket; print(socket.if_nameindex())") == "[(1, 'lo')]"
    goes_on()
