"""The Python worker: one process that runs the code of one context. Protocol: docs/design/008-interpreter.md.

Importing this package does nothing but define: a zygote imports it once (and calls `preload`), and each of its children calls
`serve`. Started plainly, a process calls `main`.
"""

from __future__ import annotations

import _signal
import _thread
import gc
import json
import os
import random
import sys
import time

from . import display, errors, hooks, interrupts, rehearsal, shell, streams, wire

PRELOAD = (
    "asyncio", "base64", "bisect", "collections", "concurrent.futures", "csv", "ctypes", "dataclasses", "datetime", "decimal", "enum",
    "functools", "glob", "hashlib", "heapq", "inspect", "io", "itertools", "logging", "math", "multiprocessing", "pathlib", "pickle",
    "platform", "pprint", "re", "shutil", "socket", "sqlite3", "ssl", "statistics", "string", "subprocess", "tempfile", "textwrap",
    "threading", "typing", "urllib.request", "uuid", "zipfile",
    "numpy", "numpy.random", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "PIL.PngImagePlugin",
    "requests",
)  # fmt: skip
"""Modules that children of a zygote find imported. Modules that an image does not have are left out."""


def preload() -> list[str]:
    """Imports modules that contexts are likely to use; returns the names that could be imported. In a zygote, before it forks."""
    hooks.install()
    done = []
    for name in PRELOAD:
        try:
            __import__(name)
            done.append(name)
        except Exception:  # noqa: BLE001 (not in this image, or broken there: then contexts meet the error themselves)
            continue
    streams.prepare()
    rehearsal.rehearse()
    for _ in range(rehearsal.ROUNDS // 2):  # of these, too; with more of them children had more pages of their own
        reseed()
    return done


def reseed() -> None:
    """After a fork: nothing random may be the same in two children, and nothing may be known of the zygote's surroundings.

    os.urandom, secrets and uuid4 ask the kernel each time. OpenSSL's generator is seeded when it is first used, and nothing in a zygote uses it:
    so it is the child that seeds it. (Asking it to reseed here would build it up in every child: 3.4 MB.) Hash seeds stay those of the zygote.

    `tests/security/test_context_secrets.py` looks through all that modules hold for secrets that this forgets."""
    random.seed()
    found = sys.modules.get
    if numpy := found("numpy.random"):
        # The whole state from the kernel: seed() would build a SeedSequence first, in pages of the child's own.
        numpy.set_state(("MT19937", sys.modules["numpy"].frombuffer(os.urandom(2496), dtype="uint32"), 624))
        if sequence := _seed_sequence():
            sequence.entropy[:] = memoryview(os.urandom(16)).cast("I").tolist()
            sequence.pool[:] = memoryview(os.urandom(16)).cast("I").tolist()
    if uuid := found("uuid"):
        uuid._last_timestamp = uuid._node = None
    if tempfile := found("tempfile"):
        tempfile._name_sequence = None
    if process := found("multiprocessing.process"):
        process.current_process().authkey = os.urandom(32)
    if platform := found("platform"):
        platform._uname_cache = None  # it holds the name of the host
    if logging := found("logging"):
        logging._startTime = time.time()
    if matplotlib := found("matplotlib"):
        _forget(matplotlib.get_configdir, matplotlib.get_cachedir)  # below the zygote's home


def _seed_sequence():
    """That of numpy's global generator, from which programs spawn the seeds of others; or None. Its entropy is a list, which a child can fill anew
    where it is: a new SeedSequence takes 0.3 ms and up to 0.3 MB of the child's own."""
    numpy = sys.modules.get("numpy.random")
    sequence = numpy and getattr(numpy.mtrand._rand._bit_generator, "_seed_seq", None)
    if sequence is not None and not isinstance(sequence.entropy, list):
        sequence.__init__([0] * 4)
    return sequence


def _forget(*functions) -> None:
    """Lets matplotlib's cached functions find their answer again."""
    for function in functions:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if "called" in cells:
            cells["called"].cell_contents = False


def serve(fd: int = 3) -> None:
    """Serves a context over this socket until it ends. Never returns."""
    channel = wire.Channel(fd)
    interrupts.install()
    interrupts.install_unraisable()
    hooks.install()
    streams.install(channel)
    display.install(channel)
    os.register_at_fork(after_in_child=lambda: _after_fork(channel))
    kind, init = channel.receive()
    context = _enter(channel, init) if kind == "I" else os._exit(1)
    while True:
        kind, request = channel.receive()
        if kind != "R":
            os._exit(1)
        context.run(request)


def _enter(channel, init: dict) -> shell.Shell:
    """Takes the environment and the directory of the context, and says that it is ready."""
    environment = init.get("env")
    if environment is not None:
        _replace_environment(environment)
    try:
        os.chdir(init["cwd"])
    except OSError as error:
        channel.send("X", errors.report(error, ""))
        os._exit(1)
    # As in a console: modules beside the code can be imported, wherever it is.
    sys.path[:0] = [] if "" in sys.path else [""]
    sys.argv = [""]
    context = shell.Shell(channel)
    gc.enable()
    channel.send("Y", json.dumps({"language": init.get("language", "python"), "version": ".".join(map(str, sys.version_info[:3]))}))
    return context


def _replace_environment(new: dict) -> None:
    """Changes only the values that differ: each call leaves pages of the child's own behind."""
    for name in [name for name in os.environ if name not in new]:
        del os.environ[name]
    for name, value in new.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _after_fork(channel) -> None:
    """In a child of user code (os.fork, multiprocessing): no part in the protocol, and Ctrl-C as Python has it."""
    interrupts.busy = _thread.allocate_lock()
    if not channel.forked:
        channel.after_fork()
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    except ValueError:  # forked by another thread, which is the child's main thread only from now on
        pass


def main() -> None:
    """Entry of a process that was started for one context."""
    serve(3)
