"""`atoll completion` in real shells, and the manual page: both made from the tables that the verbs parse with."""

import os
import re
import shutil
import subprocess
import uuid

import pytest
from atoll import BIN
from ttylib import Terminal

VERBS = re.findall(r"^  (\w+) ", subprocess.run([BIN / "atoll", "help"], capture_output=True, text=True, check=False).stdout, re.M)


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


def env(daemon):
    return {**daemon.env, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(daemon.base)}


def out(*argv, **kw):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, **kw).stdout


def options_of(verb):
    """From its help: what a person is told."""
    text = out(BIN / "atoll", verb, "--help").split("Examples:")[0]
    return set(re.findall(r"^  (?:(-\w), )?(--[\w-]+)", text, re.M))


def bash(daemon, *words):
    """What bash offers for the last of the words."""
    script = ('source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _atoll; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return [w for w in out("bash", "-c", script, "x", BIN / "atoll", "atoll", *words, env=env(daemon)).splitlines() if w]


def fish(daemon, line):
    script = f'"{BIN}"/atoll completion fish | source; complete -C "$argv"'
    return [w.split("\t")[0] for w in out("fish", "--no-config", "-c", script, line, env=env(daemon)).splitlines()]


def test_the_verbs_are_found():
    assert len(VERBS) > 20 and {"up", "exec", "shell", "completion", "version"} <= set(VERBS)


def test_bash_offers_verbs_and_every_option_that_help_names(daemon):
    assert set(bash(daemon, "")) == {*VERBS, "help"}
    assert bash(daemon, "sel") == ["selftest"]
    for verb in VERBS:
        want = {w for pair in options_of(verb) for w in pair if w} - {"-h"}
        assert set(bash(daemon, verb, "-")) == want, verb


def test_bash_offers_boxes_processes_files_and_shells(daemon, tmp_path):
    daemon.cli("create", "alpha")
    daemon.cli("create", "beta")
    daemon.cli("exec", "alpha", "-d", "--name", "web", "--", "sleep", "1000")
    try:
        assert bash(daemon, "ls", "") == ["alpha", "beta"] and bash(daemon, "ls", "-l", "al") == ["alpha"]
        assert bash(daemon, "exec", "--cwd", "x", "b") == ["beta"] and bash(daemon, "ls", "alpha", "") == []
        assert bash(daemon, "rm", "alpha", "") == ["alpha", "beta"]
        assert bash(daemon, "logs", "alpha", "") == ["web"] and bash(daemon, "kill", "-s", "9", "alpha", "w") == ["web"]
        assert {"alpha:", "beta:"} <= set(bash(daemon, "cp", ""))
        assert bash(daemon, "completion", "") == ["bash", "zsh", "fish"] and bash(daemon, "nonsense", "") == []
    finally:
        daemon.cli("rm", "--all")


def test_a_hostile_name_is_inserted_quoted(daemon):
    mark = f"/tmp/{uuid.uuid4().hex}"
    name = f"$(touch\t{mark})`id`;'x".replace("\t", "${IFS}").replace("/", "")
    assert daemon.cli("create", name).returncode == 0
    try:
        offered = bash(daemon, "ls", "")
        assert len(offered) == 1 and out("bash", "-c", f"printf %s {offered[0]}") == name
        assert bash(daemon, "ls", "$") == offered
    finally:
        daemon.cli("rm", "--all")


@needs("fish")
def test_fish(daemon):
    daemon.cli("create", "alpha")
    try:
        assert set(VERBS) <= set(fish(daemon, "atoll "))
        assert "alpha" in fish(daemon, "atoll ls ") and "alpha" not in fish(daemon, "atoll ls alpha ")
        assert "alpha:" in fish(daemon, "atoll cp al")
        for verb in VERBS:
            offered = set(fish(daemon, f"atoll {verb} --"))
            assert {long for _, long in options_of(verb)} == {w for w in offered if w.startswith("--")}, verb
    finally:
        daemon.cli("rm", "--all")


@needs("zsh")
def test_zsh(daemon):
    daemon.cli("create", "alphabet")
    try:
        with Terminal(["zsh", "-f", "-i"], {**env(daemon), "PS1": "zsh> "}) as t:
            at = t.wait("zsh> ")
            t.type("autoload -U compinit; compinit -D -u; source <(atoll completion zsh); echo rea''dy\r")
            at = t.wait("ready.*zsh> ", at)
            t.type("atoll versi\t")
            at = t.wait("version", at)
            t.type("\x15atoll ls al\t")
            at = t.wait("alphabet", at)
            t.type("\x15atoll ls --recu\t")
            at = t.wait("--recursive", at)
            t.type("\x15atoll completion zs\t")
            t.wait("completion zsh", at)
            t.type("\x15exit\r")
            t.exit_code()
    finally:
        daemon.cli("rm", "--all")


@needs("zsh")
@needs("fish")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_take_the_scripts_without_a_word(shell, tmp_path):
    script = tmp_path / "script"
    script.write_text(out(BIN / "atoll", "completion", shell))
    r = subprocess.run([shell, "-n", script], capture_output=True, check=False)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"")


def test_wrong_usage():
    for words in ([], ["csh"], ["bash", "zsh"]):
        r = subprocess.run([BIN / "atoll", "completion", *words], capture_output=True, check=False)
        assert r.returncode == 2 and r.stdout == b"" and b"bash" in r.stderr


@needs("scdoc")
def test_the_manual_page_has_every_verb_and_option():
    source = out(BIN / "atoll", "help", "--scdoc")
    page = subprocess.run(["scdoc"], input=source, capture_output=True, text=True, check=True).stdout.replace("\\", "")
    for verb in VERBS:
        assert f"atoll {verb}" in page, verb
        for _, long in options_of(verb) - {("-h", "--help"), ("", "--json")}:
            assert long in page, (verb, long)
    for word in ("EXIT STATUS", "ENVIRONMENT", "ATOLL_URL", "NO_COLOR", "FILES"):
        assert word in page
