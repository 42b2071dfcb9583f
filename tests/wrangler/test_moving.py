"""The files of docs/moving.md, "Keep the Worker", as they are printed there, in a plain `wrangler dev` without Docker."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import npmdir
import pytest
from dev import HERE, LIMIT, MODULES, command, environment

ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/sdk"))
import package  # noqa: E402

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE) or not package.built(), reason="npm is missing"), pytest.mark.limit(600)]
PAGE = (ROOT / "docs/moving.md").read_text(encoding="utf-8")


def make_project(directory, daemon):
    config, = re.findall(r"^```json\n(.*?)^```$", PAGE, re.M | re.S)
    source, = re.findall(r"^```ts\n(.*?onAtoll.*?)^```$", PAGE, re.M | re.S)
    token, = re.findall(r'`(echo "ATOLL_TOKEN=[^`]*)`', PAGE)
    (directory / "src").mkdir()
    (directory / "src/index.ts").write_text(source, encoding="utf-8")
    (directory / "wrangler.jsonc").write_text(config.replace("127.0.0.1:8700", daemon.address), encoding="utf-8")
    subprocess.run(token.replace("/var/lib/atoll/", f"{daemon.data}/"), shell=True, cwd=directory, check=True)
    modules = directory / "node_modules"
    modules.mkdir()
    for name in ("@cloudflare", "capnweb"):
        if (MODULES / name).exists():
            (modules / name).symlink_to(MODULES / name)
    (modules / "atoll-sandbox").symlink_to(package.PACKAGE)


def test_the_files_of_the_page_work(daemon, tmp_path):
    make_project(tmp_path, daemon)
    env = {name: value for name, value in environment(daemon, tmp_path).items() if "DOCKER" not in name}
    with subprocess.Popen(command("4.86"), cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, start_new_session=True) as wrangler:
        try:
            said = ""
            while not (ready := re.search(r"Ready on (http://\S+)", said)):
                line = wrangler.stdout.readline()
                assert line, said
                said += line
            with urllib.request.urlopen(ready[1], timeout=LIMIT) as answer:
                assert answer.read() == b"42\n"
            assert daemon.boxes() == ["user-1"]
        finally:
            os.killpg(wrangler.pid, signal.SIGKILL)
    daemon.destroy("user-1")
