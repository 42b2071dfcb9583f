"""Tunnels: a port of a sandbox under a host name of its own, without a token."""

import re

import boxapp
import pytest
from atoll import box_path
from boxapi import Api, check_error

ECHO = """
def handle(c):
    for h in heads(c):
        reply(c, h, extra=b"X-App: yes\\r\\n")
"""


def open_tunnel(daemon, box, port, status=201, **body):
    r = daemon.request("POST", box_path(box, "/tunnels"), {"port": port, **body})
    assert r.status == status, r
    return r.json()


def tunnels(daemon, box):
    return daemon.request("GET", box_path(box, "/tunnels")).json()["tunnels"]


def get(daemon, host, path="/"):
    return daemon.request("GET", path, headers={"Host": host}, token=False)


def test_a_tunnel_leads_to_its_port(api):
    daemon, box = api.daemon, api.box
    boxapp.raw(api, 8080, ECHO)
    made = open_tunnel(daemon, box, 8080)
    assert re.fullmatch(r"[a-z0-9_]{16}", made["id"]) and "name" not in made
    assert made["hostname"] == f"{made['id']}.localhost" and made["url"] == f"http://{made['hostname']}:{daemon.address.rsplit(':', 1)[1]}"
    r = get(daemon, made["hostname"], "/a?b=c")
    assert r.status == 200 and r.body.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert open_tunnel(daemon, box, 8080, 200) == made, "the same wish has the same tunnel"
    assert tunnels(daemon, box) == [made]
    assert daemon.request("GET", box_path(box, "/tunnels/8080")).json() == made
    assert daemon.request("DELETE", box_path(box, "/tunnels/8080")).status == 204
    assert get(daemon, made["hostname"]).status == 404 and tunnels(daemon, box) == []
    check_error(daemon.request("DELETE", box_path(box, "/tunnels/8080")), "TUNNEL_NOT_FOUND", 404)


def test_names(api):
    daemon, box = api.daemon, api.box
    boxapp.raw(api, 8080, ECHO)
    name = f"app-{box}"[:60].strip("-").lower()
    made = open_tunnel(daemon, box, 8080, name=name)
    assert made["name"] == name and made["hostname"] == f"{name}.localhost"
    assert get(daemon, made["hostname"]).status == 200
    assert get(daemon, made["hostname"].upper()).status == 200
    for body in ({"port": 8080}, {"port": 8080, "name": "other-name"}, {"port": 8081, "name": name}):
        check_error(daemon.request("POST", box_path(box, "/tunnels"), body), "TUNNEL_RUN_CONFLICT", 409)
    try:
        check_error(daemon.request("POST", box_path(f"{box}-b", "/tunnels"), {"port": 8080, "name": name}), "TUNNEL_RUN_CONFLICT", 409)
    finally:
        daemon.request("DELETE", box_path(f"{box}-b"))


@pytest.mark.parametrize("body", [{}, {"port": 0}, {"port": "x"}, {"port": 80}, {"port": 8080, "name": ""},
                                  {"port": 8080, "name": "a.b"}, {"port": 8080, "name": "-a"}, {"port": 8080, "name": "A"},
                                  {"port": 8080, "name": "x" * 64}, {"port": 8080, "name": "8080-a-b"}, {"port": 8080, "id": "a/b"},
                                  {"port": 8080, "id": "x" * 65}, {"port": 8080, "runId": " "}])
def test_bad_wishes(daemon, box, body):
    r = daemon.request("POST", box_path(box, "/tunnels"), body)
    assert r.status == 400, r


def test_at_most_64(daemon, box):
    for i in range(64):
        open_tunnel(daemon, box, 9000 + i)
    check_error(daemon.request("POST", box_path(box, "/tunnels"), {"port": 9064}), "LIMIT_REACHED", 429)


def test_a_killed_daemon_keeps_them_and_a_box_takes_them_along(own_daemon):
    daemon = own_daemon
    api = Api(daemon, "keeps")
    boxapp.raw(api, 8080, ECHO)
    made = open_tunnel(daemon, "keeps", 8080, name="kept")
    daemon.kill_daemon()
    assert tunnels(daemon, "keeps") == [made]
    assert get(daemon, made["hostname"]).status == 200
    assert daemon.request("DELETE", box_path("keeps")).status in (200, 204)
    assert get(daemon, made["hostname"]).status == 404
    api.sh("true")
    assert tunnels(daemon, "keeps") == []
    daemon.kill_daemon()
    assert tunnels(daemon, "keeps") == [] and get(daemon, made["hostname"]).status == 404
