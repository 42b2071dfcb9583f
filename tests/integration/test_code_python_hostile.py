"""Python contexts stay usable: interrupts anywhere, forks, self-harm, odd requests."""

import threading

from codeapi import Context

FOREVER = (
    "while True: pass",
    "import time; time.sleep(1000)",
    "import asyncio; await asyncio.sleep(1000)",
    "await asyncio.gather(asyncio.sleep(1000), asyncio.sleep(2000))",
    "import subprocess; subprocess.run(['sleep', '1000'])",
    "!sleep 1000",
    "%%bash\nsleep 1000",
    "import numpy as np\na = np.ones((100, 100))\nwhile True: a @ a",
    "import threading; threading.Event().wait()",
    "while True: print('x')",
    "import sys\nwhile True:\n    print('o')\n    print('e', file=sys.stderr)",
    "while True: display(1)",
    "class R:\n    def __repr__(self):\n        while True: pass\nR()",
    "import signal; signal.pause()",
)


def test_a_time_limit_interrupts_anything_and_the_state_is_kept(python):
    # Imported before: an interrupt inside of an import of C code may come out as ImportError.
    python("kept = 41\nimport asyncio, numpy, signal, subprocess, threading, time")
    for code in FOREVER:
        python.fails(code, "KeyboardInterrupt", timeout_ms=200)
        assert python("kept + 1").result["text"] == "42", code


def test_a_time_limit_that_is_over_at_once(python):
    python("kept = 1")
    for _ in range(20):
        python.fails("while True: pass", "KeyboardInterrupt", timeout_ms=1)
    assert python("kept").result["text"] == "1"


def test_contexts_share_no_randomness(code_api):
    """Also when they were forked from one process."""
    code_api.daemon.await_zygote()
    code = ("import random, numpy, uuid, ssl, secrets, tempfile\n"
            "[random.random(), numpy.random.rand(), str(uuid.uuid4()), ssl.RAND_bytes(16).hex(), secrets.token_hex(), tempfile.mktemp()]")
    contexts = [Context(code_api) for _ in range(4)]
    drawn = [c(code).result["json"] for c in contexts]
    for i, what in enumerate(("random", "numpy", "uuid", "ssl", "secrets", "tempfile")):
        assert len({str(values[i]) for values in drawn}) == len(contexts), what
    for c in contexts:
        c.delete()


def test_an_interrupt_that_is_caught(python):
    run = python("import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(1000)\n"
                 "except KeyboardInterrupt:\n    print('caught')\n'went on'")
    assert run.stdout == "caught\n" and run.result["text"] == "'went on'"


def test_a_handler_of_the_user_lasts_for_a_run(python):
    python("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    python.fails("time.sleep(1000)", "KeyboardInterrupt", timeout_ms=200)


def test_a_storm_of_interrupts(python):
    """Whenever a signal comes, a run ends in its result or in KeyboardInterrupt, and nothing of the protocol is torn."""
    pid = python("import os, sys; kept = 1; os.getpid()").result["text"]
    storm = threading.Thread(target=python.api.run, args=(f"for i in $(seq 400); do kill -INT {pid}; sleep 0.003; done",))
    storm.start()
    ends = []
    while storm.is_alive() or len(ends) < 20:
        run = python.run("for i in range(20): print(i)\nprint('e', file=sys.stderr)\ndisplay({'a': 1})\n[1, 2]")
        assert run.count
        ends.append(run.error["ename"] if run.error else run.results[-1]["text"])
    storm.join()
    assert set(ends) <= {"KeyboardInterrupt", "[1, 2]"}, ends
    assert python("kept").result["text"] == "1"


def test_a_handler_that_raises_between_runs(python):
    python("import os, signal, time\nclass Late(Exception): pass\ndef late(*_): raise Late('too late')\n"
           "signal.signal(signal.SIGALRM, late)\nsignal.signal(signal.SIGUSR1, late)")
    pid = python("kept = 1; os.getpid()").result["text"]
    python.api.sh(f"kill -USR1 {pid}; kill -ALRM {pid}")
    error = python.run("time.sleep(10)").error
    assert error and error["ename"] == "Late", "it comes with the next run, and harms nothing of ours"
    python.run("pass")
    assert python("kept").result["text"] == "1"


def test_a_handler_that_raises_while_we_speak(python):
    """An alarm while results are sent: each cell ends in its own error, and no frame is torn."""
    python("import signal, time\nclass Now(Exception): pass\ndef now(*_): raise Now\nsignal.signal(signal.SIGALRM, now)")
    code = ("end = time.monotonic() + 20\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntry:\n"
            "    while time.monotonic() < end:\n        display('x' * 5000)\n        print('o')\nfinally:\n"
            "    signal.setitimer(signal.ITIMER_REAL, 0)")
    for _ in range(15):
        python.fails(code, "Now")
    assert python("40 + 2").result["text"] == "42"


def test_an_idle_worker_does_not_mind_signals(python):
    python("import os, signal; pid = os.getpid(); kept = 1")
    pid = python("pid").result["text"]
    python.api.sh(f"for i in 1 2 3 4 5; do kill -INT {pid}; done")
    assert python("kept").result["text"] == "1"


def test_forks(python):
    code = "import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0); print('parent')\npid == 0"
    run = python(code)
    assert run.stdout == "child\nparent\n" and run.result["text"] == "False", "the child ends with the cell, and answers nothing"
    run = python("pid = os.fork()\nif pid == 0: raise ValueError('in the child')\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert run.result["text"] == "1" and "ValueError: in the child" in run.stderr
    python("def square(x): return x * x")
    assert python("import multiprocessing as mp\nwith mp.Pool(2) as p: r = p.map(square, range(4))\nr").result["json"] == [0, 1, 4, 9]
    assert python("from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as e: r = list(e.map(square, [3]))\nr").result["json"] == [9]


def test_self_harm(python):
    for code in (
        "del __builtins__",
        "globals().clear()",
        "__builtins__ = {}",
        "import sys; sys.setrecursionlimit(50)",
        "import sys; sys.modules.pop('json', None); sys.modules.pop('traceback', None)",
        "import sys; sys.stdout = None; sys.stderr = None",
        "import sys; sys.stdout = 5",
        "import sys; del sys.stdout",
        "import sys; sys.__stdout__.detach()",
        "import os; os.read = os.write = os._exit = None",
        "In.clear(); Out.clear()",
        "In = Out = _ = __ = None",
        "import os; os.makedirs('/tmp/gone', exist_ok=True); os.chdir('/tmp/gone'); os.rmdir('/tmp/gone')",
        "import gc; gc.disable(); gc.collect()",
        "import linecache; linecache.clearcache()",
        "import sys; sys.excepthook = sys.displayhook = None",
        "import builtins; builtins.print = None; builtins.display = None",
        "import asyncio; asyncio.get_event_loop_policy().new_event_loop().close()",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)",
        "import locale, os; os.environ.clear()",
    ):
        python.run(code)
        run = python("40 + 2")
        assert run.result["text"] == "42", code
    assert python("import sys; sys.stdout = sys.__stdout__; sys.stdout.write('fine\\n');").stdout == "fine\n"
    assert python("__name__").result["text"] == "'__main__'"
    python.fails("1/0", "ZeroDivisionError")


def test_a_worker_that_ends_itself_is_an_error(python):
    run = python.run("import os; print('last words'); os._exit(3)")
    assert run.stdout == "last words\n" and run.error and not run.of("execution_complete")
    assert "3" in run.error["evalue"]


def test_a_worker_that_is_killed_is_an_error(python):
    run = python.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run.error and not run.of("execution_complete") and "SIGKILL" in run.error["evalue"]


def test_environment_of_one_run(python):
    python("import os; os.environ['STAYS'] = '1'")
    run = python("os.environ['ONCE'], os.environ.get('STAYS'), os.popen('echo $ONCE').read()", env_vars={"ONCE": "now", "STAYS": "2"})
    assert run.result["text"] == "('now', '2', 'now\\n')"
    assert python("os.environ.get('ONCE'), os.environ['STAYS']").result["text"] == "(None, '1')"


def test_code_that_is_no_text_of_python(python):
    error = python.run("x = 1\0").error
    assert error["ename"] in ("ValueError", "SyntaxError") and "null bytes" in error["evalue"]
    assert python("x = 1\r\nprint(x)\r\nx + 1;\r\nx\r\n").order() == [("stdout", "1\n"), ("result", "1")]
    assert python("\ufeffx = 2\nx").result["text"] == "2"
    assert python("x\f\n").result["text"] == "2"


def test_user_code_after_the_run_can_be_interrupted_too(python):
    python("kept = 1")
    # The name is that of the error, unless the limit was over before it was raised.
    run = python.run("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E()", timeout_ms=1000)
    assert run.count and run.error["ename"] in ("E", "KeyboardInterrupt")
    python.run("import sys\nclass S:\n    def flush(self):\n        while True: pass\n    def write(self, t): pass\nsys.stdout = S()", timeout_ms=200)
    python.run("import sys; sys.stdout = sys.__stdout__")
    assert python("kept").result["text"] == "1"
