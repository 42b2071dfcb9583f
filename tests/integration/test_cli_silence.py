"""The command line gives up on a daemon that takes requests and answers nothing. A command that takes long is not disturbed.

All of them wait for limits of 20 to 60 s: they begin together, and each test waits for the end of its own.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from atoll import BIN
from ttylib import Terminal

LOST = b"it accepts no requests, or answers none\n  Check that ATOLL_URL names a daemon of Atoll, and its log."
CALLS = [["list"], ["exec", "b", "true"], ["run", "true"], ["logs", "-f", "b", "p"], ["watch", "b"], ["code", "b", "-c", "1"], ["stats"],
         ["cp", "/etc/hostname", "b:/tmp/"], ["cp", "b:/tmp/f", "."], ["build", "."], ["backup", "b"]]


@contextlib.contextmanager
def listener(where, path):
    """Connections are made, and that is all. Gives the ATOLL_URL for it."""
    with socket.socket(socket.AF_UNIX if where == "unix" else socket.AF_INET) as server:
        server.bind(str(path / "s") if where == "unix" else ("127.0.0.1", 0))
        server.listen(64)
        yield f"unix:{path}/s" if where == "unix" else f"{where}://127.0.0.1:{server.getsockname()[1]}"


def a_server_that_never_answers(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    env = {key: value for key, value in os.environ.items() if not key.startswith("ATOLL_")}

    def run(url, args):
        return subprocess.run([BIN / "atoll", *args], env={**env, "ATOLL_URL": url, "ATOLL_TOKEN": "t", "NO_COLOR": "1"}, cwd=tmp_path,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=85, check=False)

    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(listener(where, tmp_path)) for where in ("http", "unix", "https")]
        calls = [(url, args) for url in urls for args in (CALLS if url == urls[0] else CALLS[:2])]
        pool = stack.enter_context(ThreadPoolExecutor(len(calls)))
        for (url, args), r in zip(calls, pool.map(run, *zip(*calls))):
            assert r.returncode == (125 if args[0] in ("exec", "run") else 1) and r.stdout == b"", (url, args, r)
            assert (b"the daemon does not answer" if url.startswith("https") else LOST) in r.stderr, (url, args, r)


def a_shell_a_model_and_a_doctor(tmp_path):
    plain = {key: value for key, value in os.environ.items() if not key.startswith("ATOLL_")}
    with listener("http", tmp_path) as url:
        env = {**plain, "ATOLL_URL": url, "ATOLL_TOKEN": "t", "NO_COLOR": "1"}
        mcp, doctor, execute = running = [subprocess.Popen([BIN / "atoll", *args], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                           stderr=subprocess.PIPE)
                                          for args in (["mcp"], ["doctor", "--json"], ["exec", "--json", "b", "true"])]
        try:
            mcp.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
            mcp.stdin.flush()
            with Terminal([BIN / "atoll", "shell", "b"], env) as t:
                t.wait("it accepts no requests, or answers none\r\n  Check that ATOLL_URL")
                assert t.exit_code() == 125
            assert "it accepts no requests, or answers none. Check that" in json.loads(mcp.stdout.readline())["error"]["message"]
            assert mcp.communicate(timeout=85) and mcp.returncode == 0
            report = json.loads(doctor.communicate(timeout=85)[0])
            (row,) = [check for check in report["checks"] if check["name"] == "daemon"]
            assert (row["state"], report["ready"], doctor.returncode) == ("missing", False, 1) and "answers none" in row["detail"], row
            assert json.loads(execute.communicate(timeout=85)[1])["code"] == "GATEWAY_TIMEOUT"
            assert execute.returncode == 125
        finally:
            for one in running:
                one.kill()
                one.wait()


def a_command_that_takes_long(daemon):
    assert daemon.cli("exec", "long", "--", "bash", "-c", "sleep 22; echo slept", timeout=85).stdout == b"slept\n"


@pytest.fixture(scope="module")
def begun(daemon, tmp_path_factory):
    with ThreadPoolExecutor() as pool:
        futures = {one: pool.submit(one, tmp_path_factory.mktemp("silence")) for one in (a_server_that_never_answers, a_shell_a_model_and_a_doctor)}
        yield {**futures, a_command_that_takes_long: pool.submit(a_command_that_takes_long, daemon)}


def test_a_daemon_that_is_stopped(begun, own_daemon):
    """As by SIGSTOP, a debugger, or a kernel that no longer schedules it."""
    del begun  # while this one waits
    own_daemon.execute("b", "true")
    background = own_daemon.request("POST", "/v1/sandboxes/b/api/process/start", {"command": "echo begun; sleep 1000", "processId": "p"})
    assert background.status == 200, background
    calls = [["exec", "b", "--", "bash", "-c", "echo begun; sleep 1000"], ["exec", "--json", "--session", "s", "b", "--", "sleep 1000"],
             ["logs", "-f", "b", "p"], ["watch", "b"]]
    running = [own_daemon.cli_start(*args) for args in calls]
    try:
        for one in (running[0], running[2]):
            assert select.select([one.stdout], [], [], 60)[0], "it has begun"
        os.kill(own_daemon.daemon_pid, signal.SIGSTOP)
        try:
            running.append(own_daemon.cli_start("list"))
            ended = [one.communicate(timeout=160) for one in running]
        finally:
            os.kill(own_daemon.daemon_pid, signal.SIGCONT)
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert [one.returncode for one in running] == [125, 125, 1, 1, 1], ended
    assert all(b"answers none" in stderr for _, stderr in ended), ended
    assert LOST in ended[-1][1], ended
    assert own_daemon.cli("exec", "b", "--", "echo", "back").stdout == b"back\n"


def test_a_server_that_never_answers(begun):
    begun[a_server_that_never_answers].result()


def test_a_shell_a_model_and_a_doctor_do_not_wait_for_ever(begun):
    begun[a_shell_a_model_and_a_doctor].result()


def test_a_command_that_takes_long_is_not_given_up(begun):
    begun[a_command_that_takes_long].result()
