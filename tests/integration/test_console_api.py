"""What the console stands on: events, samples of usage, tickets, and sessions of browsers."""

import http.client
import json
import subprocess
import urllib.parse

import atoll as lib
import events
import pytest
import wsclient

OWN_DAEMON = "it kills the daemon"

HEADER = {"X-Atoll-Console": "1"}


def sign_in(daemon, **what):
    reply = daemon.request("POST", "/v1/console/session", what, headers=HEADER, unix=False, token=False)
    assert reply.status == 200, reply
    cookie = {k.lower(): v for k, v in dict(reply.headers).items()}["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Domain" not in cookie
    return {"Cookie": "other=1; " + cookie.split(";")[0], **HEADER}


def status(daemon, path, headers, method="GET"):
    return daemon.request(method, path, headers=headers, unix=False, token=False).status


def followed(daemon, want, do):
    """The first event of each kind that is wanted, in order, that comes after `do`."""
    connection = http.client.HTTPConnection(daemon.address, timeout=lib.DEADLINE)
    connection.request("GET", "/v1/events?follow=1", headers={"Authorization": f"Bearer {daemon.token}"})
    stream = events.Events(connection, connection.getresponse())
    try:
        do()
        return [stream.until(lambda e, t=t: e.get("type") == t)[-1] for t in want]
    finally:
        connection.close()


def socket(daemon, path, headers=None):
    sock = daemon.connect()
    try:
        wsclient.WebSocket(sock, path, headers, host=daemon.address)
    finally:
        sock.close()


def test_events_follow_a_life(daemon):
    def live():
        daemon.request("PUT", "/v1/sandboxes/ev", {})
        daemon.request("DELETE", "/v1/sandboxes/ev")
    made, ended = followed(daemon, ["created", "destroyed"], live)
    assert made["sandbox"] == ended["sandbox"] == "ev" and ended["id"] > made["id"]
    kept = daemon.request("GET", "/v1/events").json()["events"]
    assert [e["type"] for e in kept if e["sandbox"] == "ev"] == ["created", "destroyed"]


def test_usage_comes_with_the_events_and_is_kept(daemon):
    daemon.request("PUT", "/v1/sandboxes/us", {})
    (usage,) = followed(daemon, ["usage"], lambda: None)
    sample = next(s for s in usage["samples"] if s["sandbox"] == "us")
    assert sample["memory"] > 0 and sample["pids"] >= 1 and sample["cpuSeconds"] > 0
    assert sample["bytesSent"] == sample["bytesReceived"] == 0 and sample.get("disk", 0) >= 0
    assert daemon.request("GET", "/v1/sandboxes/us/usage").json()["samples"] == []
    assert daemon.request("GET", "/v1/sandboxes/nope/usage").status == 404
    daemon.request("DELETE", "/v1/sandboxes/us")


def test_a_link_signs_in_once(daemon):
    link = subprocess.run([lib.BIN / "atoll", "console", "--print"], env=daemon.env, capture_output=True, text=True, check=True).stdout.strip()
    code = urllib.parse.urlparse(link).fragment.removeprefix("login=")
    headers = sign_in(daemon, code=code)
    assert status(daemon, "/v1/sandboxes", headers) == 200
    again = daemon.request("POST", "/v1/console/session", {"code": code}, headers=HEADER, unix=False, token=False)
    assert again.status == 401 and "atoll console" in again.json()["message"]


def test_the_cookie_counts_only_from_the_console(daemon):
    headers = sign_in(daemon, token=daemon.token)
    bare = {"Cookie": headers["Cookie"]}
    assert status(daemon, "/v1/sandboxes", headers) == 200
    assert status(daemon, "/v1/sandboxes", bare) == 401  # a navigation, a form, an image
    assert status(daemon, "/v1/sandboxes", HEADER) == 401
    assert status(daemon, "/v1/sandboxes/c/proxy/8080/", headers) == 401
    assert status(daemon, "/v1/sandboxes/c/proxy/3000/api/ping", headers) == 401
    assert status(daemon, "/v1/sandboxes", {**HEADER, "Cookie": "atoll_session=" + "a" * 40}) == 401
    assert daemon.request("POST", "/v1/console/session", {"token": daemon.token}, unix=False, token=False).status == 403
    wrong = daemon.request("POST", "/v1/console/session", {"token": "wrong"}, headers=HEADER, unix=False, token=False)
    assert wrong.status == 401


def test_a_session_ends(daemon):
    one, two = sign_in(daemon, token=daemon.token), sign_in(daemon, token=daemon.token)
    assert status(daemon, "/v1/console/session", one) == 200
    assert status(daemon, "/v1/console/session", one, "DELETE") == 200
    assert status(daemon, "/v1/console/session", one) == 204
    assert status(daemon, "/v1/sandboxes", one) == 401
    assert status(daemon, "/v1/sandboxes", two) == 200
    assert status(daemon, "/v1/console/sessions", two, "DELETE") == 200
    assert status(daemon, "/v1/sandboxes", two) == 401


def test_a_session_outlives_the_daemon(daemon):
    headers = sign_in(daemon, token=daemon.token)
    daemon.kill_daemon()
    assert status(daemon, "/v1/sandboxes", headers) == 200


def test_the_box_sees_no_credentials(daemon):
    headers = sign_in(daemon, token=daemon.token)
    daemon.request("POST", "/v1/sandboxes/cr/api/process/start", {"command": "env"}, headers=headers, unix=False, token=False)
    seen = daemon.execute("cr", "grep -rlaE 'atoll_session|X-Atoll-Console' /proc/*/environ /workspace /tmp 2>/dev/null; true")
    assert seen["stdout"] == ""
    daemon.request("DELETE", "/v1/sandboxes/cr")


def ticket(daemon, **fields):
    reply = daemon.request("POST", "/v1/tickets", fields)
    assert reply.status == 201, reply
    return reply.json()["ticket"]


def test_a_ticket_downloads_one_file_once(daemon):
    daemon.execute("tk", "echo '<script>alert(1)</script>' > /workspace/a.html")
    path = "/v1/sandboxes/tk/api/file?path=/workspace/a.html&ticket="
    t = ticket(daemon, sandbox="tk", **{"for": "download"}, path="/workspace/a.html")
    got = daemon.request("GET", path + t, unix=False, token=False)
    heads = {k.lower(): v for k, v in dict(got.headers).items()}
    assert got.status == 200 and "alert" in got.text
    assert heads["content-disposition"] == "attachment" and heads["x-content-type-options"] == "nosniff"
    again = daemon.request("GET", path + t, unix=False, token=False)
    assert again.status == 401 and "ask for a new one with POST /v1/tickets" in again.json()["message"]
    # used up also by a request that it does not permit
    t = ticket(daemon, sandbox="tk", **{"for": "download"}, path="/etc/hostname")
    assert daemon.request("GET", path + t, unix=False, token=False).status == 401
    assert daemon.request("GET", "/v1/sandboxes/tk/api/file?path=/etc/hostname&ticket=" + t, unix=False, token=False).status == 401
    for wrong in ("/v1/sandboxes/other/api/file?path=/workspace/a.html&ticket=", "/v1/sandboxes/tk/api/ping?ticket=", "/v1/sandboxes?ticket="):
        t = ticket(daemon, sandbox="tk", **{"for": "download"}, path="/workspace/a.html")
        assert daemon.request("GET", wrong + t, unix=False, token=False).status == 401
    daemon.request("DELETE", "/v1/sandboxes/tk")


@pytest.mark.parametrize("purpose, route", [("terminal", "/ws/pty?sessionId=s&"), ("watch", "/ws?")])
def test_a_ticket_opens_a_socket(daemon, purpose, route):
    t = ticket(daemon, sandbox="tw", **{"for": purpose})
    socket(daemon, f"/v1/sandboxes/tw{route}ticket={t}")
    with pytest.raises(wsclient.Refused) as refused:
        socket(daemon, f"/v1/sandboxes/tw{route}ticket={t}")
    assert refused.value.status == 401
    daemon.request("DELETE", "/v1/sandboxes/tw")


@pytest.mark.parametrize("origin, good", [("http://{address}", True), ("http://evil.example", False), ("https://{address}", False), (None, False)])
def test_a_socket_with_the_cookie_needs_the_origin(daemon, origin, good):
    headers = {"Cookie": sign_in(daemon, token=daemon.token)["Cookie"]}
    if origin:
        headers["Origin"] = origin.format(address=daemon.address)
    if good:
        socket(daemon, "/v1/sandboxes/or/ws/pty?sessionId=s", headers)
    else:
        with pytest.raises(wsclient.Refused):
            socket(daemon, "/v1/sandboxes/or/ws/pty?sessionId=s", headers)
    daemon.request("DELETE", "/v1/sandboxes/or")


@pytest.mark.parametrize("body, field", [({}, "sandbox"), ({"sandbox": "../x", "for": "terminal"}, "sandbox"), ({"sandbox": "a", "for": "everything"}, "for"),
                                         ({"sandbox": "a", "for": "download"}, "path")])
def test_a_wrong_ticket_names_its_field(daemon, body, field):
    reply = daemon.request("POST", "/v1/tickets", body)
    assert reply.status == 400 and reply.json()["context"]["validationErrors"][0]["field"] == field, reply


def test_features_need_a_token(daemon):
    assert "features" not in daemon.request("GET", "/v1/health", unix=False, token=False).json()
    assert "tickets" in json.loads(daemon.request("GET", "/v1/health").body)["features"]
