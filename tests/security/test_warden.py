"""A compromised daemon: whatever comes to the warden over its socket, it makes proper boxes or nothing.

The records are those of src/proto/warden.h, sent as they lie in memory. Root may connect as well as the daemon's user; a new
connection takes over from the daemon, which comes back by itself.
"""
import os
import random
import re
import signal as signals
import socket
import struct

import atoll as lib
import pytest
from test_layer import snapshot

POOL = "the warden is asked about it"

PROTO = (lib.ROOT / "src/proto/warden.h").read_text()
MAGIC = int(re.search(r"#define WARDEN_MAGIC (0x[0-9a-f]+)", PROTO)[1], 16)
HELLO, CREATE, DESTROY, SIGNAL, FREEZE, THAW, PAGE_OUT, INSPECT, LIST, SET_LIMITS = range(1, 11)
LIMITS = PROTO + (lib.ROOT / "src/proto/limits.h").read_text()


def limit(name):
    return int(re.search(rf"{name}\s+(\d+)", LIMITS)[1])


VOLUME = limit("VOLUME_NAME_MAX") + 1 + limit("VOLUME_PATH_MAX") + 1 + 4
TAIL = -(-max(limit("BOX_VOLUMES_MAX") * VOLUME, limit("WARDEN_PEM_MAX") + 1) // 8) * 8  # the volumes, or a certificate
REQUEST = struct.Struct(f"=IIQ64s64s64s64sQIIQQiIIIII{TAIL}s")
CODE_AT = 24  # struct err in the reply: its code
MIB = 1 << 20


def record(op=CREATE, id=b"w", image=b"default", mem=512 * MIB, cpu=1000, pids=256, disk=0, signal=0, flags=0, magic=MAGIC, seq=7, volume=0):
    return REQUEST.pack(magic, op, seq, id, image, b"", b"", mem, cpu, pids, disk, volume, signal, flags, 0, 0, 0, 0, b"")


def connect(daemon):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(str(daemon.run / "warden.sock"))
    s.settimeout(lib.DEADLINE)
    return s


def ask(daemon, data):
    """The error code of the answer (0: it was done), or None when the connection was ended."""
    with connect(daemon) as s:
        try:
            s.send(data)
            while reply := s.recv(4096):
                if struct.unpack_from("=Q", reply, 8)[0] == 7:
                    return struct.unpack_from("=I", reply, CODE_AT)[0]
        except (ConnectionResetError, BrokenPipeError):
            pass
        return None


@pytest.fixture
def watched(own_daemon):
    """A daemon whose warden, directories and host survive the test as they were."""
    own_daemon.execute("before", "true")
    warden = own_daemon.warden_pid
    # The real daemon would connect again and take the warden back in the middle of a question.
    os.kill(own_daemon.daemon_pid, signals.SIGSTOP)
    try:
        yield own_daemon
    finally:
        os.kill(own_daemon.daemon_pid, signals.SIGCONT)
    assert own_daemon.warden_pid == warden, "the warden died"
    assert sorted(p.name for p in own_daemon.layers.iterdir()) == ["before"]
    lib.wait_for(lambda: own_daemon.request("GET", "/v1/sandboxes").status == 200, "the daemon is back")
    assert own_daemon.execute("before", "echo alive")["stdout"] == "alive\n"


BAD_IDS = [b"", b".", b"..", b"...", b"../x", b"a/b", b"/", b"-a", b"a-", b"a" * 64, b"a\0b", b"\xff\xfe", b"a\n", b"root", b"a b\x7f", b"\0" + b"x" * 63]


@pytest.mark.parametrize("op", [CREATE, DESTROY, SIGNAL, FREEZE, INSPECT, SET_LIMITS])
def test_bad_ids(watched, op):
    for bad in BAD_IDS:
        assert ask(watched, record(op=op, id=bad)) != 0, bad


def test_bad_images(watched, tmp_path):
    before = snapshot(tmp_path)
    for bad in (b"", b"..", b"../default", b"default/..", b"/etc", b".", b"a" * 64, b"x\0y", b"default\0/../..", str(tmp_path).encode()[:63],
                b"default/rootfs", b"-rf", b"%2e%2e"):
        assert ask(watched, record(image=bad)) != 0, bad
    assert snapshot(tmp_path) == before


def test_bad_limits(watched):
    for fields in ({"mem": 1}, {"mem": 2**64 - 1}, {"mem": 2**63}, {"cpu": 1}, {"cpu": 2**32 - 1}, {"pids": 1}, {"pids": 2**32 - 1}):
        assert ask(watched, record(**fields)) not in (0, None), fields


def test_bad_signals(watched):
    for signal in (-1, 0, 65, 2**31 - 1, -(2**31)):
        assert ask(watched, record(op=SIGNAL, id=b"before", signal=signal)) != 0, signal


def test_bad_records(watched):
    good = record(op=INSPECT, id=b"before")
    assert ask(watched, good) == 0
    assert ask(watched, record(op=INSPECT, id=b"before", magic=MAGIC ^ 1)) != 0
    assert ask(watched, record(op=INSPECT, id=b"before", flags=0x80000000)) != 0
    assert ask(watched, record(op=INSPECT, id=b"before", volume=1)) != 0
    assert ask(watched, record(op=SET_LIMITS, id=b"before", volume=(1 << 50) + 1)) != 0
    for op in (0, 99, 99, 100, 2**32 - 1):
        assert ask(watched, record(op=op, id=b"before")) != 0, op
    for data in (b"x", good[:-1], good + b"x", good * 2, b"\0" * len(good), b"\xff" * 4000):
        assert ask(watched, data) != 0, len(data)


def test_text_behind_the_end_of_an_id(watched):
    """Texts are zero-padded: two readers must not see two ids in one record."""
    assert ask(watched, record(op=INSPECT, id=b"before\0../../etc")) != 0


def test_random_records(watched):
    rng = random.Random(lib.seed(20240131))
    good = bytearray(record(op=INSPECT, id=b"before"))
    for _ in range(40):
        with connect(watched) as s:
            for _ in range(50):
                data = bytearray(good)
                for _ in range(rng.randrange(1, 6)):
                    data[rng.randrange(8, len(data))] = rng.randrange(256)
                struct.pack_into("=I", data, 4, rng.choice([INSPECT, SIGNAL, FREEZE, LIST, HELLO, 77]))
                if data[16:80].rstrip(b"\0") == b"before":
                    continue  # what is valid may be done: not here
                try:
                    s.send(data)
                except (BrokenPipeError, ConnectionResetError):
                    break


def test_descriptors_are_not_taken(watched, tmp_path):
    """The kernel refuses them for the warden (SO_PASSRIGHTS, Linux 6.16), or they are closed at once, not kept."""
    passed = tmp_path / "passed"
    with open(passed, "wb") as f, connect(watched) as s:
        try:
            socket.send_fds(s, [record(op=INSPECT, id=b"before")], [f.fileno()] * 20)
        except PermissionError:
            s.send(record(op=INSPECT, id=b"before"))
        assert struct.unpack_from("=I", s.recv(4096), CODE_AT)[0] == 0
        held = lib.open_files(watched.warden_pid)
    assert str(passed) not in held


def test_other_users_are_refused(watched):
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        try:
            connect(watched)
            os._exit(1)
        except PermissionError:
            os._exit(0)
        except BaseException:  # pylint: disable=broad-except
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def status(pid):
    text = lib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_daemon_has_no_privileges(own_daemon):
    own_daemon.execute("x", "true")
    s = status(own_daemon.daemon_pid)
    assert "0" not in s["Uid"].split() and "0" not in s["Gid"].split()
    assert int(s["CapEff"], 16) == int(s["CapPrm"], 16) == int(s["CapAmb"], 16) == int(s["CapInh"], 16) == 0
    assert s["NoNewPrivs"] == "1"


def test_warden_has_a_filter_and_no_network(own_daemon):
    own_daemon.execute("x", "true")
    pid = own_daemon.warden_pid
    s = status(pid)
    assert s["Seccomp"] == "2"
    assert s["NoNewPrivs"] == "1"
    assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    lines = lib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]
    dangerous = {"SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_BOOT": 22, "SYS_TIME": 25, "NET_RAW": 13, "BPF": 39}
    # Before 6.9 a map of sockets is made for NET_ADMIN only (src/warden/isolate.c).
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 9):
        dangerous["NET_ADMIN"] = 12
    assert not [n for n, bit in dangerous.items() if int(s["CapBnd"], 16) >> bit & 1]
