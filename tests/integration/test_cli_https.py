"""https from `atoll` alone: the program for TLS that it carries, machines that cannot execute it, and commands that never start it.

test_tls.py has the daemon's side. Nothing listens on port 1: an error that says so came through the program for TLS.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import atoll as lib
import pytest

ATOLL = lib.BIN / "atoll"
URL = "https://127.0.0.1:1"
REFUSED = "no daemon at 127.0.0.1:1: Connection refused"
BY_SSH = "ssh -N -L $HOME/atoll.sock:/run/atoll/atoll.sock HOST"
LIBRARIES = Path(f"/usr/lib/{os.uname().machine}-linux-gnu")
NOEXEC = Path("/proc/sys/vm/memfd_noexec")

MEMFD_CREATE, EXECVEAT = {"x86_64": (319, 322), "aarch64": (279, 281)}[os.uname().machine]
KILL, ERRNO = 0x80000000, 0x00050000

pytestmark = pytest.mark.skipif(not os.access(ATOLL, os.X_OK), reason=f"{ATOLL} is not built")
needs_root = pytest.mark.skipif(os.geteuid() != 0 or lib.SANITIZED, reason="root makes mounts of its own; sanitized programs need /proc and libraries")


def ask(*before, url=URL, program=ATOLL, **options):
    env = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
    return subprocess.run([*before, program, "list"], env={**env, "ATOLL_URL": url, "ATOLL_TOKEN": "t"}, capture_output=True, text=True,
                          timeout=lib.DEADLINE, check=False, **options)


def where(script):
    """The beginning of a command that runs with mounts of its own."""
    return ["unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh"]


def filtered(action, *calls):
    """For a child: seccomp takes `action` for these system calls, also in what it starts."""
    code = b"".join(struct.pack("HBBI", *line) for line in
                    [(0x20, 0, 0, 0), *[(0x15, len(calls) - i, 0, call) for i, call in enumerate(calls)],
                     (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, action)])
    kept = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)

    def begin():
        assert kept and libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
    return begin


def test_the_program_is_enough(tmp_path):
    r = ask(program=shutil.copy(ATOLL, tmp_path))
    assert r.returncode == 1 and REFUSED in r.stderr, r


@needs_root
def test_without_proc_and_without_a_directory_for_programs():
    r = ask(*where("mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp && mount -t tmpfs -o noexec none /dev/shm && mount -t tmpfs none /proc"))
    assert r.returncode == 1 and REFUSED in r.stderr, r


@needs_root
def test_a_missing_library_is_named_with_its_package(tmp_path):
    for library in ("libc.so.6", "ld-linux*"):
        for path in LIBRARIES.glob(library):
            shutil.copy(path, tmp_path)
    r = ask(*where(f"mount --bind {tmp_path} {LIBRARIES}"))
    assert r.returncode == 1 and "https needs OpenSSL 3: " in r.stderr and "libssl.so.3: cannot open shared object file" in r.stderr, r
    assert "the package libssl3 of Debian" in r.stderr and BY_SSH in r.stderr, r


@needs_root
def test_a_machine_with_another_c_library_is_told(tmp_path):
    r = ask(*where(f"mount --bind {tmp_path} {LIBRARIES}"))
    assert r.returncode == 1 and "this machine has no glibc" in r.stderr and BY_SSH in r.stderr, r


@pytest.mark.parametrize("call", [MEMFD_CREATE, EXECVEAT])
def test_a_machine_that_executes_nothing_from_memory_is_told(call):
    r = ask(preexec_fn=filtered(ERRNO | errno.EACCES, call))
    assert r.returncode == 1 and "https needs to execute a program from memory: Permission denied" in r.stderr, r
    assert "vm.memfd_noexec" in r.stderr and BY_SSH in r.stderr, r


@needs_root
@pytest.mark.skipif(not NOEXEC.exists(), reason="vm.memfd_noexec came with Linux 6.3")
@pytest.mark.parametrize("value, words", [(1, REFUSED), (2, "https needs to execute a program from memory")])
def test_the_machines_rule_for_files_in_memory(value, words):
    r = ask("unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", f'echo {value} > {NOEXEC} && exec "$@"', "sh")
    assert r.returncode == 1 and words in r.stderr, r


def test_the_error_is_json_on_request():
    r = subprocess.run([ATOLL, "list", "--json"], env={"ATOLL_URL": URL}, capture_output=True, text=True, timeout=lib.DEADLINE, check=False,
                       preexec_fn=filtered(ERRNO | errno.EPERM, MEMFD_CREATE))
    assert r.returncode == 1 and "execute a program from memory" in json.loads(r.stderr)["message"], r


def test_only_https_starts_the_program_for_tls(daemon):
    """Whoever makes or executes a file in memory is killed: https must be, a command over http or the socket works."""
    watched = {"preexec_fn": filtered(KILL, MEMFD_CREATE, EXECVEAT)}
    assert ask(url=URL, **watched).returncode == -signal.SIGSYS
    for url in (f"unix:{daemon.run}/atoll.sock", f"http://{daemon.address}"):
        with daemon.cli_start("list", "--json", env={"ATOLL_URL": url, "ATOLL_TOKEN": daemon.token}, **watched) as p:
            out, err = p.communicate(timeout=lib.DEADLINE)
        assert p.returncode == 0 and json.loads(out) is not None and not err, (url, p.returncode, err)
    for arguments in (["version"], ["help"], ["doctor", "--json"]):
        with daemon.cli_start(*arguments, **watched) as p:
            p.communicate(timeout=lib.DEADLINE)
        assert p.returncode in (0, 1), (arguments, p.returncode)
