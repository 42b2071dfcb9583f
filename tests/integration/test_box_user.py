"""Programs of a box as another user than root, in the default image: shells, processes, terminals, contexts, files."""
import pytest
from atoll import BIN, box_path
from codeapi import Context
from ttylib import Terminal


@pytest.fixture(name="api")
def fixture_api(daemon, api, box):
    assert daemon.request("PUT", box_path(box), {"user": "nobody", "env": {"HOME": "/tmp"}}).status == 201
    return api


def out(daemon, box, command, **fields):
    result = daemon.execute(box, command, **fields)
    return result["stdout"] + result["stderr"]


def test_a_bash_session_keeps_its_state(daemon, api, box):
    assert api
    assert out(daemon, box, "f() { echo \"$A $(id -un)\"; }; A=kept; cd /tmp") == ""
    assert out(daemon, box, "f; pwd") == "kept nobody\n/tmp\n"
    assert out(daemon, box, "cat", stdin="given\n") == "given\n"
    assert out(daemon, box, "echo x > file; stat -c %U file /dev/shm/none 2>/dev/null") == "nobody\n"
    assert "denied" in out(daemon, box, "touch /usr/here")


def test_a_relative_path_of_the_api_begins_in_the_sessions_directory(daemon, api, box):
    daemon.execute(box, "mkdir -p /tmp/deep && cd /tmp/deep")
    assert api.ok("/api/write", path="made", content="x", sessionId="default")
    assert out(daemon, box, "pwd; stat -c %U /tmp/deep/made") == "/tmp/deep\nnobody\n"


def test_processes_can_be_killed(daemon, api, box):
    api.ok("/api/process/start", command="trap '' TERM; id -un; while :; do sleep 0.1; done", processId="p")
    assert api.call("/api/process/p", method="DELETE").status == 200
    assert out(daemon, box, "ps -eo user:20,args | grep -c '[w]hile'").strip() == "0"


def test_a_terminal_is_the_users(daemon, api, box):
    assert api
    with Terminal([BIN / "atoll", "shell", box], daemon.env) as t:
        t.type("stat -c %U $(tty); echo to-the-tty > $(tty); exit\r")
        t.wait("nobody")
        t.wait("to-the-tty\r\n")


@pytest.mark.parametrize("language, code, said", [
    ("python", "import getpass, os; open('/tmp/by-context', 'w').close(); print(os.getuid(), getpass.getuser())", "65534 nobody\n"),
    ("javascript", "console.log(process.getuid())", "65534\n")])
def test_contexts_are_the_users(api, language, code, said):
    assert Context(api, language)(code).stdout == said
