"""A fork leaves much the same in every context: secrets that modules drew at import, the C library's, the zygote's surroundings."""

import ast
import json
import os

import boxapi
import pytest
from codeapi import Context
from zygotes import host_pid

ZYGOTE = True
SHARED = {"ctypes.pythonapi._handle"}
"""Addresses: contexts of an image share the zygote's address space layout (SECURITY.md)."""

SWEEP = r"""
import json, sys, types
def sweep(depth=5):
    found, seen = {}, set()
    def walk(path, value, left):
        if isinstance(value, (bytes, bytearray, str, int, float)) and not isinstance(value, bool):
            found[path] = repr(value)[:200]
            return
        if id(value) in seen or not left or isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return
        seen.add(id(value))
        if isinstance(value, (list, tuple)):
            inside = [(f'[{i}]', v) for i, v in enumerate(value[:700])]
        elif isinstance(value, dict):
            inside = [(f'[{k!r:.60}]', v) for k, v in value.items() if isinstance(k, (str, bytes, int))]
        else:
            inside = [('.' + k, v) for k, v in dict(getattr(value, '__dict__', None) or {}).items() if isinstance(k, str)]
        for name, v in inside:
            walk(path + name, v, left - 1)
    for name, module in sorted(sys.modules.items()):
        if module is not None and not name.startswith(('atoll_worker', '__main__')):
            for key, value in sorted(vars(module).items()):
                if key not in ('__builtins__', '__doc__', '__file__', '__cached__'):
                    walk(f'{name}.{key}', value, depth)
    return found
with open('/tmp/sweep.json', 'w') as f:
    json.dump(sweep(), f)
"""


@pytest.fixture(scope="module")
def four(daemon):
    """Two contexts from the zygote, then two that were started plainly; each in a box of its own."""
    assert host_pid(daemon)
    boxes = [f"secrets-{n}" for n in range(4)]
    yield [Context(boxapi.Api(daemon, box), **({"env_vars": {"PYTHONHASHSEED": "7"}} if n > 1 else {})) for n, box in enumerate(boxes)]
    for box in boxes:
        daemon.destroy(box)


def said(context, code):
    run = context(code)
    assert run.error is None, run.error
    return ast.literal_eval(ast.literal_eval(run.result["text"]))


def test_no_module_keeps_what_each_process_has_for_itself(four):
    """What differs between two interpreters that imported the same modules belongs to a process: it must differ between two contexts, too."""
    names = said(four[0], "import atoll_worker.main\nstr(atoll_worker.main.PRELOAD)")
    found = []
    for c in four:
        c(f"for name in {names!r}:\n    try:\n        __import__(name)\n    except Exception:\n        pass")
        assert c(SWEEP).error is None
        found.append(json.loads(c.api.get("/tmp/sweep.json")))
    others = set(found[3].values())  # sets are in the order of addresses: a value that is elsewhere there is nobody's own
    own = {k for k, v in found[2].items() if k in found[3] and v not in others}
    assert "multiprocessing.process._current_process._config['authkey']" in own and len(found[0]) > 10_000
    same = {k for k in own if k in found[0] and found[0][k] == found[1].get(k)}
    # When a directory of the image was last changed is no secret: an import that writes compiled code changes it.
    assert {k for k in same if not k.endswith(("_addr", "._path_mtime"))} <= SHARED, same


DRAWN = """
import multiprocessing, numpy, random, secrets, ssl, tempfile, uuid, email.utils, os
sequence = numpy.random.mtrand._rand._bit_generator._seed_seq
str([bytes(multiprocessing.current_process().authkey), random.random(), random.gauss(0, 1), numpy.random.rand(),
     float(numpy.random.normal()), str(sequence.entropy), str(sequence.pool),
     int(sequence.spawn(1)[0].generate_state(1)[0]), float(numpy.random.default_rng().random()), ssl.RAND_bytes(16), secrets.token_hex(), str(uuid.uuid1()),
     str(uuid.uuid4()), tempfile.mktemp(), os.urandom(8), email.utils.make_msgid()])
"""


def test_what_libraries_draw_is_each_contexts_own(four):
    drawn = [said(c, DRAWN) for c in four]
    for values in zip(*drawn):
        assert len(set(values)) == len(four), values


def test_nothing_of_the_zygotes_surroundings_is_known(four):
    code = ("import os, platform, tempfile, matplotlib\n"
            "str([platform.node() == os.uname().nodename, matplotlib.get_configdir(), matplotlib.get_cachedir(), tempfile.gettempdir()])")
    assert said(four[0], code) == said(four[2], code)
    assert said(four[0], code)[0] is True


WORDS = """
import ctypes
libc = ctypes.CDLL(None)
libc.pthread_self.restype = libc.getauxval.restype = ctypes.c_void_p
thread = libc.pthread_self()
str([ctypes.c_uint64.from_address(thread + 0x28).value, ctypes.string_at(libc.getauxval(25), 16)])
"""


def test_the_stack_canary_is_each_contexts_own(four):
    if os.uname().machine != "x86_64":
        pytest.skip("the canary lies in read-only memory on this machine (SECURITY.md)")
    canaries, seeds = zip(*(said(c, WORDS) for c in four))
    assert len(set(canaries)) == len(set(seeds)) == len(four), (canaries, seeds)
    assert all(c and not c & 0xFF for c in canaries)


LIBRARY = """
import ctypes, os, signal, threading, subprocess
libc = ctypes.CDLL(None)
head, size = ctypes.c_void_p(), ctypes.c_size_t()
libc.syscall(274 if os.uname().machine == 'x86_64' else 100, 0, ctypes.byref(head), ctypes.byref(size))
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(os.getpid()))
signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
libc.raise_ = libc['raise']
libc.raise_(signal.SIGUSR1)
thread = threading.Thread(target=got.append, args=(0,))
thread.start(); thread.join()
child = os.fork()
if child == 0:
    os._exit(7)
str([got == [os.getpid(), os.getpid(), 0], threading.get_native_id() == os.getpid(), bool(head.value), size.value,
     os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
     subprocess.run(['echo', 'x'], capture_output=True).stdout])
"""


def test_the_c_library_knows_the_process_that_it_is_in(four):
    """What its own fork() would have renewed: thread number, robust mutexes; and signals, threads, fork and exec work."""
    for c in four[0], four[2]:
        assert said(c, LIBRARY) == [True, True, True, 24, 7, b"x\n"]
