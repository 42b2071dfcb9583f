"""Shells of atoll-agent that start before a command needs them: they must be the shells that the command would have started."""

import os
import signal

import pytest
from agentlib import AGENT, Agent, Session
from atoll import alive, box_path, wait_for

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")
SHELLS_AHEAD_MAX = 4


@pytest.fixture
def own_agent():
    agent = Agent()
    yield agent
    agent.close()


def create(agent, name, **members):
    """A created session, and the pid of the shell that waits for it; None: none does."""
    before = set(agent.children())
    r = agent.post("/api/session/create", {"id": name, **members})
    assert r.status == 200, r.body
    agent.call("GET", "/api/ping")  # a turn of the loop later: the shell was started behind the answer
    new = set(agent.children()) - before
    assert len(new) < 2
    return Session(agent, name), new.pop() if new else None


def test_a_created_session_runs_its_first_command_in_the_shell_that_waited(own_agent):
    s, waiting = create(own_agent, "first", env={"A": "it's"}, cwd="/usr")
    assert waiting and s.out("echo $$ $A $PWD $SHLVL") == f"{waiting} it's /usr 1\n"
    assert own_agent.children() == [waiting]


def test_plain_commands_run_without_it_and_its_first_status_is_theirs(own_agent):
    s, waiting = create(own_agent, "plain")
    assert s.run("/bin/false")["exitCode"] == 1
    assert s.out("/bin/sh -c exit") == ""
    assert s.run("/bin/false")["exitCode"] == 1
    assert s.out("echo $? $$") == f"1 {waiting}\n"


def test_a_process_gets_a_copy_of_it(own_agent):
    s, waiting = create(own_agent, "copy", env={"A": "1"})
    r = own_agent.post("/api/process/start", {"command": "echo $A $$; exit 3", "sessionId": "copy", "processId": "p"})
    assert r.status == 200, r.body
    wait_for(lambda: own_agent.call("GET", "/api/process/p").json()["process"].get("exitCode") == 3)
    assert own_agent.call("GET", "/api/process/p/logs").json()["stdout"] == f"1 {waiting}\n"  # $$ is the parent shell's
    assert s.pid == waiting


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGHUP])
def test_one_that_ends_while_it_waits_is_forgotten(own_agent, signo):
    s, waiting = create(own_agent, "killed", env={"A": "1"})
    os.kill(waiting, signo)
    wait_for(lambda: not own_agent.children(), "the end of the shell")
    assert s.out("echo $A") == "1\n"


def test_it_goes_with_its_session(own_agent):
    _, waiting = create(own_agent, "deleted")
    assert own_agent.post("/api/session/delete", {"sessionId": "deleted"}).status == 200
    wait_for(lambda: not alive(waiting), "the end of the shell")
    s, _ = create(own_agent, "deleted", env={"B": "2"})
    assert s.out("echo $B") == "2\n"


@pytest.mark.parametrize("how", ["renamed", "removed", "stays"])
def test_a_directory_that_became_another_is_entered_anew(own_agent, how):
    place = os.path.join(own_agent.dir, "place")
    os.mkdir(place)
    s, waiting = create(own_agent, "moved", cwd=place)
    if how == "renamed":
        os.rename(place, place + ".old")
    elif how == "removed":
        os.rmdir(place)
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "mark"), "w", encoding="ascii"):
        pass
    assert s.out("ls; pwd") == f"mark\n{place}\n"
    assert (s.pid == waiting) == (how == "stays")


def test_a_directory_that_comes_later_is_not_missed(own_agent):
    place = os.path.join(own_agent.dir, "later")
    s, waiting = create(own_agent, "later", cwd=place)
    assert waiting is None
    os.mkdir(place)
    assert s.out("pwd") == place + "\n"


def test_at_most_four_wait(own_agent):
    made = [create(own_agent, f"many-{i}") for i in range(SHELLS_AHEAD_MAX + 1)]
    assert [pid is not None for _, pid in made] == [True] * SHELLS_AHEAD_MAX + [False]
    for s, pid in made:
        assert s.pid == (pid or s.pid)
    # Those that were taken make room.
    assert create(own_agent, "another")[1] is not None


def test_variables_that_a_sandbox_gets_meanwhile_are_not_missed(daemon, box):
    assert daemon.request("PUT", box_path(box), {"env": {"A": "old"}}).status == 201
    assert daemon.request("POST", box_path(box, "/api/session/create"), {"id": "s"}).status == 200
    assert daemon.request("PUT", box_path(box), {"envChanges": {"A": "new", "B": "2"}}).status == 200
    assert daemon.execute(box, "echo $A $B", sessionId="s")["stdout"] == "new 2\n"
