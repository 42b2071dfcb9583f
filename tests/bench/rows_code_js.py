"""Rows of `make bench`: JavaScript and TypeScript contexts, over HTTP through atolld, beside the start of Node itself."""

import json
import subprocess
import time
from pathlib import Path

import atoll
import warmlib
from boxapi import Api
from rows_boxes import ROOTFS
from rows_runtime import Box

ROWS = ["javascript", "javascript_fresh"]
ONE = {"javascript": "1+1", "typescript": "const x: number = 1+1; x"}


def context(box, language):
    """A new context that has answered `1+1`: microseconds, and its id."""
    before = time.perf_counter()
    made = Api(box.d, box.id).ok("/api/contexts", language=language)["contextId"]
    events = Api(box.d, box.id).events("/api/execute/code", context_id=made, code=ONE[language])
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
        for language, target in (("javascript", "<= 0.8 ms"), ("typescript", "<= 1.5 ms")):
            _, made = context(box, language)
            body = json.dumps({"context_id": made, "code": ONE[language]})
            box.ask("repeat", 50, "POST", "/execute/code", body, '"2"')
            box.time(f"run in a warm {language} context", "/execute/code", body, '"2"', target=target)
            delete(box, made)


class Fresh:
    """A box that has just been made and has run nothing."""

    def __init__(self, d, name, **limits):
        self.d, self.id = d, name
        assert d.request("PUT", atoll.box_path(name), {"limits": limits}).status == 201


def private_kb(pid):
    """Memory of a process that no other process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def first_contexts(bench, d, language, peer):
    """The first context of one fresh box after the other. Between two, the warden has time to start the next worker."""
    times, private, plain = [], [], []
    warmlib.warmed(d, language)
    for i in range(len(peer)):
        workers = atoll.wait_for(lambda: warmlib.waiting(d), "a worker in a slot")
        time.sleep(0.6)
        box = Fresh(d, f"bench-fresh-{i}")
        private.append(max(private_kb(pid) for pid in workers))
        us, _ = context(box, language)
        times.append(us)
        d.destroy(box.id)
        box = Fresh(d, f"bench-plain-{i}", pids=63)  # one less than boxes with a waiting worker must have
        us, _ = context(box, language)
        plain.append(us)
        d.destroy(box.id)
    bench.note(f"first {language} context of a fresh box", "atoll", times, peer, "<= 25 ms")
    bench.note("  without a worker that waits", "atoll", plain, peer)
    bench.value(f"memory of a {language} worker that waits", "atoll", sum(private) / len(private) / 1024, "MB")


def javascript_fresh(bench, d):
    peer = node_start(5 if bench.quick else 20)
    bench.note("first javascript context of a fresh box", "node -e 0", peer, peer)
    for language in ONE:
        first_contexts(bench, d, language, peer)
