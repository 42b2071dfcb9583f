"""The escape suite's program inside boxes, and what the host-side tests share."""
import base64
import json
import subprocess

import atoll as lib
import leaks

PROGRAM = "/var/tmp/atoll-escape"
SOURCE = lib.BIN / "atoll-escape"
SESSIONLESS = "__DISABLE_SESSION__"


def checks():
    """Every check as the program lists it; empty when it is not built."""
    if not SOURCE.exists():
        return []
    text = subprocess.run([SOURCE, "list", "--json"], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def execute(daemon, box, command, **fields):
    """One command in a process of its own: a session's shell would stand between the attack and its answer."""
    return daemon.execute(box, command, sessionId=SESSIONLESS, **fields)


def load(daemon, box):
    """Puts the program into the box, making or starting it."""
    text = base64.b64encode(SOURCE.read_bytes()).decode()
    done = execute(daemon, box, f"cat >{PROGRAM} && chmod 755 {PROGRAM}", stdin=text, stdinEncoding="base64")
    assert done["exitCode"] == 0, done


def run(daemon, box, name, cwd=None, **arguments):
    """One check; its verdict."""
    words = " ".join(f"{k}={v}" for k, v in arguments.items())
    done = execute(daemon, box, f"{PROGRAM} run {name} {words}", **({"cwd": cwd} if cwd else {}))
    assert done["stdout"], done
    return json.loads(done["stdout"])


def pong(daemon, box):
    """The box can still do everything."""
    done = execute(daemon, box, f"{PROGRAM} pong")
    assert done["stdout"] == "pong\n", done


def processes(daemon, box):
    """The box's processes as the host counts them, by their user ids: {pid: uid}."""
    text = execute(daemon, box, "cat /proc/self/uid_map")["stdout"].split()
    first, n = int(text[1]), int(text[2])
    found = {}
    for entry in lib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        uid = int(status.split("\nUid:\t")[1].split()[0])
        if first <= uid < first + n:
            found[int(entry.name)] = uid
    return found


def init_of(daemon, box):
    """The host's number of the box's PID 1. Asks nothing of the box itself."""
    mark = f"ATOLL_SANDBOX_ID={box}\0".encode()
    for pid, _ in leaks.processes(daemon.cgroup):
        try:
            status = lib.Path(f"/proc/{pid}/status").read_text()
            environ = lib.Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if status.split("\nNSpid:\t")[1].splitlines()[0].split()[1:] == ["1"] and mark in environ:
            return pid
    raise AssertionError(f"no init found for {box}")
