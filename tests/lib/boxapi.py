"""One box's API as tests use it: calls, expected failures, event streams, and its agent seen from the host."""

import contextlib
import http.client
import json
import os
import re
import socket
import urllib.parse
from pathlib import Path

import atoll
import leaks
from events import Events

ISO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
NO_SESSION = "__DISABLE_SESSION__"


class Api:
    def __init__(self, daemon, box):
        self.daemon, self.box, self.agent = daemon, box, None

    def path(self, route):
        return atoll.box_path(self.box, route)

    def call(self, route, body=None, method="POST", **options):
        return self.daemon.request(method, self.path(route), body, **options)

    def ok(self, route, **body):
        reply = self.call(route, body)
        assert reply.status == 200, reply
        answer = reply.json()
        assert answer["success"] is True and ISO.match(answer["timestamp"]), answer
        return answer

    def fails(self, route, code, status, **body):
        """The error, checked to be upstream's envelope."""
        return check_error(self.call(route, body), code, status)

    def invalid(self, route, field, **body):
        """VALIDATION_FAILED that names the field."""
        error = self.fails(route, "VALIDATION_FAILED", 400, **body)
        assert [v["field"] for v in error["context"]["validationErrors"]] == [field], error
        assert error["context"]["validationErrors"][0]["message"]
        return error

    def run(self, command, **fields):
        return self.daemon.execute(self.box, command, sessionId=NO_SESSION, **fields)

    def sh(self, command, **fields):
        """A command that must succeed; its output."""
        result = self.run(command, **fields)
        assert result["exitCode"] == 0, result
        return result["stdout"]

    # ---- files, raw

    def file_url(self, path):
        return self.path("/api/file?path=" + urllib.parse.quote(path, safe=""))

    def put(self, path, data, **options):
        return self.daemon.request("PUT", self.file_url(path), data, **options)

    def get(self, path):
        reply = self.daemon.request("GET", self.file_url(path))
        assert reply.status == 200, reply
        return reply.body

    # ---- long answers

    def open(self, route, body=None, method="POST", headers=None, receive_buffer=None):
        """A connection whose answer has begun: (connection, response)."""
        c = http.client.HTTPConnection("localhost", timeout=atoll.DEADLINE)
        c.sock = self.daemon.connect(unix=True)
        if receive_buffer:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        c.request(method, self.path(route), None if body is None else json.dumps(body), headers or {})
        return c, c.getresponse()

    def stream(self, route, **body):
        return self._stream(*self.open(route, body))

    def get_stream(self, route, **options):
        return self._stream(*self.open(route, method="GET", **options))

    @staticmethod
    def _stream(c, r):
        if r.status != 200 or not r.headers["Content-Type"].startswith("text/event-stream"):
            with contextlib.closing(c):
                raise AssertionError(f"{r.status} {r.read()[:400]!r}")
        return Events(c, r)

    def events(self, route, **body):
        with self.stream(route, **body) as s:
            return list(s)

    # ---- the agent, from outside

    def agent_pid(self):
        """On the host: the child of the warden that lives in the box's pid namespace."""
        if self.agent:
            return self.agent
        namespace = self.sh("readlink /proc/self/ns/pid").strip()
        for pid in leaks.children(self.daemon.warden_pid):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
                    self.agent = pid
                    return pid
        raise AssertionError("no agent found")


def memory_kb(pid, what="VmHWM"):
    """Of one of our programs; under a sanitizer 0, since it would say nothing about them."""
    return 0 if atoll.SANITIZED else int(re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()).group(1))


def check_error(reply, code, status):
    """Checks that the response is an error envelope, and returns the error."""
    error = reply.json()
    assert (error["code"], reply.status, error["httpStatus"]) == (code, status, status), reply
    assert reply.headers["Content-Type"] == "application/json", reply.headers
    assert error["message"] and ISO.match(error["timestamp"]) and isinstance(error["context"], dict), error
    return error
