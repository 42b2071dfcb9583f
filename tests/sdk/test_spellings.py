"""Spellings of guides (docs/spellings.md) in every runtime, and the command of the package as it is installed."""

import http.client
import os
import re
import signal
import subprocess
import urllib.request

import package
import pytest

pytestmark = pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)

SHOWN = """/tmp
one two
grüße grüße grüße
true TypeError
ContainerUnavailableError true
false ReferenceError: nope is not defined
["f"] false
"""


@pytest.mark.parametrize("runtime", package.RUNTIMES)
def test_spellings(daemon, box, runtime):
    out = package.run(*package.RUNTIMES[runtime], "tests/programs/spellings.mjs", box, env=package.reaching(daemon))
    assert out == SHOWN


WORKER = """import { getSandbox } from '@cloudflare/sandbox';
export default {
  async fetch(request, env) {
    const result = await getSandbox(env.Sandbox, env.ID).exec('echo served');
    return new Response(result.stdout);
  },
};
"""


def page_worker():
    text = (package.ROOT / "docs/spellings.md").read_text(encoding="utf-8")
    source, = re.findall(r"^```ts\n(.*?)^```$", text, re.M | re.S)
    return source


def test_the_worker_of_the_documentation(daemon, tmp_path):
    """The program of docs/spellings.md, in an application with the package and esbuild."""
    (tmp_path / "node_modules").mkdir()
    for name, place in (("atoll-sandbox", package.PACKAGE), ("esbuild", package.MODULES / "esbuild"), ("@esbuild", package.MODULES / "@esbuild")):
        (tmp_path / "node_modules" / name).symlink_to(place)
    (tmp_path / "worker.ts").write_text(page_worker(), encoding="utf-8")
    command = ["node", package.PACKAGE / "dist/dev/main.js", "dev", "--port", "0", "worker.ts"]
    with subprocess.Popen(command, cwd=tmp_path, env=package.reaching(daemon), stdout=subprocess.PIPE, text=True) as p:
        try:
            line = p.stdout.readline()
            assert line.startswith("Ready on http://127.0.0.1:"), line
            with urllib.request.urlopen(line.split()[-1], timeout=60) as reply:
                assert reply.read() == b"42\n"
        finally:
            p.send_signal(signal.SIGINT)
    assert daemon.boxes() == ["user-1"]
    daemon.destroy("user-1")


def test_command_of_the_installed_package(daemon, box, tmp_path):
    """`npx atoll-sandbox dev` in an application that has nothing but the package."""
    def npm(*arguments, cwd):
        r = subprocess.run(["npm", *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
        assert r.returncode == 0, r.stdout + r.stderr
        return r.stdout

    app = tmp_path / "app"
    app.mkdir()
    tarball = npm("pack", "--silent", "--pack-destination", tmp_path, cwd=package.PACKAGE).strip().splitlines()[-1]
    npm("init", "-y", cwd=app)
    npm("install", "--offline", "--no-audit", "--no-fund", tmp_path / tarball, cwd=app)
    (app / "worker.js").write_text(WORKER)
    (app / "worker.ts").write_text("const x: number = 1;\n" + WORKER)
    (app / ".dev.vars").write_text(f"ID={box}\n")
    command = ["npx", "--no-install", "atoll-sandbox", "dev", "--port", "0"]
    env = package.reaching(daemon)
    with subprocess.Popen([*command, "worker.js"], cwd=app, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as p:
        try:
            line = p.stdout.readline()
            assert line.startswith("Ready on http://127.0.0.1:"), line
            client = http.client.HTTPConnection(line.strip().rsplit("/", 1)[1], timeout=60)
            client.request("GET", "/")
            assert client.getresponse().read() == b"served\n"
            client.close()
        finally:
            os.killpg(p.pid, signal.SIGINT)  # as Ctrl-C does: the whole group
        assert p.wait(30) in (0, -signal.SIGINT, 130)
    # Node 20 reads no TypeScript: a compiler is asked for by name.
    if int(package.run("node", "-p", "process.versions.node.split('.')[0]")) < 22:
        r = subprocess.run([*command, "worker.ts"], cwd=app, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert r.returncode == 1 and "npm install --save-dev esbuild" in r.stderr, r.stderr
