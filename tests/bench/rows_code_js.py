"""Rows of `make bench`: JavaScript and TypeScript contexts, over HTTP through atolld, beside the start of Node itself."""

import json
import subprocess
import time

from boxapi import Api
from rows_boxes import ROOTFS
from rows_runtime import Box

ROWS = ["javascript"]


def context(box, language):
    """A new context that has answered `1+1`: microseconds, and its id."""
    before = time.perf_counter()
    made = Api(box.d, box.id).ok("/api/contexts", language=language)["contextId"]
    events = Api(box.d, box.id).events("/api/execute/code", context_id=made, code="1+1")
    assert events[0].get("text") == "2", events
    return (time.perf_counter() - before) * 1e6, made


def delete(box, made):
    Api(box.d, box.id).call(f"/api/contexts/{made}", method="DELETE")


def await_one_ready(box):
    """Until the process that is started ahead is there, and has found its feet."""
    for _ in range(100):
        if int(Api(box.d, box.id).sh("ls -l /proc/[0-9]*/exe 2>/dev/null | grep -c /node$ || true")):
            break
        time.sleep(0.1)
    time.sleep(0.4)


def node_start(n):
    out = []
    for _ in range(n):
        before = time.perf_counter()
        subprocess.run([ROOTFS / "usr/local/bin/node", "-e", "0"], check=True)
        out.append((time.perf_counter() - before) * 1e6)
    return out


def javascript(bench, d):
    n = 5 if bench.quick else 20
    with Box(bench, d, "javascript") as box:
        peer = node_start(n)
        cold = []
        for _ in range(n):  # one behind the other: none is ready
            us, made = context(box, "javascript")
            cold.append(us)
            delete(box, made)
        ready = []
        for _ in range(n):
            await_one_ready(box)
            us, made = context(box, "javascript")
            ready.append(us)
            delete(box, made)
        row = "javascript context -> result of 1+1"
        bench.note(row, "node -e 0", peer, peer)
        bench.note(row + ", one ready", "atoll", ready, peer, "<= 10 ms")
        bench.note(row + ", none ready", "atoll", cold, peer, "<= 60 ms")
        for language, code, target in (("javascript", "1+1", "<= 0.8 ms"), ("typescript", "const x: number = 1+1; x", "<= 1.5 ms")):
            _, made = context(box, language)
            body = json.dumps({"context_id": made, "code": code})
            box.ask("repeat", 50, "POST", "/execute/code", body, '"2"')
            box.time(f"run in a warm {language} context", "/execute/code", body, '"2"', target=target)
            delete(box, made)
