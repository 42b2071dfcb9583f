"""`atoll code` against a real daemon: pieces of code, files, pictures, and line by line at a real terminal."""

import json
import os
import signal
import subprocess

import pytest
from atoll import BIN, box_path, wait_for
from ttylib import Terminal


@pytest.fixture(scope="module")
def box(daemon):
    """One box for all: to start interpreters takes longest."""
    yield "code"
    daemon.destroy("code")


def code(daemon, box, *args, cwd=None, input=b"", env=None):
    return subprocess.run([BIN / "atoll", "code", box, *args], env={**daemon.env, **(env or {})}, cwd=cwd, input=input,
                          capture_output=True, timeout=120, check=False)


def contexts(daemon, box):
    return daemon.request("GET", box_path(box, "/api/contexts")).json()["contexts"]


# ---- pieces of code

@pytest.mark.parametrize("options, text, out", [
    ([], "6 * 7", b"42\n"),
    (["-l", "python"], "print('a'); 'b'", b"a\n'b'\n"),
    (["-l", "js"], "console.log('a'); [1, 'b']", b"a\n[ 1, 'b' ]\n"),
    (["--language=ts"], "const a: number = 6; a * 7", b"42\n"),
    ([], "None", b""),
])
def test_what_is_printed_and_returned(daemon, box, options, text, out):
    r = code(daemon, box, *options, "-c", text)
    assert (r.returncode, r.stdout, r.stderr) == (0, out, b"")


def test_variables_are_kept_within_a_call_and_not_beyond(daemon, box, tmp_path):
    (tmp_path / "b.py").write_text("x += 1\nprint(x)\n")
    (tmp_path / "c.py").write_text("x * 10")
    r = code(daemon, box, "-c", "x = 1", "b.py", "c.py", cwd=tmp_path)
    assert (r.returncode, r.stdout) == (0, b"2\n20\n"), r
    assert code(daemon, box, "-c", "x").returncode == 1
    assert contexts(daemon, box) == []


def test_code_from_stdin_and_the_language_of_a_file(daemon, box, tmp_path):
    assert code(daemon, box, input=b"print(1)\n2").stdout == b"1\n2\n"
    (tmp_path / "a.ts").write_text("let n: number = 4; n + 1")
    assert code(daemon, box, "a.ts", cwd=tmp_path).stdout == b"5\n"
    assert code(daemon, box, "a.ts", "-", cwd=tmp_path, input=b"n + 2").stdout == b"5\n6\n"


@pytest.mark.parametrize("text, exit_code, errors", [
    ("exit()", 0, b""),
    ("import sys; sys.exit(0)", 0, b""),
    ("raise SystemExit", 0, b""),
    ("import sys; sys.exit(3)", 3, b""),
    ("import sys; sys.exit(-1)", 255, b""),
    ("import sys; sys.exit('no input')", 1, b"no input\n"),
])
def test_pythons_exit_is_no_error(daemon, box, text, exit_code, errors):
    r = code(daemon, box, input=b"print('before')\n" + text.encode())
    assert (r.returncode, r.stdout, r.stderr) == (exit_code, b"before\n", errors)
    r = code(daemon, box, "-c", text, "-c", "print('never')")
    assert (r.returncode, r.stdout) == (exit_code, b"")
    assert code(daemon, box, "--json", "-c", text).returncode == exit_code


def test_an_error_has_its_traceback_on_stderr_and_ends_it(daemon, box):
    r = code(daemon, box, "-c", "print('before')\n1/0", "-c", "print('never')")
    assert r.returncode == 1 and r.stdout == b"before\n"
    assert b"Traceback" in r.stderr and r.stderr.endswith(b"ZeroDivisionError: division by zero\n") and b"\x1b" not in r.stderr
    r = code(daemon, box, "-l", "js", "-c", "throw new TypeError('no')")
    assert r.returncode == 1 and b"TypeError: no" in r.stderr
    r = code(daemon, box, "-c", "def broken(")
    assert r.returncode == 1 and b"SyntaxError" in r.stderr


def test_directory_variables_and_time_limit(daemon, box):
    r = code(daemon, box, "--cwd", "/tmp", "-e", "A=1 2", "-c", "import os; os.getcwd(), os.environ['A']")
    assert r.stdout == b"('/tmp', '1 2')\n"
    r = code(daemon, box, "-t", "0.5", "-c", "while True: pass")
    assert r.returncode == 1 and r.stderr


def test_an_interpreter_that_ends_is_told(daemon, box):
    r = code(daemon, box, "-c", "import os; os._exit(3)")
    assert r.returncode == 1 and b"exited with code 3" in r.stderr
    assert contexts(daemon, box) == []


def test_a_context_that_is_named_stays(daemon, box):
    made = daemon.request("POST", box_path(box, "/api/contexts"), {"language": "python"}).json()["contextId"]
    assert code(daemon, box, "--context", made, "-c", "kept = 1").returncode == 0
    assert code(daemon, box, "--context", made, "-c", "kept").stdout == b"1\n"
    daemon.request("DELETE", box_path(box, f"/api/contexts/{made}"))
    r = code(daemon, box, "--context", made, "-c", "kept")
    assert r.returncode == 1 and b"not found" in r.stderr


def test_as_json_a_line_for_each_event(daemon, box):
    r = code(daemon, box, "--json", "-c", "print(1); 2")
    events = [json.loads(line) for line in r.stdout.splitlines()]
    assert [e["type"] for e in events] == ["stdout", "result", "execution_complete"] and events[1]["text"] == "2"


def test_pictures_and_html_are_written_beside(daemon, box, tmp_path):
    (tmp_path / "plot.py").write_text("import matplotlib.pyplot as plt\nplt.plot([1, 2, 4]); plt.show()\n")
    (tmp_path / "atoll-1.png").write_text("mine")
    table = ("-c", "import pandas; pandas.DataFrame({'a': [1]})")
    r = code(daemon, box, "plot.py", *table, cwd=tmp_path)
    assert r.returncode == 0, r
    assert r.stdout.splitlines()[-1] == b"atoll-2.png" and b"html" not in r.stdout
    assert (tmp_path / "atoll-2.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "atoll-1.html").exists() and (tmp_path / "atoll-1.png").read_text() == "mine"
    (tmp_path / "asked").mkdir()
    r = code(daemon, box, "--dir", "asked", *table, cwd=tmp_path)
    assert b"asked/atoll-1.html" in r.stdout and "<table" in (tmp_path / "asked/atoll-1.html").read_text()
    (tmp_path / "out").mkdir()
    code(daemon, box, "--dir", "out", "plot.py", cwd=tmp_path)
    assert os.listdir(tmp_path / "out") == ["atoll-1.png"]
    before = sorted(os.listdir(tmp_path))
    assert code(daemon, box, "--no-files", "plot.py", cwd=tmp_path).returncode == 0
    assert sorted(os.listdir(tmp_path)) == before


def test_wrong_usage(daemon, box, tmp_path):
    for args, text in ((["-l", "perl", "-c", "1"], b"write python, js or ts"), (["-e", "1=2", "-c", "1"], b"NAME=VALUE")):
        r = code(daemon, box, *args)
        assert r.returncode == 2 and text in r.stderr
    r = code(daemon, box, "nope.py", cwd=tmp_path)
    assert r.returncode == 1 and b"nope.py" in r.stderr
    assert contexts(daemon, box) == []


def test_ctrl_c_interrupts_the_run(daemon, box):
    with daemon.cli_start("code", box, "-c", "print('on', flush=True)\nwhile True: pass") as p:
        assert p.stdout.readline() == b"on\n"
        p.send_signal(signal.SIGINT)
        assert p.wait(60) == 130
    wait_for(lambda: contexts(daemon, box) == [], "its context is gone")


# ---- line by line

def repl(daemon, box, *args, cwd=None):
    return Terminal(["env", "-C", cwd or "/tmp", BIN / "atoll", "code", box, *args], daemon.env)


def test_line_by_line(daemon, box, tmp_path):
    with repl(daemon, box, cwd=tmp_path) as t:
        t.wait(r">>> ")
        t.type("x = 20\r")
        t.type("x + 1\r")
        at = t.wait(r"\r\n21\r\n.*>>> ")
        t.type("def f(n):\r    return n * 2\r\r")
        at = t.wait(r"\.\.\. .*\.\.\. .*>>> ", at)
        t.type("f(x)\r")
        at = t.wait(r"\r\n40\r\n.*>>> ", at)
        t.type("(1 +\r2)\r")
        at = t.wait(r"\.\.\. .*\r\n3\r\n.*>>> ", at)
        t.type("1/0\r")
        at = t.wait(r"ZeroDivisionError.*>>> ", at)
        t.type("x\r")
        at = t.wait(r"\r\n20\r\n.*>>> ", at)
        t.type("\x04")
        assert t.exit_code() == 0 and t.is_as_before()
    wait_for(lambda: contexts(daemon, box) == [], "its context is gone")


@pytest.mark.parametrize("typed", ["exit()", "quit()", "exit"])
def test_exit_leaves(daemon, box, typed):
    with repl(daemon, box) as t:
        t.wait(r">>> ")
        t.type(typed + "\r")
        assert t.exit_code() == 0 and t.is_as_before()
        assert b"interpreter has ended" not in t.out


def test_keys_of_the_line_editor(daemon, box):
    with repl(daemon, box) as t:
        at = t.wait(r">>> ")
        # "7" before it, a wrong letter taken back, a word deleted, home and end
        t.type("'wrong word\x17\x17'abcX\x7f\x1b[D\x1b[D\x1b[H\x1b[C<\x05>'\r")
        at = t.wait(r"\r\n'<abc>'\r\n.*>>> ", at)
        t.type("\x1b[A\x7f + 'ü🙂'\x7f\x7f!'\r".replace("\x7f + ", " + ", 1))
        at = t.wait("\r\n'<abc>ü!'\r\n.*>>> ".encode(), at)
        t.type("\x10\x10\x0e\x15'kill' # rest\x01\x06\x06\x06\x06\x06\x06\x0b\r")
        at = t.wait(r"\r\n'kill'\r\n.*>>> ", at)
        t.type("never run\x03")
        at = t.wait(r"never run\x1b\[K\r\n.*>>> ", at)
        t.type("'x' * 200\r")
        t.wait("x" * 200, at)
        t.type("'" + "y" * 300 + "'[0]\r")  # longer than the terminal is wide
        t.wait(r"\r\n'y'\r\n", at)
        t.type("\x04")
        assert t.exit_code() == 0 and t.is_as_before()


def test_ctrl_c_while_it_runs_keeps_the_variables(daemon, box):
    with repl(daemon, box) as t:
        at = t.wait(r">>> ")
        t.type("x = 5\rprint('go' + 'ing'); import time; time.sleep(1000)\r")
        at = t.wait("going\r\n", at)
        t.type("\x03")
        at = t.wait("interrupted\r\n.*>>> ", at)
        t.type("x\r")
        at = t.wait(r"\r\n5\r\n.*>>> ", at)
        t.process.send_signal(signal.SIGTERM)
        assert t.exit_code() == 128 + signal.SIGTERM and t.is_as_before()


def test_ctrl_d_that_is_typed_while_it_runs_ends_it_after(daemon, box):
    with repl(daemon, box) as t:
        at = t.wait(r">>> ")
        # Half a second is for the key to be there first; behind the end it does the same.
        t.type("import time, os; print('go' + 'ing', flush=True); time.sleep(0.5)\r")
        t.wait("going\r\n", at)
        t.type("\x04")
        assert t.exit_code() == 0 and t.is_as_before()


def test_javascript_line_by_line(daemon, box):
    with repl(daemon, box, "-l", "js") as t:
        at = t.wait(r"JavaScript.*> ")
        t.type("const f = (a) => {\rreturn `${a}\r}`\r}\rf(1)\r")
        t.wait(r"\n1\r\n}\r\n", at)
        t.type("\x04")
        assert t.exit_code() == 0


def test_a_daemon_that_dies_is_told_and_the_terminal_is_as_before(own_daemon, own_box):
    with repl(own_daemon, own_box) as t:
        at = t.wait(r">>> ")
        t.type("print('go' + 'ing'); import time; time.sleep(1000)\r")
        t.wait("going\r\n", at)
        own_daemon.kill_daemon()
        assert t.exit_code() == 1 and t.is_as_before() and b"atoll code:" in t.out
