"""One Worker over time: as the documentation shows it, and while the daemon goes away and comes back."""

import contextlib
import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

import npmdir
import pytest
from atoll import wait_for

POOL = "the usual storage of a Worker"

HERE = Path(__file__).resolve().parent
MOVING = HERE.parents[1] / "docs/moving.md"
pytestmark = pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing")

# Runs what it is sent, in the sandbox that its path names.
RUNNER = """
import { getSandbox, Sandbox as Base } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
export const Sandbox = onAtoll(Base);
export default {
  async fetch(request, env) {
    const sandbox = getSandbox(env.Sandbox, new URL(request.url).pathname.slice(1));
    try {
      return Response.json(await sandbox.exec(await request.text()));
    } catch (error) {
      return Response.json({ error: String(error) });
    }
  },
};
"""


@contextlib.contextmanager
def serving(daemon, source, directory):
    """The URL of a Worker in workerd."""
    worker = directory / "worker.ts"
    worker.write_text(source, encoding="utf-8")
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}
    with subprocess.Popen(["node", "--no-warnings", "workers/serve.mjs", worker], cwd=HERE, env=env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as node:
        try:
            yield node.stdout.readline().strip()
        finally:
            node.stdin.close()


def ask(url, body=None):
    with urllib.request.urlopen(urllib.request.Request(url, body and body.encode()), timeout=120) as r:
        return r.read().decode()


def test_the_worker_of_the_documentation_works(daemon, tmp_path):
    source, = re.findall(r"^```ts\n(.*?onAtoll.*?)^```$", MOVING.read_text(encoding="utf-8"), re.M | re.S)
    with serving(daemon, source, tmp_path) as url:
        assert ask(url) == "42\n"
        assert daemon.inspect("user-1")["state"] == "running"
    daemon.destroy("user-1")


def test_a_worker_outlives_restarts_of_the_daemon(own_daemon, tmp_path):
    def run(command):
        return json.loads(ask(url + "box", command))

    with serving(own_daemon, RUNNER, tmp_path) as url:
        assert run("cd /tmp; export KEPT=1")["exitCode"] == 0
        pid = run("sleep 600 & echo $!")["stdout"]
        for kill in (own_daemon.kill_daemon, own_daemon.kill_warden, own_daemon.kill_daemon):
            kill()
            assert run("echo $KEPT $PWD")["stdout"] == "1 /tmp\n"
        assert run("pgrep -x sleep")["stdout"] == pid
        # A box that ends while nobody could tell: the object begins anew, with the files.
        assert run("touch /workspace/kept")["exitCode"] == 0
        own_daemon.execute_alone("box", "kill 1")
        own_daemon.kill_daemon()
        own_daemon.await_warden()
        # One that is on its way meanwhile is told that nobody knows.
        answer = wait_for(lambda: run("echo [$KEPT] $PWD; ls /workspace").get("stdout"), "an answer")
        assert answer == "[] /workspace\nkept\n"
