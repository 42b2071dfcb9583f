"""The rows that drive the unmodified @cloudflare/sandbox in workerd, through atoll-sandbox: all of them in Node, some (matrix.py) in
Bun, and in Deno and workerd some of those that use another part of the runtime (requests, streams both ways, sockets, aborts)."""

import contextlib
import json
import subprocess

import matrix
import package
import pytest

NAMES = package.row_names()
SOME = {"exec", "execStream", "exec: stream, onOutput, onComplete", "setEnvVars", "createSession", "streamProcessLogs",
        "process.waitForPort", "process.waitForExit", "writeFile", "readFile", "readFileStream, streamFile, collectFile", "watch",
        "terminal", "proxyTerminal", "runCode: python", "runCodeStream", "proxyToSandbox", "proxyToSandbox: streams",
        "proxyToSandbox: WebSocket", "wsConnect", "containerFetch", "destroy", "FileNotFoundError, FileSystemError"}
pytestmark = pytest.mark.limit(1800)  # all rows of four runtimes run in one set-up


@pytest.fixture(scope="module")
def results(daemon, request, tmp_path_factory):
    """Runs the rows that were asked for, once in each runtime."""
    wanted = {}
    for item in request.session.items:
        if item.module is request.module and hasattr(item, "callspec"):
            wanted.setdefault(item.callspec.params["runtime"], []).append(item.callspec.params["name"])
    # Side by side: most of their time is waiting.
    with contextlib.ExitStack() as stack:
        def start(runtime, names):
            err = stack.enter_context(open(tmp_path_factory.mktemp(runtime) / "err", "w+", encoding="utf-8"))
            command = [*package.ROWS_IN[runtime], *names]
            return subprocess.Popen(command, cwd=package.PACKAGE, stdout=subprocess.PIPE, stderr=err, text=True,
                                    env=package.reaching(daemon)), err
        running = {runtime: start(runtime, names) for runtime, names in wanted.items()}
        stack.callback(lambda: [p.kill() for p, _ in running.values()])
        done = {}
        for runtime, (p, err) in running.items():
            out = p.communicate(timeout=400)[0]
            err.seek(0)
            done[runtime] = {row["name"]: row for row in map(json.loads, out.splitlines())}, err.read()
    return done


@pytest.mark.skipif(not NAMES, reason=package.WHY_NOT)
def test_there_are_rows():
    assert len(NAMES) > 60
    assert not SOME - set(NAMES)


def runtimes(name):
    return [runtime for runtime in package.ROWS_IN if runtime in ("node", "bun") or name in SOME]


# The few rows of four runtimes by themselves: their diagonal reaches each runtime.
CHOSEN = [pair for rows in ([n for n in NAMES if n in SOME], [n for n in NAMES if n not in SOME]) for pair in matrix.chosen(rows, runtimes)]


@pytest.mark.parametrize("name,runtime", CHOSEN)
def test_row(results, runtime, name):
    rows, stderr = results[runtime]
    assert name in rows, stderr[-3000:]
    if "skipped" in rows[name]:
        pytest.skip(rows[name]["skipped"])
    assert rows[name]["ok"], rows[name]["error"]
