"""Two boxes have no inode in common that one could watch or lock to learn of the other, whatever a context or a command can open.

One box watches (inotify), locks (flock, open file description locks) and leases all that it can open; the other one opens, locks, executes and
writes the same names. What the kernel itself shares is in KERNELS, and SECURITY.md says why it stays.
"""

import ast

import boxapi
import pytest
from codeapi import Context
from zygotes import host_pid

ZYGOTE = True
KERNELS = {"eventfd", "epoll", "timerfd", "signalfd", "inotify"}
"""Files without a name: one inode for all of them on the machine. It cannot be watched, but flock() works on it."""

OPEN = r"""
import ctypes, fcntl, glob, os, signal, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
image = ['/usr/bin/python3.11', '/usr/bin/env', *sorted({line.split()[-1] for line in open('/proc/self/maps') if '.so' in line})]
names = ['/proc/self/exe', '/proc/1/exe', '/proc/self/cwd', '/proc/self/root', '/', '/usr/bin', '/etc', '/tmp', '/run', '/workspace', '/sys',
         *glob.glob('/dev/*'), *glob.glob('/proc/[a-z]*'), *glob.glob('/proc/self/[a-z]*'), *glob.glob('/proc/self/ns/*'),
         *glob.glob('/proc/1/ns/*'), *glob.glob('/proc/self/fd/*'), *glob.glob('/proc/self/map_files/*'), *image]
def opened():
    found = {}
    for name in names:
        try:
            found[name] = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            continue
    found.update(eventfd=libc.eventfd(0, 0), epoll=libc.epoll_create1(0), timerfd=libc.timerfd_create(1, 0), inotify=libc.inotify_init1(0),
                 signalfd=libc.signalfd(-1, (ctypes.c_ulong * 16)(), 0), pidfd=os.pidfd_open(os.getpid()), init=os.pidfd_open(1),
                 memfd=os.memfd_create('a'))
    return found
files = opened()
"""
WATCH = r"""
signals = []
signal.signal(signal.SIGIO, lambda *_: signals.append(1))
notes = libc.inotify_init1(os.O_NONBLOCK)
watched, names_watched, leased = {}, [], []
read_lock = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
for name, fd in files.items():
    w = libc.inotify_add_watch(notes, f'/proc/self/fd/{fd}'.encode(), 0xFFF)
    if w >= 0:
        watched[w] = name
        names_watched.append(name)
    for call, what, how in ((fcntl.fcntl, fcntl.F_SETLEASE, fcntl.F_RDLCK), (fcntl.fcntl, fcntl.F_OFD_SETLK, read_lock),
                            (fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, None)):
        try:
            call(fd, what, *[how][:how is not None])
            leased += [name] * (what == fcntl.F_SETLEASE)
        except OSError:
            continue
def seen():
    found = set()
    try:
        data = os.read(notes, 1 << 20)
        while data:
            w, mask, _, n = struct.unpack('iIII', data[:16])
            data = data[16 + n:]
            found.add((watched.get(w), hex(mask)))
    except BlockingIOError:
        pass
    return found
seen()
str([sorted(files), sorted(names_watched), sorted(leased)])
"""
USE = r"""
stopped = set()
for name, fd in files.items():
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError as error:
        stopped.add(name)
for fd in opened().values():
    os.close(fd)
for program in ('python3', 'python3.11', 'env'):
    subprocess.run([program, '--version'], check=True, capture_output=True)
write_lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
for name in image:
    if not os.path.exists(name):
        continue
    with open(name, 'rb') as f:
        f.read(1)
    try:
        with open(name, 'ab') as f:
            fcntl.fcntl(f, fcntl.F_OFD_SETLK, write_lock)
    except BlockingIOError:
        stopped.add(name + ' for writing')
    except OSError:  # it runs
        continue
str(sorted(stopped))
"""


def said(context, code):
    run = context(code)
    assert run.error is None, run.error
    return ast.literal_eval(ast.literal_eval(run.result["text"]))


@pytest.mark.parametrize("how", ["forked", "plain"])
def test_what_two_boxes_can_open_is_not_the_same(daemon, how):
    """Forked: a child of the zygote, as any context. Plain: executed by the agent, as any command."""
    assert host_pid(daemon)
    options = {"env_vars": {"PYTHONHASHSEED": "7"}} if how == "plain" else {}
    boxes = [f"inodes-{how}-{n}" for n in range(2)]
    one, two = (Context(boxapi.Api(daemon, box), **options) for box in boxes)
    for c in one, two:
        (listed,) = c.api.call("/api/contexts", method="GET").json()["contexts"]
        assert listed["preloaded"] is (how == "forked")
        assert c(OPEN).error is None
    files, watched, leased = said(one, WATCH)
    assert {"/proc/self/exe", "/usr/bin/python3.11", "/proc/self/ns/time", "eventfd"} <= set(files)
    assert {"/proc/self/root", "/usr/bin/env"} <= set(watched) and "/usr/bin/env" in leased
    assert not [name for name in files if "map_files/" in name], "mappings lead to the image's own files"
    assert set(said(two, USE)) <= KERNELS
    assert said(one, "str([sorted(seen(), key=str), signals])") == [[], []]
    for box in boxes:
        daemon.destroy(box)


def test_a_context_runs_from_the_boxs_own_view_of_the_interpreter(daemon):
    assert host_pid(daemon)
    c = Context(boxapi.Api(daemon, "exe"))
    code = ("import os\nstr([os.readlink('/proc/self/exe'), os.path.samefile('/proc/self/exe', '/usr/bin/python3'), "
            "open('/proc/self/cmdline').read().split(chr(0))[0]])")
    assert said(c, code) == ["/usr/bin/python3.11", True, "python3"]
    assert [line for line in c("print(open('/proc/self/maps').read())").stdout.splitlines() if "/bin/" in line] == []
    daemon.destroy("exe")
