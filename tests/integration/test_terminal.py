"""Terminals: a shell on a PTY over WebSocket, with several viewers, scroll-back, flow control and full-screen programs."""

import contextlib
import hashlib
import re
import threading
from pathlib import Path

import pytest
from atoll import wait_for
from boxapi import memory_kb
from screen import Screen
from wsclient import Closed, Refused, WebSocket

RING = 256 * 1024


# Output of commands is told from their echo by arithmetic: $((6*7)) is echoed as it was typed.


def test_a_shell_in_the_work_directory(api):
    with Screen(api) as s:
        s.control("ready")
        assert s.run("echo $((6*7)):$PWD:$TERM:$(tty)", r"42:\S+")
        assert b"42:/workspace:xterm-256color:/dev/pts/" in s.out
        assert b"24 80" in s.run("stty size", r"\d+ \d+\r\n")
        assert re.search(rb"interactive=himBHs", s.run("echo interactive=$-", r"=h\w*"))


def test_bytes_survive_both_ways(api):
    data = bytes(b for b in range(256) if b != 0xFF) + "grüße😀".encode()
    with Screen(api) as s:
        s.run("stty raw -echo; printf go$((1+1)); cat", "go2")
        start = len(s.out)
        s.type(data + b"\xff")
        s.type(b"end")
        assert s.wait(b"end", start) == data + b"\xffend"


def test_size_from_the_query_and_resize(api):
    with Screen(api, cols=100, rows=30) as s:
        assert b"30 100" in s.run("stty size", r"\d+ \d+\r\n")
        # Up to its prompt: readline reads the size and writes it back before that, and would undo ours.
        s.run("trap 'echo winch$((1+1))' WINCH; echo set$((1+1))", r"set2\r\n.*[#$] ")
        start = len(s.out)
        s.resize(120, 40)
        s.type("\n")  # a shell that waits for a line runs its trap with the next one
        s.wait("winch2", start)
        assert b"40 120" in s.run("stty size", r"\d+ \d+\r\n")


@pytest.mark.parametrize("message, error", [
    ({"type": "resize", "cols": 0, "rows": 24}, "Invalid dimensions: cols and rows must be positive"),
    ({"type": "resize", "cols": 80, "rows": -1}, "Invalid dimensions: cols and rows must be positive"),
    ({"type": "resize", "cols": 80}, "Invalid dimensions: cols and rows must be positive"),
    ({"type": "resize", "cols": "80", "rows": 24}, "Invalid dimensions: cols and rows must be positive"),
    ({"type": "resize", "cols": 80, "rows": 70000}, "Invalid dimensions: cols and rows must be positive"),
    ({"type": "else"}, "Invalid control message"),
    ({}, "Invalid control message"),
    ("[]", "Invalid control message"),
    ("{", "Invalid control message"),
    ("", "Invalid control message"),
])
def test_bad_control_messages_hurt_nobody(api, message, error):
    with Screen(api) as s:
        s.ws.send(message)
        assert s.control("error") == {"type": "error", "message": error}
        assert b"24 80" in s.run("stty size", r"\d+ \d+\r\n")


def test_the_exit_of_the_shell(api):
    with Screen(api) as s:
        s.type("echo last; exit 7\n")
        assert s.control("exit") == {"type": "exit", "code": 7}
        assert s.closed() == 1000 and b"last\r\n" in s.out
    with Screen(api) as s:
        s.type("kill -9 $$\n")
        assert s.control("exit") == {"type": "exit", "code": 137, "signal": "SIGKILL"}


def test_after_the_end_a_new_one(api):
    with Screen(api) as s:
        s.run("X=old; echo $((6*7))", "42")
        s.type("exit\n")
        s.control("exit")
    with Screen(api) as s:
        s.control("ready")
        assert b"[]" in s.run('echo "[$X]"$((6*7))', r"\[.*\]42")
        assert b"old" not in s.out


def test_it_outlives_its_viewers_and_scrolls_back(api):
    with Screen(api) as s:
        s.run("X=kept; echo mark$((1+1))", "mark2")
        s.run("until [ -e /dev/shm/go ]; do sleep 0.01; done; echo later$((1+1)); : > /dev/shm/done", "shm/done")  # its echo: it has been taken
    api.sh(": > /dev/shm/go; until [ -e /dev/shm/done ]; do :; done", timeoutMs=60_000)
    with Screen(api) as s:
        first = s.step()
        assert isinstance(first, bytes) and b"mark2" in first and b"later2" in first
        assert s.step() == '{"type":"ready"}'
        assert b"kept42" in s.run("echo $X$((6*7))", "kept42")


def test_scroll_back_is_the_ring_in_one_frame(api):
    with Screen(api) as s:
        s.run(f"yes 0123456789abcde | head -c {3 * RING}; echo done$((1+1))", "done2")
    with Screen(api) as s:
        first = s.step()
        assert isinstance(first, bytes) and len(first) == RING and b"done2" in first[-200:]
        assert s.step() == '{"type":"ready"}'


def test_a_flood_comes_in_larger_pieces_than_the_kernel_gives(api):
    """A read of a terminal has 4 KiB at most. What is printed without a pause arrives whole, in fewer frames than that."""
    with Screen(api) as s:
        s.control("ready")
        s.run("stty -echo; PS1=; echo quiet-$((6*7))", "quiet-42")
        s.type("head -c 4000000 /dev/zero | tr '\\0' x; echo; echo done-$((6*7))\n")
        pieces = []
        while not re.search(rb"done-42\r\n", (pieces[-2:] and b"".join(pieces[-2:])) or b""):
            message = s.ws.receive()
            pieces.append(message if isinstance(message, bytes) else b"")
        assert b"".join(pieces).count(b"x") == 4_000_000
        assert 4096 < max(map(len, pieces)) <= 65536


def test_several_viewers_of_one_terminal(api):
    with Screen(api) as a, Screen(api) as b, Screen(api, session="other") as c:
        a.run("X=shared; echo one$((1+1))", "one2")
        b.wait("one2")
        b.run("echo $X$((6*7))", "shared42")
        a.wait("shared42")
        c.control("ready")
        assert b"[]42" in c.run('echo "[$X]"$((6*7))', r"\[.*\]42")
        b.close()
        a.run("echo still$((1+1))", "still2")
        a.type("exit 3\n")
        assert a.control("exit")["code"] == 3


def test_a_stalled_viewer_does_not_hold_the_others(api):
    agent = api.agent_pid()
    with Screen(api, receive_buffer=4096) as stalled, Screen(api) as s:
        s.run("echo begin$((1+1))", "begin2")
        s.run(f"yes 0123456789abcde | head -c {8 * RING}; echo done$((1+1))", "done2")
        assert memory_kb(agent) < 4096
        # It goes on where it can: with the end of what there was.
        stalled.wait("done2")


def test_yes_with_a_stalled_viewer_stays_bounded(api):
    agent = api.agent_pid()
    with Screen(api, receive_buffer=4096) as s:
        s.control("ready")
        s.type("n=0; while :; do printf '%01000d' 0; n=$((n+1)); echo $n > /dev/shm/n; done\n")

        def count():
            return int(api.sh("cat /dev/shm/n 2>/dev/null || true").strip() or 0)

        # It stands still when two looks, with a round trip through the box between, see the same.
        seen = []
        wait_for(lambda: seen.append(count()) or (len(seen) > 20 and seen[-1] == seen[-20] > 0), "the loop stands still", 60)
        assert seen[-1] < 2000 and memory_kb(agent) < 4096
        s.type("\x03")
        s.run("echo interrupted$((1+1))", "interrupted2")
    with Screen(api) as s:
        s.type("yes\n")
        s.wait("y\r\ny\r\n")
        s.type("\x03")
        s.run("echo over$((1+1))", "over2")


def test_a_window_holds_what_is_not_acknowledged(api):
    window, chunk = 64 * 1024, 64 * 1024
    with Screen(api, window=window) as s:
        s.type("head -c 2000000 /dev/zero | tr '\\0' x; echo done$((1+1))\n")
        while len(s.out) < window:
            s.step()
        # The reply to a bad message stands behind everything that was sent before it.
        s.ws.send({"type": "ack", "bytes": 100_000_000})
        assert s.control("error")["message"] == "Invalid ack: bytes must count bytes that were sent"
        assert len(s.out) <= window + chunk
        acked = 0
        while b"done2" not in s.out[-200:]:
            if len(s.out) > acked:
                s.ws.send({"type": "ack", "bytes": len(s.out) - acked})
                acked = len(s.out)
            s.step()
        assert s.out.count(b"x") >= 2_000_000


@pytest.mark.parametrize("window", [0, 16 * 1024 * 1024 + 1, "many"])
def test_without_a_window_nothing_is_held(api, window):
    with Screen(api, window=window) as s:
        s.run("head -c 300000 /dev/zero | tr '\\0' x; echo done$((1+1))", "done2")


def test_the_program_ends_while_the_viewer_is_stalled(api):
    agent = api.agent_pid()
    with Screen(api, receive_buffer=4096) as s:
        s.run("echo $$ > /dev/shm/pid; echo set$((1+1))", "set2")
        # By then the viewer's buffers are full, most likely; the end is the same if not.
        s.type("(sleep 0.2; kill -9 $$) & while :; do printf '%01000d' 0; done\n")
        api.sh("while [ -d /proc/$(cat /dev/shm/pid) ]; do :; done", timeoutMs=60_000)
        assert memory_kb(agent) < 4096
        with Screen(api) as fresh:
            assert b"42" in fresh.run("echo $((6*7))", "42")
        try:
            assert s.control("exit")["code"] == 137
        except Closed as closed:  # it was stalled for longer than a close may take
            assert closed.code is None


def test_input_that_nobody_reads_holds_the_sender(api):
    agent = api.agent_pid()
    with Screen(api) as a, Screen(api) as b:
        a.run("stty raw -echo; printf raw$((1+1)); sleep 60", "raw2")
        for s in (a, b):
            s.sock.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 << 20:
                a.type(b"x" * 65536)
                b.type(b"y" * 65536)
                sent += 1 << 17
        assert sent < 8 << 20 and memory_kb(agent) < 4096
    api.sh("pkill -x sleep")
    # What was sent is read by the shell now, line by line or not at all; another one is not hurt.
    with Screen(api, session="t") as s:
        assert b"42" in s.run("echo $((6*7))", "42")


def test_long_input_arrives_whole(api):
    size = 3 << 20
    with Screen(api) as s:
        s.run(f"stty raw -echo; printf raw$((1+1)); head -c {size} | sha256sum", "raw2")
        data = bytes(i * 7 % 251 for i in range(4096)) * (size // 4096)
        sender = threading.Thread(target=lambda: [s.type(data[i:i + (1 << 18)]) for i in range(0, size, 1 << 18)])
        sender.start()
        s.wait(hashlib.sha256(data).hexdigest())
        sender.join()


# ---- shells


@pytest.mark.parametrize("shell, word", [("sh", "/usr/bin/sh"), ("/bin/sh", "/bin/sh"), ("bash", "/usr/bin/bash"),
                                         ("/usr/bin/bash", "/usr/bin/bash")])
def test_choice_of_shell(api, shell, word):
    with Screen(api, shell=shell) as s:
        s.control("ready")
        assert f"shell<{word}>".encode() in s.run("printf 'shell%s\\n' \"<$0>\"", r"shell<\S+>")


def test_any_program_can_be_the_shell(api):
    with Screen(api, shell="python3") as s:
        s.wait(">>> ")
        s.run("print(6*7)", r"42\r\n.*>>> ")  # a key before the prompt is of another mode of the line
        s.type("\x04")
        assert s.control("exit")["code"] == 0


@pytest.mark.parametrize("shell", ["no-such-shell", "/no/such/shell", "/etc/passwd", "/", "a" * 300])
def test_a_shell_that_cannot_start(api, shell):
    with Screen(api, shell=shell) as s:
        assert s.control("error")["message"]
        assert s.closed() == 1011
    with Screen(api) as s:
        assert b"42" in s.run("echo $((6*7))", "42")


def test_handshakes_that_are_refused(api):
    for path in ("/ws/pty", "/ws/pty?sessionId=", "/ws/pty?sessionId=" + "s" * 257):
        with api.daemon.connect(unix=True) as sock, pytest.raises(Refused) as e:
            WebSocket(sock, api.path(path))
        assert e.value.status == 400 and b"sessionId" in e.value.body
    assert api.call("/ws/pty?sessionId=s", method="GET").status in (400, 426)


def test_more_terminals_than_there_can_be(api):
    screens = [Screen(api, session=f"s{i}", shell="cat") for i in range(64)]
    for s in screens:
        s.control("ready")
    with Screen(api, session="one-too-many") as s:
        assert "terminal" in s.control("error")["message"]
        assert s.closed() == 1011
    screens[0].run("hello", "hello.*hello")
    screens.pop().close()
    for s in screens:
        s.close()


def test_too_many_viewers(api):
    screens = [Screen(api, shell="cat") for _ in range(64)]
    with Screen(api) as s:
        assert "64" in s.control("error")["message"] and s.closed() == 1011
    for s in screens[1:]:
        s.close()
    screens[0].run("hello", "hello.*hello")
    screens[0].close()


# ---- sessions


def test_it_starts_with_what_its_session_has(api):
    api.ok("/api/session/create", id="s", env={"FROM": "session"}, cwd="/usr")
    api.daemon.execute(api.box, "cd /usr/share", sessionId="s")
    with Screen(api) as s:
        s.control("ready")
        assert b"session:/usr/share:42" in s.run("echo $FROM:$PWD:$((6*7))", ":42")


def test_it_ends_with_its_session(api):
    api.ok("/api/session/create", id="s")
    with Screen(api) as s:
        s.run("trap '' HUP; echo set$((1+1))", "set2")
        api.ok("/api/session/delete", sessionId="s")
        assert s.control("exit")["signal"] == "SIGKILL"  # it would not hear


# ---- jobs and ends


def test_control_c_and_job_control(api):
    with Screen(api) as s:
        s.type("sleep 60\n")
        api.sh("until pgrep -x sleep; do :; done", timeoutMs=60_000)
        s.type("\x03")
        assert b"130" in s.run("echo $?:$((6*7))", r"\d+:42")
        s.type("sleep 60\n")
        api.sh("until pgrep -x sleep; do :; done", timeoutMs=60_000)
        s.type("\x1a")
        s.wait("Stopped")
        s.run("kill %1; wait; echo gone$((1+1))", "gone2")


def test_a_background_job_lives_on_after_the_shell(api):
    with Screen(api) as s:
        s.run("sleep 61 & echo started$((1+1))", "started2")
        s.type("exit\n")
        assert s.control("exit")["code"] == 0
    assert api.sh("pgrep -x sleep")


def test_what_dies_leaves_nothing(api):
    before = api.sh("ls /dev/pts | wc -l; ls /proc/1/fd | wc -l").split()
    for i in range(20):
        with Screen(api, session=f"s{i}") as s:
            s.type("exit\n")
            s.control("exit")
    wait_for(lambda: api.sh("ls /dev/pts | wc -l").split() == before[:1], "the terminals are closed")
    assert api.sh("ps -eo stat | grep -c '^Z' || true").strip() == "0"


@pytest.mark.parametrize("printed", [RING - 1, RING, RING + 1])
def test_scroll_back_at_the_border_of_the_ring(api, printed):
    """Not a byte more than the program has printed, and the last of them when there were more than fit."""
    whole = b"<" + b"x" * (printed - 2) + b">"
    api.put("/tmp/shell", f"#!/bin/sh\nstty raw -echo\nprintf '<'; head -c {printed - 2} /dev/zero | tr '\\0' x; printf '>'\nread end\n".encode())
    api.sh("chmod +x /tmp/shell")
    with Screen(api, shell="/tmp/shell") as one:
        one.wait(b">")
        assert one.out == whole
        with Screen(api) as two:
            two.control("ready")
            assert two.out == whole[-RING:]


def test_a_flood_of_input_from_many_is_taken_in_turns(api):
    # Whoever is held back has messages on the way already: none of them may be lost, cut or too much.
    viewers, lines = 8, 2000
    with contextlib.ExitStack() as stack:
        screens = [stack.enter_context(Screen(api)) for _ in range(viewers)]
        screens[0].run("stty raw -echo; printf ready$((1+1)); head -c %d > /tmp/flood; stty sane; echo done$((1+1))" % (viewers * lines * 100), "ready2")

        def flood(i):
            for n in range(lines // 20):
                screens[i].type(b"".join(b"%d %06d %s\n" % (i, n * 20 + k, b"y" * 90) for k in range(20)))

        threads = [threading.Thread(target=flood, args=(i,)) for i in range(viewers)]
        for t in threads:
            t.start()
        screens[0].wait("done2")
        for t in threads:
            t.join()
    got = api.get("/tmp/flood").decode().splitlines()
    for i in range(viewers):
        assert [line for line in got if line.startswith(f"{i} ")] == [f"{i} {n:06d} {'y' * 90}" for n in range(lines)]


def test_viewers_who_leave_in_any_state_leave_nothing(api):
    def fds():
        return len(list(Path(f"/proc/{api.agent_pid()}/fd").iterdir()))

    with Screen(api) as s:
        s.control("ready")
        before = fds()
        for i in range(40):
            one = Screen(api, receive_buffer=4096)
            if i % 4 == 1:
                one.ws.send_frame(8, b"")  # says goodbye and waits
                one.closed()
            elif i % 4 == 2:
                one.type("seq 1 2000\n")  # goes while there is output for it
            elif i % 4 == 3:
                one.ws.send_frame(2, b"half a message", fin=False)
            one.close()
        wait_for(lambda: fds() <= before, "the descriptors of those who left")
        assert s.run("echo here$((1+1))", "here2")
