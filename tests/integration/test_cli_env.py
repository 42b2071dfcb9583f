"""`atoll env` against a real daemon: variables that everything in a box starts with, at once and after a new start."""

import json
import subprocess

from atoll import BIN, box_path, wait_for


def value(daemon, box, *names):
    script = "; ".join(f'echo "${{{n}-unset}}"' for n in names)
    return daemon.cli("exec", box, "--", "sh", "-c", script).stdout.decode().splitlines()


def test_set_list_unset(daemon, box):
    r = daemon.cli("env", box, "set", "A=1 2=3", "B=", "C=ü$HOME'\"")  # makes the box
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"")
    assert value(daemon, box, "A", "B", "C") == ["1 2=3", "", "ü$HOME'\""]
    assert daemon.cli("env", box).stdout == daemon.cli("env", box, "list").stdout == b"A\nB\nC\n"
    assert daemon.cli("env", box, "set", "A=new", "D=4").returncode == 0
    assert daemon.cli("env", box, "unset", "B", "nothing").returncode == 0
    assert value(daemon, box, "A", "B", "C", "D") == ["new", "unset", "ü$HOME'\"", "4"]
    assert json.loads(daemon.cli("env", box, "--json").stdout)["envNames"] == ["C", "A", "D"]


def test_all_that_starts_from_then_on_has_them(daemon, box):
    daemon.cli("exec", box, "-s", "old", "true")
    daemon.cli("env", box, "set", "A=1")
    assert daemon.cli("exec", box, "-s", "old", "echo ${A-unset}").stdout == b"unset\n"
    assert daemon.cli("exec", box, "-s", "new", "echo ${A-unset}").stdout == b"1\n"
    daemon.cli("exec", box, "-d", "--name", "p", "--", "sh", "-c", "echo $A")
    assert daemon.cli("logs", "-f", box, "p").stdout == b"1\n"
    assert daemon.cli("exec", box, "-e", "A=mine", "--", "sh", "-c", "echo $A").stdout == b"mine\n"


def test_they_outlive_the_box_and_the_daemon(own_daemon, own_box):
    own_daemon.cli("env", own_box, "set", "A=1", "B=2")
    own_daemon.cli("env", own_box, "unset", "B")
    own_daemon.execute_alone(own_box, "true")
    own_daemon.request("POST", box_path(own_box, "/api/execute"), {"command": "kill -9 -1", "sessionId": "__DISABLE_SESSION__"})
    own_daemon.kill_daemon()
    own_daemon.await_warden()
    wait_for(lambda: value(own_daemon, own_box, "A", "B") == ["1", "unset"], "the variables are there again")


def test_what_cannot_be(daemon, box):
    for args in (["list"], ["unset", "A"]):
        r = daemon.cli("env", box, *args)
        assert r.returncode == 1 and b"no box" in r.stderr
    assert box not in daemon.boxes()
    daemon.cli("env", box, "set", "A=1")
    r = daemon.cli("env", box, "set", "BIG=" + "x" * 65000)
    assert r.returncode == 0
    r = daemon.cli("env", box, "set", "BIG2=" + "x" * 65000)
    assert r.returncode == 1 and b"larger than" in r.stderr
    assert value(daemon, box, "A") == ["1"] and daemon.cli("env", box).stdout == b"A\nBIG\n"


# ---- --export

def evaluated(daemon, **env):
    """What a shell has after it has read the line."""
    r = subprocess.run(["bash", "-c", 'set -e; line=$("$0" env --export); eval "$line"; printf "%s\n" "$ATOLL_URL" "${ATOLL_TOKEN-unset}"',
                        BIN / "atoll"], env={**daemon.env, **env}, capture_output=True, text=True, timeout=60, check=False)
    return r.returncode, r.stdout.splitlines(), r.stderr


def test_export_is_for_curl_and_the_sdks(daemon):
    """Without ATOLL_URL the daemon's TCP address, which curl can use, and its token."""
    assert evaluated(daemon) == (0, [f"http://{daemon.address}", daemon.token], "")
    line = 'eval "$("$0" env --export)"; curl -sS -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $ATOLL_TOKEN" "$ATOLL_URL/v1/sandboxes"'
    r = subprocess.run(["bash", "-c", line, BIN / "atoll"], env=daemon.env, capture_output=True, text=True, timeout=60, check=False)
    assert (r.stdout, r.stderr) == ("200", "")
    assert json.loads(daemon.cli("env", "--export", "--json").stdout) == {"url": f"http://{daemon.address}", "token": daemon.token}


def test_export_keeps_what_is_set(daemon):
    url = f"http://localhost:{daemon.address.rpartition(':')[2]}"
    assert evaluated(daemon, ATOLL_URL=url, ATOLL_TOKEN=daemon.token) == (0, [url, daemon.token], "")
    assert evaluated(daemon, ATOLL_URL=f"unix:{daemon.socket}") == (0, [f"unix:{daemon.socket}", "unset"], "")


def test_export_prints_nothing_that_does_not_work(daemon):
    code, lines, errors = evaluated(daemon, ATOLL_TOKEN="it's wrong")
    assert (code, lines) == (1, []) and "Set ATOLL_TOKEN" in errors
    code, lines, errors = evaluated(daemon, ATOLL_URL="http://127.0.0.1:9")
    assert (code, lines) == (1, []) and "no daemon at 127.0.0.1:9" in errors
    r = daemon.cli("env", "box", "--export")
    assert r.returncode == 2 and b"one word too many" in r.stderr
