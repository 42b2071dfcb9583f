"""`atoll exec -d`, `exec --session`, `ps`, `logs`, `kill`, `sessions` against a real daemon."""

import json
import subprocess

import pytest
from atoll import BIN, wait_for


def start(daemon, box, script, name="p", *options):
    r = daemon.cli("exec", box, "-d", "--name", name, *options, "--", "sh", "-c", script)
    assert (r.returncode, r.stdout) == (0, name.encode() + b"\n"), r
    return name


def processes(daemon, box):
    return {p["id"]: p for p in json.loads(daemon.cli("ps", box, "--json").stdout)["processes"]}


# ---- in the background

def test_a_detached_command_goes_on_and_is_listed(daemon, box):
    start(daemon, box, "echo ready; exec sleep 1000")
    head, line = daemon.cli("ps", box).stdout.decode().splitlines()
    assert head.split() == ["PROCESS", "PID", "STATUS", "EXIT", "AGE", "COMMAND"]
    assert line.split()[0] == "p" and line.split()[2] == "running" and "sleep 1000" in line
    assert daemon.cli("ps", box, "-q").stdout == b"p\n"
    assert daemon.cli("kill", box, "p").stdout == b"p\n"
    assert processes(daemon, box)["p"]["status"] == "killed"
    assert daemon.cli("ps", box, "-r", "-q").stdout == b""
    r = daemon.cli("kill", box, "p")
    assert r.returncode == 1 and b"has already ended" in r.stderr


def test_a_detached_command_has_its_options(daemon, box):
    start(daemon, box, 'pwd; echo "$A"', "p", "--cwd", "/tmp", "-e", "A=1 2")
    assert daemon.cli("logs", "-f", box, "p").stdout == b"/tmp\n1 2\n"


def test_a_name_is_made_up_when_none_is_given(daemon, box):
    r = daemon.cli("exec", box, "--detach", "--", "true")
    name = r.stdout.decode().strip()
    assert r.returncode == 0 and name in processes(daemon, box)


def test_a_name_that_is_taken_is_refused(daemon, box):
    start(daemon, box, "sleep 1000")
    r = daemon.cli("exec", box, "-d", "--name", "p", "--", "true")
    assert r.returncode == 125 and b"p" in r.stderr


def test_control_characters_of_a_box_do_not_reach_a_listing(daemon, box):
    start(daemon, box, "printf '\\033]0;owned\\007' # \x1b[31m\n\u009b2J\u202e")
    out = daemon.cli("ps", box).stdout.decode()
    assert "\x1b" not in out and "\u009b" not in out and "\u202e" not in out and len(out.splitlines()) == 2
    assert "\\x1b[31m\\n\\u009b2J\\u202e" in out


# ---- logs

def test_logs_keep_the_streams_apart_and_the_bytes_as_they_are(daemon, box):
    # The halves of a character come apart, most likely; together they are the same bytes.
    start(daemon, box, r"printf 'a\377\000b\n'; echo e >&2; printf '\303'; sleep 0.1; printf '\274\n'; exit 3")
    r = daemon.cli("logs", "-f", box, "p")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"a\xff\0b\n\xc3\xbc\n", b"e\n")
    assert processes(daemon, box)["p"]["exitCode"] == 3
    r = daemon.cli("logs", box, "p")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"a\xff\0b\n\xc3\xbc\n", b"e\n")


def test_logs_without_follow_end_while_the_process_runs(daemon, box):
    start(daemon, box, "echo one; echo two >&2; sleep 1000")
    wait_for(lambda: daemon.cli("logs", box, "p").stderr == b"two\n", "both lines are printed")
    r = daemon.cli("logs", box, "p")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"one\n", b"two\n")


def test_logs_as_json_are_the_events(daemon, box):
    start(daemon, box, "echo one")
    events = [json.loads(line) for line in daemon.cli("logs", "-f", "--json", box, "p").stdout.splitlines()]
    assert [e["type"] for e in events] == ["process_info", "stdout", "exit"] and events[1]["data"] == "one\n"


def test_logs_of_nothing(daemon, box):
    r = daemon.cli("logs", box, "p")
    assert r.returncode == 1 and b"no box" in r.stderr and box not in daemon.boxes()
    daemon.cli("create", box)
    r = daemon.cli("logs", "-f", box, "p")
    assert r.returncode == 1 and b"'p' not found" in r.stderr and b"ps" in r.stderr


def test_following_goes_on_after_the_daemon_was_killed(own_daemon, own_box):
    """Every byte once, in order, however often the connection breaks."""
    daemon, box = own_daemon, own_box
    start(daemon, box, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; [ $i -ne 1500 ] || until [ -e /tmp/go ]; "
                       "do sleep 0.01; done; done; echo the end")
    with daemon.cli_start("logs", "-f", box, "p") as p:
        first = p.stdout.readline()
        daemon.kill_daemon()
        daemon.execute(box, ": >/tmp/go")
        rest = p.stdout.read()
        assert p.wait() == 0, p.stderr.read()
    want = "".join(f"line {i}\n" for i in range(1, 3001)) + "the end\n"
    assert (first + rest).decode() == want


def test_following_ends_by_ctrl_c(daemon, box):
    start(daemon, box, "echo on; sleep 1000")
    with daemon.cli_start("logs", "-f", box, "p") as p:
        assert p.stdout.readline() == b"on\n"
        p.send_signal(2)
        assert p.wait(30) == -2
    assert processes(daemon, box)["p"]["status"] == "running"


def test_a_reader_that_goes_away_ends_it_quietly(daemon, box):
    start(daemon, box, "yes | head -c 3000000; sleep 1000")
    with daemon.cli_start("logs", "-f", box, "p") as p:
        p.stdout.read(1)
        p.stdout.close()
        assert p.wait(30) == 0 and p.stderr.read() == b""


# ---- kill

def test_a_signal_by_any_of_its_names(daemon, box):
    script = "trap 'echo got usr1' USR1; echo up; while :; do sleep 0.05; done"
    start(daemon, box, script)
    wait_for(lambda: daemon.cli("logs", box, "p").stdout, "the trap is set")
    for n, name in enumerate(["USR1", "sigusr1", "10"], 1):
        assert daemon.cli("kill", box, "p", "-s", name).returncode == 0
        wait_for(lambda n=n: daemon.cli("logs", box, "p").stdout.count(b"got usr1") == n, f"{n} signals")
    assert processes(daemon, box)["p"]["status"] == "running"


def test_kill_several_and_all(daemon, box):
    for name in "abcd":
        start(daemon, box, "sleep 1000", name)
    r = daemon.cli("kill", box, "a", "nope", "b")
    assert r.returncode == 1 and r.stdout == b"a\nb\n" and b"'nope' not found" in r.stderr
    assert json.loads(daemon.cli("kill", box, "c", "--json").stdout) == {"killed": ["c"]}
    assert daemon.cli("kill", box, "--all").stdout == b"1 ended\n"
    assert daemon.cli("ps", box, "-rq").stdout == b""


# ---- sessions

def test_a_session_keeps_directory_and_variables(daemon, box):
    assert daemon.cli("sessions", box, "create", "work", "--cwd", "/tmp", "-e", "A=1").stdout == b"work\n"
    assert daemon.cli("exec", box, "-s", "work", "pwd; echo $A; cd /var; B=2").stdout == b"/tmp\n1\n"
    assert daemon.cli("exec", box, "-s", "work", "pwd; echo $B").stdout == b"/var\n2\n"
    assert b"work" in daemon.cli("sessions", box).stdout.split()
    assert daemon.cli("sessions", box, "rm", "work").returncode == 0
    assert b"work" not in daemon.cli("sessions", box).stdout.split()
    r = daemon.cli("sessions", box, "rm", "work")
    assert r.returncode == 1 and b"not found" in r.stderr and b"lists them" in r.stderr


def test_sessions_of_a_box_that_is_not_there_make_none(daemon, box):
    assert daemon.cli("sessions", box).returncode == 1
    assert box not in daemon.boxes()


def test_in_a_session_bytes_words_and_codes_arrive(daemon, box):
    words = ["a b", "", "$HOME", "*", "it's", "line\nbreak", "ü"]
    r = daemon.cli("exec", box, "-s", "s", "--", "printf", "%s\\0", *words)
    assert r.stdout == b"".join(w.encode() + b"\0" for w in words)
    r = daemon.cli("exec", box, "-s", "s", r"printf '\377\000'; echo e >&2; (exit 7)")
    assert (r.returncode, r.stdout, r.stderr) == (7, b"\xff\0", b"e\n")
    out = json.loads(daemon.cli("exec", box, "-s", "s", "--json", "echo hi").stdout)
    assert out["stdout"] == "hi\n" and out["exitCode"] == 0


def test_a_session_that_ends_or_runs_out_of_time(daemon, box):
    r = daemon.cli("exec", box, "-s", "s", "echo bye; exit 5")
    assert (r.returncode, r.stdout) == (5, b"bye\n") and b"ended session 's'" in r.stderr
    r = daemon.cli("exec", box, "-s", "s", "-t", "0.3", "echo begun; sleep 100")
    assert (r.returncode, r.stdout) == (124, b"begun\n") and b"timeout" in r.stderr
    assert daemon.cli("exec", box, "-s", "s", "echo again").stdout == b"again\n"


@pytest.mark.parametrize("args", [["ps"], ["logs", "-f"], ["kill"]])
def test_a_daemon_that_is_not_there_is_named(daemon, args):
    del daemon
    r = subprocess.run([BIN / "atoll", *args, "box", *(["p"] if args[0] != "ps" else [])],
                       env={"ATOLL_RUN": "/nonexistent"}, capture_output=True, timeout=30, check=False)
    assert r.returncode == 1 and b"no daemon at" in r.stderr and b"up'" in r.stderr
