"""`atoll exec`: the command behaves as if it ran here: bytes, exit codes, signals."""

import base64
import hashlib
import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from atoll import BIN, SANITIZED, box_path, wait_for
from ttylib import Terminal

MIB = 1024 * 1024


def sh(daemon, box, script, *options, **kw):
    return daemon.cli("exec", box, *options, "--", "sh", "-c", script, **kw)


def rss_kib(pid):
    if SANITIZED:
        return 0
    for line in open(f"/proc/{pid}/status", encoding="ascii"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


# ---- result

def test_the_box_is_made_and_the_output_comes_back(daemon, box):
    r = daemon.cli("exec", box, "--", "echo", "hi")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"hi\n", b"")
    assert box in daemon.boxes()


@pytest.mark.parametrize("code", [0, 1, 2, 77, 125, 126, 127, 128, 200, 255])
def test_the_exit_code_is_passed_on(daemon, box, code):
    assert sh(daemon, box, f"exit {code}").returncode == code


def test_stdout_and_stderr_stay_apart(daemon, box):
    r = sh(daemon, box, "echo out; echo err >&2; exit 3")
    assert (r.returncode, r.stdout, r.stderr) == (3, b"out\n", b"err\n")


def test_words_arrive_as_they_were_given(daemon, box):
    words = ["a b", "", "$HOME", "*", "'\"", "line\nbreak", "ü→🙂", "--json", "-x", "--", "\\n"]
    r = daemon.cli("exec", box, "--", "printf", "%s\\0", *words)
    assert r.stdout == b"".join(w.encode() + b"\0" for w in words)


def test_the_command_may_follow_without_dashes(daemon, box):
    assert daemon.cli("exec", box, "echo", "--json", "-n").stdout == b"--json -n\n"


def test_working_directory_and_variables(daemon, box):
    assert daemon.cli("exec", box, "pwd").stdout == b"/workspace\n"
    assert daemon.cli("exec", box, "--cwd", "/tmp", "pwd").stdout == b"/tmp\n"
    r = sh(daemon, box, "echo $A/$B", "--env", "A=1=2 3", "--env=B=")
    assert r.stdout == b"1=2 3/\n"


def test_a_working_directory_that_is_not_there_is_named(daemon, box):
    r = daemon.cli("exec", box, "--cwd", "/no/such", "true")
    assert r.returncode in (125, 126, 127) and b"/no/such" in r.stderr


def test_a_shell_command_in_one_word_is_explained(daemon, box):
    r = daemon.cli("exec", box, "ls | wc -l")
    assert r.returncode == 127 and b"-- sh -c" in r.stderr
    assert b"sh -c" not in daemon.cli("exec", box, "no-such-program").stderr


def test_a_program_that_is_not_there_is_127(daemon, box):
    r = daemon.cli("exec", box, "no-such-program")
    assert r.returncode == 127 and b"no-such-program" in r.stderr


def test_a_program_that_cannot_run_is_126(daemon, box):
    sh(daemon, box, "echo text >/tmp/plain")
    r = daemon.cli("exec", box, "/tmp/plain")
    assert r.returncode == 126 and b"/tmp/plain" in r.stderr


def test_a_signal_is_128_and_its_number(daemon, box):
    assert sh(daemon, box, "kill -9 $$").returncode == 137
    assert sh(daemon, box, "kill -TERM $$").returncode == 143


def test_a_time_limit_is_124_and_says_so(daemon, box):
    r = sh(daemon, box, "echo begun; exec sleep 600", "--timeout", "0.3")
    assert r.returncode == 124 and r.stdout == b"begun\n" and b"longer than 0.3 s" in r.stderr


def test_out_of_memory_is_told(daemon, box):
    daemon.cli("create", box, "--memory", "64m")
    r = daemon.cli("exec", box, "tail", "/dev/zero")
    assert r.returncode == 137 and b"out of memory" in r.stderr


# ---- streams

def test_ten_megabytes_through_stdin_to_stdout(daemon, box):
    data = os.urandom(10 * MIB)
    r = daemon.cli("exec", box, "cat", input=data)
    assert r.returncode == 0 and hashlib.sha256(r.stdout).digest() == hashlib.sha256(data).digest()


def test_every_byte_value_survives_both_ways(daemon, box):
    data = bytes(range(256)) * 5
    r = sh(daemon, box, "tee /dev/stderr", input=data)
    assert r.stdout == data and r.stderr == data


def test_stdin_from_a_file_and_from_nothing(daemon, box, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 300000)
    with open(tmp_path / "f", "rb") as f:
        p = daemon.cli_start("exec", box, "wc", "-c", stdin=f)
        assert p.communicate()[0].strip() == b"300000"
    p = daemon.cli_start("exec", box, "wc", "-c", stdin=subprocess.DEVNULL)
    assert p.communicate()[0].strip() == b"0"
    p = daemon.cli_start("exec", box, "wc", "-c", stdin=None, preexec_fn=lambda: os.close(0))
    assert p.communicate()[0].strip() == b"0"


def test_the_command_ends_while_stdin_stays_open(daemon, box):
    p = daemon.cli_start("exec", box, "echo", "done")
    assert p.stdout.read() == b"done\n" and p.wait(30) == 0
    p.stdin.close()


def test_a_conversation_line_by_line(daemon, box):
    p = daemon.cli_start("exec", box, "sh", "-c", 'while read l; do echo "got $l"; done; echo end')
    for word in (b"one", b"two"):
        p.stdin.write(word + b"\n")
        p.stdin.flush()
        assert p.stdout.readline() == b"got " + word + b"\n"
    p.stdin.close()
    assert p.stdout.read() == b"end\n" and p.wait(30) == 0


def test_a_reader_that_stalls_costs_little_and_loses_nothing(daemon, box):
    p = daemon.cli_start("exec", box, "head", "-c", str(40 * MIB), "/dev/zero")
    assert p.stdout.read(1) == b"\0"

    def stuck():
        # Everything between has filled up when the producer inside waits for its pipe.
        r = daemon.execute_alone(box, "cat /proc/$(pgrep -x head)/wchan /proc/$(pgrep -x head)/stat | tr -d '\\0'")
        return r["stdout"].rsplit(")", 1)[-1].split()[:1] == ["S"]
    wait_for(stuck, "the writer in the box waits")
    assert rss_kib(p.pid) < 8 * 1024
    assert len(p.stdout.read()) == 40 * MIB - 1 and p.wait(30) == 0


def test_a_broken_pipe_ends_it_quietly_and_the_command_too(daemon, box):
    p = daemon.cli_start("exec", box, "yes", "unread-output")
    assert p.stdout.readline() == b"unread-output\n"
    p.stdout.close()
    assert p.wait(30) == 141 and p.stderr.read() == b""
    wait_for(lambda: daemon.execute_alone(box, "pgrep -f unread-output | grep -v $$ || echo none")["stdout"] == "none\n",
             "the command in the box ends")


def test_a_full_disk_is_an_error(daemon, box):
    with open("/dev/full", "wb") as full:
        p = daemon.cli_start("exec", box, "echo", "hi", stdout=full)
        err = p.communicate()[1]
    assert p.returncode == 125 and b"No space left" in err


def test_twenty_at_once_do_not_mix(daemon, box):
    def one(i):
        data = str(i).encode() * 20000
        return daemon.cli("exec", box, "cat", input=data).stdout == data
    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(one, range(20)))


# ---- signals

@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
def test_signals_are_passed_on(daemon, box, name):
    script = f"trap 'echo got; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
    p = daemon.cli_start("exec", box, "sh", "-c", script)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(getattr(signal, "SIG" + name))
    assert p.stdout.read() == b"got\n" and p.wait(30) == 5


def test_an_interrupted_command_is_130(daemon, box):
    p = daemon.cli_start("exec", box, "sh", "-c", "echo ready; exec sleep 600")
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130


def test_who_insists_gets_out(daemon, box):
    p = daemon.cli_start("exec", box, "sh", "-c", "trap 'echo no' INT; echo ready; while :; do sleep 0.05; done")
    assert p.stdout.readline() == b"ready\n"
    for answer in (b"no\n", b"no\n"):
        p.send_signal(signal.SIGINT)
        assert p.stdout.readline() == answer
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130


# ---- a terminal

def at_terminal(daemon, *args):
    return Terminal([BIN / "atoll", *args], daemon.env)


def test_typed_lines_and_control_d(daemon, box):
    with at_terminal(daemon, "exec", box, "sh", "-c", "echo ready; cat; echo end; exit 4") as t:
        at = t.wait("ready")
        t.type("hello\n")
        at = t.wait("hello\r\nhello", at)
        t.type("\x04")
        t.wait("end", at)
        assert t.exit_code() == 4


def test_control_c_goes_to_the_command(daemon, box):
    with at_terminal(daemon, "exec", box, "sh", "-c", "trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.05; done") as t:
        at = t.wait("ready")
        t.type("\x03")
        t.wait("caught", at)
        assert t.exit_code() == 6


# ---- JSON and errors

def test_json_has_the_whole_result(daemon, box):
    r = sh(daemon, box, "cat; echo err >&2; exit 4", "--json", input="grüße".encode())
    result = json.loads(r.stdout)
    assert r.returncode == 4 and r.stderr == b""
    assert result.pop("milliseconds") >= 0
    assert result == {"sandbox": box, "exitCode": 4, "signal": None, "outcome": "exited", "encoding": "utf-8",
                      "stdout": "grüße", "stderr": "err\n"}


def test_json_carries_bytes_that_are_no_text(daemon, box):
    result = json.loads(daemon.cli("exec", box, "--json", "cat", input=b"\xff\x00\xfe").stdout)
    assert result["encoding"] == "base64" and base64.b64decode(result["stdout"]) == b"\xff\x00\xfe"


def test_json_tells_a_signal(daemon, box):
    result = json.loads(sh(daemon, box, "kill -9 $$", "--json").stdout)
    assert (result["exitCode"], result["signal"], result["outcome"]) == (137, "SIGKILL", "killed")


@pytest.mark.parametrize("name, rule", [("-a", None), ("a-", "hyphen"), ("x" * 64, "63"), ("a/b", "ASCII"),
                                        ("Admin", "reserved")])
def test_a_bad_id_is_refused_with_the_rule(daemon, name, rule):
    r = daemon.cli("exec", name, "--", "true")
    assert r.returncode == 125 and r.stdout == b""
    assert rule is None or rule in r.stderr.decode()


def test_over_tcp_with_the_token(daemon, box):
    url = {"ATOLL_URL": f"http://{daemon.address}"}
    assert daemon.cli("exec", box, "echo", "hi", env=url).stdout == b"hi\n"  # the token's file can be read
    assert daemon.cli("exec", box, "echo", "hi", env={**url, "ATOLL_TOKEN": daemon.token}).stdout == b"hi\n"
    r = daemon.cli("exec", box, "echo", "hi", env={**url, "ATOLL_TOKEN": "wrong"})
    assert r.returncode == 125 and r.stdout == b"" and b"ATOLL_TOKEN" in r.stderr


def test_a_unix_url(daemon, box):
    assert daemon.cli("exec", box, "echo", "hi", env={"ATOLL_URL": f"unix:{daemon.socket}"}).stdout == b"hi\n"


def test_the_box_ends_while_the_command_runs(daemon, box):
    p = daemon.cli_start("exec", box, "sh", "-c", "echo ready; exec sleep 600")
    assert p.stdout.readline() == b"ready\n"
    assert daemon.request("DELETE", box_path(box)).status < 300
    assert p.wait(30) == 125 and p.stderr.read() != b""
