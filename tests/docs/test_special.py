"""Blocks that need more than commands and a daemon: a second daemon with TLS, sshd, systemd's checker, programs with a beginning that the page leaves out."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import atoll as lib
import examples
import npmdir
import pytest
import special
from special import ROOT, block, page, replaced

sys.path.insert(0, str(ROOT / "tests/sdk"))
import package  # noqa: E402


def shell_in(daemon, here, prefix=(), **variables):
    env = {**examples.environment(daemon, here), **variables}
    env["PATH"] = f"{lib.BIN}:{env['PATH']}"
    return examples.Shell(here, env, prefix)


def succeed(shell, command):
    code, out = shell.run(command)
    assert code == 0, f"{command}\n{out}"
    return out


def settings_of(command):
    """The variables before `atoll up`, the last command of a block."""
    words = shlex.split(command)
    assert words[-2:] == ["atoll", "up"], command
    return dict(word.split("=", 1) for word in words[:-2])


def second_daemon(here, instance):
    """The words of the block that starts it, and those that they become here."""
    return {"/etc/atoll-two": f"{here}/atoll-two", "/run/atoll-two": instance.run, "/var/lib/atoll-two": instance.data,
            "/var/lib/atoll/images": lib.IMAGES, "0.0.0.0:8701": f"127.0.0.1:{special.free_port()}"}


def test_a_second_daemon_with_tls(daemon):
    """configuration.md starts it, command-line.md uses it by its name, and so do Node and Python."""
    with special.place() as here:
        second = lib.Instance()
        text = replaced(block("configuration", "openssl req"), second_daemon(here, second))
        *before, last = text.strip().split("\n")
        shell = shell_in(daemon, here)
        for command in before:
            succeed(shell, command)
        shell.close()
        second.env.update(settings_of(last))
        try:
            second.start()
            use_over_tls(daemon, here, second)
        finally:
            assert second.close() == []


def use_over_tls(daemon, here, second):
    (here / "hosts").write_text("127.0.0.1 localhost atoll.example.org\n", encoding="utf-8")
    shell = shell_in(daemon, here, prefix=["unshare", "-m"])
    url = f"https://atoll.example.org:{second.address.rpartition(':')[2]}"
    try:
        succeed(shell, f"mount --bind {here}/hosts /etc/hosts")
        remote = block("command-line", "export ATOLL_URL=https://")
        export, listing = replaced(remote, {"https://atoll.example.org": url, "ATOLL_TOKEN=…": f"ATOLL_TOKEN={second.token}"}).strip().split("\n")
        succeed(shell, export)
        code, out = shell.run(listing)
        assert code == 1 and "certificate" in out, out
        succeed(shell, f"export SSL_CERT_FILE={here}/atoll-two.crt")
        assert succeed(shell, listing) == "no boxes\n"
        program = "from atoll_sandbox import Sandbox\nwith Sandbox('tls', destroy_on_exit=True) as s: print(s.exec('echo py').stdout)"
        sdk = shlex.quote(f"{ROOT}/sdk/python/src")
        assert "py" in succeed(shell, f"PYTHONPATH={sdk} PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c {shlex.quote(program)}")
        if package.built():
            program = "import { getSandbox } from 'atoll-sandbox'; const s = getSandbox(undefined, 'tls'); " \
                      "console.log((await s.exec('echo js')).stdout); await s.destroy();"
            node = f"cd {package.PACKAGE} && NODE_EXTRA_CA_CERTS=$SSL_CERT_FILE node --input-type=module -e {shlex.quote(program)}"
            assert "js" in succeed(shell, node)
    finally:
        shell.close()


def test_a_daemon_through_ssh(daemon):
    with special.place() as here, special.sshd(here) as options:
        text = replaced(block("command-line", "ssh -N"), {"ssh -N": f"ssh {options} -N", "/run/atoll/": f"{daemon.run}/", "user@host": "root@host"})
        tunnel, listing = text.strip().split("\n")
        shell = shell_in(daemon, here)
        try:
            pid = int(succeed(shell, f"{tunnel}\necho $!"))
            special.await_path(here / "atoll.sock")
            assert succeed(shell, listing) == "no boxes\n"
            succeed(shell, f"kill {pid}; wait {pid} || true")
        finally:
            shell.close()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_the_units_and_their_files_are_sound(daemon):
    """But for `systemctl`, which needs a machine that systemd has booted."""
    documented = set(re.findall(r"^\| `(ATOLL_\w+)`", page("configuration"), re.M)) | {"ATOLL_TLS_CERT", "ATOLL_TLS_KEY"}
    with special.place() as here:
        units = here / "units"
        units.mkdir()
        unit = (ROOT / "packaging/atoll.service.in").read_text(encoding="utf-8").replace("@BINDIR@", str(lib.BIN))
        (units / "atoll.service").write_text(unit, encoding="utf-8")
        shell = shell_in(daemon, here)
        words = {"/etc/atoll.env": f"{here}/atoll.env"}
        second = {"/usr/local/lib/systemd/system/": f"{units}/", "/etc/systemd/system/": f"{units}/", "> /etc/atoll-two.env": f"> {here}/atoll-two.env"}
        for name, beginning, here_words in (("atoll", "printf '%s\\n' ATOLL_PREVIEW_DOMAIN", words), ("atoll-two", "sed 's|/etc/atoll.env", second)):
            for command in replaced(block("configuration", beginning), here_words).strip().split("\n"):
                if not command.startswith("systemctl"):
                    succeed(shell, command)
            lines = (here / f"{name}.env").read_text(encoding="utf-8").splitlines()
            assert lines and all(re.fullmatch(r"(\w+)=\S+", line)[1] in documented for line in lines), lines
            assert f"EnvironmentFile=-/etc/{name}.env" in (units / f"{name}.service").read_text(encoding="utf-8")
            r = subprocess.run(["systemd-analyze", "verify", units / f"{name}.service"], capture_output=True, text=True, check=False, timeout=60)
            assert r.returncode == 0 and name not in r.stderr, r.stderr
        shell.close()
        started = settings_of(block("configuration", "openssl req").strip().split("\n")[-1])
        assert dict(line.split("=", 1) for line in lines) == started, "the service has the settings of the command"


def test_make_run_is_what_the_pages_say():
    # Not as a part of the make that runs the tests, which would say so.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    r = subprocess.run(["make", "-n", "run"], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert r.returncode == 0 and "tools/deps run" in r.stdout and "tools/image/build" in r.stdout, r.stderr
    assert r.stdout.strip().endswith("exec build/atoll up"), r.stdout


def bodies(name):
    return [json.loads(one.text) for one in examples.blocks(page(name)) if one.kind == "json"]


def test_bodies_of_the_network_page_are_accepted(daemon):
    for body in bodies("network"):
        if "network" in body:
            reply = daemon.request("PUT", lib.box_path("recipe"), body)
            assert reply.status in (200, 201) and "warnings" not in reply.json(), reply
        else:
            assert daemon.request("PUT", "/v1/secrets/recipe", body).status in (200, 201, 204)
            assert daemon.request("DELETE", "/v1/secrets/recipe").status == 200
    daemon.destroy("recipe")


def test_the_schedule_of_the_storage_page_is_accepted(daemon):
    method, path, body = block("storage", "PUT /v1/sandboxes/dev").strip().split(" ", 2)
    reply = daemon.request(method, path, json.loads(body))
    assert reply.status == 201 and reply.json()["backup"] == json.loads(body)["backup"], reply
    daemon.destroy("dev")


MODEL = """import { MockLanguageModelV4 } from 'ai/test';
const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };
const said = [{ type: 'tool-call', toolCallId: '1', toolName: 'run_command', input: '{"command": "python3 --version"}' }, { type: 'text', text: 'Python 3' }];
const model = new MockLanguageModelV4({ doGenerate: async () => {
  const next = said.shift(), unified = next.type === 'text' ? 'stop' : 'tool-calls';
  return { content: [next], finishReason: { unified, raw: unified }, usage, warnings: [] };
} });
"""
SANDBOX = "import { getSandbox } from 'atoll-sandbox';\nconst sandbox = getSandbox(undefined, 'special');\n"
# What a page leaves out of its program: the lines before, and those after that show that it works.
PROGRAMS = {
    "mcp": ("import { generateText", MODEL, "console.log(text);\nawait sandbox.destroy();\n", "Python 3\n"),
    "network": ("await sandbox.setOutboundHandler", SANDBOX,
                "console.log((await sandbox.exec('curl -s http://internal.example/')).stdout);\nawait sandbox.setOutboundHandler(null);\n"
                "await sandbox.destroy();\n", '{"user":1}\n'),
    "storage": ("const backup = await", SANDBOX + "await sandbox.writeFile('/workspace/f', 'kept');\n",
                "console.log(String(await sandbox.readFile('/workspace/f')));\nawait sandbox.storage.deleteBackup(backup.id);\nawait sandbox.destroy();\n",
                "kept\n"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_the_page_begins_in_the_middle(daemon, name):
    if not package.built():
        pytest.skip(package.WHY_NOT)
    beginning, before, after, shown = PROGRAMS[name]
    program = before + block(name, beginning) + after
    r = subprocess.run(["node", "--input-type=module", "-"], input=program, cwd=package.PACKAGE, env=package.reaching(daemon), capture_output=True,
                       text=True, check=False, timeout=120)
    assert r.returncode == 0 and r.stdout.strip() == shown.strip(), r.stdout + r.stderr
    assert daemon.boxes() == []


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium")
def test_the_terminal_of_the_page_works_in_a_browser(daemon):
    if not package.built() or not npmdir.installed(ROOT / "tests/browser"):
        pytest.skip(package.WHY_NOT)
    html = replaced(block("terminals", "<link rel="), {"127.0.0.1:8700": daemon.address})
    r = subprocess.run(["node", ROOT / "tests/docs/terminal.mjs"], input=html, env=package.reaching(daemon), capture_output=True, text=True, check=False,
                       timeout=150)
    assert r.returncode == 0 and r.stdout == "42\n", r.stdout + r.stderr
    daemon.destroy("web-term")
