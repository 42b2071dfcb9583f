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


def events(r):
    assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", r
    return [json.loads(line[6:]) for line in r.text.splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize("path, body, right", [
    ("execute/stream", {"cmd": "echo a"}, "command"),
    ("execute/stream", {"cmd": "echo a", "streamId": "kept"}, "command"),
    ("execute/code", {"code": "print(1)", "lang": "python"}, "language"),
    ("execute/code", {"code": "6 * 7", "lang": "python"}, "language"),
    ("execute/code", {"code": "[...'ü']", "lang": "javascript"}, "language"),
    ("execute/code", {"code": "1 / 0", "lang": "python"}, "language"),
    ("read/stream", {"file": "/etc/hostname"}, "path"),
])
def test_the_first_event_of_a_stream_tells(daemon, box, path, body, right):
    """And no other."""
    wrong = next(name for name in body if name not in ("code", "streamId"))
    found = events(ask(daemon, box, path, **body, colour="red"))
    assert found[0]["warnings"] == [f"field '{wrong}' was taken as '{right}': write '{right}'", "field 'colour' is not known here and was ignored"]
    assert len(found) > 1 and not [event for event in found[1:] if "warnings" in event]
    if "streamId" in body:  # the kept stream is the same, its ids count bytes
        again = events(daemon.request("GET", box_path(box, "/api/execute/stream/kept")))
        assert again == found


def test_a_stream_without_mistakes_has_no_warnings(daemon, box):
    assert not [e for e in events(ask(daemon, box, "execute/stream", command="echo a")) if "warnings" in e]


def test_a_list_tells_and_takes_its_options_in_either_place(daemon, box):
    daemon.execute(box, "mkdir -p /tmp/d/e; touch /tmp/d/.h /tmp/d/e/f")
    answer = ask(daemon, box, "list-files", dir="/tmp/d", sort="name").json()
    assert answer["count"] == 1 and len(answer["files"]) == 1
    assert answer["warnings"] == ["field 'dir' was taken as 'path': write 'path'", "field 'sort' is not known here and was ignored"]
    nested = ask(daemon, box, "list-files", path="/tmp/d", options={"recursive": True, "includeHidden": True}).json()
    flat = ask(daemon, box, "list-files", path="/tmp/d", recursive=True, includeHidden=True).json()
    assert nested["count"] == flat["count"] == 3 and nested["files"] == flat["files"] and "warnings" not in flat
    assert ask(daemon, box, "list-files", path="/tmp/d", hidden=True).json()["count"] == 2
    check_error(ask(daemon, box, "list-files", path="/tmp/d", recursive="yes"), "VALIDATION_FAILED", 400)


def test_contexts_take_a_time_limit(daemon, box):
    answer = ask(daemon, box, "contexts", language="python", timeout_ms=60000).json()
    assert "warnings" not in answer
    assert ask(daemon, box, "contexts", language="python", timeout=60000).json()["warnings"] == \
        ["field 'timeout' was taken as 'timeout_ms': write 'timeout_ms'"]


def test_a_write_tells_of_all(daemon, box):
    long = "a-name-that-is-longer-than-sixteen-bytes"
    answer = ask(daemon, box, "write", path="/tmp/f", contents="x", mode="0600", **{long: {"path": 1}}).json()
    assert answer["warnings"] == ["field 'contents' was taken as 'content': write 'content'", "field 'mode' is not known here and was ignored",
                                  f"field '{long}' is not known here and was ignored"]
    assert "warnings" not in ask(daemon, box, "write", path="/tmp/f", content="x").json()


def test_a_write_under_other_names(daemon, box):
    for body in ({"file": "/tmp/g", "content": "one"}, {"path": "/tmp/g", "contents": "two"}, {"file": "/tmp/g", "contents": "three"}):
        right = {"file": "path", "contents": "content"}
        answer = ask(daemon, box, "write", **body).json()
        assert answer["warnings"] == [f"field '{name}' was taken as '{right[name]}': write '{right[name]}'" for name in body if name in right]
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
    written = ask(daemon, box, "write", path="/tmp/f", content="x", **{f"x{i}" + "é" * 500: 1 for i in range(100)}).json()
    assert len(written["warnings"]) == 16 and all(len(w) < 200 for w in written["warnings"])
