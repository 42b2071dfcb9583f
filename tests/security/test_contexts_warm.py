"""A worker that waited in a slot is no stronger than a process that the agent started, before and after the slot became a box.

The escape suite's checks run from inside one; what the kernel says of it is compared with what it says of a command and of a
worker that the box started itself.
"""

import contextlib
import json
import os
import socket
import struct
import subprocess
from pathlib import Path

import atoll as lib
import boxapi
import escape
import leaks
import pytest
from codeapi import Context
from warmlib import new_box, waiting, warmed, worker_of

CHECKS = [c["name"] for c in escape.checks() if not set(c["needs"]) - {"demo"}]
KINDS = ("user", "pid", "pid_for_children", "mnt", "net", "ipc", "uts", "cgroup", "time")
FIELDS = ("Uid", "Gid", "Groups", "Umask", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
          "TracerPid", "SigPnd", "ShdPnd", "SigBlk", "Cpus_allowed", "Mems_allowed", "Speculation_Store_Bypass")  # fmt: skip


def status(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def links(pid):
    return sorted(os.readlink(f"/proc/{pid}/fd/{n}").split(":")[0] for n in os.listdir(f"/proc/{pid}/fd"))


def groups(text):
    """The lines of /proc/PID/cgroup without hierarchies that other test runs mount and unmount meanwhile."""
    return [line for line in text.splitlines() if ":name=atoll-" not in line]


def command(api, text):
    done = escape.execute(api.daemon, api.box, text)
    assert done["exitCode"] == 0, done
    return done["stdout"]


@pytest.fixture(scope="module")
def warm(daemon):
    """A context whose worker waited, and one that its box started because it has too few processes for a waiting one."""
    before = warmed(daemon)
    api = boxapi.Api(daemon, "warm")
    context = Context(api, "javascript")
    context.host, context.init = worker_of(api, context), escape.init_of(daemon, "warm")
    assert context.host in before
    context.plain = Context(new_box(daemon, "plain", limits={"pids": 63}), "javascript")
    context.plain.host = worker_of(context.plain.api, context.plain)
    assert context.plain.host not in before
    for c in (context, context.plain):
        assert c("1 + 1").result["text"] == "2"
    yield context
    daemon.destroy("warm")
    daemon.destroy("plain")


def test_status_field_by_field(warm):
    ours, theirs = status(warm.host), status(warm.plain.host)
    for name in set(FIELDS) - {"Uid", "Gid"}:
        assert ours.get(name) == theirs.get(name), name
    shown = warm("require('fs').readFileSync('/proc/self/status', 'utf8')").result["text"]
    shown = dict(line.split(":\t", 1) for line in shown.splitlines() if ":\t" in line)
    commands = dict(line.split(":\t", 1) for line in command(warm.api, "cat /proc/self/status").splitlines() if ":\t" in line)
    for name in FIELDS:
        assert shown.get(name) == commands.get(name), name
    assert shown["PPid"] == "1" and shown["NSpid"].split() == [shown["Pid"]]


def test_limits_and_scores(warm):
    for path in ("limits", "oom_score_adj", "timerslack_ns", "uid_map", "gid_map", "setgroups", "personality", "mountinfo"):
        assert warm(f"require('fs').readFileSync('/proc/self/{path}', 'utf8')").result["text"] == command(warm.api, f"cat /proc/self/{path}"), path
    assert groups(warm("require('fs').readFileSync('/proc/self/cgroup', 'utf8')").result["text"]) == groups(command(warm.api, "cat /proc/self/cgroup"))


def test_namespaces_cgroups_and_root_are_the_boxs(warm):
    for kind in KINDS:
        assert os.readlink(f"/proc/{warm.host}/ns/{kind}") == os.readlink(f"/proc/{warm.init}/ns/{kind}"), kind
    assert leaks.group_of(Path(f"/proc/{warm.host}/cgroup").read_text()) == leaks.group_of(Path(f"/proc/{warm.init}/cgroup").read_text())
    assert leaks.in_leaf(warm.host) and leaks.in_leaf(warm.plain.host)
    roots = [os.stat(f"/proc/{pid}/root") for pid in (warm.host, warm.init)]
    assert (roots[0].st_dev, roots[0].st_ino) == (roots[1].st_dev, roots[1].st_ino)


def test_no_descriptor_but_those_of_any_worker(warm):
    assert links(warm.host) == links(warm.plain.host)


def test_netlink_sockets_of_it_are_the_brokers(warm):
    """The filter that it brought along has a listener, which the box's agent serves."""
    assert warm("Object.keys(require('os').networkInterfaces()).includes('lo')").result["text"] == "true"
    assert "lo" in warm("require('child_process').execSync('ip -o link').toString()").result["text"]


def test_in_its_slot_it_is_confined_already(daemon, warm):
    """Before any box has the slot: the filters, capabilities and namespaces of a worker in a box."""
    worker, slot = next(iter(waiting(daemon).items() or warmed(daemon).items()))
    ours, theirs = status(worker), status(warm.plain.host)
    for name in set(FIELDS) - {"Uid", "Gid"}:
        assert ours.get(name) == theirs.get(name), name
    for kind in KINDS:
        assert os.readlink(f"/proc/{worker}/ns/{kind}") == os.readlink(f"/proc/{slot}/ns/{kind}"), kind
        assert os.readlink(f"/proc/{worker}/ns/{kind}") != os.readlink(f"/proc/{os.getpid()}/ns/{kind}"), kind
    assert leaks.group_of(Path(f"/proc/{worker}/cgroup").read_text()) == leaks.group_of(Path(f"/proc/{slot}/cgroup").read_text())
    assert leaks.in_leaf(worker) and not leaks.in_leaf(slot)
    # The slot's first process has privileges that a box has not: it is not dumpable, so nobody in the slot may look into it.
    assert os.stat(f"/proc/{slot}/mem").st_uid == 0 and os.stat(f"/proc/{worker}/mem").st_uid >= 0x70000000
    assert not any(name in ("/dev/fuse",) or name.endswith((".sock", ".ask")) for name in links(worker))


def full_socket():
    """A socket into which nothing more goes, and its other end."""
    ours, full = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    full.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            full.send(b"full")
    full.setblocking(True)
    return ours, full


def test_nobody_in_the_box_can_look_into_the_process_that_starts_it():
    """It has the agent's writable /proc and the way to the agent, and a box that is made early runs beside it."""
    ours, full = full_socket()
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
    arrange = ["bash", "-c", f'exec 6<&{full.fileno()} 5</proc "$@"', "bash"]
    with ours, full, open(lib.BIN / "atoll-agent", "rb") as program, subprocess.Popen(
            [*arrange, *user, f"/proc/self/fd/{program.fileno()}", "warm", "javascript"], pass_fds=[full.fileno(), program.fileno()]) as starter:
        try:
            lib.wait_for(lambda: Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text(), "the worker")
            assert status(starter.pid)["Uid"].split()[0] == "65534"
            assert os.stat(f"/proc/{starter.pid}/mem").st_uid == 0
        finally:
            starter.kill()


def test_a_box_that_notes_without_end_is_not_heard(own_daemon):
    """Each box's word counts once: more are refusals, and the warden, its pool and other boxes go on."""
    own_daemon.execute("liar", "true")
    init, warden = escape.init_of(own_daemon, "liar"), own_daemon.warden_pid
    pipe = next(n for n in os.listdir(f"/proc/{init}/fd") if os.readlink(f"/proc/{init}/fd/{n}").endswith(".ask"))
    with open(f"/proc/{init}/fd/{pipe}", "wb", buffering=0) as to:
        to.write(struct.pack("=I", 0xFFFFFFFE) * 1000)
        lib.wait_for(lambda: own_daemon.logged("is not heard any more"), "the end of the pipe")
    lib.wait_for(lambda: len(waiting(own_daemon)) == 2, "the workers of one note")
    api = boxapi.Api(own_daemon, "other")
    assert Context(api, "javascript")("1 + 1").result["text"] == "2"
    assert own_daemon.warden_pid == warden


@pytest.fixture(scope="module")
def verdicts(daemon):
    """Every check that needs no second box, as children of a worker that waited."""
    before = warmed(daemon)
    escape.load(daemon, "warm-escape")
    api = boxapi.Api(daemon, "warm-escape")
    context = Context(api, "javascript")
    assert worker_of(api, context) in before
    run = context(f"""
const {{ spawnSync }} = require('child_process');
for (const name of {json.dumps(CHECKS)}) {{
  const done = spawnSync({json.dumps(escape.PROGRAM)}, ['run', name], {{ encoding: 'utf8', timeout: 120000 }});
  console.log(name, done.stdout.trim() || '{{}}');
}}""")
    daemon.destroy("warm-escape")
    return dict((line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in run.stdout.splitlines())


@pytest.mark.parametrize("name", CHECKS)
def test_refused_from_inside_a_worker(verdicts, name):
    verdict = verdicts[name]
    if verdict.get("result") == "skipped":
        pytest.skip(f"{name}: {verdict['how']}")
    assert verdict.get("result") == "refused", verdict
