"""A command below a seccomp filter that answers one system call as another kernel, or a host that forbids it, does."""

import errno
import platform

NUMBERS = {"x86_64": {"bpf": 321, "ioctl": 16}, "aarch64": {"bpf": 280, "ioctl": 29}}.get(platform.machine(), {})
NUMBERS.update(fsopen=430, fsconfig=431)  # the same on every machine

# Executes its arguments below the filter; all other calls are allowed.
FILTER = """
import ctypes, os, struct, sys
number, offset, value, answer = map(int, sys.argv[1:5])
LD, JEQ, RET, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000
rows = [(LD, 0, 0, 0), (JEQ, 0, 3, number), (LD, 0, 0, offset), (JEQ, 0, 1, value), (RET, 0, 0, ERRNO | answer), (RET, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(len(rows), ctypes.addressof(code))
if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[5], sys.argv[5:])
"""


def without(call, answer, argument=None, value=0):
    """The words before a command. `argument`: only calls whose argument of this number has this value are answered."""
    offset = 0 if argument is None else 16 + 8 * argument  # in struct seccomp_data; 0 is the call's own number
    value = NUMBERS[call] if argument is None else value
    return ["/usr/bin/python3", "-c", FILTER, *map(str, (NUMBERS[call], offset, value, getattr(errno, answer)))]
