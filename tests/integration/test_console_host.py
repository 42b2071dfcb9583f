"""What the console's page Host stands on: sessions one by one, the audit, the doctor and the self-test."""

import http.client
import json

import atoll as lib
import pytest
from test_console_api import HEADER, sign_in, status

OWN_DAEMON = "it kills the daemon"


def sessions(daemon, headers=None):
    reply = daemon.request("GET", "/v1/console/sessions", headers=headers or {}, unix=headers is None, token=headers is None)
    assert reply.status == 200, reply
    return reply.json()["sessions"]


def audit(daemon):
    return daemon.request("GET", "/v1/audit").json()["records"]


def test_sessions_are_listed_and_ended_one_by_one(daemon):
    daemon.request("DELETE", "/v1/console/sessions")
    assert sessions(daemon) == []
    one = sign_in(daemon, token=daemon.token)
    two = {**sign_in(daemon, token=daemon.token)}
    listed = sessions(daemon, one)
    assert len(listed) == 2 and [s["current"] for s in listed].count(True) == 1
    assert all(len(s["id"]) == 16 and s["startedAt"] <= s["usedAt"] for s in listed)
    other = next(s["id"] for s in listed if not s["current"])
    assert status(daemon, f"/v1/console/sessions/{other}", one, "DELETE") == 200
    assert status(daemon, "/v1/sandboxes", two) == 401 and status(daemon, "/v1/sandboxes", one) == 200
    for wrong in (other, "", "x", "a" * 16, "a/b", "a" * 5000):
        assert status(daemon, f"/v1/console/sessions/{wrong}", one, "DELETE") == 404
    assert len(sessions(daemon)) == 1
    assert status(daemon, "/v1/console/sessions", {}) == status(daemon, f"/v1/console/sessions/{other}", {}, "DELETE") == 401
    assert status(daemon, "/v1/console/sessions", {"Cookie": one["Cookie"]}) == 401  # no header, no session


def test_the_browser_of_a_session_is_kept_as_plain_text(daemon):
    daemon.request("DELETE", "/v1/console/sessions")
    given = {**HEADER, "User-Agent": 'A"b\\<i>\x80é' + 300 * "x"}
    assert daemon.request("POST", "/v1/console/session", {"token": daemon.token}, headers=given, unix=False, token=False).status == 200
    (session,) = sessions(daemon)
    assert session["client"].startswith('A"b\\<i>') and len(session["client"]) == 160 and session["client"].isascii()
    daemon.kill_daemon()
    lib.wait_for(lambda: daemon.request("GET", "/v1/health").status == 200, "the daemon")
    assert [s["client"] for s in sessions(daemon)] == [session["client"]]


def test_the_audit_says_who_changed_what(daemon):
    cookie = sign_in(daemon, token=daemon.token)
    daemon.request("PUT", "/v1/sandboxes/au", {})
    daemon.request("POST", "/v1/sandboxes/au/api/execute", {"command": "true"})
    daemon.request("PUT", "/v1/sandboxes/au", {"limits": {"memory": 1}})
    daemon.request("DELETE", "/v1/sandboxes/au", unix=False)
    assert daemon.request("DELETE", "/v1/sandboxes/au", headers=cookie, unix=False, token=False).status == 404
    daemon.request("POST", "/v1/console/session", {"token": "wrong"}, headers=HEADER, unix=False, token=False)
    daemon.request("GET", "/v1/sandboxes")
    records = audit(daemon)
    assert [r["id"] for r in records] == list(range(records[0]["id"], records[0]["id"] + len(records)))
    mine = [(r["by"], r["method"], r["route"], r["status"]) for r in records if r.get("sandbox") == "au"]
    route = "/v1/sandboxes/{id}"
    assert mine == [("socket", "PUT", route, 201), ("socket", "PUT", route, 400), ("token", "DELETE", route, 204), ("console", "DELETE", route, 404)]
    assert (records[-1]["by"], records[-1]["route"], records[-1]["status"]) == ("nobody", "/v1/console/session", 401)
    assert not any(daemon.token in json.dumps(r) for r in records)


def test_the_audit_keeps_the_last_thousand(daemon):
    first = audit(daemon)[-1]["id"] if audit(daemon) else 0
    for _ in range(1001):
        daemon.request("DELETE", "/v1/sandboxes/nobody")
    records = audit(daemon)
    assert len(records) == 1000 and records[-1]["id"] == first + 1001


def test_the_doctor_answers(daemon):
    report = daemon.request("GET", "/v1/doctor", timeout=lib.DEADLINE).json()
    assert report["ready"] is True
    assert len(report["checks"]) > 15 and {"group", "name", "state", "detail"} <= set(report["checks"][0])
    assert daemon.request("GET", "/v1/doctor", unix=False, token=False).status == 401
    assert daemon.request("POST", "/v1/doctor").status == 405


@pytest.fixture
def stream(daemon):
    opened = []

    def start():
        connection = http.client.HTTPConnection(daemon.address, timeout=lib.DEADLINE)
        opened.append(connection)
        connection.request("POST", "/v1/selftest", headers={"Authorization": f"Bearer {daemon.token}"})
        return connection, connection.getresponse()
    yield start
    for connection in opened:
        connection.close()


def test_the_self_test_is_told_as_it_goes(daemon, stream):
    _, reply = stream()
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/event-stream"
    said = [json.loads(line[6:]) for line in reply.read().decode().splitlines() if line.startswith("data: ")]
    results, (last,) = said[:-1], said[-1:]
    counts = [sum(r["result"] == word for r in results) for word in ("ok", "FAIL", "skip")]
    assert last == {"summary": "{} passed, {} failed, {} skipped".format(*counts)} and not counts[1], said
    assert counts[0] > 10, said  # checks that need a pool or a network are skipped where there is none
    assert results[0] == {"result": "ok", "name": "a command runs and its output comes back"}
    assert daemon.boxes() == []


def test_one_self_test_at_a_time_and_an_end_when_the_client_leaves(daemon, stream):
    connection, reply = stream()
    assert reply.readline().startswith(b"data: ")  # it runs
    _, second = stream()
    assert second.status == 429 and b"runs already" in second.read()
    # Leaving: the program removes its boxes, and another may begin.
    reply.close()
    connection.close()
    lib.wait_for(lambda: daemon.boxes() == [], "the boxes of the self-test to go")
    _, last = lib.wait_for(lambda: (s := stream())[1].status == 200 and s, "a self-test that may begin")
    assert last.read()  # to its end, so that it makes no box later
    assert daemon.boxes() == []
