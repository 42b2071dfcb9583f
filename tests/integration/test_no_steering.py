"""A kernel without sk_lookup: a seccomp filter answers BPF_PROG_LOAD as such a kernel does, for the whole of `atoll up`."""

import json
import subprocess

import atoll as lib
import fixtures
import pytest

# Executes its arguments below a filter: bpf(BPF_PROG_LOAD, …) is EINVAL, all else is allowed.
OLD_KERNEL = """
import ctypes, os, platform, struct, sys
nr = {"x86_64": 321, "aarch64": 280}[platform.machine()]
LD, JEQ, RET, ALLOW, EINVAL = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050016
rows = [(LD, 0, 0, 0), (JEQ, 0, 3, nr), (LD, 0, 0, 16), (JEQ, 0, 1, 5), (RET, 0, 0, EINVAL), (RET, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(len(rows), ctypes.addressof(code))
if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
"""
PREFIX = ["/usr/bin/python3", "-c", OLD_KERNEL]


@pytest.fixture(scope="module")
def old():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    instance = lib.Instance({"ATOLL_ZYGOTE": "off"}, prefix=PREFIX)
    instance.start()
    yield instance
    fixtures.finish(instance)


def test_doctor_says_so():
    out = subprocess.run([*PREFIX, lib.BIN / "atoll", "doctor", "--json"], capture_output=True, text=True, check=False, timeout=120)
    rows = [row for row in json.loads(out.stdout)["checks"] if row["name"] == "steering"]
    assert len(rows) == 1 and "boxes start without a network" in str(rows[0]) and "5.9" in str(rows[0]), rows


def test_boxes_start_with_off_and_loudly(old):
    reply = old.request("PUT", "/v1/sandboxes/old", {"network": {"mode": "open"}})
    assert reply.status == 201 and reply.json()["network"]["mode"] == "off", reply
    shown = old.request("GET", "/v1/sandboxes/old/network").json()
    assert (shown["mode"], shown["own"]["mode"]) == ("off", "open")
    ran = old.request("POST", "/v1/sandboxes/old/api/execute", {"command": "echo works; curl -sS -m 20 http://198.51.100.10/"}).json()
    assert ran["stdout"] == "works\n" and ran["exitCode"] != 0
    log = old.log()
    assert "boxes have no network" in log and "a sandbox starts without a network" in log
