"""`atoll shell` and `atoll stats` at a real terminal: what is typed and shown, detaching, resizing, and that the terminal is
as before on every way out."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid

import pytest
from atoll import BIN, SANITIZED, wait_for
from ttylib import DEADLINE, Terminal

PROMPT = r"root@[^\r\n]*# "
DETACH = "\r~."


def shell(daemon, box, *options, **size):
    return Terminal([BIN / "atoll", "shell", box, *options], daemon.env, **size)


def run(t, command, pattern):
    """Types a line; returns what came from then on until the pattern was seen."""
    start = len(t.out)
    t.type(command + "\r")
    end = t.wait(pattern, start)
    return t.out[start:end].decode(errors="replace")


def left(t):
    """It has ended, and the terminal is as it was before."""
    code = t.exit_code()
    assert t.is_as_before(), "the terminal was left in another mode"
    if code == 125:
        print(t.out[-2000:])  # what it had to say, should that be a surprise
    return code


def stat_of(pid):
    """R, S, T …: what the process does."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


# ---- shell

def test_a_shell_is_a_terminal_with_our_size_and_passes_its_exit_code_on(daemon, box):
    with shell(daemon, box, cols=91, rows=23) as t:
        t.wait(PROMPT)
        assert t.is_raw() and b"detaches" in t.out
        assert "23 91" in run(t, "stty size; tty", r"/dev/pts/\d")
        assert "/workspace\r\n" in run(t, "pwd", r"[\r\n]/workspace\r\n")
        run(t, "exit 42", "exit")
        assert left(t) == 42


def test_a_shell_that_is_killed_is_128_and_its_signal(daemon, box):
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        t.type("kill -9 $$\r")
        assert left(t) == 128 + 9


def test_keys_are_not_interpreted_here(daemon, box):
    """Ctrl-C, Ctrl-Z, Ctrl-S and the rest are the box's."""
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        start = len(t.out)
        t.type("sleep 1000\r")
        wait_for(lambda: daemon.execute_alone(box, "pgrep -x sleep")["stdout"], "sleep runs")
        t.type("\x03")
        t.wait(r"\^C.*" + PROMPT, start)
        assert "130" in run(t, "echo code $?", r"code \d+")
        start = len(t.out)
        t.type("cat\r")
        wait_for(lambda: daemon.execute_alone(box, "pgrep -x cat")["stdout"], "cat runs")
        t.type("\x1a")
        t.wait("Stopped", start)
        assert "a~b ~ ~." in run(t, "echo a~b '~' '~.'", r"[\r\n]a~b ~ ~\.")
        t.type("\r~.")
        left(t)


def test_the_size_follows_the_window(daemon, box):
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        assert "size 30 100" in run(t, "echo size $(stty size)", r"[\r\n]size \d+ \d+")

        def follows():
            """Again and again: readline reads the size and writes it back before each prompt, and may undo ours."""
            t.resize(78, 19)
            t.resize(77, 19)
            return "size 19 77" in run(t, "echo size $(stty size)", r"[\r\n]size \d+ \d+[\r\n].*?" + PROMPT)

        wait_for(follows, "the terminal has our size")
        t.type(DETACH)
        assert left(t) == 0


def test_detach_and_attach_again_with_what_was_printed(daemon, box):
    mark = uuid.uuid4().hex
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        run(t, f"X=kept; cd /tmp; echo {mark}-printed", f"[\r\n]{mark}-printed")
        t.type(DETACH)
        assert left(t) == 0
        assert f"shell {box}' attaches again".encode() in t.out
    with shell(daemon, box) as t:
        t.wait(f"{mark}-printed")
        assert "kept /tmp" in run(t, "echo $X $PWD", r"[\r\n]kept /tmp")
        run(t, "exit", "exit")
        assert left(t) == 0
    with shell(daemon, box) as t:  # a new one
        t.wait(PROMPT)
        assert "[]" in run(t, "echo [$X]", r"[\r\n]\[\]") and mark.encode() not in t.out
        t.type("exit\r")
        left(t)


def test_two_names_are_two_terminals_and_one_name_is_shared(daemon, box):
    with shell(daemon, box, "-s", "a") as a, shell(daemon, box, "-s", "b") as b:
        a.wait(PROMPT)
        b.wait(PROMPT)
        run(a, "X=1; echo $X", r"[\r\n]1")
        assert "[]" in run(b, "echo [$X]", r"[\r\n]\[\]")
        with shell(daemon, box, "--session", "a") as twin:
            twin.wait(PROMPT)
            run(a, "echo for''both", "forboth")
            twin.wait("forboth")
            twin.type("exit 3\r")
            assert (left(twin), left(a)) == (3, 3)
        b.type("exit\r")
        left(b)


def test_a_shell_has_the_state_of_its_session(daemon, box):
    daemon.cli("sessions", box, "create", "s", "-e", "A=from-session")
    daemon.cli("exec", box, "-s", "s", "cd /var")
    with shell(daemon, box, "-s", "s") as t:
        t.wait(PROMPT)
        assert "/var from-session" in run(t, "echo $PWD $A", "[\r\n]/var from-session")
        t.type("exit\r")
        left(t)


def test_another_program_and_one_that_is_not_there(daemon, box):
    with shell(daemon, box, "--shell", "python3") as t:
        t.wait(">>> ")
        run(t, "6 * 7", r"[\r\n]42\r\n>>> ")
        t.type("\x04")
        assert left(t) == 0
    with shell(daemon, box, "--shell", "no-such-shell", "-s", "other") as t:
        assert left(t) == 125 and b"'no-such-shell' was not found" in t.out


def test_leaving_a_full_screen_program_puts_the_screen_back(daemon, box):
    """Alternate screen, hidden cursor, mouse and paste reports: turned off here, and vim drawn again when we come back."""
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        run(t, r"printf '\e[?1049h\e[?25l\e[?1002;1006h\e[?2004h\e[?1h\e=full'; cat", r"\x1b=full$")
        t.type(DETACH)
        assert left(t) == 0
        tail = t.out[t.out.rindex(b"full"):]
        for off in (b"\033[?1049l", b"\033[?25h", b"\033[?1002l", b"\033[?1006l", b"\033[?2004l", b"\033[?1l", b"\033>"):
            assert off in tail, off


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_vim_in_tmux_edits_resizes_and_is_drawn_again(daemon, box):
    """A real terminal emulator shows what a person would see."""
    server = f"atoll-{os.getpid()}"

    def tmux(*args):
        return subprocess.run(["tmux", "-L", server, "-f", "/dev/null", *args], capture_output=True, text=True, timeout=30,
                              check=False).stdout

    def see(text, what):
        return wait_for(lambda: text in tmux("capture-pane", "-p") and tmux("capture-pane", "-p"), what, DEADLINE)

    daemon.execute_alone(box, "seq 1 200 > /workspace/numbers; printf 'needle\\n' > /workspace/edit")
    env = [f"{k}={v}" for k, v in daemon.env.items() if k.startswith("ATOLL_")]
    command = ["env", *env, str(BIN / "atoll"), "shell", box]
    try:
        tmux("new-session", "-d", "-x", "80", "-y", "24", *command, "--shell", "bash", ";", "set", "remain-on-exit", "on")
        see(":/workspace#", "a prompt")
        tmux("send-keys", "vim.tiny edit", "Enter")
        see("needle", "vim shows the file")
        tmux("resize-window", "-x", "60", "-y", "15")
        wait_for(lambda: tmux("capture-pane", "-p").rstrip().count("\n") == 14, "vim has the new size", DEADLINE)
        tmux("send-keys", "Enter", "~.")
        see("[detached;", "it has detached")
        tmux("respawn-pane", "-k", *command)
        see("needle", "vim is drawn again")
        tmux("send-keys", "Escape", "ofound it", "Escape", ":wq", "Enter")
        wait_for(lambda: daemon.execute_alone(box, "cat /workspace/edit")["stdout"] == "needle\nfound it\n", "vim has written")
    finally:
        tmux("kill-server")


def test_without_a_terminal_it_says_what_to_do(daemon, box):
    r = daemon.cli("shell", box)
    assert r.returncode == 125 and b"needs a terminal" in r.stderr and f"exec {box} --".encode() in r.stderr
    assert box not in daemon.boxes()
    with daemon.cli_start("shell", "--json", box) as p:
        assert json.loads(p.communicate(b"", 30)[1])["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_from_outside_leaves_cleanly(daemon, box, signo):
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        assert t.is_raw()
        t.process.send_signal(signo)
        assert left(t) == 128 + signo


def test_stopped_and_continued(daemon, box):
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        t.process.send_signal(signal.SIGTSTP)
        wait_for(lambda: stat_of(t.process.pid) == "T", "it has stopped")  # a SIGCONT before that would be lost
        assert t.is_as_before(), "the terminal is given back"
        t.process.send_signal(signal.SIGCONT)
        wait_for(t.is_raw, "it goes on")
        run(t, "echo still here", r"[\r\n]still here")
        t.type("exit\r")
        left(t)


def test_a_daemon_that_dies_leaves_terminal_and_shell_as_they_were(own_daemon, own_box):
    with shell(own_daemon, own_box) as t:
        t.wait(PROMPT)
        run(t, "X=alive; echo set", r"[\r\n]set")
        own_daemon.kill_daemon()
        assert left(t) == 125 and b"the connection broke" in t.out and b"attaches again" in t.out
    with shell(own_daemon, own_box) as t:
        t.wait(PROMPT)
        run(t, "echo is $X", r"[\r\n]is alive")
        t.type("exit\r")
        assert left(t) == 0


def test_a_box_that_is_destroyed_under_it(daemon, box):
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        daemon.destroy(box)
        assert left(t) != 0


def test_a_box_that_cannot_be_made_is_explained(daemon):
    with shell(daemon, "www") as t:
        assert left(t) == 125 and b"reserved" in t.out


def test_a_flood_does_not_grow_it(daemon, box):
    with shell(daemon, box) as t:
        t.wait(PROMPT)
        t.type("yes 0123456789 | head -c 30000000; echo do''ne\r")
        peak, end = 0, time.monotonic() + DEADLINE
        while b"done" not in t.out[-100:]:
            assert time.monotonic() < end
            t.step(1)
            t.out = t.out[-4096:]
            status = open(f"/proc/{t.process.pid}/status", encoding="ascii").read()
            peak = max(peak, int(re.search(r"VmRSS:\s+(\d+)", status)[1]))
        assert SANITIZED or peak < 16 * 1024
        t.type("exit\r")
        left(t)


# ---- stats

def test_stats_for_programs(daemon, box):
    daemon.cli("exec", box, "-d", "--", "sh", "-c", "while :; do :; done")
    r = wait_for(lambda: [b for b in json.loads(daemon.cli("stats", box, "--json").stdout)["sandboxes"] if b["cpuPercent"] > 0],
                 "it is seen to work")
    assert [b["id"] for b in r] == [box] and 0 < r[0]["memory"] <= r[0]["memoryLimit"]
    lines = daemon.cli("stats").stdout.decode().splitlines()
    assert lines[0].split()[:2] == ["ID", "STATE"] and any(line.startswith(box + " ") for line in lines[1:])
    r = daemon.cli("stats", "no-such-box")
    assert r.returncode == 1 and b"no box 'no-such-box'" in r.stderr


def test_stats_live_until_q(daemon, box):
    daemon.cli("create", box)
    with Terminal([BIN / "atoll", "stats", "--every", "0.1"], daemon.env) as t:
        t.wait(box)
        assert b"\033[?1049h" in t.out and t.is_raw()
        end = t.wait(box, len(t.out))  # it is drawn again
        daemon.destroy(box)
        t.wait("0 boxes", end)  # and goes on when a box has gone
        t.type("q")
        assert left(t) == 0 and b"\033[?1049l" in t.out and b"\033[?25h" in t.out


def test_stats_live_until_ctrl_c(daemon, box):
    daemon.cli("create", box)
    with Terminal([BIN / "atoll", "stats", box], daemon.env) as t:
        t.wait(box)
        t.type("\x03")
        assert left(t) == 130 and b"\033[?1049l" in t.out
