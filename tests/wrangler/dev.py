"""`wrangler dev` (or Vite with Cloudflare's plugin) as a user runs it: at a terminal, in a project of its own, with the two variables
that `atoll up` prints."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from atoll import BIN, _UnixConnection, alive, wait_for
from ttylib import Terminal
from wsclient import WebSocket

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
LIMIT = 120  # seconds; for a wrangler that starts on a machine with other work


def node(version):
    """wrangler 4.86 runs on the Node of Debian; newer ones need a newer one, which npm brings."""
    if version == "4.86":
        return shutil.which("node")
    return str(next(MODULES.glob("node-linux-*/bin/node")))


def make_project(directory, version):
    shutil.copytree(HERE / "project", directory, dirs_exist_ok=True)
    if not (directory / "node_modules").exists():
        (directory / "node_modules").symlink_to(MODULES)
    if version == "vite":
        (directory / "vite.config.ts").write_text("import { defineConfig } from 'vite';\nimport { cloudflare } from '@cloudflare/vite-plugin';\n\n"
                                                  "export default defineConfig({ plugins: [cloudflare()] });\n", encoding="utf-8")
    return directory


def command(version):
    if version == "npm":
        return ["npm", "run", "dev", "--", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"]
    if version == "vite":
        return [node(version), str(MODULES / "vite/bin/vite.js"), "dev", "--host", "127.0.0.1", "--port", "0"]
    return [node(version), str(MODULES / f"wrangler-{version}/bin/wrangler.js"), "dev", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"]


def environment(daemon, directory):
    """A user's, without what the machine that runs the tests adds; nothing of it is asked of the network."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home), "NO_COLOR": "1", "WRANGLER_SEND_METRICS": "false",
            "WRANGLER_HIDE_BANNER": "true", "CLOUDFLARE_CF_FETCH_ENABLED": "false", "DO_NOT_TRACK": "1",
            "WRANGLER_DOCKER_BIN": str(BIN / "atoll-docker"), "DOCKER_HOST": f"unix://{daemon.run}/docker.sock"}


def members_of_session(leader):
    """Processes of the terminal's session that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def containers(daemon):
    """{name: state} on the socket."""
    c = _UnixConnection(str(daemon.run / "docker.sock"), LIMIT)
    try:
        c.request("GET", "/containers/json?all=1")
        return {x["Names"][0]: x["State"] for x in json.loads(c.getresponse().read())}
    finally:
        c.close()


def remove_all(daemon):
    """A server that was killed leaves its containers to the next one, and new wranglers leave their images."""
    c = _UnixConnection(str(daemon.run / "docker.sock"), LIMIT)
    for name in containers(daemon):
        c.request("DELETE", f"/containers{name}?force=true")
        c.getresponse().read()
    c.request("GET", "/images/json")
    for image in json.loads(c.getresponse().read()):
        c.request("DELETE", "/images/" + urllib.parse.quote(image["RepoTags"][0], safe=""))
        r = c.getresponse()
        assert r.status == 200, (image, r.status, r.read())
        r.read()
    c.close()


class Dev(Terminal):
    """with Dev(daemon, directory, "4.86") as dev: dev.ask("box/exec", "echo hi")"""

    def __init__(self, daemon, directory, version, dockerfile=None, source=None):
        self.directory, self.reads = make_project(directory, version), True
        if dockerfile:
            (directory / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        if source:
            shutil.copy(HERE / "sources" / source, directory / "src/index.ts")
            # ctx.exports, which handlers need, came with that date; snapshots of containers are experimental.
            config = directory / "wrangler.jsonc"
            text = config.read_text(encoding="utf-8").replace("2025-05-06", "2025-11-17")
            config.write_text(text.replace('"nodejs_compat"', '"nodejs_compat", "experimental"'), encoding="utf-8")
        here = os.getcwd()
        os.chdir(directory)  # of the program that is started
        try:
            super().__init__(command(version), environment(daemon, directory))
        finally:
            os.chdir(here)
        self.reader = threading.Thread(target=self.read_on)
        self.reader.start()
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise

    def read_on(self):
        """A program whose terminal nobody reads stands still."""
        while self.reads:
            Terminal.step(self, 0.1)

    def step(self, seconds):
        time.sleep(min(seconds, 0.02))
        return False

    @property
    def text(self):
        """What it has said, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.out.decode(errors="replace"))

    def wait_times(self, pattern, n):
        """Until it has said that n times; the last match."""
        pattern = re.compile(pattern)
        wait_for(lambda: len(pattern.findall(self.text)) >= n or self.process.poll() is not None, f"{pattern.pattern!r}, {n} times", LIMIT)
        found = list(pattern.finditer(self.text))
        assert len(found) >= n, f"no {pattern.pattern!r} in {self.text[-4000:]}"
        return found[-1]

    def wait_ready(self, n=1):
        """Until it says where it serves, for the nth time."""
        self.port = int(self.wait_times(r"(?:Ready on|Local:)\s+http://[^:]+:(\d+)", n)[1])

    # ---- its Worker

    def send(self, path, body=None, host=None):
        """(status, text)"""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", None if body is None else body.encode())
        request.add_header("Host", host or f"localhost:{self.port}")
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def ask(self, path, body=None):
        status, text = self.send(path, body)
        assert status == 200, (status, text, self.text[-1500:])
        return json.loads(text)["ok"]

    def run(self, name, line):
        r = self.ask(f"{name}/exec", line)
        assert r["exitCode"] == 0, r
        return r["stdout"]

    def websocket(self, path, host=None):
        host = host or f"localhost:{self.port}"
        return WebSocket(socket.create_connection(("127.0.0.1", self.port), LIMIT), path, host=host)

    # ---- its end

    def kill(self):
        """kill -9 of wrangler and of all that it has started. They are stopped first: a process that outlives the others for a moment
        would notice and tidy up."""
        members = members_of_session(self.process.pid)
        for signo in (signal.SIGSTOP, signal.SIGKILL):
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signo)
        self.process.wait()
        for pid in members:
            wait_for(lambda pid=pid: not alive(pid), f"the end of {pid}", LIMIT)

    def interrupt(self):
        """Ctrl-C at the terminal."""
        self.type("\x03")
        wait_for(lambda: self.process.poll() is not None, "the end of wrangler", LIMIT)
        assert self.process.returncode in (0, 130), self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.kill()
        for pid in members_of_session(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.reads = False
        self.reader.join()
        os.close(self.master)
        os.close(self.slave)

    def __exit__(self, *exc):
        self.close()
