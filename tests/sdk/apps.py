"""The applications of examples/, as a reader starts them: examples/start NAME [KIND]."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

import npmdir
import package

EXAMPLES = package.ROOT / "examples"
SECONDS = 120  # for one answer


def installed():
    return package.built() and npmdir.installed(EXAMPLES)


class App:
    """A running example; `get`, `post` … return its answers. It ends with the `with` block."""

    def __init__(self, daemon, log, name, kind, **env):
        self.log = log
        with open(log, "wb") as err:
            self.process = subprocess.Popen([EXAMPLES / "start", name, kind], stdout=subprocess.PIPE, stderr=err, text=True,
                                            env=package.reaching(daemon, PORT="0", **env))
        line = self.process.stdout.readline()
        if not line.startswith("serving on "):
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{name} {kind} does not start: {line}\n{log.read_text()}")
        self.url = line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise

    def call(self, method, path, body=None):
        """(status, headers, bytes)"""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def json(self, method, path, body=None, status=200):
        got, _, data = self.call(method, path, body)
        assert got == status, f"{method} {path}: {got} {data.decode()}\n{self.log.read_text()[-3000:]}"
        return json.loads(data) if data else None

    def post(self, path, body=None, status=200):
        return self.json("POST", path, body, status)


def kinds(name):
    """The forms in which an example exists."""
    files = {"node": "node.ts", "worker": "worker.ts", "python": "app.py"}
    return [kind for kind, file in files.items() if os.path.exists(EXAMPLES / name / file)]
