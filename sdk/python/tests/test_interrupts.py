"""Ctrl-C: the program ends at once with KeyboardInterrupt, and so does what a stream runs in the sandbox."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from atoll_sandbox import Sandbox

from .conftest import until

# A test run in the background hands on that it ignores SIGINT.
BEGIN = """
import signal, sys
from atoll_sandbox import Sandbox
signal.signal(signal.SIGINT, signal.default_int_handler)
with Sandbox(sys.argv[1]) as sandbox:"""
SHELL = "echo $BASHPID > /tmp/pid; while echo x; do sleep 0.05; done"
CODE = "import os, time; open('/tmp/pid', 'w').write(str(os.getpid()))\nwhile True: print('x'); time.sleep(0.05)"
PROGRAMS = {
    "stream": f"""
    for event in sandbox.exec_stream({SHELL!r}):
        print(event.type, flush=True)
""",
    "callback": f"""
    sandbox.exec({SHELL!r}, on_stdout=lambda text: print(text, flush=True))
""",
    "code": f"""
    sandbox.run_code({CODE!r}, on_stdout=lambda output: print(output.text, flush=True))
""",
    "exec": """
    print("begins", flush=True)
    sandbox.exec("sleep 600")
""",
    "wait": """
    process = sandbox.start_process("sleep 600")
    print("begins", flush=True)
    process.wait_for_exit()
""",
    "terminal": """
    with sandbox.terminal() as terminal:
        print("begins", flush=True)
        terminal.wait_for("never")
""",
    "outbound": """
    import threading
    sandbox.set_outbound_handler(print)
    print("begins", flush=True)
    threading.Event().wait()
""",
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_ctrl_c(box_id: str, kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + PROGRAMS[kind], box_id], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None and program.stdout.readline()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and "ignored" not in errors, errors
    if kind in ("stream", "callback"):
        with Sandbox(box_id) as sandbox:
            until(lambda: not sandbox.exec("kill -0 $(cat /tmp/pid)", session="other").success, "the end of the command")
    elif kind == "code":
        with Sandbox(box_id) as sandbox:
            assert sandbox.run_code("'free again'").text == "'free again'"
