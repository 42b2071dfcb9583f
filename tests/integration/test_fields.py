"""Fields of requests that are misspelt or unknown: common misspellings work, and the answer tells of all of them."""

import http.client
import json

import pytest
from atoll import box_path
from boxapi import check_error


def ask(daemon, box, route, **body):
    return daemon.request("POST", box_path(box, "/api/" + route), body)


@pytest.mark.parametrize("body, taken", [
    ({"cmd": "echo $A $PWD", "environment": {"A": "b"}, "workdir": "/tmp"}, {"cmd": "command", "environment": "env", "workdir": "cwd"}),
    ({"commandLine": "echo b /tmp"}, {"commandLine": "command"}),
])
def test_common_misspellings_work_and_are_told(daemon, box, body, taken):
    answer = ask(daemon, box, "execute", **body).json()
    assert answer["stdout"] == "b /tmp\n"
    assert answer["warnings"] == [f"field '{k}' was taken as '{v}': write '{v}'" for k, v in taken.items()]


def test_timeout_is_a_time_limit(daemon, box):
    r = ask(daemon, box, "execute", command="sleep 60", timeout=300)
    error = check_error(r, "COMMAND_EXECUTION_ERROR", 500)
    assert "timeout after 300ms" in error["message"]
    assert r.json()["warnings"] == ["field 'timeout' was taken as 'timeoutMs': write 'timeoutMs'"]


def test_unknown_fields_are_told_and_ignored(daemon, box):
    answer = ask(daemon, box, "execute", command="echo a", colour="red").json()
    assert (answer["stdout"], answer["warnings"]) == ("a\n", ["field 'colour' is not known here and was ignored"])
    assert "warnings" not in ask(daemon, box, "execute", command="echo a", origin="user", sessionId="s").json()


def test_the_right_field_wins(daemon, box):
    answer = ask(daemon, box, "execute", command="echo right", cmd="echo wrong").json()
    assert answer["stdout"] == "right\n"
    assert answer["warnings"] == ["field 'cmd' was ignored, because 'command' is there too"]
    answer = ask(daemon, box, "execute", cmd="echo first", script="echo second").json()
    assert answer["stdout"] == "first\n" and len(answer["warnings"]) == 2


def test_errors_tell_too(daemon, box):
    r = ask(daemon, box, "execute", comand="ls")
    check_error(r, "INVALID_COMMAND", 400)
    assert r.json()["warnings"] == ["field 'comand' is not known here and was ignored"]


def test_long_answers_tell_too(daemon, box):
    answer = ask(daemon, box, "execute", cmd="seq 1 100000").json()
    assert answer["stdout"].endswith("\n100000\n") and len(answer["warnings"]) == 1


def test_a_connection_keeps_no_warning(daemon, box):
    """Two requests on one connection: the second has nothing to be told."""
    c = http.client.HTTPConnection(*daemon.address.rsplit(":", 1))
    seen = []
    for body in ({"cmd": "true"}, {"command": "true"}):
        c.request("POST", box_path(box, "/api/execute"), json.dumps(body), {"Authorization": f"Bearer {daemon.token}"})
        seen.append("warnings" in json.loads(c.getresponse().read()))
    c.close()
    assert seen == [True, False]


@pytest.mark.parametrize("path, body", [
    ("mkdir", {"dir": "/tmp/made"}), ("read", {"file": "/etc/hostname"}), ("exists", {"filePath": "/etc"}),
    ("process/start", {"cmd": "true", "id": "p"}), ("execute/code", {"code": "1", "contextId": None, "lang": "python"}),
])
def test_other_routes(daemon, box, path, body):
    r = ask(daemon, box, path, **body)
    assert r.status == 200, r
    if path != "execute/code":
        assert len(r.json()["warnings"]) == len(body)


def test_a_write_tells_of_the_first(daemon, box):
    answer = ask(daemon, box, "write", path="/tmp/f", content="x", mode="0600", other=1).json()
    assert answer["warnings"] == ["field 'mode' is not known here and was ignored"]
    assert "warnings" not in ask(daemon, box, "write", path="/tmp/f", content="x").json()


def test_a_write_under_other_names(daemon, box):
    for body in ({"file": "/tmp/g", "content": "one"}, {"path": "/tmp/g", "contents": "two"}, {"file": "/tmp/g", "contents": "three"}):
        name = next(k for k in body if k not in ("path", "content"))
        right = {"file": "path", "contents": "content"}[name]
        answer = ask(daemon, box, "write", **body).json()
        assert answer["warnings"] == [f"field '{name}' was taken as '{right}': write '{right}'"]
        assert ask(daemon, box, "read", path="/tmp/g").json()["content"] == list(body.values())[1]
    answer = ask(daemon, box, "write", path="/tmp/g", content="four", file="/tmp/h").json()
    assert answer["warnings"] == ["field 'file' is not known here and was ignored"]
    check_error(ask(daemon, box, "write", file="/tmp/h", path="/tmp/g", content="x"), "INVALID_JSON", 400)


@pytest.mark.parametrize("name", ["session", "sessionId"])
def test_a_session_under_another_name(daemon, box, name):
    answer = ask(daemon, box, "session/create", **{name: "q-" + name}).json()
    assert answer["sessionId"] == "q-" + name
    assert answer["warnings"] == [f"field '{name}' was taken as 'id': write 'id'"]


def test_many_and_long_names_are_bounded(daemon, box):
    answer = ask(daemon, box, "execute", command="true", **{f"x{i}" + "y" * 1000: 1 for i in range(100)}).json()
    assert len(answer["warnings"]) == 16 and all(len(w) < 200 for w in answer["warnings"])
