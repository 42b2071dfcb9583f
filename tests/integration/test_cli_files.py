"""`atoll ls`, `cat`, `write`, `watch`, `git` against a real daemon."""

import hashlib
import json
import resource
import signal
import subprocess

from atoll import BIN, SANITIZED, wait_for
from ttylib import Terminal

W = "/workspace"
HOSTILE = "\x1b]0;owned\x07\u009b2J\u202egpj.\nx"


def make(daemon, box, script):
    r = daemon.execute_alone(box, script)
    assert r["exitCode"] == 0, r


# ---- ls

def test_ls_as_ls_does(daemon, box):
    make(daemon, box, f"cd {W}; mkdir -p dir/sub; echo 12345 > b; touch a .hidden dir/in dir/sub/deep; ln -s b link; chmod 750 a")
    assert daemon.cli("ls", box).stdout == b"a\nb\ndir\nlink\n"
    assert daemon.cli("ls", "-a", box, W).stdout == b".hidden\na\nb\ndir\nlink\n"
    assert daemon.cli("ls", box, "dir").stdout == b"in\nsub\n"
    rows = [line.split() for line in daemon.cli("ls", "-l", box).stdout.decode().splitlines()]
    assert [r[0] for r in rows] == ["-rwxr-x---", "-rw-r--r--", "drwxr-xr-x", "lrwxrwxrwx"]
    assert rows[1][1] == "6" and rows[1][-1] == "b"
    assert daemon.cli("ls", "-R", box).stdout.decode() == (
        f"{W}:\na\nb\ndir\nlink\n\n{W}/dir:\nin\nsub\n\n{W}/dir/sub:\ndeep\n")


def test_ls_of_a_file_and_of_nothing(daemon, box):
    make(daemon, box, f"echo 12345 > {W}/b")
    assert daemon.cli("ls", box, f"{W}/b").stdout == b"b\n"
    assert daemon.cli("ls", "-l", box, "b").stdout.split()[1] == b"6"
    r = daemon.cli("ls", box, "/no/such")
    assert r.returncode == 1 and b"/no/such" in r.stderr
    assert daemon.cli("ls", box, "/srv").stdout == b""


def test_looking_makes_no_box(daemon, box):
    for args in (["ls", box], ["cat", box, "/etc/passwd"], ["watch", box]):
        r = daemon.cli(*args)
        assert r.returncode == 1 and f"no box '{box}'".encode() in r.stderr and b"list'" in r.stderr
    assert box not in daemon.boxes()


def test_ls_of_very_many(daemon, box):
    make(daemon, box, f"mkdir {W}/many; cd {W}/many; seq -f %05g 1 6000 | xargs touch")
    assert daemon.cli("ls", box, "many").stdout.decode().split() == [f"{i:05}" for i in range(1, 6001)]
    files = json.loads(daemon.cli("ls", "--json", box, "many").stdout)["files"]
    assert len(files) == 6000


def test_hostile_names_are_harmless_on_a_terminal_and_exact_in_a_pipe(daemon, box):
    make(daemon, box, f"mkdir {W}/h")
    r = daemon.cli("write", box, f"{W}/h/{HOSTILE}", input=b"x")
    assert r.returncode == 0, r
    assert daemon.cli("ls", box, "h").stdout.decode() == HOSTILE + "\n"
    for options in ([], ["-l"], ["-R"]):
        with Terminal([BIN / "atoll", "ls", *options, box, "h"], {**daemon.env}) as t:
            assert t.exit_code() == 0
        shown = t.out.decode().replace("\x1b[1;34m", "").replace("\x1b[0m", "")
        assert "\x1b" not in shown and "\u009b" not in shown and "\u202e" not in shown
        assert r"\x1b]0;owned\x07\u009b2J\u202egpj.\nx" in shown


def test_ls_at_a_terminal_has_columns_and_colours(daemon, box):
    make(daemon, box, f"cd {W}; mkdir adir; touch b{{1,2,3}} 2>/dev/null || touch b1 b2 b3; printf x > run; chmod +x run")
    with Terminal([BIN / "atoll", "ls", box], daemon.env) as t:
        t.exit_code()
    assert t.out.count(b"\n") == 1 and b"\033[1;34madir\033[0m" in t.out and b"\033[32mrun\033[0m" in t.out
    with Terminal(["env", "NO_COLOR=1", BIN / "atoll", "ls", box], daemon.env) as t:
        t.exit_code()
    assert b"\033" not in t.out and b"adir" in t.out


# ---- cat, write

def test_bytes_arrive_as_they_are(daemon, box):
    data = bytes(range(256)) * 5000 + b"\xff"
    r = daemon.cli("write", box, "new/dir/data.bin", input=data)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"")
    assert daemon.cli("cat", box, f"{W}/new/dir/data.bin").stdout == data
    assert daemon.cli("cat", box, "new/dir/data.bin", "/etc/hostname").stdout.startswith(data)
    answer = json.loads(daemon.cli("write", box, "--json", "empty", input=b"").stdout)
    assert answer["success"] and daemon.cli("cat", box, "empty").stdout == b""


def test_cat_goes_on_after_what_it_cannot_read(daemon, box):
    daemon.cli("write", box, "a", input=b"A")
    r = daemon.cli("cat", box, "/nope", "a", W)
    assert r.returncode == 1 and r.stdout == b"A" and b"/nope" in r.stderr and b"directory" in r.stderr.lower()


def test_write_keeps_the_old_content_until_the_new_is_whole(daemon, box, tmp_path):
    daemon.cli("write", box, "f", input=b"old")
    with daemon.cli_start("write", box, "f") as p:
        p.stdin.write(b"half of the new")
        p.stdin.flush()
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == -signal.SIGINT
    assert daemon.cli("cat", box, "f").stdout == b"old"
    r = daemon.cli("write", box, "/proc/nope/x", input=b"x")
    assert r.returncode == 1 and b"/proc/nope/x" in r.stderr
    big = tmp_path / "big"
    with open(big, "wb") as f:
        f.truncate(270 * 1024 * 1024)
    with open(big, "rb") as f:
        p = subprocess.run([BIN / "atoll", "write", box, "/dev/shm/f"], env=daemon.env, stdin=f, capture_output=True,
                           timeout=120, check=False)
    assert p.returncode == 1 and p.stderr  # more than the box may hold there
    assert daemon.execute_alone(box, "ls -A /dev/shm")["stdout"] == ""


def test_a_large_file_passes_in_constant_memory(daemon, box, tmp_path):
    size = 100 * 1024 * 1024
    piece = hashlib.sha512(b"piece").digest() * 16384  # 1 MiB
    source = tmp_path / "source"
    with open(source, "wb") as f:
        for _ in range(size // len(piece)):
            f.write(piece)
    before = max_child_rss()
    with open(source, "rb") as f:
        assert subprocess.run([BIN / "atoll", "write", box, "big"], env=daemon.env, stdin=f, timeout=120, check=False).returncode == 0
    with open(tmp_path / "back", "wb") as f:
        assert subprocess.run([BIN / "atoll", "cat", box, "big"], env=daemon.env, stdout=f, timeout=120, check=False).returncode == 0
    assert subprocess.run(["cmp", source, tmp_path / "back"], check=False).returncode == 0
    assert SANITIZED or max_child_rss() <= before + 16 * 1024


def max_child_rss():
    subprocess.run(["true"], check=True)  # a child counts as large as we are until it has become another program
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def test_a_reader_that_goes_away_ends_cat_quietly(daemon, box):
    make(daemon, box, f"head -c 20000000 /dev/zero > {W}/zeros")
    with daemon.cli_start("cat", box, "zeros") as p:
        p.stdout.read(10)
        p.stdout.close()
        assert p.wait(30) == 0 and p.stderr.read() == b""


def test_a_daemon_that_dies_in_the_middle(own_daemon, own_box):
    own_daemon.execute_alone(own_box, f"head -c 60000000 /dev/zero > {W}/zeros")
    with own_daemon.cli_start("cat", own_box, "zeros") as p:
        p.stdout.read(100000)
        own_daemon.kill_daemon()
        rest = p.stdout.read()
        assert p.wait(30) == 1 and len(rest) < 60000000 and b"atoll cat:" in p.stderr.read()


# ---- watch

def test_watch_prints_changes_until_ctrl_c(daemon, box):
    daemon.cli("create", box)
    with Terminal([BIN / "atoll", "watch", box, W], {**daemon.env}) as t:
        t.wait("watching /workspace")
        make(daemon, box, f"mkdir {W}/d; echo x > {W}/d.txt; printf x > \"{W}/$(printf 'e\\033[2J')\"")
        t.wait(r"create .*/d/\r\n")
        t.wait(r"create .*/d\.txt\r\n")
        t.wait(r"create .*/e\\x1b\[2J\r\n")
        t.type("\x03")
        assert t.exit_code() == -signal.SIGINT


def test_watch_as_json_with_a_pattern(daemon, box):
    daemon.cli("create", box)
    with daemon.cli_start("watch", "--json", "--include", "*.py", box) as p:
        assert json.loads(p.stdout.readline())["type"] == "watching"
        make(daemon, box, f"echo > {W}/no.txt; echo > {W}/yes.py")
        event = json.loads(p.stdout.readline())
        assert event["path"] == f"{W}/yes.py" and event["eventType"] == "create"
        p.terminate()


def test_watch_says_when_it_cannot_go_on(own_daemon, own_box):
    own_daemon.cli("create", own_box)
    with own_daemon.cli_start("watch", "--json", own_box) as p:
        p.stdout.readline()
        own_daemon.kill_daemon()
        assert p.wait(30) == 1 and b"may have been missed" in p.stderr.read()
    r = own_daemon.cli("watch", own_box, "/no/such")
    assert r.returncode == 1 and r.stderr


# ---- git

def test_git_clone(daemon, box):
    make(daemon, box, """set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q -b main /srv/demo; cd /srv/demo; for i in 1 2 3; do echo $i > f; git add .; git commit -qm $i; done
        git checkout -q -b dev; echo dev > f; git commit -qam dev; git checkout -q main
        git daemon --base-path=/srv --export-all --listen=127.0.0.1 --reuseaddr --detach /srv""")
    wait_for(lambda: daemon.execute_alone(box, ": < /dev/tcp/127.0.0.1/9418")["exitCode"] == 0, "git daemon listens")
    r = daemon.cli("git", box, "clone", "git://127.0.0.1/demo")
    assert (r.returncode, r.stdout) == (0, b"/workspace/demo (main)\n"), r
    r = daemon.cli("git", box, "clone", "git://127.0.0.1/demo", "/tmp/d", "-b", "dev", "--depth", "1", "--json")
    assert json.loads(r.stdout)["branch"] == "dev"
    assert daemon.execute_alone(box, "git -C /tmp/d log --oneline | wc -l; cat /tmp/d/f")["stdout"] == "1\ndev\n"
    r = daemon.cli("git", box, "clone", "git://127.0.0.1/nothing")
    assert r.returncode == 1 and r.stderr


def test_a_terminal_sees_no_escape_sequences_in_errors(daemon, box):
    daemon.cli("create", box)
    r = daemon.cli("cat", box, "\x1b[2J\u009b2Jx")
    assert r.returncode == 1 and b"\x1b" not in r.stderr and "\u009b".encode() not in r.stderr
