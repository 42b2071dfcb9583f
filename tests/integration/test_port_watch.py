"""Waiting for a port of a box: servers that come late, answer wrongly or not at all, listen on one address only, or die."""

import pytest
from boxapi import NO_SESSION

# argv: address, port, status
SERVER = """
import http.server, socket, sys
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, flush=True)
        self.send_response(int(sys.argv[3]))
        self.end_headers()
    def log_message(self, *args): pass
Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""
# Takes connections and says nothing; prints what it is told.
MUTE = """
import socket, sys
s = socket.socket()
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
while True:
    c, _ = s.accept()
    print(c.recv(1000), flush=True)
"""


def serve(api, text, *args, before=""):
    api.put("/tmp/server.py", text.encode())
    words = " ".join(map(str, args))
    return api.ok("/api/process/start", command=f"{before} exec /usr/bin/python3 /tmp/server.py {words}", sessionId=NO_SESSION)["processId"]


def watch(api, port, **fields):
    return api.events("/api/port-watch", port=port, **{"interval": 100, **fields})


def logs(api, pid):
    return api.call(f"/api/process/{pid}/logs", method="GET").json()["stdout"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost"])
@pytest.mark.parametrize("mode", ["http", "tcp"])
def test_a_server_is_found_wherever_it_listens(api, mode, address):
    pid = serve(api, SERVER, address, 8100, 200)
    seen = watch(api, 8100, mode=mode, processId=pid)
    ready = {"type": "ready", "port": 8100, **({"statusCode": 200} if mode == "http" else {})}
    assert seen == [{"type": "watching", "port": 8100}, ready]


def test_a_server_that_comes_late(api):
    pid = serve(api, SERVER, "127.0.0.1", 8101, 204, before="sleep 0.5;")
    assert watch(api, 8101, processId=pid)[-1] == {"type": "ready", "port": 8101, "statusCode": 204}


@pytest.mark.parametrize("low, high", [(500, 500), (500, 599), (0, 1000)])
def test_the_range_of_statuses_is_the_callers(api, low, high):
    serve(api, SERVER, "127.0.0.1", 8102, 500)
    assert watch(api, 8102, statusMin=low, statusMax=high)[-1]["statusCode"] == 500


def test_a_wrong_status_is_waited_out_until_the_process_ends(api):
    pid = serve(api, SERVER, "127.0.0.1", 8103, 500)
    with api.stream("/api/port-watch", port=8103, processId=pid, interval=100) as s:
        s.until(lambda e: e["type"] == "watching")
        assert api.call(f"/api/process/{pid}", method="DELETE").status == 200
        assert s.until(lambda e: e["type"] != "watching") == [{"type": "process_exited", "port": 8103, "exitCode": 143}]


def test_the_end_of_the_process_is_told_at_once_and_not_at_the_next_try(api):
    # Whoever cleans up right behind the end must not take the news away either.
    pid = api.ok("/api/process/start", command="until [ -e /tmp/go ]; do sleep 0.02; done; exit 3", sessionId=NO_SESSION)["processId"]
    with api.stream("/api/port-watch", port=8104, processId=pid, interval=10_000) as s:
        s.until(lambda e: e["type"] == "watching")
        api.sh("touch /tmp/go")
        while not api.call("/api/process/cleanup").json()["cleanedCount"]:
            pass
        assert s.until(lambda e: True) == [{"type": "process_exited", "port": 8104, "exitCode": 3}]
    assert api.events("/api/port-watch", port=8104, processId=pid)[-1] == {"type": "error", "port": 8104, "error": "Process not found"}


def test_a_server_that_never_answers_is_there_for_tcp_and_is_sent_nothing(api):
    pid = serve(api, MUTE, 8105)
    assert watch(api, 8105, mode="tcp", processId=pid)[-1]["type"] == "ready"
    with api.stream("/api/port-watch", port=8105, processId=pid, interval=100) as s:
        s.until(lambda e: e["type"] == "watching")
        assert api.call(f"/api/process/{pid}", method="DELETE").status == 200
        assert s.until(lambda e: e["type"] != "watching")[-1]["type"] == "process_exited"
    assert logs(api, pid).startswith("b''\n")


@pytest.mark.parametrize("path, asked", [("", "/"), ("health", "/health"), ("/a b?c=ü#d", "/a%20b?c=%C3%BC"), ("/x\r\nHost: y", "/x%0D%0AHost:%20y")])
def test_a_path_is_asked_for_as_it_was_meant(api, path, asked):
    pid = serve(api, SERVER, "127.0.0.1", 8106, 200)
    assert watch(api, 8106, path=path)[-1]["type"] == "ready"
    assert logs(api, pid) == asked + "\n"


@pytest.mark.parametrize("interval", [-1, 0, 0.5, 1e12])
def test_any_interval_is_brought_into_the_range(api, interval):
    serve(api, SERVER, "127.0.0.1", 8107, 200, before="")
    watch(api, 8107)
    assert watch(api, 8107, interval=interval)[-1]["type"] == "ready"


@pytest.mark.parametrize("fields, code", [
    ({"mode": "tcp"}, "INVALID_PORT_NUMBER"),
    ({"port": 0}, "INVALID_PORT_NUMBER"),
    ({"port": 65536}, "INVALID_PORT_NUMBER"),
    ({"port": "80"}, "INVALID_PORT_NUMBER"),
    ({"port": 80.5}, "INVALID_PORT_NUMBER"),
    ({"port": 80, "mode": "udp"}, "VALIDATION_FAILED"),
    ({"port": 80, "statusMin": "x"}, "VALIDATION_FAILED"),
    ({"port": 80, "statusMin": 400, "statusMax": 399}, "VALIDATION_FAILED"),
    ({"port": 80, "interval": "x"}, "VALIDATION_FAILED"),
    ({"port": 80, "path": "a\0b"}, "VALIDATION_FAILED"),
])
def test_what_cannot_be_watched_is_refused(api, fields, code):
    api.fails("/api/port-watch", code, 400, **fields)
