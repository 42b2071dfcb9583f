"""The preview of upstream's 1.0 in a plain `wrangler dev`: nothing of the project knows of Atoll."""

import json

import npmdir
import pytest
from dev import HERE, MODULES, Dev, remove_all

PACKAGE = HERE.parent / "compat/preview"
pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE) or not npmdir.installed(PACKAGE), reason="npm is missing"), pytest.mark.limit(600)]


def with_the_preview(directory):
    """node_modules of the project: as always, but for the one package."""
    modules = directory / "node_modules"
    (modules / "@cloudflare").mkdir(parents=True)
    for entry in MODULES.iterdir():
        if entry.name != "@cloudflare":
            (modules / entry.name).symlink_to(entry)
    for entry in (MODULES / "@cloudflare").iterdir():
        if entry.name not in ("sandbox", "containers"):
            (modules / "@cloudflare" / entry.name).symlink_to(entry)
    for name in ("sandbox", "containers"):
        (modules / "@cloudflare" / name).symlink_to(PACKAGE / "node_modules/@cloudflare" / name)
    return directory


@pytest.mark.parametrize("version", ["4.86", "4.160"])
def test_the_preview_runs_in_wrangler_dev(daemon, tmp_path, version):
    with Dev(daemon, with_the_preview(tmp_path), version, source="preview.ts") as dev:
        done = dev.ask("a/exec", json.dumps(["sh", "-c", "echo $0 $FROM_IMAGE; exit 3", "word"]))
        assert (done["stdout"], done["exitCode"]) == ("word yes\n", 3)
        process = dev.ask("a/start?port=8080", json.dumps(["python3", "-u", "-m", "http.server", "8080", "-d", "/opt"]))
        host = dev.ask("a/expose?port=8080")["url"].split("/")[2]
        assert dev.send("built", host=host) == (200, "built\n")
        assert dev.ask("a/logs", process) == "GET"
        assert dev.ask("a/code", "6 * 7")["results"][0]["text"] == "42"
        ws, seen = dev.websocket("/a/terminal"), b""
        ws.send(b"stty -echo; stty size\n")
        while b"33 77" not in seen:
            message = ws.receive()
            seen += message if isinstance(message, bytes) else b""
        ws.sock.close()
        dev.ask("a/destroy")
    remove_all(daemon)
