"""The zygote: imports the modules that contexts use, then waits in C (src/worker/join.c) and comes back only in children, inside a box.

It never runs user code. A child whose box has other packages than the image (pip install, a changed interpreter) ends
before it has said a word: the agent then starts the context plainly.
"""

import ctypes
import gc
import os
import site
import sys
import threading

from . import main as worker

CONTROL, PIDNS, STAT = 3, 5, 6  # descriptors; 4 was the worker's text, 6 is /proc/self/stat until it was read
JOIN = "/tmp/join.so"  # put there by the warden, in a tmpfs of the zygote's own


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        st = os.stat(path)
    except OSError:
        return None
    return st.st_mtime_ns, st.st_size


class Image:
    """The state of the paths that decide an import, in the image; compared with the box's view of the same paths."""

    def __init__(self, home: str = "/root") -> None:
        self.executable = os.path.realpath(sys.executable)
        self.program = _stamp(self.executable)
        self.user_site = os.path.join(home, os.path.relpath(site.getusersitepackages(), os.path.expanduser("~")))
        self.directories = [d for d in sys.path if d and os.path.isdir(d)]
        self.watched = [*self.directories, self.user_site, *(d for d in sys.path if d and d not in self.directories)]
        self.stamps = {d: _stamp(d) for d in self.watched}
        self.hooks = self._pth()
        self.origins = {}
        for name, module in list(sys.modules.items()):
            origin = getattr(module, "__file__", None)
            if origin and "." not in name:
                self.origins[name] = (origin, _stamp(origin))

    def _pth(self) -> list:
        found = []
        for d in self.directories:
            try:
                found += [(d, f, _stamp(os.path.join(d, f))) for f in sorted(os.listdir(d)) if f.endswith(".pth")]
            except OSError:
                continue
        return found

    def fits(self) -> bool:
        """Whether an import in this box would find the files that the zygote has found."""
        if _stamp(self.executable) != self.program:
            return False
        changed = [d for d in self.watched if _stamp(d) != self.stamps[d]]
        if not changed:
            return True
        if self.user_site in changed or any(self.stamps[d] is None for d in changed) or self._pth() != self.hooks:
            return False
        return all(self._same(name, *origin) for name, origin in self.origins.items())

    def _same(self, name: str, origin: str, stamp) -> bool:
        if _stamp(origin) != stamp:
            return False
        for d in self.directories:
            if origin.startswith(d + "/"):
                return True
            base = os.path.join(d, name)
            if os.path.exists(base) or os.path.exists(base + ".py"):
                return False
        return True


class Map(ctypes.Structure):
    """The kernel's struct prctl_mm_map, with the numbers of proc(5)'s fields of /proc/self/stat."""

    FIELDS = {"start_code": 26, "end_code": 27, "start_data": 45, "end_data": 46, "start_brk": 47, "brk": None, "start_stack": 28,
              "arg_start": 48, "arg_end": 49, "env_start": 50, "env_end": 51, "auxv": None, "auxv_size_and_exe": None}  # fmt: skip
    _fields_ = [(name, ctypes.c_uint64) for name in FIELDS]


class Process(ctypes.Structure):
    """struct process of src/worker/join.c: addresses of the data that a fork must renew."""

    _fields_ = [("tid", ctypes.c_void_p), ("rseq", ctypes.c_void_p), ("rseq_size", ctypes.c_long), ("random", ctypes.c_void_p),
                ("exe", ctypes.c_char_p), ("map", Map)]  # fmt: skip


def _map() -> Map:
    with open(STAT, "rb") as f:
        words = f.read().rpartition(b")")[2].split()
    return Map(**{name: int(words[number - 3]) for name, number in Map.FIELDS.items() if number})


def _rseq(libc) -> tuple[int, int]:
    """Where the C library registered its restartable sequences, for children: (address, size) or (0, 0)."""
    try:
        size = ctypes.c_uint.in_dll(libc, "__rseq_size").value
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:
        return 0, 0
    return (libc.pthread_self() + offset, 32) if size else (0, 0)


THREAD_WORDS = 256
"""Of the C library's record of a thread, where its number is looked for; it lies within the first 200 in glibc and musl."""


def _tid(libc) -> int:
    """Where the C library keeps the number of this thread: the word that its own fork() makes the child's. 0 when there is none."""
    words = (ctypes.c_int * THREAD_WORDS).from_address(libc.pthread_self())
    mine = [i for i, word in enumerate(words) if word == threading.get_native_id()]
    read, write = os.pipe()
    pid = libc.fork()
    if pid == 0:
        os.write(write, bytes(i for i in mine if words[i] == libc.getpid()))
        os._exit(0)
    os.close(write)
    renewed = os.read(read, THREAD_WORDS)
    os.close(read)
    os.waitpid(pid, 0)
    return ctypes.addressof(words) + renewed[0] * ctypes.sizeof(ctypes.c_int) if len(renewed) == 1 else 0


AT_PHDR, AT_PHNUM, AT_PAGESZ, AT_RANDOM = 3, 5, 6, 25


def _process(join, exe: str) -> Process:
    """Leaves the program's file, too: children have the box's view of it."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = libc.getauxval.restype = ctypes.c_void_p
    libc.getauxval.argtypes = [ctypes.c_ulong]
    join.zygote_leave_file.restype = ctypes.c_long
    join.zygote_leave_file.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    error = join.zygote_leave_file(*(libc.getauxval(which) for which in (AT_PHDR, AT_PHNUM, AT_PAGESZ)))
    if error:
        raise OSError(-error, "cannot leave the interpreter's file")
    return Process(_tid(libc), *_rseq(libc), libc.getauxval(AT_RANDOM), exe.encode(), _map())


HUGE_BITS = 21
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def _huge_pages() -> None:
    """Puts the objects into huge pages, where the kernel lets us: a fork copies one entry instead of 512, and memory that a child writes to is
    still copied in small pages. Which regions: those that objects lie in, and the C library's heap."""
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.sbrk.restype = ctypes.c_void_p
    regions = {id(o) >> HUGE_BITS for o in gc.get_objects()}
    top = libc.sbrk(0) >> HUGE_BITS
    heap = [r for r in regions if top - 64 < r <= top]
    regions.update(range(min(heap, default=top), top))
    for r in regions:
        libc.madvise(r << HUGE_BITS, 1 << HUGE_BITS, MADV_HUGEPAGE)
        libc.madvise(r << HUGE_BITS, 1 << HUGE_BITS, MADV_COLLAPSE)


def main() -> None:
    os.set_inheritable(CONTROL, False)
    os.set_inheritable(PIDNS, False)
    worker.preload()
    image = Image()
    join = ctypes.PyDLL(JOIN)
    join.zygote_serve.restype = None
    join.zygote_serve.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(Process), ctypes.c_void_p, ctypes.py_object]
    call = ctypes.cast(ctypes.pythonapi.PyObject_CallObject, ctypes.c_void_p)
    process = _process(join, image.executable)
    before, after = ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Child
    before.restype = after.restype = None

    def child() -> None:
        """In a box. Its caller ends the process."""
        try:
            after()
            worker.reseed()
            if image.fits():
                worker.serve()
        except BaseException:  # noqa: BLE001 (nobody is left to catch it)
            sys.excepthook(*sys.exc_info())

    gc.collect()
    _huge_pages()
    gc.freeze()
    before()
    join.zygote_serve(CONTROL, PIDNS, process, call, child)
    os._exit(0)
