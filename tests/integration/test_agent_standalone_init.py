"""atoll-agent as PID 1, the way a warden starts it: socket as descriptor 0, OOM counter as descriptor 1."""

import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest
from agentlib import AGENT
from atoll import wait_for

pytestmark = [
    pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built"),
    pytest.mark.skipif(os.geteuid() != 0, reason="root is needed for a pid namespace"),
]
SESSIONLESS = "__DISABLE_SESSION__"


class Init:
    """The agent as PID 1 of a pid namespace, with an OOM counter that the test can move."""

    def __init__(self, cgroup=None):
        self.dir = tempfile.mkdtemp(prefix="atoll-agent-test-")
        self.path = os.path.join(self.dir, "socket")
        self.counter = os.path.join(cgroup or self.dir, "memory.oom_control")
        if not cgroup:
            self.set_oom(0)
        enter = f"echo $$ >{cgroup}/cgroup.procs &&" if cgroup else ""
        with socket.socket(socket.AF_UNIX) as listener, open(self.counter, "rb") as counter:
            listener.bind(self.path)
            listener.listen(64)
            listener.setblocking(False)
            self.process = subprocess.Popen(
                ["sh", "-c", f"{enter} exec unshare --pid --fork --kill-child --mount-proc {shlex.quote(str(AGENT))} init"], cwd=self.dir,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "ATOLL_SANDBOX_ID": "b1"},
                stdin=listener, stdout=counter, stderr=subprocess.DEVNULL)
        self.pid = wait_for(self.find)

    def find(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            pids = f.read().split()
        return int(pids[0]) if pids else None

    def set_oom(self, n):
        with open(self.counter, "w", encoding="ascii") as f:
            f.write(f"oom_kill_disable 0\nunder_oom 0\noom_kill {n}\n")

    def call(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("localhost")
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(60)
        c.sock.connect(self.path)
        try:
            c.request(method, path, json.dumps(body) if body else None, headers or {})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def run(self, command, headers=None, **members):
        status, body = self.call("POST", "/api/execute", {"command": command, **members}, headers)
        assert status == 200, body
        return json.loads(body)

    def close(self):
        try:
            os.kill(self.pid, signal.SIGTERM)
            self.process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir)
        return self.process.returncode


@pytest.fixture
def init():
    i = Init()
    yield i
    i.close()


def test_it_is_pid_1_and_answers_on_its_socket(init):
    assert init.call("GET", "/api/ping")[0] == 200
    assert init.run("echo $PPID $ATOLL_SANDBOX_ID", sessionId=SESSIONLESS)["stdout"] == "1 b1\n"


def test_children_get_neither_the_socket_nor_the_counter(init):
    out = init.run("ls -l /proc/self/fd", sessionId=SESSIONLESS)["stdout"]
    assert "socket" not in out and "oom" not in out and out.count("->") == 4


def test_the_daemons_token_never_becomes_a_session(init):
    r = init.run("/bin/true", headers={"Authorization": "Bearer secret"})
    assert r["sessionId"] == "default"


def test_orphans_of_the_whole_box_are_reaped(init):
    def orphans():
        """Those of PID 1, zombies among them: their name stays."""
        rows = init.run("ps --ppid 1 -o pid=,comm=", sessionId=SESSIONLESS)["stdout"].splitlines()
        return [row.split()[0] for row in rows if row.split()[1] == "sleep"]

    init.run("for i in 1 2 3 4 5 6; do (setsid sleep 61 >/dev/null 2>&1 &); done", sessionId=SESSIONLESS)
    pids = wait_for(lambda: len(orphans()) == 6 and orphans())
    init.run(f"kill {' '.join(pids)}", sessionId=SESSIONLESS)
    wait_for(lambda: not orphans())


def test_out_of_memory_is_named_when_the_counter_moved(init):
    command = f"printf 'oom_kill_disable 0\\nunder_oom 0\\noom_kill 1\\n' 1<>{init.counter}; kill -9 $$"
    r = init.run(command, sessionId=SESSIONLESS)
    assert r["outcome"] == "oom" and r["exitCode"] == 137 and "out of memory" in r["stderr"]


def test_a_kill_without_the_counter_is_a_kill(init):
    init.set_oom(3)
    r = init.run("kill -9 $$", sessionId=SESSIONLESS)
    assert r["outcome"] == "killed" and r["signal"] == "SIGKILL" and r["stderr"] == ""


def test_a_real_out_of_memory_in_a_memory_cgroup_is_named():
    root = "/sys/fs/cgroup/memory"
    if not os.path.exists(f"{root}/memory.oom_control"):
        pytest.skip("no v1 memory hierarchy to make a cgroup in")
    group = f"{root}/atoll-agent-test-{os.getpid()}"
    os.mkdir(group)
    i = None
    try:
        with open(f"{group}/memory.limit_in_bytes", "w", encoding="ascii") as f:
            f.write(str(64 << 20))
        i = Init(group)
        for command in ("/usr/bin/python3 -c 'x = bytearray(1 << 30)'", "tail /dev/zero"):
            r = i.run(command, sessionId=SESSIONLESS)
            assert r["outcome"] == "oom" and r["exitCode"] == 137, r
        assert i.run("echo alive", sessionId=SESSIONLESS)["stdout"] == "alive\n"
    finally:
        if i:
            i.close()
        wait_for(lambda: _removed(group))


def _removed(group):
    try:
        os.rmdir(group)
        return True
    except OSError:
        return False


def test_sigterm_ends_the_box_with_exit_0():
    i = Init()
    i.run("sleep 100 >/dev/null 2>&1 &", sessionId=SESSIONLESS)
    assert i.close() == 0
