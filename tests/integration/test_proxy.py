"""/v1/sandboxes/{id}/proxy/{port}/…: real servers inside boxes, raw and real clients outside."""

import json

import pytest
from atoll import box_path
from boxapi import check_error
import boxapp

ECHO = """
def handle(c):
    rest = b""
    while True:
        h, rest = head(c, rest)
        if not h:
            return
        n = 0
        for line in h.split(b"\\r\\n"):
            if line.lower().startswith(b"content-length:"):
                n = int(line.split(b":")[1])
        while len(rest) < n:
            rest += c.recv(65536)
        body, rest = rest[:n], rest[n:]
        reply(c, h + body, extra=b"X-App: yes\\r\\n")
"""


@pytest.fixture
def echo(api):
    return boxapp.raw(api, 8080, ECHO)


def lines(reply):
    head = reply.text.partition("\r\n\r\n")[0].split("\r\n")
    return head[0], [line.split(": ", 1) for line in head[1:]]


def values(reply, name):
    return [v for k, v in lines(reply)[1] if k.lower() == name.lower()]


def test_a_request_reaches_the_server_as_it_was_sent(echo):
    reply = echo.get("/a/../b%2fc//?x=1&y=%00&&z", method="POST", body=b"hello", headers={"X-Own": "a, b", "Accept": "*/*"})
    assert reply.status == 200 and reply.headers["X-App"] == "yes"
    first, _ = lines(reply)
    assert first == "POST /a/../b%2fc//?x=1&y=%00&&z HTTP/1.1"
    assert reply.text.endswith("\r\n\r\nhello")
    assert values(reply, "x-own") == ["a, b"] and values(reply, "content-length") == ["5"]
    assert lines(echo.get(""))[0] == "GET / HTTP/1.1"


def test_port_3000_is_the_agent(daemon, box):
    reply = daemon.request("GET", box_path(box, "/proxy/3000/api/ping"))
    assert reply.status == 200 and reply.json()["message"] == "pong"
    assert daemon.inspect(box)["state"] == "running"
    assert daemon.request("PUT", box_path(box, "/proxy/3000/internal/env"), {"env": {}}).status == 404


def test_nothing_listens(daemon, box):
    error = check_error(daemon.request("GET", box_path(box, "/proxy/8080/")), "SERVICE_NOT_RESPONDING", 502)
    assert "8080" in error["message"] and box in error["message"]
    reply = daemon.request("POST", box_path(box, "/proxy/8080/"), b"x" * 100000)
    check_error(reply, "SERVICE_NOT_RESPONDING", 502)


def test_bad_ports_are_refused(daemon, box):
    for port in ("", "0", "65536", "x", "080", "-1"):
        check_error(daemon.request("GET", box_path(box, f"/proxy/{port}")), "INVALID_PORT_NUMBER", 400)
    assert daemon.inspect(box) is None


def test_a_server_that_listens_on_ipv6_only(api):
    app = boxapp.raw(api, 8081, ECHO, address="::1")
    for _ in range(3):
        assert app.get("/x").status == 200
    assert app.get("/x", method="POST", body=b"y" * 70000).text.endswith("y" * 70000)


def test_a_token_is_needed(daemon, echo):
    for path in ("", "?token=wrong", f"?token={daemon.token}"):
        assert echo.get("/" + path, unix=False, token=False).status == 401


def test_who_asked_is_told(daemon, echo):
    host = daemon.address
    reply = echo.get("/", unix=False)
    assert values(reply, "host") == [host] and values(reply, "x-forwarded-host") == [host]
    assert values(reply, "x-forwarded-for") == ["127.0.0.1"] and values(reply, "x-forwarded-proto") == ["http"]
    assert values(reply, "forwarded") == [f'for=127.0.0.1;host="{host}";proto=http']
    lies = {"X-Forwarded-For": "1.2.3.4", "x-forwarded-host": "evil", "X-Forwarded-Proto": "https", "Forwarded": "for=x",
            "X-Real-IP": "1.2.3.4", "X-Forwarded-Port": "1", "X-Forwarded-Whatever": "1"}
    again = echo.get("/", unix=False, headers=lies)
    assert json.dumps(lines(again)[1]) == json.dumps(lines(reply)[1])


def test_a_client_that_passes_requests_on(daemon, echo):
    own = {"X-Atoll-Token": daemon.token, "X-Atoll-Host": "app.example:8080", "Authorization": "Basic eDp5",
           "X-Forwarded-Host": "outside.example", "X-Forwarded-Proto": "https", "X-Original-URL": "https://outside.example/"}
    reply = echo.get("/", unix=False, token=False, headers=own)
    assert values(reply, "host") == ["app.example:8080"] and values(reply, "authorization") == ["Basic eDp5"]
    assert values(reply, "x-forwarded-host") == ["outside.example"] and values(reply, "x-forwarded-proto") == ["https"]
    assert values(reply, "x-original-url") == ["https://outside.example/"]
    assert daemon.token not in reply.text and "x-atoll-" not in reply.text.lower()
    # The other way of giving the token makes nobody a proxy, and only this route takes it so.
    again = echo.get("/", unix=False, headers={"X-Atoll-Token": "wrong", "X-Atoll-Host": "evil"})
    assert values(again, "host") == [daemon.address] and "x-atoll-" not in again.text.lower()
    for path in ("/v1/sandboxes", box_path("x"), box_path("x", "/api/ping")):
        assert daemon.request("GET", path, headers={"X-Atoll-Token": daemon.token}, unix=False, token=False).status == 401
    agent = box_path("x", "/proxy/3000/api/ping")
    assert daemon.request("GET", agent, headers={"X-Atoll-Token": daemon.token}, unix=False, token=False).status == 200
    daemon.destroy("x")


def test_errors_of_the_daemon_are_marked(api):
    fake = boxapp.raw(api, 8082, "def handle(c):\n    head(c, b'')\n    reply(c, b'x', extra=b'X-Atoll-Error: FAKE\\r\\n')\n")
    assert "X-Atoll-Error" not in fake.get("/").headers
    silent = api.daemon.request("GET", box_path(api.box, "/proxy/8083/"))
    assert silent.headers["X-Atoll-Error"] == "SERVICE_NOT_RESPONDING"


def test_credentials_of_the_daemon_never_arrive(daemon, echo):
    reply = echo.get("/", unix=False)
    assert daemon.token not in reply.text and not values(reply, "authorization")
    # By the unix socket no token is needed: what stands there is the app's.
    assert values(echo.get("/", headers={"Authorization": "Basic eDp5"}), "authorization") == ["Basic eDp5"]
    for scheme in ("Bearer", "bearer", "BEARER "):
        assert not values(echo.get("/", headers={"Authorization": f"{scheme} {daemon.token}"}), "authorization")
    cookies = {"a=1; atoll_session=s; b=2": ["a=1; b=2"], "atoll_session=s": [], "__Host-atoll_x=s;c=3": ["c=3"],
               "a=1;  b=2": ["a=1;  b=2"], "ATOLL_x=1; __Secure-atoll_y=2; atoll=3": ["atoll=3"]}
    for sent, arrived in cookies.items():
        assert values(echo.get("/", headers={"Cookie": sent}), "cookie") == arrived, sent
