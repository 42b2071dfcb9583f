"""What a hostile FUSE server, or a hostile caller of the broker, can do to the host, the warden, the daemon and other boxes."""

import contextlib
import os
import socket

import fusebox
import pytest
from atoll import alive, wait_for
from boxapi import Api

SEND = r'''
import array, os, socket, struct, sys
def record(op=1, path=b"/tmp/m", flags=0, uid=0, source=b"x", subtype=b"", magic=0x41544631):
    return struct.pack("<6I", magic, op, uid, 0, flags, 0) + source.ljust(1024, b"\0") + subtype.ljust(64, b"\0") + path.ljust(4096, b"\0")
def ask(data, fds=()):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(60)
    try:
        s.connect("\0atoll-fuse")
        s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        got, control, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(16))
    except OSError as e:
        return "closed"
    if len(got) < 8:
        return "closed"
    error = struct.unpack_from("<i", got, 4)[0]
    return "%d %d %s" % (error, len(control), got[8:].rstrip(b"\0").decode())
os.makedirs("/tmp/m", exist_ok=True)
'''


def send(api, text, user=None):
    api.put("/tmp/send.py", (SEND + text).encode())
    return api.sh(("setpriv --reuid=1000 --regid=1000 --clear-groups " if user else "") + "python3 /tmp/send.py").splitlines()


@pytest.fixture
def other(daemon):
    daemon.execute("neighbour", "true")
    yield "neighbour"
    daemon.destroy("neighbour")


def healthy(daemon, other):
    assert daemon.execute(other, "echo well")["stdout"] == "well\n"
    assert daemon.request("GET", "/v1/health").status == 200


def test_records_that_are_not_ours_are_refused(daemon, api, other):
    api.sh("true")
    got = send(api, '''
for data in (b"", b"x", b"x" * 8192, record(magic=1), record(op=9), record(path=b"tmp/m"), record(path=b"/" * 4096), record(flags=1 << 20),
             record(subtype=b"a,b"), record(source=b"y" * 1024), record(op=2, flags=1)):
    print(ask(data) if data else "closed")
''')
    assert all(line == "closed" or line.startswith("22 0") for line in got), got
    assert "fuse" not in api.sh("cat /proc/self/mountinfo")
    healthy(daemon, other)


def test_descriptors_for_the_agent_are_refused(daemon, api, other):
    send(api, '''
for i in range(50):
    print(ask(record(), [0, 1, 2]))
''')
    assert api.sh("echo on") == "on\n"
    healthy(daemon, other)


def test_a_user_id_in_the_record_is_not_believed(api):
    api.sh("true")
    (line,) = send(api, 'print(ask(record(uid=0, path=b"/etc")))', user=True)
    assert line.startswith("1 0") and "not the user's own" in line


def test_users_of_a_box_keep_to_their_own(api):
    fusebox.put(api)
    api.sh("mkdir -p /tmp/mine /tmp/roots; chown 1000:1000 /tmp/mine; chmod 755 /tmp/fs.py")
    user = "setpriv --reuid=1000 --regid=1000 --clear-groups "
    assert "not the user's own" in api.run(user + "python3 /tmp/fs.py ask /tmp/roots")["stderr"]
    assert "user_allow_other" in api.run(user + "python3 /tmp/fs.py ask /tmp/mine allow_other")["stderr"]
    api.sh(user + "python3 /tmp/fs.py ask /tmp/mine")
    assert "user_id=1000" in api.sh("grep /tmp/mine /proc/self/mountinfo")
    api.sh("python3 /tmp/fs.py ask /tmp/roots")
    assert "another user" in api.run(user + "fusermount3 -u /tmp/roots")["stderr"]
    assert api.run(user + "umount /tmp/roots")["exitCode"] != 0
    api.sh(user + "fusermount3 -u /tmp/mine")
    api.sh("fusermount3 -u /tmp/roots")


def test_nobody_plays_the_wardens_joiner(api):
    """A program of the box that connects is an asker, whatever it does: it is never handed an ask."""
    fusebox.put(api)
    got = send(api, '''
import subprocess, threading
spies = []
for i in range(8):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect("\\0atoll-fuse"); s.setblocking(False); spies.append(s)
r = subprocess.run(["python3", "/tmp/fs.py", "ask", "/tmp/m"], capture_output=True, text=True)
print(r.stdout.strip())
for s in spies:
    try:
        print("spy got", len(s.recv(8192)))
    except BlockingIOError:
        pass
try:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind("\\0atoll-fuse"); print("bound")
except OSError as e:
    print(e.strerror)
''')
    assert got == ["ready", "Address already in use"]


def test_more_askers_than_allowed_are_hung_up_on(daemon, api, other):
    api.sh("true")
    got = send(api, '''
held = []
for i in range(200):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.setblocking(False)
    held.append(s)
    try:
        s.connect("\\0atoll-fuse")
    except BlockingIOError:
        pass
print(ask(record(op=2)))
del held
''')
    assert got == ["closed"]
    wait_for(lambda: send(api, 'print(ask(record(op=2)))')[0].startswith("22"), "the broker serves again")
    healthy(daemon, other)


def test_the_host_cannot_see_into_a_mount(daemon, api):
    """The kernel lets no user outside the box's user namespace in, not even root, so no program of the host can be made to wait."""
    fusebox.put(api)
    fusebox.start(api, "hang", "/tmp/h", "rw,allow_other")
    with pytest.raises(PermissionError):
        os.listdir(f"/proc/{api.agent_pid()}/root/tmp/h")


def test_what_lies_in_a_mount_gives_no_privileges(api):
    fusebox.put(api)
    fusebox.start(api, "empty", "/tmp/h", "rw,allow_other")
    options = api.sh("grep ' /tmp/h ' /proc/self/mountinfo").split()[5].split(",")
    assert "nosuid" in options and "nodev" in options


def test_an_unmount_cannot_be_turned_onto_a_mask(api):
    """The path of an unmount changes all the time, between a FUSE mount and what covers /proc: the covers stay."""
    fusebox.put(api)
    covered = "grep -c ' /proc/' /proc/self/mountinfo"
    before = api.sh(covered)
    api.sh("mkdir -p /tmp/d/m /tmp/e; ln -sfn /proc /tmp/e/p")
    api.ok("/api/process/start",
           command="while :; do ln -sfn /tmp/d /tmp/x.new; mv -T /tmp/x.new /tmp/x; ln -sfn /proc /tmp/x.new; mv -T /tmp/x.new /tmp/x; done")
    api.sh("for i in $(seq 30); do python3 /tmp/fs.py ask /tmp/d/m >/dev/null; "
           "for n in m keys timer_list interrupts m; do fusermount3 -uz /tmp/x/$n 2>/dev/null; "
           "umount -l /tmp/x/$n 2>/dev/null; done; fusermount3 -uzq /tmp/d/m; done; true", timeoutMs=120000)
    assert api.sh(covered) == before
    assert api.run("cat /proc/keys")["stdout"] == ""


def test_a_box_full_of_hanging_mounts_ends(daemon, api, box, other):
    fusebox.put(api)
    for i in range(6):
        fusebox.start(api, "knot" if i % 2 else "hang", f"/tmp/h{i}")
        api.ok("/api/process/start", command=f"ls /tmp/h{i}")
    agent = api.agent_pid()
    healthy(daemon, other)
    assert daemon.request("DELETE", f"/v1/sandboxes/{box}").status in (200, 204)
    wait_for(lambda: not alive(agent), "the box is gone")
    healthy(daemon, other)


def test_the_end_of_one_box_leaves_the_mounts_of_another(daemon, api, box):
    second = Api(daemon, box + "b")
    with contextlib.ExitStack() as stack:
        stack.callback(daemon.destroy, box + "b")
        for one in (api, second):
            fusebox.put(one)
            fusebox.start(one, "empty", "/tmp/h")
        assert daemon.request("DELETE", f"/v1/sandboxes/{box}").status in (200, 204)
        assert second.sh("stat -c %F /tmp/h") == "directory\n"


def test_a_killed_warden_leaves_no_joiner(own_daemon):
    api = Api(own_daemon, "k")
    fusebox.put(api)
    fusebox.start(api, "hang", "/tmp/h")
    # The joiner waits inside the mount, for the directory below it.
    api.ok("/api/process/start", command="mkdir -p /tmp/q; python3 -c 'import socket' ; fusermount3 -u /tmp/h/x/y")
    os.kill(own_daemon.warden_pid, 9)
    assert api.sh("echo on") == "on\n"
    assert own_daemon.request("DELETE", "/v1/sandboxes/k").status in (200, 204)


def test_the_socket_is_in_the_boxs_network_alone():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s, pytest.raises(ConnectionRefusedError):
        s.connect("\0atoll-fuse")
