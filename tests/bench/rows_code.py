"""Rows of `make bench`: Python contexts over HTTP through atolld, beside python3, IPython and ipykernel started for the same."""

import json
import subprocess
import sys
import time
from pathlib import Path

import atoll

ROWS = ["python"]
IMPORTS = "import numpy, pandas, matplotlib.pyplot; 1+1"
PYTHON = "/usr/bin/python3"

KERNEL = f"""
import sys, time
from jupyter_client import KernelManager
for _ in range(int(sys.argv[1])):
    before = time.perf_counter()
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    reply = client.execute_interactive({IMPORTS!r}, timeout=60, output_hook=lambda m: None)
    assert reply["content"]["status"] == "ok"
    print((time.perf_counter() - before) * 1e6)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
"""


class Client:
    """One kept connection: what is timed is Atoll, not connecting."""

    def __init__(self, d):
        self.connection = atoll._UnixConnection(d.socket, atoll.DEADLINE)

    def ask(self, box, route, body, method="POST"):
        self.connection.request(method, atoll.box_path(box, route), json.dumps(body) if body is not None else None)
        response = self.connection.getresponse()
        text = response.read()
        assert response.status == 200, text
        return text

    def context(self, box):
        """A new context that has answered: microseconds, and its id."""
        before = time.perf_counter()
        made = json.loads(self.ask(box, "/api/contexts", {"language": "python"}))["contextId"]
        text = self.ask(box, "/api/execute/code", {"context_id": made, "code": IMPORTS})
        assert b'"text":"2"' in text, text
        return (time.perf_counter() - before) * 1e6, made

    def delete(self, box, made):
        self.ask(box, f"/api/contexts/{made}", None, "DELETE")

    def warm(self, box, made):
        before = time.perf_counter()
        self.ask(box, "/api/execute/code", {"context_id": made, "code": "1+1"})
        return (time.perf_counter() - before) * 1e6


def started(n, *command):
    out = []
    for _ in range(n):
        before = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        out.append((time.perf_counter() - before) * 1e6)
    return out


def has(module):
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def peers(bench, row, n):
    """python3, IPython and a kernel, each until it has the answer; the kernel's samples, or None."""
    for name, command in (("python3", ["-c", "1+1"]), ("python3, imports", ["-c", IMPORTS])):
        bench.note(row, name, started(n, PYTHON, *command))
    if has("IPython"):
        bench.note(row, "IPython", started(n, PYTHON, "-m", "IPython", "--no-banner", "-c", IMPORTS))
    if not has("ipykernel"):
        print("skipped peer: python3-ipykernel is not installed")
        return None
    text = subprocess.run([PYTHON, "-c", KERNEL, str(n)], check=True, capture_output=True, text=True).stdout
    kernel = [float(line) for line in text.split()]
    bench.note(row, "ipykernel", kernel)
    return kernel


def workers(d):
    """The forked contexts of this daemon, as the host numbers them."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if b"atoll_worker.zygote" in (entry / "cmdline").read_bytes() and f":/{d.cgroup}/" in (entry / "cgroup").read_text():
                if f"PPid:\t{d.warden_pid}\n" not in (entry / "status").read_text():
                    found.append(entry)
        except OSError:
            continue
    return found


def private_mb(entry):
    fields = dict(line.split()[:2] for line in (entry / "smaps_rollup").read_text().splitlines()[1:])
    return (int(fields["Private_Dirty:"]) + int(fields["Private_Clean:"])) / 1024


def memory(bench, d, client, row, boxes):
    for box in boxes:
        client.context(box)
    each = [private_mb(entry) for entry in workers(d)]
    assert len(each) == len(boxes), f"{len(each)} of {len(boxes)} contexts came from the zygote"
    bench.value(row, "atoll", sum(each) / len(each), "MB", "<= 4 MB private each")
    for box in set(boxes):
        d.destroy(box)


def python(bench, d):
    n = 3 if bench.quick else 10
    row = "python context -> numpy, pandas, pyplot; 1+1"
    kernel = peers(bench, row, n)
    client = Client(d)
    fresh, more, warm = [], [], []
    for i in range(bench.n // 10):
        box = f"bench-python-{i}"
        client.ask(box, "/api/ping", None, "GET")
        us, made = client.context(box)
        fresh.append(us)
        client.delete(box, made)
        for _ in range(5):
            us, made = client.context(box)
            more.append(us)
            client.warm(box, made)
            warm += [client.warm(box, made) for _ in range(10)]
            client.delete(box, made)
        d.destroy(box)
    bench.note(row, "atoll", more, kernel, "<= 8 ms, <= 0.01 x ipykernel")
    bench.note("  the first of a fresh box", "atoll", fresh, kernel, "<= 12 ms")
    bench.note("run 1+1 in a warm python context", "atoll", warm, None, "<= 0.8 ms")
    count = 10 if bench.quick else 50
    memory(bench, d, client, f"{count} python contexts in one box", ["bench-one"] * count)
    memory(bench, d, client, f"one python context in each of {count} boxes", [f"bench-each-{i}" for i in range(count)])
    sys.stdout.flush()
