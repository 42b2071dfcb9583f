"""Exposed ports as the control plane keeps them: what may be exposed, under which name, for how long."""

import contextlib
import json
import re
import sqlite3
import threading

import pytest
from atoll import box_path, wait_for
from boxapi import check_error


def ports_path(box, port="", rest=""):
    return box_path(box, "/ports" + (f"/{port}" if port != "" else "") + rest)


def expose(daemon, box, port, body=None, status=(200, 201)):
    r = daemon.request("POST", ports_path(box, port), {} if body is None else body)
    assert r.status in (status if isinstance(status, tuple) else (status,)), r
    return r.json()


def exposed(daemon, box):
    r = daemon.request("GET", ports_path(box))
    assert r.status == 200, r
    assert r.json()["count"] == len(r.json()["ports"])
    return {p["port"]: p for p in r.json()["ports"]}


def rows(daemon):
    """What the file holds once the daemon does not."""
    with contextlib.closing(sqlite3.connect(f"file:{daemon.data}/daemon/state.db?immutable=1", uri=True)) as db:
        return db.execute("SELECT id, port, token, name FROM ports").fetchall()


def test_expose_list_show_unexpose(daemon, box):
    made = expose(daemon, box, 8080, {"name": "web", "hostname": "ignored.example"}, 201)
    assert set(made) == {"url", "port", "name", "token", "status", "createdAt"}
    assert (made["port"], made["name"], made["status"]) == (8080, "web", "active")
    assert re.fullmatch(r"[a-z0-9_]{16}", made["token"])
    listen = daemon.address.rsplit(":", 1)[1]
    assert made["url"] == f"http://8080-{box}-{made['token']}.localhost:{listen}/"
    assert daemon.inspect(box)["state"] == "running", "exposing makes the box, as any use does"
    other = expose(daemon, box, 1024, None, 201)
    assert other["name"] is None and other["token"] != made["token"]
    assert exposed(daemon, box) == {1024: other, 8080: made} and list(exposed(daemon, box)) == [1024, 8080]
    assert daemon.request("GET", ports_path(box, 8080)).json() == made
    assert daemon.request("DELETE", ports_path(box, 8080)).status == 204
    assert list(exposed(daemon, box)) == [1024]
    check_error(daemon.request("GET", ports_path(box, 8080)), "PORT_NOT_EXPOSED", 404)


def test_an_empty_body_is_no_wish(daemon, box):
    r = daemon.request("POST", ports_path(box, 8080))
    assert r.status == 201 and r.json()["name"] is None


def test_exposing_again_keeps_the_url(daemon, box):
    first = expose(daemon, box, 8080, {"name": "one"}, 201)
    again = expose(daemon, box, 8080, {"name": "two"}, 200)
    assert (again["token"], again["url"], again["name"]) == (first["token"], first["url"], "two")
    assert expose(daemon, box, 8080, {"name": "two", "token": first["token"]}, 200) == again
    changed = expose(daemon, box, 8080, {"token": "mine_1"}, 200)
    assert changed["token"] == "mine_1" and changed["name"] is None, "a token of one's own replaces it, as upstream does"
    assert exposed(daemon, box)[8080] == changed


def test_one_token_serves_one_port(daemon, box):
    expose(daemon, box, 8080, {"token": "same"})
    e = check_error(daemon.request("POST", ports_path(box, 8081), {"token": "same"}), "PORT_ALREADY_EXPOSED", 409)
    assert e["context"]["port"] == 8081 and "8080" in e["message"]
    assert list(exposed(daemon, box)) == [8080]


def test_many_at_once_agree(daemon, box):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(expose(daemon, box, 8080))) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({a["url"] for a in answers}) == 1 and exposed(daemon, box)[8080] == answers[0]


@pytest.mark.parametrize("port,code", [("80", "INVALID_PORT"), ("1023", "INVALID_PORT"),
                                       ("0", "INVALID_PORT_NUMBER"), ("65536", "INVALID_PORT_NUMBER"),
                                       ("08080", "INVALID_PORT_NUMBER"), ("-1", "INVALID_PORT_NUMBER"),
                                       ("80a", "INVALID_PORT_NUMBER"), ("%38080", "INVALID_PORT_NUMBER"),
                                       ("99999999999999999999999", "INVALID_PORT_NUMBER"), ("8e3", "INVALID_PORT_NUMBER")])
def test_ports_that_cannot_be_exposed(daemon, box, port, code):
    for method in ("POST", "DELETE", "GET"):
        check_error(daemon.request(method, ports_path(box, port)), code, 400)
    assert daemon.inspect(box) is None, "a refused request makes no box"


def test_the_ends_of_the_range(daemon, box):
    made = {port: expose(daemon, box, port, None, 201) for port in (1024, 65535)}
    assert exposed(daemon, box) == made and [made[port]["port"] for port in made] == [1024, 65535]


@pytest.mark.parametrize("token", ["", "a" * 17, "Upper", "a-b", "a.b", "ä", "a b", "a\n", "a\0b", 5, ["x"]])
def test_tokens_that_cannot_be(daemon, box, token):
    e = check_error(daemon.request("POST", ports_path(box, 8080), {"token": token}), "VALIDATION_FAILED", 400)
    assert e["context"]["validationErrors"][0]["field"] == "token"
    assert daemon.inspect(box) is None


def test_tokens_at_the_limit(daemon, box):
    for port, token in ((8080, "a"), (8081, "abcdefghij_01234"), (8082, "_")):
        assert expose(daemon, box, port, {"token": token})["token"] == token


@pytest.mark.parametrize("name", ["x" * 101, "a\nb", "\x1b[31m", 7])
def test_names_that_cannot_be(daemon, box, name):
    e = check_error(daemon.request("POST", ports_path(box, 8080), {"name": name}), "VALIDATION_FAILED", 400)
    assert e["context"]["validationErrors"][0]["field"] == "name"


def test_names_at_the_limit(daemon, box):
    for name in ("x" * 100, "größer <b> \"quoted\""):
        assert expose(daemon, box, 8080, {"name": name})["name"] == name


def test_bodies_that_are_none(daemon, box):
    check_error(daemon.request("POST", ports_path(box, 8080), b"{"), "INVALID_JSON", 400)
    check_error(daemon.request("POST", ports_path(box, 8080), b"[]"), "INVALID_JSON", 400)
    check_error(daemon.request("POST", ports_path(box, 8080), b"{}".ljust(256 * 1024 + 1)), "PAYLOAD_TOO_LARGE", 413)


@pytest.mark.parametrize("box_id,code", [("Upper-Case", "INVALID_SANDBOX_ID_CHARACTERS"), ("dots.inside", "INVALID_SANDBOX_ID_CHARACTERS"),
                                         ("me@example", "INVALID_SANDBOX_ID_CHARACTERS"), ("x" * 42, "INVALID_SANDBOX_ID_LENGTH")])
def test_ids_that_are_no_host_names(daemon, box_id, code):
    check_error(daemon.request("POST", ports_path(box_id, 8080), {}), code, 400)
    assert daemon.inspect(box_id) is None


def test_a_long_id_takes_a_short_token(daemon):
    box = "x" * 56
    try:
        label = expose(daemon, box, 8080, {"token": "t"})["url"].split("/")[2].split(".")[0]
        assert len(label) == 63
        check_error(daemon.request("POST", ports_path(box, 8080), {"token": "tt"}), "INVALID_SANDBOX_ID_LENGTH", 400)
        check_error(daemon.request("POST", ports_path(box, 18080), {"token": "t"}), "INVALID_SANDBOX_ID_LENGTH", 400)
    finally:
        daemon.destroy(box)


def test_a_sandbox_that_is_not_there(daemon, box):
    check_error(daemon.request("GET", ports_path(box)), "SANDBOX_NOT_FOUND", 404)
    check_error(daemon.request("GET", ports_path(box, 8080)), "SANDBOX_NOT_FOUND", 404)
    check_error(daemon.request("DELETE", ports_path(box, 8080)), "SANDBOX_NOT_FOUND", 404)
    check_error(daemon.request("GET", ports_path(box, 8080, "/requests")), "SANDBOX_NOT_FOUND", 404)
    assert daemon.request("POST", ports_path(box, 8080, "/validate"), {"token": "x"}).json() == {"valid": False}
    assert daemon.inspect(box) is None


def test_a_port_that_is_not_exposed(daemon, box):
    expose(daemon, box, 8080)
    check_error(daemon.request("DELETE", ports_path(box, 8081)), "PORT_NOT_EXPOSED", 404)
    check_error(daemon.request("GET", ports_path(box, 8081, "/requests")), "PORT_NOT_EXPOSED", 404)


def test_methods_and_paths(daemon, box):
    assert daemon.request("PUT", ports_path(box, 8080)).status == 405
    assert daemon.request("POST", ports_path(box)).status == 405
    assert daemon.request("GET", ports_path(box, 8080, "/validate")).status == 405
    for rest in ("/", "/other", "/requests/", "//requests"):
        check_error(daemon.request("GET", ports_path(box, 8080, rest)), "NOT_FOUND", 404)
    check_error(daemon.request("GET", ports_path(box, 8080), unix=False, token=False), "UNAUTHORIZED", 401)


def test_tokens_are_checked(daemon, box):
    token = expose(daemon, box, 8080)["token"]

    def valid(body):
        r = daemon.request("POST", ports_path(box, 8080, "/validate"), body)
        assert r.status == 200, r
        return r.json()["valid"]

    assert valid({"token": token}) is True
    for wrong in (token[:-1], token + "a", token.upper(), "", "x" * 16):
        assert valid({"token": wrong}) is False
    assert valid({}) is False
    assert daemon.request("POST", ports_path(box, 8081, "/validate"), {"token": token}).json() == {"valid": False}


def test_there_is_a_last_port(daemon, box):
    for port in range(2000, 2064):
        expose(daemon, box, port, {"token": f"t{port}"})
    check_error(daemon.request("POST", ports_path(box, 5000), {}), "LIMIT_REACHED", 429)
    assert daemon.request("DELETE", ports_path(box, 2000)).status == 204
    expose(daemon, box, 5000, None, 201)


def test_ports_end_with_the_box(daemon, box):
    expose(daemon, box, 8080, {"token": "first"})
    assert daemon.destroy(box).status == 204
    check_error(daemon.request("GET", ports_path(box)), "SANDBOX_NOT_FOUND", 404)
    assert daemon.request("POST", ports_path(box, 8080, "/validate"), {"token": "first"}).json() == {"valid": False}
    daemon.execute(box, "true")
    assert exposed(daemon, box) == {}, "a new box of the same name has none of the old one's ports"


def test_ports_survive_restarts(own_daemon, own_box):
    box, other = own_box, own_box + "-other"
    kept = expose(own_daemon, box, 8080, {"name": "web"})
    expose(own_daemon, box, 8081, {"token": "changed_away"})
    changed = expose(own_daemon, box, 8081, {"token": "changed"})
    expose(own_daemon, box, 8082)
    own_daemon.request("DELETE", ports_path(box, 8082))
    expose(own_daemon, other, 9000)
    own_daemon.destroy(other)
    own_daemon.kill_daemon()
    own_daemon.await_warden()
    assert exposed(own_daemon, box) == {8080: kept, 8081: changed}
    own_daemon.execute(other, "true")
    assert exposed(own_daemon, other) == {}
    assert own_daemon.interrupt() == 0
    assert sorted(r[:2] for r in rows(own_daemon)) == [(box, 8080), (box, 8081)]
    own_daemon.start()
    assert exposed(own_daemon, box) == {8080: kept, 8081: changed}
    own_daemon.destroy(box)
    assert own_daemon.interrupt() == 0
    assert rows(own_daemon) == []
    own_daemon.start()


# ---- the command line


def test_the_command_line(daemon, box):
    r = daemon.cli("expose", box, "8080", "--name", "web", "--token", "cli_1")
    listen = daemon.address.rsplit(":", 1)[1]
    url = f"http://8080-{box}-cli_1.localhost:{listen}/"
    assert (r.returncode, r.stdout.decode(), r.stderr) == (0, url + "\n", b"")
    shown = json.loads(daemon.cli("expose", box, "8081", "--json").stdout)
    assert shown["port"] == 8081
    lines = daemon.cli("ports", box).stdout.decode().splitlines()
    assert lines[0].split() == ["PORT", "STATUS", "NAME", "URL"]
    assert lines[1].split() == ["8080", "active", "web", url] and lines[2].split()[0] == "8081"
    assert [p["port"] for p in json.loads(daemon.cli("ports", box, "--json").stdout)["ports"]] == [8080, 8081]
    env = {"PATH": "/nonexistent"}
    assert daemon.cli("open", box, "8080", env=env).stdout.decode() == url + "\n", "opening keeps name and token"
    assert exposed(daemon, box)[8080]["name"] == "web"
    assert daemon.cli("open", box, "8083", env=env).stdout.startswith(b"http://8083-")
    assert daemon.cli("unexpose", box, "8080").stdout == b"8080\n"
    assert daemon.cli("unexpose", box, "8081", "--json").stdout == b'{"unexposed":8081}\n'
    assert list(exposed(daemon, box)) == [8083]
    assert daemon.cli("requests", box, "8083").returncode == 0


def test_open_calls_the_desktop(daemon, box, tmp_path):
    opener = tmp_path / "xdg-open"
    opener.write_text(f"#!/bin/sh\nprintf %s \"$1\" > {tmp_path}/url\n")
    opener.chmod(0o755)
    r = daemon.cli("open", box, "8080", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert r.returncode == 0
    assert wait_for(lambda: (tmp_path / "url").exists() and (tmp_path / "url").read_text(), "the opener ran") == r.stdout.decode().strip()


def test_hints_of_the_port_verbs_fit_the_verb(daemon, box):
    daemon.cli("create", box)
    r = daemon.cli("unexpose", box, "8080")
    assert r.returncode == 1 and b"Expose the port first" not in r.stderr and f"ports {box}'".encode() in r.stderr, r
    r = daemon.cli("expose", box.upper(), "8080")
    assert r.returncode == 1 and b"only lowercase letters" in r.stderr, r
    daemon.cli("rm", box.upper())


def test_the_command_line_explains(daemon, box):
    for args, words in ((("expose", box), "which port"), (("expose",), "which box"), (("expose", box, "x"), "not 'x'"),
                        (("ports",), "which box"), (("unexpose", box, "1", "2"), "'2' is one word too many")):
        r = daemon.cli(*args)
        assert r.returncode == 2 and words in r.stderr.decode(), r
    for args, words in ((("expose", box, "80"), "Invalid port number"), (("expose", box, "8080", "--token", "A"), "Custom token"),
                        (("ports", box), "no box"), (("unexpose", box, "8080"), "no box")):
        r = daemon.cli(*args)
        assert r.returncode == 1 and words in r.stderr.decode(), r
    for verb in ("expose", "ports", "open", "requests", "unexpose"):
        r = daemon.cli(verb, "--help")
        assert r.returncode == 0 and b"ID" in r.stdout


def test_port_3000_is_the_apps(daemon, box):
    """The agent sits on a socket of its own: nothing in a box needs the port that upstream's container reserves."""
    daemon.execute(box, "mkdir -p /srv/a; echo from-the-app >/srv/a/index.html")
    daemon.request("POST", box_path(box, "/api/process/start"), {"command": "cd /srv/a && exec python3 -m http.server 3000"})
    wait_for(lambda: daemon.execute(box, "curl -s 127.0.0.1:3000")["stdout"] == "from-the-app\n", "the app listens")
    url = daemon.request("POST", box_path(box, "/ports/3000")).json()["url"]
    assert "//3000-" in url
    host = url.split("/")[2]
    assert daemon.request("GET", "/", headers={"Host": host}, unix=False, token=False).text == "from-the-app\n"
    assert daemon.request("GET", box_path(box, "/proxy/3000/api/ping")).json()["message"] == "pong"
    assert daemon.request("GET", box_path(box, "/proxy/3000/"), headers={"X-Atoll-App": "1"}).text == "from-the-app\n"
    assert daemon.request("GET", box_path(box, "/proxy/3000/internal/env"), headers={"X-Atoll-App": "1"}).status == 404
    assert daemon.cli("expose", box, "3000").returncode == 0


def test_the_suggestions_fit(daemon, box):
    daemon.execute(box, "true")
    daemon.execute(box.upper(), "true")
    long = "x" * 62
    daemon.execute(long, "true")
    try:
        said = {name: daemon.request(method, box_path(name, "/ports/8080")).json()["suggestion"]
                for name, method in ((box, "DELETE"), (box.upper(), "POST"), (long, "POST"))}
    finally:
        daemon.destroy(box.upper())
        daemon.destroy(long)
    assert said[box] == "GET /v1/sandboxes/{id}/ports lists the exposed ports."
    assert "lowercase" in said[box.upper()] and "shorter" in said[long]
