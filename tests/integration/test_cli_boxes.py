"""`atoll create`, `list`, `inspect`, `rm`, `run`, `selftest` against a real daemon."""

import json
import re
import signal
import subprocess
import tarfile

import atoll as lib
import pytest
from atoll import SANITIZED, box_path, wait_for
from ttylib import Terminal

MIB = 1024 * 1024


# ---- create, list, inspect, rm

def test_create_with_limits_and_read_them_back(daemon, box):
    r = daemon.cli("create", box, "--memory", "96m", "--cpus", "0.25", "--pids", "33")
    assert (r.returncode, r.stdout, r.stderr) == (0, box.encode() + b"\n", b"")
    limits = json.loads(daemon.cli("inspect", box, "--json").stdout)["limits"]
    assert limits == {"memory": 96 * MIB, "cpu": 0.25, "pids": 33, "disk": 8192 * MIB}


def test_create_says_that_the_box_exists(daemon, box):
    assert daemon.cli("create", box).stderr == b""
    assert daemon.cli("create", box).stderr == f"atoll create: box '{box}' exists already\n".encode()
    r = daemon.cli("create", box, "--memory", "96m")
    assert r.returncode == 0 and r.stderr.endswith(b"exists already; it has the new settings now\n")
    assert json.loads(daemon.cli("inspect", box, "--json").stdout)["limits"]["memory"] == 96 * MIB


def test_a_box_whose_image_comes_later(daemon, box):
    """The daemon refuses the command with a status alone: the command line asks why, and goes on if that has made the box."""
    later = f"{box}-later"
    for name in (box, f"{box}-shell"):
        assert daemon.cli("create", name, "--image", later).returncode != 0
        assert daemon.inspect(name)["state"] == "failed"
    for r in (daemon.cli("exec", box, "--", "true"), daemon.cli("exec", box, "--", "true")):
        assert r.returncode == 125 and f"there is no image '{later}'".encode() in r.stderr and b"the server answered" not in r.stderr
    with Terminal([lib.BIN / "atoll", "shell", f"{box}-shell"], daemon.env) as t:
        assert t.exit_code() == 125 and f"there is no image '{later}'".encode() in t.out and b"the server answered" not in t.out
    assert daemon.cli("build", "-t", later, "-", input=b"FROM default\n").returncode == 0
    r = daemon.cli("exec", box, "--", "echo", "here")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"here\n", b"")
    with Terminal([lib.BIN / "atoll", "shell", f"{box}-shell"], daemon.env) as t:
        t.type("exit 7\r")
        assert t.exit_code() == 7
    daemon.request("DELETE", box_path(f"{box}-shell"))
    assert daemon.request("DELETE", f"/v1/images/{later}").status in (200, 204)


def test_empty_lists_say_so(daemon, box):
    daemon.cli("create", box)
    for verb, text in (("ps", b"no background processes\n"), ("env", b"the box has no variables\n"), ("ports", b"no exposed ports\n"),
                       ("snapshots", b"there are no snapshots\n"), ("backups", b"there are no backups\n")):
        r = daemon.cli(verb, box)
        assert (r.returncode, r.stdout, r.stderr) == (0, b"", text)
    assert daemon.cli("ps", "-q", box).stderr == b""
    r = daemon.cli("net", box, "log")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"no connections have ended\n")


def test_a_diff_without_changes_says_so(daemon, box):
    daemon.cli("create", box)
    assert daemon.cli("stop", box).returncode == 0  # a box that starts writes its /etc/hosts
    pool = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if pool["kind"] == "plain":
        pytest.skip(f"no pool on this host: {pool['reason']}")
    assert daemon.cli("snapshot", box, "now").returncode == 0
    r = daemon.cli("diff", box, "now")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"nothing has changed since the snapshot\n")
    assert json.loads(daemon.cli("diff", box, "now", "--json").stdout)["added"] == []


def test_hints_are_for_the_command_line(daemon, box):
    r = daemon.cli("create", box, "--memory", "1")
    assert r.returncode and b"a bare number counts bytes" in r.stderr and b"/v1/" not in r.stderr
    daemon.cli("create", box)
    r = daemon.cli("requests", box, "8080")
    assert r.returncode and f"ports {box}' lists the exposed ports".encode() in r.stderr and b"/v1/" not in r.stderr


@pytest.mark.parametrize("words, hint", [
    (["volume", "rm", "nosuch"], "volume ls' lists the volumes"),
    (["secret", "rm", "nosuch"], "secret list' lists the secrets"),
    (["unmount", "BOX", "/x"], "mounts ID' lists the buckets"),
    (["fork", "BOX", "BOX"], "Choose another name"),
    (["approve", "nosuch"], "approve --list' shows what waits"),
    (["backups", "rm", "nosuch"], "backups' lists the backups"),
    (["restore", "BOX", "nosuch"], "snapshots ID' lists"),
    (["create", "BOX-2", "--volume", "nosuch:/cache"], "volume create NAME' makes one"),
    (["update", "BOX", "--secret", "nosuch"], "secret set NAME' makes one"),
    (["volume", "create", "a b"], "help volume' shows what it takes"),
    (["net", "BOX", "allow", "bad host"], "help net' shows what it takes"),
    (["mount", "BOX", "b", "/m", "--endpoint", "https://x", "--secret", "s"], ": 'bucket' must be"),
    (["expose", "BOX", "8080", "--token", "t" * 99], "help expose' shows what it takes"),
])
def test_hints_name_the_verb_that_helps(daemon, box, words, hint):
    daemon.cli("create", box)
    r = daemon.cli(*[word.replace("BOX", box) for word in words])
    assert r.returncode == 1 and hint in r.stderr.decode() and b"/v1/" not in r.stderr and b"settle" not in r.stderr, r


@pytest.mark.parametrize("verb", ["create", "update"])
@pytest.mark.parametrize("option, value, takes", [
    ("--network", "maybe", "open, list or off"),
    ("--sleep-after", "never", "0 is never"),
    ("--sleep-after", "s", "30s, 10m or 1h"),
    ("--backup-every", "often", "30m or 1h"),
])
def test_values_that_no_option_takes_are_wrong_usage(daemon, box, verb, option, value, takes):
    r = daemon.cli(verb, box, option, value)
    text = r.stderr.decode()
    assert r.returncode == 2 and f"{option} cannot be '{value}'" in text and takes in text and box not in daemon.boxes(), r


def test_create_uses_safe_defaults(daemon, box):
    box_json = json.loads(daemon.cli("create", box, "--json").stdout)
    assert box_json["id"] == box
    assert box_json["limits"] == {"memory": 512 * MIB, "cpu": 1, "pids": 256, "disk": 8192 * MIB}


@pytest.mark.parametrize("options, word", [
    (["--memory", "1k"], "memory"),
    (["--memory", "100t"], "memory"),
    (["--cpus", "1000"], "cpu"),
    (["--pids", "1"], "pids"),
])
def test_limits_that_cannot_be_are_refused_and_nothing_is_made(daemon, box, options, word):
    r = daemon.cli("create", box, *options)
    assert r.returncode == 1 and r.stdout == b"" and word in r.stderr.decode()
    assert box not in daemon.boxes()


def test_an_image_that_is_not_there_leaves_a_failed_box(daemon, box):
    r = daemon.cli("create", box, "--image", "no-such-image")
    assert r.returncode == 1 and r.stdout == b"" and "no-such-image" in r.stderr.decode()
    assert daemon.inspect(box)["state"] == "failed"


def test_list_shows_the_boxes(daemon, box):
    daemon.cli("create", box, "--memory", "64m")
    rows = daemon.cli("list").stdout.decode().splitlines()
    assert rows[0].split()[:2] == ["ID", "STATE"]
    row = next(line for line in rows if line.startswith(box + " "))
    assert "running" in row and "64 MiB" in row
    listed = json.loads(daemon.cli("list", "--json").stdout)["sandboxes"]
    assert box in [b["id"] for b in listed]


def test_inspect_for_people(daemon, box):
    daemon.cli("create", box)
    text = daemon.cli("inspect", box).stdout.decode()
    assert re.search(rf"^id +{box}$", text, re.M) and re.search(r"^state +running$", text, re.M)


def test_inspect_does_not_make_a_box(daemon):
    r = daemon.cli("inspect", "nobody-here")
    assert r.returncode == 1 and b"nobody-here" in r.stderr and "nobody-here" not in daemon.boxes()


def test_texts_from_elsewhere_cannot_drive_the_terminal(daemon, box):
    daemon.request("PUT", f"/v1/sandboxes/{box}", {"labels": {"note": "\x1b[31mred\x07"}})
    assert b"\x1b" not in daemon.cli("inspect", box).stdout


def test_rm_removes_what_is_there_and_tells_what_is_not(daemon, box):
    daemon.cli("create", box)
    r = daemon.cli("rm", box, "nobody-here")
    assert r.returncode == 1 and r.stdout.decode() == box + "\n" and b"nobody-here" in r.stderr
    assert box not in daemon.boxes()


def test_rm_all(daemon):
    names = [f"all{i}" for i in range(4)]
    for name in names:
        daemon.cli("create", name)
    r = daemon.cli("rm", "--all", "--json")
    assert r.returncode == 0 and set(names) <= set(json.loads(r.stdout)["removed"])
    assert daemon.boxes() == []
    assert json.loads(daemon.cli("rm", "--all", "--json").stdout) == {"removed": []}
    assert daemon.cli("list").stdout == b""


# ---- run

def test_run_throws_the_box_away(daemon):
    before = daemon.boxes()
    r = daemon.cli("run", "--", "sh", "-c", "cat; hostname >&2; exit 6", input=b"in")
    assert r.returncode == 6 and r.stdout == b"in"
    assert daemon.boxes() == before


def test_run_keeps_the_box_when_asked(daemon):
    r = daemon.cli("run", "--keep", "--memory", "64m", "--", "sh", "-c", "echo mine >/tmp/f")
    name = re.search(rb"run-[0-9a-f]{12}", r.stderr).group().decode()
    assert r.returncode == 0 and daemon.inspect(name)["limits"]["memory"] == 64 * MIB
    assert daemon.cli("exec", name, "cat", "/tmp/f").stdout == b"mine\n"
    assert daemon.cli("rm", name).returncode == 0


def test_run_has_its_limits(daemon):
    r = daemon.cli("run", "--memory", "64m", "--", "tail", "/dev/zero")
    assert r.returncode == 137 and b"out of memory" in r.stderr


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_run_removes_the_box_also_when_interrupted(daemon, signo):
    before = daemon.boxes()
    p = daemon.cli_start("run", "--", "sh", "-c", "echo ready; exec sleep 600")
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signo)
    assert p.wait(30) == 128 + signo
    assert daemon.boxes() == before


def test_run_interrupted_at_any_moment_leaves_no_box(daemon):
    before = daemon.boxes()
    started = [daemon.cli_start("run", "--", "sleep", "600") for _ in range(8)]
    for i, p in enumerate(started):
        # The first are hit before they connect, the last when their command runs.
        wait_for(lambda: len(daemon.boxes()) >= len(before) + min(i // 2, 1), "boxes appear")
        p.send_signal(signal.SIGINT)
    codes = {p.wait(30) for p in started}
    assert codes <= {130, -signal.SIGINT}
    assert daemon.boxes() == before


def test_another_image_for_a_box_that_is_there(daemon, box):
    daemon.cli("create", box)
    r = daemon.cli("create", box, "--image", "other")
    assert r.returncode == 1 and b"destroy it" in r.stderr and b"rm ID' removes a box and its files" in r.stderr, r


def test_run_with_an_image_that_is_not_there(daemon):
    before = daemon.boxes()
    r = daemon.cli("run", "--image", "no-such-image", "--", "true")
    assert r.returncode == 125 and b"no-such-image" in r.stderr
    assert daemon.boxes() == before


# ---- selftest, doctor

def test_selftest_passes_here(daemon):
    before = daemon.boxes()
    r = daemon.cli("selftest", timeout=120)
    assert r.returncode == 0, r.stdout.decode() + r.stderr.decode()
    last = r.stdout.decode().splitlines()[-1]
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", last)
    assert daemon.boxes() == before


def test_selftest_as_json(daemon):
    report = json.loads(daemon.cli("selftest", "--json", timeout=120).stdout)
    assert report["failed"] == 0 and report["passed"] == len(report["checks"]) - report["skipped"] >= 10
    results = {c["name"]: c["result"] for c in report["checks"]}
    assert results["a disk limit holds after a snapshot"] == results["a box starts on an image with layers"] == "ok"
    assert results["a box reaches a server that its policy names"] in ("ok", "skip")  # skip: the host has loopback only


def test_doctor_finds_the_daemon(daemon):
    report = json.loads(daemon.cli("doctor", "--json").stdout)
    found = next(c for c in report["checks"] if c["name"] == "daemon")
    assert (report["ready"] or SANITIZED) and found["state"] == "ok"
    states = {c["name"]: c["state"] for c in report["checks"]}
    # The warden has tried these, with its own code and capabilities.
    assert {states[name] for name in ("overlay, idmapped", "images with layers", "steering")} == {"ok"}
    # What it asks for is needed: connections are steered, not filtered.
    assert "steering" in {c["name"] for c in report["checks"]} and "nftables" not in json.dumps(report)


# ---- many

def test_list_reads_every_page(daemon):
    """A page has 100 boxes; none is missing or there twice, however they are listed."""
    names = sorted(f"page-{i:03}" for i in range(102))
    try:
        for name in names:
            assert daemon.request("PUT", box_path(name), {"limits": {"memory": 16 * MIB}}).status == 201
        listed = daemon.cli("list", "-q").stdout.decode().split()
        assert [n for n in listed if n.startswith("page-")] == names
        assert [b["id"] for b in json.loads(daemon.cli("list", "--json").stdout)["sandboxes"]] == listed
        assert len(daemon.cli("list").stdout.splitlines()) == len(listed) + 1
    finally:
        gone = daemon.cli("rm", *names).stdout.decode().split()
    assert gone == names


# ---- settings and states

def test_create_and_update_set_everything(daemon, box):
    r = daemon.cli("create", box, "--instance", "lite", "-e", "MODE=a b", "--label", "team=a", "--label", "x/y=1", "--sleep-after", "1h",
                   "--network", "list", "--keep-alive")
    assert (r.returncode, r.stdout, r.stderr) == (0, box.encode() + b"\n", b"")
    shown = json.loads(daemon.cli("inspect", box, "--json").stdout)
    assert (shown["instance"], shown["labels"], shown["sleepAfter"], shown["keepAlive"], shown["network"]["mode"], shown["envNames"]) == \
        ("lite", {"team": "a", "x/y": "1"}, 3600, True, "list", ["MODE"])
    assert daemon.cli("exec", box, "--", "sh", "-c", "echo $MODE").stdout == b"a b\n"
    r = daemon.cli("update", box, "--label", "team=b", "--memory", "300m", "--sleep-after", "90", "--no-keep-alive", "-e", "MORE=1", "--json")
    shown = json.loads(r.stdout)
    assert (shown["labels"], shown["sleepAfter"], shown["keepAlive"], shown["limits"]["memory"], shown["envNames"]) == \
        ({"team": "b", "x/y": "1"}, 90, False, 300 * MIB, ["MODE", "MORE"])
    assert daemon.cli("exec", box, "--", "sh", "-c", "echo $MODE $MORE").stdout == b"a b 1\n"


def test_backups_by_the_clock_are_a_setting(daemon, box):
    assert daemon.cli("create", box, "--backup-every", "1h", "--backup-keep", "3").returncode == 0
    assert json.loads(daemon.cli("inspect", box, "--json").stdout)["backup"] == {"every": "1h", "keep": 3}
    assert json.loads(daemon.cli("update", box, "--backup-every", "5400", "--json").stdout)["backup"] == {"every": "5400s"}
    assert json.loads(daemon.cli("update", box, "--backup-every", "0", "--json").stdout).get("backup") is None
    r = daemon.cli("update", box, "--backup-every", "often")
    assert r.returncode == 2 and b"--backup-every cannot be 'often'" in r.stderr


@pytest.mark.parametrize("options, text", [
    (["--backup-keep", "3"], "--backup-every"),
    ([], "at least one option"), (["--label", "team"], "NAME=VALUE"), (["--env", "1=2"], "NAME=VALUE"),
    (["--keep-alive", "--no-keep-alive"], "not both"), (["other", "--memory", "1g"], "one box at a time"),
])
def test_updates_that_cannot_be(daemon, box, options, text):
    daemon.cli("create", box)
    r = daemon.cli("update", box, *options)
    assert r.returncode == 2 and text in r.stderr.decode()


def test_update_makes_no_box(daemon):
    r = daemon.cli("update", "nobody", "--memory", "1g")
    assert r.returncode == 1 and "nobody" in r.stderr.decode() and "nobody" not in daemon.boxes()
    r = daemon.cli("update", "nobody", "--sleep-after", "10m")
    assert r.returncode == 1 and "nobody" not in daemon.boxes()


def test_list_by_label(daemon, box):
    daemon.cli("create", box, "--label", f"own={box}", "--label", "empty=")
    daemon.cli("create", box + "x", "--label", "own=other")
    try:
        assert daemon.cli("list", "-q", "--label", f"own={box}").stdout.decode().split() == [box]
        assert set(daemon.cli("list", "-q", "-l", "own").stdout.decode().split()) == {box, box + "x"}
        assert daemon.cli("list", "-q", "-l", "own", "-l", "empty=").stdout.decode().split() == [box]
        assert [b["id"] for b in json.loads(daemon.cli("list", "--json", "-l", "own=other").stdout)["sandboxes"]] == [box + "x"]
        r = daemon.cli("list", "--label", "own=nobody")
        assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"no boxes with these labels\n")
    finally:
        daemon.destroy(box + "x")


def test_inspect_shows_sizes_for_people(daemon, box):
    daemon.cli("create", box, "--memory", "1536m")
    text = daemon.cli("inspect", box).stdout.decode()
    assert re.search(r"^  memory +1\.5 GiB$", text, re.M) and re.search(r"^  memoryPeak +\d[\d.]* [KM]iB$", text, re.M)
    assert re.search(r"^sleepAfter +10 min$", text, re.M) and "sleepAfterChosen" not in text
    assert re.search(r"^  disk +8\.0 GiB$", text, re.M) and not re.search(r"^  (used|allowed) +\d+$", text, re.M)


def test_stop_sleep_and_wake(daemon, box):
    daemon.cli("exec", box, "--", "sh", "-c", "echo kept >/root/f")
    for verb, state in (("sleep", "asleep"), ("wake", "running"), ("stop", "stopped"), ("wake", "running")):
        # On a busy machine a freeze may take longer than it may.
        r = wait_for(lambda v=verb: (done := daemon.cli(v, box)).returncode == 0 and done, f"{verb} works")
        assert (r.stdout, r.stderr) == (box.encode() + b"\n", b"")
        assert daemon.inspect(box)["state"] == state
    assert daemon.cli("exec", box, "--", "cat", "/root/f").stdout == b"kept\n"
    assert [b["state"] for b in json.loads(daemon.cli("stop", box, "--json").stdout)["sandboxes"]] == ["stopped"]
    r = daemon.cli("stop", "nobody", box)
    assert r.returncode == 1 and r.stdout == box.encode() + b"\n" and "nobody" in r.stderr.decode()
    assert daemon.cli("stop").returncode == 2


def test_a_service_from_the_command_line(daemon, box):
    assert daemon.cli("exec", box, "-d", "--name", "s", "--service", "--keep-alive", "--", "sleep", "1000").stdout == b"s\n"
    daemon.cli("stop", box)
    assert daemon.cli("ps", "-q", box).stdout == b"s\n"
    process = daemon.request("GET", box_path(box, "/api/process/s")).json()["process"]
    assert (process["service"], process["keepAlive"]) == (True, True)
    assert b"--detach" in daemon.cli("exec", box, "--service", "--", "true").stderr


def test_net_sets_what_is_no_rule(daemon, box):
    daemon.cli("create", box)
    r = daemon.cli("net", box, "mode", "list", "--ask", "--ask-timeout", "2m", "--rate", "1m", "--max-connections", "64")
    assert r.stdout.decode() == "mode    list\nask     for 120 s\nrate    1.0 MiB a second\nat once 64 connections\n" \
        "used    0 connections, 0 denied, 0 bytes sent, 0 received\n"
    own = json.loads(daemon.cli("net", box, "--json").stdout)
    assert (own["ask"], own["askTimeout"], own["rateBps"], own["maxConnections"]) == (True, 120, 1048576, 64)
    r = daemon.cli("net", box, "--no-ask", "--rate", "0", "--max-connections", "1024")
    assert r.stdout.decode() == "mode    list\nused    0 connections, 0 denied, 0 bytes sent, 0 received\n"
    own = json.loads(daemon.cli("net", box, "allow", "pypi.org", "--ask", "--json").stdout)
    assert (own["mode"], own["allow"], own["ask"], own["askTimeout"], own["rateBps"]) == ("list", ["pypi.org"], True, 120, 0)


@pytest.mark.parametrize("words, code, text", [
    (["--ask", "--no-ask"], 2, "not both"), (["log", "--ask"], 2, "no option but -f"), (["--rate", "fast"], 2, "0 for no limit"),
    (["--rate", "100"], 1, "'rateBps' must be 0 or at least"), (["--max-connections", "20000"], 1, "'maxConnections'"),
    (["--mode", "off"], 2, "unknown option '--mode'; write 'mode', without dashes"), (["--MODE"], 2, "unknown option '--MODE'\n"),
    (["--max-connections", "0"], 2, "--max-connections cannot be '0'"), (["--ask-timeout", "soon"], 2, "--ask-timeout"),
])
def test_net_options_that_cannot_be(daemon, box, words, code, text):
    daemon.cli("create", box)
    r = daemon.cli("net", box, *words)
    assert r.returncode == code and text in r.stderr.decode(), r


def test_net_removes_only_rules_that_are_there(daemon, box):
    daemon.cli("create", box)
    assert daemon.cli("net", box, "allow", "pypi.org", "two.example").returncode == 0
    r = daemon.cli("net", box, "remove", "two.example", "pipy.org")
    assert r.returncode == 1 and f"box '{box}' has no rule 'pipy.org'; nothing was changed".encode() in r.stderr, r
    assert json.loads(daemon.cli("net", box, "--json").stdout)["own"]["allow"] == ["pypi.org", "two.example"]
    assert b"pypi.org" not in daemon.cli("net", box, "remove", "pypi.org").stdout


def test_backups_of_a_box_that_never_was(daemon, box):
    daemon.cli("create", box)
    r = daemon.cli("backups", f"{box}-none")
    assert (r.returncode, r.stdout) == (1, b"") and f"there is no box '{box}-none'".encode() in r.stderr, r
    r = daemon.cli("backups", f"{box}-none", "--json")
    assert r.returncode == 1 and b"SANDBOX_NOT_FOUND" in r.stdout + r.stderr, r
    made = daemon.cli("backup", box).stdout.decode().strip()
    try:
        daemon.cli("rm", box)
        assert made in daemon.cli("backups", box).stdout.decode()
        assert [b["id"] for b in json.loads(daemon.cli("backups", box, "--json").stdout)["backups"]] == [made]
    finally:
        daemon.cli("backups", "rm", made)


@pytest.mark.parametrize("words", [["list"], ["inspect", "BOX"], ["ls", "BOX", "/"], ["net", "BOX", "--json"], ["stats", "BOX"], ["completion", "bash"],
                                   ["version"], ["help", "list"]])
@pytest.mark.parametrize("to", [">/dev/full", ">&-", ">&- <&-", "| true"])
def test_results_that_cannot_be_written_are_an_error(daemon, box, words, to):
    """A reader that has left wants no more, and is none."""
    daemon.cli("create", box)
    words = " ".join(words).replace("BOX", box)
    r = subprocess.run(["bash", "-c", f"exec 3>&1; {{ {lib.BIN}/atoll {words}; echo $? >&3; }} 3>&3 {to}"], capture_output=True, text=True,
                       env=daemon.env, timeout=lib.DEADLINE, check=False)
    assert r.stdout == ("0\n" if to == "| true" else "1\n"), r
    assert ("writing the output" in r.stderr) == (to != "| true"), r


def archive(size, there):
    """The beginning of a tar with one file, of which only a part is there."""
    member = tarfile.TarInfo("./large")
    member.size = size
    return member.tobuf() + bytes(there)


def test_ctrl_c_ends_an_import_that_waits_for_its_input(daemon):
    with daemon.cli_start("import", "-", "cancelled") as p:
        p.stdin.write(archive(1 << 30, 1 << 20))  # more than a pipe holds: it reads, so it also catches signals
        p.send_signal(signal.SIGINT)
        assert p.wait(lib.DEADLINE) == 130
        assert p.stderr.read() == b"atoll import: cancelled by signal 2; no image was made\n"
    assert b"cancelled" not in daemon.cli("images").stdout


def test_ctrl_c_ends_an_export_that_waits_for_its_reader(daemon):
    assert daemon.cli("import", "-", "large", input=archive(16 * MIB, 16 * MIB + 1024)).returncode == 0
    with daemon.cli_start("export", "large") as p:
        assert len(p.stdout.read(MIB)) == MIB
        p.send_signal(signal.SIGINT)
        assert p.wait(lib.DEADLINE) == -signal.SIGINT
    assert daemon.cli("image", "rm", "large").returncode == 0


def test_rm_goes_on_after_one_that_is_missing(daemon):
    """The same for all verbs that remove by name."""
    for name in ("va", "vb"):
        assert daemon.cli("volume", "create", name, "--size", "64m").returncode == 0
    r = daemon.cli("volume", "rm", "va", "nobody", "vb")
    assert (r.returncode, r.stdout) == (1, b"va\nvb\n") and b"nobody" in r.stderr
    assert json.loads(daemon.cli("volume", "ls", "--json").stdout)["volumes"] == []
    for words in (["secret", "rm", "nobody", "other"], ["backups", "rm", "nobody", "other"]):
        r = daemon.cli(*words)
        assert r.returncode == 1 and r.stderr.count(f"atoll {words[0]}:".encode()) == 2, r


def test_a_limit_that_is_reached_says_what_to_do(daemon, box):
    for port in range(2000, 2064):
        assert daemon.request("POST", box_path(box, f"/ports/{port}"), {}).status in (200, 201)
    r = daemon.cli("expose", box, "2064")
    assert r.returncode == 1 and b"64 exposed ports" in r.stderr and b"free what is not needed" in r.stderr, r
