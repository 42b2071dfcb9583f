"""Command streams with a name: a client that lost its connection comes back and has every byte once."""

import contextlib
import http.client
import json

import pytest
from atoll import DEADLINE, box_path, wait_for

SEQ = "".join(f"{i}\n" for i in range(1, 20001))


class Client:
    """One connection to a stream, frame by frame."""

    def __init__(self, daemon, method, path, body=None, last=None):
        self.connection = http.client.HTTPConnection(*daemon.address.rsplit(":", 1), timeout=DEADLINE)
        headers = {"Authorization": f"Bearer {daemon.token}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        self.connection.request(method, path, json.dumps(body) if body else None, headers)
        self.response = self.connection.getresponse()
        self.last = last or ""

    def frame(self):
        """The next event, or None at the end. `last` is its id."""
        name = None
        while line := self.response.readline():
            if line.startswith(b"id: "):
                name = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                self.response.readline()
                self.last = name
                return json.loads(line[6:])
        return None

    def error(self):
        return self.response.status, json.loads(self.response.read())["code"]

    def close(self):
        self.connection.close()


@pytest.fixture
def opened(daemon, box):
    """Opens streams of the box, and closes them all at the end."""
    with contextlib.ExitStack() as stack:
        def start(command, stream_id, **fields):
            body = {"command": command, "streamId": stream_id, **fields}
            client = Client(daemon, "POST", box_path(box, "/api/execute/stream"), body)
            stack.callback(client.close)
            return client

        def again(stream_id, last=None):
            client = Client(daemon, "GET", box_path(box, f"/api/execute/stream/{stream_id}"), last=last)
            stack.callback(client.close)
            return client
        yield start, again


def rest(client):
    events = []
    while (event := client.frame()) is not None:
        events.append(event)
    return events


def text(events, kind="stdout"):
    return "".join(e["data"] for e in events if e["type"] == kind)


def test_every_byte_once_over_many_connections(opened):
    start, again = opened
    client = start("seq 1 20000; echo over >&2; (exit 3)", "many")
    events = []
    for _ in range(40):
        event = client.frame()
        events.append(event)
        client.close()
        if event["type"] == "complete":
            break
        client = again("many", client.last)
    events += rest(client) if events[-1]["type"] != "complete" else []
    assert text(events) == SEQ
    assert text(events, "stderr") == "over\n"
    assert [e["type"] for e in events].count("start") == 1
    assert events[-1]["exitCode"] == 3


def test_the_end_is_kept_and_the_beginning_too(daemon, box, opened):
    start, again = opened
    client = start("seq 1 20000", "end")
    client.frame()
    client.close()
    whole = rest(again("end"))
    assert text(whole) == SEQ and whole[0]["type"] == "start" and whole[-1]["type"] == "complete"
    assert text(rest(again("end"))) == SEQ, "a second time"
    assert daemon.execute_alone(box, "true")["exitCode"] == 0


def test_a_command_waits_while_nobody_reads(daemon, box, opened):
    start, again = opened
    client = start("while :; do echo 0123456789; echo >> /tmp/n; done", "wait")
    client.frame()
    client.close()

    def lines():
        return int(daemon.execute_alone(box, "wc -l < /tmp/n 2>/dev/null || echo 0")["stdout"])
    before = [-1]

    def stands_still():
        now = lines()
        same, before[0] = now == before[0] and now > 0, now
        return same
    wait_for(stands_still, "the command stands still")
    client = again("wait", client.last)
    more = before[0] + 10000
    wait_for(lambda: client.frame() and lines() > more, "it goes on")


def test_cancelled(daemon, box, opened):
    start, again = opened
    client = start("sleep 600", "stop")
    assert client.frame()["type"] == "start"
    assert daemon.request("DELETE", box_path(box, "/api/execute/stream/stop")).status == 200
    wait_for(lambda: daemon.execute_alone(box, "pgrep -xc sleep")["stdout"] == "0\n", "sleep ends")
    assert again("stop").error() == (404, "PROCESS_NOT_FOUND")
    assert daemon.request("DELETE", box_path(box, "/api/execute/stream/stop")).status == 404


def test_who_comes_back_takes_over(opened):
    start, again = opened
    first = start("echo one; sleep 600", "over")
    assert [first.frame()["type"], first.frame()["data"]] == ["start", "one\n"]
    second = again("over")
    assert [second.frame()["type"], second.frame()["data"]] == ["start", "one\n"]
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        first.response.read()


def test_ids(daemon, box, opened):
    start, again = opened
    for bad in ["a b", "../x", "x" * 65, "ä"]:
        assert start("true", bad).error() == (400, "VALIDATION_FAILED"), bad
    client = start("echo x", "Good_id-1" + "x" * 55)
    assert rest(client)[-1]["type"] == "complete"
    assert start("true", "Good_id-1" + "x" * 55).error() == (400, "VALIDATION_FAILED")
    for last in ["zz", "0", "00000000000000ff", "ffffffffffffffff", "0" * 15 + "1", "-1"]:
        assert again("Good_id-1" + "x" * 55, last).error() == (404, "PROCESS_NOT_FOUND"), last
    assert again("none").error() == (404, "PROCESS_NOT_FOUND")
    assert start("true", "refused", cwd=7).error()[0] == 400
    assert rest(start("true", "nowhere", cwd="/nope"))[-1]["exitCode"] == 1
    assert daemon.execute_alone(box, "true")["exitCode"] == 0


def test_many_are_bounded(daemon, box, opened):
    start, again = opened
    for i in range(140):
        client = start(f"echo {i}", f"n{i}", sessionId="__DISABLE_SESSION__")
        assert rest(client)[-1]["exitCode"] == 0
        client.close()
    assert text(rest(again("n139"))) == "139\n"
    wait_for(lambda: again("n0").response.status == 404, "the oldest is forgotten")
    assert daemon.execute_alone(box, "true")["exitCode"] == 0
