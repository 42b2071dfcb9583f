"""A context that was forked from the zygote is no stronger than a process that the agent started, and leads nowhere else.

The escape suite's checks are run from inside one; what the kernel says of it is compared, field by field, with what it says of a
command; and the zygote itself is looked at from the host.
"""

import ast
import json
import os
import struct
from pathlib import Path

import atoll as lib
import boxapi
import escape
import leaks
import pytest
from codeapi import Context

ZYGOTE = True
CHECKS = [c["name"] for c in escape.checks() if not set(c["needs"]) - {"demo"}]
CAP_SYS_ADMIN = 1 << 21


@pytest.fixture(scope="module")
def zygote(daemon):
    """The host's number of the zygote, once it is ready."""
    daemon.await_zygote()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"atoll_worker.zygote" in (entry / "cmdline").read_bytes() and field(entry.name, "PPid") == str(daemon.warden_pid):
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError("no zygote")


@pytest.fixture(scope="module")
def forked(daemon, zygote):
    """A preloaded context in a box of its own, and its number on the host."""
    assert zygote
    api = boxapi.Api(daemon, "forked")
    context = Context(api)
    (listed,) = api.call("/api/contexts", method="GET").json()["contexts"]
    assert listed["preloaded"] is True
    init = escape.init_of(daemon, "forked")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(init):
            numbers = field(entry.name, "NSpid").split()
            if len(numbers) == 2 and numbers[1] == str(listed["pid"]) and same_namespace(entry.name, init, "pid"):
                context.host = int(entry.name)
                context.init = init
                yield context
                daemon.destroy("forked")
                return
    raise AssertionError("the context's process was not found")


def field(pid, name):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(name + ":")), "")


def same_namespace(a, b, kind):
    try:
        return os.readlink(f"/proc/{a}/ns/{kind}") == os.readlink(f"/proc/{b}/ns/{kind}")
    except OSError:
        return False


def command(forked, text):
    """What a command that the agent starts says."""
    done = escape.execute(forked.api.daemon, forked.api.box, text)
    assert done["exitCode"] == 0, done
    return done["stdout"]


def read(forked, path):
    return ast.literal_eval(forked(f"open({path!r}).read()").result["text"])


def status(text):
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_status_field_by_field(forked):
    ours, theirs = status(read(forked, "/proc/self/status")), status(command(forked, "cat /proc/self/status"))
    for name in ("Uid", "Gid", "Groups", "Umask", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "TracerPid",
                 "SigPnd", "ShdPnd", "SigBlk", "Cpus_allowed", "Mems_allowed", "Threads"):  # fmt: skip
        assert ours[name] == theirs[name], name
    assert int(ours["Seccomp_filters"]) >= int(theirs["Seccomp_filters"])
    assert len(ours["NSpid"].split()) == 1 and ours["PPid"] == "1"
    # Python itself ignores SIGPIPE and SIGXFSZ, however it was started.
    assert int(ours["SigIgn"], 16) == 1 << 12 | 1 << 24


def test_limits_and_scores(forked):
    assert read(forked, "/proc/self/limits") == command(forked, "cat /proc/self/limits")
    for path in ("oom_score_adj", "timerslack_ns", "uid_map", "gid_map", "setgroups", "personality", "mountinfo"):
        assert read(forked, f"/proc/self/{path}") == command(forked, f"cat /proc/self/{path}"), path
    assert forked("import os; (os.nice(0), os.sched_getscheduler(0))").result["text"] == f"({os.nice(0)}, 0)"  # of this run, and no zygote's


def test_namespaces_are_the_boxs(forked):
    for kind in ("user", "pid", "pid_for_children", "mnt", "net", "ipc", "uts", "cgroup", "time"):
        assert same_namespace(forked.host, forked.init, kind), kind


def test_cgroups_are_the_boxs_in_every_hierarchy(forked):
    # Asked again: another Atoll that mounts or unmounts a hierarchy adds or takes a line everywhere, between two looks.
    lib.wait_for(lambda: leaks.group_of(Path(f"/proc/{forked.host}/cgroup").read_text())
                 == leaks.group_of(Path(f"/proc/{forked.init}/cgroup").read_text()), "the same, seen from outside")
    assert leaks.in_leaf(forked.host) and not leaks.in_leaf(forked.init)
    lib.wait_for(lambda: read(forked, "/proc/self/cgroup") == command(forked, "cat /proc/self/cgroup"), "the same, seen from inside")


def test_root_and_session(forked):
    root = forked("import os; s = os.stat('/'); f'{s.st_dev} {s.st_ino}'").result["text"]
    assert root.strip("'") == command(forked, "stat -c '%d %i' /").strip()
    assert os.stat(f"/proc/{forked.host}/root").st_dev == os.stat(f"/proc/{forked.init}/root").st_dev
    assert forked("os.getsid(0) == os.getpid() == os.getpgid(0)").result["text"] == "True"


def test_no_descriptor_but_its_own(forked, zygote):
    mine = {os.readlink(f"/proc/{forked.host}/fd/{n}").split(":")[0] for n in os.listdir(f"/proc/{forked.host}/fd")}
    assert mine <= {"/dev/null", "pipe", "socket"}, mine
    others = {os.readlink(f"/proc/{zygote}/fd/{n}") for n in os.listdir(f"/proc/{zygote}/fd")} - {"/dev/null"}
    assert not others & {os.readlink(f"/proc/{forked.host}/fd/{n}") for n in os.listdir(f"/proc/{forked.host}/fd")}
    assert len(os.listdir(f"/proc/{forked.host}/fd")) <= 8


def test_the_environment_is_the_contexts_alone(forked):
    shown = set(read(forked, "/proc/self/environ").strip("\0").split("\0"))
    assert {line.split("=")[0] for line in shown} <= {"PATH", "HOME", "LANG", "LC_ALL", "PYTHONDONTWRITEBYTECODE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
    assert forked("import os; os.environ['ATOLL_SANDBOX_ID']").result["text"] == "'forked'"
    assert forked("sorted(k for k in os.environ if k.startswith(('PYTHON', 'OPENBLAS', 'OMP')))").result["text"] == "[]"


def test_other_processes_of_the_box_may_look_into_it_as_into_any(forked):
    """Not more and not less: it belongs to the box's root."""
    (pid,) = [c["pid"] for c in forked.api.call("/api/contexts", method="GET").json()["contexts"]]
    assert command(forked, f"stat -c '%u %g' /proc/{pid}/mem /proc/{pid}/fd").split() == ["0"] * 4


def test_it_sees_and_reaches_no_process_but_the_boxs(forked, zygote):
    seen = ast.literal_eval(forked("[int(p) for p in os.listdir('/proc') if p.isdigit()]").result["text"])
    assert len(seen) <= 12 and 1 in seen
    assert forked(f"import os, signal\ntry: os.kill({zygote}, 0)\nexcept OSError as e: r = e.errno\nr").result["text"] == "3"
    parent = Path(f"/proc/{forked.host}/status").read_text()
    assert f"PPid:\t{forked.init}\n" in parent, "its parent is the box's first process"


def test_the_zygotes_way_in_is_shut_behind_it(forked):
    """setns, unshare and mount with everything that it could have kept."""
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(n, *args):
    ctypes.set_errno(0)
    r = libc.syscall(n, *args)
    return r, ctypes.get_errno()
fd = os.open('/proc/self/ns/net', os.O_RDONLY)
[tried(308, fd, 0x40000000), tried(272, 0x20000000), tried(165, b'none', b'/mnt', b'tmpfs', 0, 0), tried(250, 0, 0)]
"""
    answers = ast.literal_eval(forked(code).result["text"])
    assert all(r == -1 and errno == 1 for r, errno in answers), answers


def test_nothing_random_is_the_same_in_two_of_them(daemon, forked):
    code = """
import random, uuid, os, ssl, secrets, tempfile, numpy as np
str([random.random(), np.random.rand(), float(np.random.default_rng().random()), str(uuid.uuid4()), str(uuid.uuid1()), os.urandom(8).hex(),
     ssl.RAND_bytes(8).hex(), secrets.token_hex(8), next(tempfile._get_candidate_names()), random.SystemRandom().random()])
"""
    several = [Context(forked.api) for _ in range(3)]
    elsewhere = Context(boxapi.Api(daemon, "forked-too"))
    drawn = [ast.literal_eval(ast.literal_eval(c(code).result["text"])) for c in (*several, elsewhere)]
    for values in zip(*drawn):
        assert len(set(values)) == len(drawn), values
    for c in several:
        c.delete()
    daemon.destroy("forked-too")


def test_memory_counts_as_the_boxs(forked):
    before = int(forked.api.daemon.inspect("forked")["usage"]["memory"]) if "usage" in (forked.api.daemon.inspect("forked") or {}) else None
    forked("hold = bytearray(64 << 20)\nfor i in range(0, len(hold), 4096): hold[i] = 1")
    assert leaks.in_leaf(forked.host)
    if before is not None:
        assert int(forked.api.daemon.inspect("forked")["usage"]["memory"]) - before > 48 << 20
    forked("del hold")


def test_contexts_are_within_the_boxs_processes(daemon):
    """Joining is not forking: the kernel itself would let them exceed the limit."""
    daemon.request("PUT", lib.box_path("narrow"), {"limits": {"pids": 10}})
    api = boxapi.Api(daemon, "narrow")
    made, refused = [], None
    while not refused and len(made) < 20:
        reply = api.call("/api/contexts", {})
        if reply.status == 200:
            made.append(reply.json()["contextId"])
        else:
            refused = reply.json()
    assert refused and refused["code"] == "CODE_EXECUTION_ERROR" and len(made) < 10, (made, refused)
    init = escape.init_of(daemon, "narrow")
    members = [p for p in Path("/proc").iterdir() if p.name.isdigit() and same_namespace(p.name, init, "pid")]
    assert len(members) <= 10
    daemon.destroy("narrow")


# ---- the escape suite


@pytest.fixture(scope="module")
def verdicts(daemon, zygote):
    """Every check that needs no second box, as children of a context, all in one run."""
    assert zygote
    escape.load(daemon, "forked-escape")
    api = boxapi.Api(daemon, "forked-escape")
    context = Context(api)
    (listed,) = api.call("/api/contexts", method="GET").json()["contexts"]
    assert listed["preloaded"] is True
    code = f"""
import subprocess
for name in {CHECKS!r}:
    done = subprocess.run([{escape.PROGRAM!r}, 'run', name], capture_output=True, text=True, timeout=120)
    print(name, done.stdout.strip() or '{{}}')
"""
    run = context(code)
    daemon.destroy("forked-escape")
    return dict((line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in run.stdout.splitlines())


@pytest.mark.parametrize("name", CHECKS)
def test_refused_from_inside_a_context(verdicts, name):
    verdict = verdicts[name]
    if verdict.get("result") == "skipped":
        pytest.skip(f"{name}: {verdict['how']}")
    assert verdict.get("result") == "refused", verdict


# ---- the zygote


def test_the_zygote_has_one_capability_and_no_more(zygote):
    assert {field(zygote, c) for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {f"{CAP_SYS_ADMIN:016x}"}
    assert field(zygote, "NoNewPrivs") == "1" and field(zygote, "Seccomp") == "2" and field(zygote, "Threads") == "1"
    (uid,) = set(field(zygote, "Uid").split())
    (gid,) = set(field(zygote, "Gid").split())
    assert uid == gid and int(uid) >= 0x70000000 and field(zygote, "Groups") == ""


def test_the_zygote_sees_the_image_and_nothing_of_the_host(zygote):
    root = Path(f"/proc/{zygote}/root")
    assert not os.listdir(root / "proc"), "no procfs"
    mounts = [line.split() for line in Path(f"/proc/{zygote}/mountinfo").read_text().splitlines()]
    by_place = {m[4]: m for m in mounts}
    assert set(by_place) == {"/", "/dev", "/tmp"}
    assert "ro" in by_place["/"][5].split(",") and "nosuid" in by_place["/"][5].split(",")
    for kind in ("mnt", "net", "ipc", "uts"):
        assert not same_namespace(zygote, os.getpid(), kind), kind
    interfaces = Path(f"/proc/{zygote}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]


def test_the_zygote_is_limited(daemon, zygote):
    assert "/" + daemon.cgroup + "/" in Path(f"/proc/{zygote}/cgroup").read_text()
    status_mode = os.stat(f"/proc/{zygote}/mem").st_uid
    assert status_mode == 0, "not dumpable: not even its own user may look into it"


def test_it_keeps_nothing_of_what_it_was_asked(daemon, forked, zygote):
    """After many contexts: no descriptor, no zombie, no other pid namespace left in it."""
    before = sorted(os.listdir(f"/proc/{zygote}/fd"))
    for _ in range(5):
        Context(forked.api).delete()
    assert sorted(os.listdir(f"/proc/{zygote}/fd")) == before and len(before) <= 6
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    assert children == []
    assert same_namespace(zygote, os.getpid(), "pid_for_children") == same_namespace(zygote, os.getpid(), "pid")


def test_a_hostile_agent_can_say_nothing_but_numbers(own_daemon):
    """The way to the warden is a pipe: what is no number ends it, and the warden and other boxes go on."""
    own_daemon.execute("liar", "true")
    own_daemon.execute("other", "true")
    own_daemon.await_zygote()
    init, warden = escape.init_of(own_daemon, "liar"), own_daemon.warden_pid
    pipes = [n for n in os.listdir(f"/proc/{init}/fd") if os.readlink(f"/proc/{init}/fd/{n}").endswith(".ask")]
    writable = [n for n in pipes if int(Path(f"/proc/{init}/fdinfo/{n}").read_text().split("flags:\t")[1].split()[0], 8) & 1]
    assert writable
    with open(f"/proc/{init}/fd/{writable[0]}", "wb", buffering=0) as pipe:
        pipe.write(b"".join(struct.pack("=I", 0xFFFFFF00 + n) for n in range(200)))
        pipe.write(b"odd")
    c = Context(boxapi.Api(own_daemon, "liar"))
    assert c("1 + 1").result["text"] == "2"
    d = Context(boxapi.Api(own_daemon, "other"))
    assert d("1 + 1").result["text"] == "2"
    assert own_daemon.warden_pid == warden


def test_the_interpreters_file_is_the_boxs_own(daemon, forked):
    """CVE-2019-5736 through a context: what its root can do to /proc/self/exe it does to its own box, not to the image and not to others."""
    image = lib.IMAGES / "default" / "rootfs" / "usr/bin/python3.11"
    before = os.stat(image)
    code = """
import os
def refused(f, *a):
    try:
        f(*a)
        return 'done'
    except OSError as e:
        return e.errno
exe = '/proc/self/exe'
str([refused(os.open, exe, os.O_WRONLY), refused(os.truncate, exe, 0), refused(os.chmod, exe, 0o700),
     refused(os.utime, exe, (1, 1)), refused(os.chown, exe, 7, 7)])
"""
    api = boxapi.Api(daemon, "changed")
    answers = ast.literal_eval(ast.literal_eval(Context(api)(code).result["text"]))
    assert answers[:2] == [26, 26], answers  # ETXTBSY
    assert api.sh("stat -c '%a %u %Y' /usr/bin/python3.11").strip() == "700 7 1"
    assert command(forked, "stat -c '%a %u' /usr/bin/python3.11").strip() == "755 0"
    after = os.stat(image)
    assert (after.st_mode, after.st_uid, after.st_mtime_ns, after.st_size) == (before.st_mode, before.st_uid, before.st_mtime_ns, before.st_size)
    daemon.destroy("changed")
