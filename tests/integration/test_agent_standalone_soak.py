"""Many sessions at once with everything that goes wrong: afterwards the agent is as before.

ATOLL_SOAK=50x200 makes it fifty sessions with two hundred commands each (the default is small)."""

import json
import os
import random
import socket
import threading

import pytest
from agentlib import AGENT, Agent, open_events
from atoll import alive, seed, wait_for

ALONE = "a soak"

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")
SESSIONS, COMMANDS = (int(n) for n in os.environ.get("ATOLL_SOAK", "12x25").split("x"))


def send_and_leave(agent, path, body):
    """A client that does not wait for its answer."""
    text = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", agent.port)) as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(text)) + text)


class User(threading.Thread):
    """One session and somebody who is not careful with it."""

    def __init__(self, agent, number, first, commands=COMMANDS):
        super().__init__()
        self.commands = commands
        self.agent, self.name, self.random = agent, f"soak{number}", random.Random(first + number)
        self.count, self.wrong = 0, []

    def execute(self, command, **members):
        return self.agent.post("/api/execute", {"command": command, "sessionId": self.name, **members}, timeout=120)

    def check(self, what, good):
        if not good:
            self.wrong.append(what)

    def plain(self):
        n = self.random.randrange(1000)
        r = self.execute(f"echo {n}; echo e{n} >&2")
        self.check(r.body, r.status == 200 and (r.json()["stdout"], r.json()["stderr"]) == (f"{n}\n", f"e{n}\n"))

    def state(self):
        self.count = self.random.randrange(1000)
        self.execute(f"COUNT={self.count}; cd /usr")
        r = self.execute("echo $COUNT $PWD")
        self.check(r.body, r.status == 200 and r.json()["stdout"] == f"{self.count} /usr\n")

    def background(self):
        r = self.execute("(sleep 3; echo late) & sleep 3 >/dev/null & echo now")
        self.check(r.body, r.status == 200 and r.json()["stdout"] == "now\n")

    def late(self):
        r = self.execute(self.random.choice(["sleep 61", "while :; do :; done", "sleep 61 | cat", "(trap '' INT; sleep 61)"]), timeoutMs=30)
        self.check(r.body, r.status == 500 and "timeout" in r.json()["message"])

    def suicide(self):
        r = self.execute(self.random.choice(["exit 3", "kill -9 $$", "exec /bin/false", "set -e; false"]))
        self.check(r.body, r.status == 410)

    def wrong_syntax(self):
        r = self.execute(self.random.choice(["echo )", "echo 'open", "if"]))
        self.check(r.body, r.status == 200 and r.json()["exitCode"] == 2)

    def big(self):
        r = self.execute("head -c 200000 /dev/zero | tr '\\0' b")
        self.check(r.body[:300], r.status == 200 and r.json()["stdout"] == "b" * 200000)

    def gone(self):
        send_and_leave(self.agent, "/api/execute", {"command": "sleep 0.05; echo x", "sessionId": self.name})

    def stream(self):
        with open_events(self.agent, "POST", "/api/execute/stream", {"command": "echo s; exit 4", "sessionId": self.name}) as e:
            events = list(e)
        self.check(events, events[-1]["type"] == "complete" and events[-1]["exitCode"] == 4)

    def stream_gone(self):
        with open_events(self.agent, "POST", "/api/execute/stream", {"command": "echo s; sleep 61", "sessionId": self.name}) as e:
            next(iter(e))

    def process(self):
        p = self.agent.post("/api/process/start", {"command": "sleep 61 & sleep 61", "sessionId": self.name}, timeout=120).json()
        r = self.agent.call("DELETE", f"/api/process/{p['processId']}", timeout=120)
        self.check(r.body, r.status == 200 and not alive(p["pid"]))

    def run(self):
        acts = [self.plain] * 6 + [self.state] * 3 + [self.background, self.late, self.suicide, self.wrong_syntax, self.big, self.gone,
                                                      self.stream, self.stream_gone, self.process]
        try:
            for _ in range(self.commands):
                self.random.choice(acts)()
            self.plain()
        except Exception as e:  # a thread's failure must reach the test
            self.wrong.append(repr(e))


@pytest.mark.limit(3600 if "ATOLL_SOAK" in os.environ else 600)
def test_after_a_storm_everything_is_as_before():
    first = seed(0)
    agent = Agent()
    try:
        # As many at once as later, for a tenth of the time: what the allocator keeps for such a crowd is no leak.
        crowd = [User(agent, 1000 + i, first, max(COMMANDS // 10, 5)) for i in range(SESSIONS)]
        for u in crowd:
            u.start()
        for u in crowd:
            u.join()
            assert not u.wrong, u.wrong[:3]
            agent.post("/api/session/delete", {"sessionId": u.name})
        agent.call("POST", "/api/process/cleanup")
        wait_for(lambda: agent.children() == [])
        fds, rss = agent.fds(), agent.rss_kb()
        users = [User(agent, i, first) for i in range(SESSIONS)]
        for u in users:
            u.start()
        for u in users:
            u.join()
        assert not [u.wrong[:2] for u in users if u.wrong]
        assert agent.rss_kb("VmHWM") < 4096
        for u in users:
            assert agent.run("echo alive", sessionId=u.name)["stdout"] == "alive\n"
            assert agent.post("/api/session/delete", {"sessionId": u.name}).status == 200
        agent.call("POST", "/api/process/cleanup")
        wait_for(lambda: agent.children() == [] and agent.fds() <= fds, seconds=60)
        assert agent.rss_kb() <= rss * 1.1 + 64, (rss, agent.rss_kb())
    finally:
        assert agent.close() == 0
