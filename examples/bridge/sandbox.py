"""A client of the bridge with Python's standard library alone.

    from sandbox import Sandbox
    with Sandbox() as box:
        print(box.run("echo", "hi").stdout)
"""

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple


class Failed(Exception):
    """The bridge refused: status, code and a sentence."""

    def __init__(self, status, code, error):
        super().__init__(f"{status} {code}: {error}")
        self.status, self.code = status, code


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


class Sandbox:
    def __init__(self, id=None, url=None, token=None, session=None):
        self.url = (url or os.environ.get("ATOLL_URL", "http://127.0.0.1:8700")) + "/v1/sandbox"
        self.token = token or os.environ.get("ATOLL_TOKEN") or Path("/var/lib/atoll/token").read_text().strip()
        self.session = session
        self.id = id or json.load(self._call("POST", ""))["id"]

    def _call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}"}
        if self.session:
            headers["Session-Id"] = self.session
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            return urllib.request.urlopen(request)
        except urllib.error.HTTPError as e:
            about = json.load(e)
            raise Failed(e.code, about["code"], about["error"]) from None

    def run(self, *argv, timeout=None, cwd=None):
        """Runs a command to its end."""
        ask = {"argv": argv, **({"timeout_ms": int(timeout * 1000)} if timeout else {}), **({"cwd": cwd} if cwd else {})}
        out = {"stdout": b"", "stderr": b""}
        event = None
        with self._call("POST", f"/{self.id}/exec", json.dumps(ask).encode()) as lines:
            for line in lines:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data" and event in out:
                    out[event] += base64.b64decode(value)
                elif name == "data" and event == "exit":
                    return Result(json.loads(value)["exit_code"], *(b.decode(errors="replace") for b in out.values()))
                elif name == "data":
                    raise Failed(200, json.loads(value)["code"], json.loads(value)["error"])
        raise Failed(200, "exec_transport_error", "the stream ended without a result")

    def read(self, path):
        return self._call("GET", f"/{self.id}/file/{urllib.parse.quote(path.lstrip('/'))}").read()

    def write(self, path, data):
        self._call("PUT", f"/{self.id}/file/{urllib.parse.quote(path.lstrip('/'))}", data)

    def save(self):
        """/workspace as a tar archive."""
        return self._call("POST", f"/{self.id}/persist").read()

    def load(self, archive):
        self._call("POST", f"/{self.id}/hydrate", archive)

    def destroy(self):
        self._call("DELETE", f"/{self.id}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.destroy()


if __name__ == "__main__":
    with Sandbox() as box:
        box.write("/workspace/hello.py", b"print(6 * 7)\n")
        print(box.run("python3", "hello.py", cwd="/workspace").stdout, end="")
