"""Rows of `make bench`: commands, streams and files in a living box, over HTTP through atolld."""

import json
from pathlib import Path

from boxapi import Api
from common import driver

ROWS = ["commands", "streams", "files", "sessions", "upstream"]
MB = 1_000_000


class Box:
    """One box that all rows of a function use, destroyed at its end."""

    def __init__(self, bench, d, name):
        self.bench, self.d, self.id = bench, d, f"bench-{name}"

    def __enter__(self):
        self.ask("repeat", 1, "POST", "/execute", '{"command":":"}', '"exitCode":0')
        return self

    def __exit__(self, *exc):
        self.d.destroy(self.id)

    def ask(self, mode, n, *args):
        args = [f"/v1/sandboxes/{self.id}/api{a}" if a.startswith("/") and mode else a for a in args]
        return driver(mode, self.d.port, self.d.token, n, *args, program="bench_requests")

    def time(self, row, path, body, text="", mode="repeat", target="", n=0, method="POST"):
        self.bench.note(row, "atoll", self.ask(mode, n or self.bench.n * 4, method, path, body, text)["us"], target=target)

    def time_each(self, row, n, target, mode, size, *args):
        """For answers and bodies that are too large for `time`: a connection each."""
        self.bench.note(row, "atoll", [self.ask(mode, size, *args)["us"] for _ in range(n)], target=target)

    def rate(self, row, times, target, mode, size, *args):
        """The best of some, since one stall of a shared machine says nothing of the program."""
        best = max(r["bytes"] / r["us"] for r in (self.ask(mode, size, *args) for _ in range(times)))
        self.bench.value(row, "atoll", best, "MB/s", target)


def commands(bench, d):
    with Box(bench, d, "commands") as box:
        box.time("builtin in a warm session", "/execute", '{"command":":"}', '"exitCode":0', target="<= 0.5 ms")
        box.time("echo in a warm session", "/execute", '{"command":"echo hi"}', "hi", target="<= 0.5 ms")
        box.time("/bin/true in a warm session", "/execute", '{"command":"/bin/true"}', '"exitCode":0')
        box.time("ls | wc in a warm session", "/execute", '{"command":"ls / | wc -l"}', '"exitCode":0')


def streams(bench, d):
    with Box(bench, d, "streams") as box:
        box.time("stream of echo: first byte of output", "/execute/stream", '{"command":"echo hi"}', '"stdout"', "first", "<= 2 ms")
        box.ask("upload", 100 * MB, "/file?path=/workspace/big")
        command = '{"command":"cat /workspace/big"}'
        box.rate("stream of 100 MB of output", 3, ">= 300 MB/s", "drain", 100 * MB, "POST", "/execute/stream", command)
        peak = agent_peak_kb(d, box.id)
        bench.value("peak memory of its agent", "atoll", peak / 1024, "MB", "< 4 MB")


def files(bench, d):
    with Box(bench, d, "files") as box:
        box.time("exists", "/exists", '{"path":"/etc/passwd"}', "true", target="<= 0.4 ms")
        box.time("mkdir -p of one that is there", "/mkdir", '{"path":"/workspace/d","recursive":true}', target="<= 0.4 ms")
        box.time("write 1 KB", "/write", '{"path":"/workspace/k","content":"%s"}' % ("k" * 1024))
        box.time("read 1 KB", "/read", '{"path":"/workspace/k"}', "kkkk")
        box.ask("repeat", 1, "POST", "/execute", '{"command":"mkdir l; touch l/{1..100}"}', '"exitCode":0')
        box.time("list 100 files", "/list-files", '{"path":"/workspace/l"}', '"count":100', target="<= 1 ms")
        size = 100 * MB
        box.rate("write 100 MB, body", 3, ">= 500 MB/s", "upload", size, "/file?path=/workspace/big")
        box.rate("write 100 MB, JSON", 3, ">= 500 MB/s", "json", size, "/write", '{"path":"/workspace/j","content":"', '"}')
        box.rate("read 100 MB, body", 3, ">= 500 MB/s", "drain", size, "GET", "/file?path=/workspace/big", "")
        box.rate("read 100 MB, event stream", 3, ">= 500 MB/s", "drain", size, "POST", "/read/stream", '{"path":"/workspace/big"}')
        bench.value("peak memory of its agent", "atoll", agent_peak_kb(d, box.id) / 1024, "MB", "< 4 MB")


def sessions(bench, d):
    with Box(bench, d, "sessions") as box:
        for n in range(64):
            box.ask("repeat", 1, "POST", "/session/create", '{"id":"s%d"}' % n, "")
        r = box.ask("parallel", 20 if bench.quick else 100, "64", "POST", "/execute", '{"command":":","sessionId":"s%d"}', '"exitCode":0')
        bench.note("builtin, 64 sessions at once", "atoll", r["us"])
        bench.value("  together", "atoll", len(r["us"]) / (r["total_us"] / 1e6), "per s")


def upstream(bench, d):
    """What upstream's own server takes for the same, without isolation, on a machine like this one: the line to beat."""
    with Box(bench, d, "upstream") as box:
        n = bench.n
        none = '"sessionId":"__DISABLE_SESSION__"'
        box.time("ping", "/ping", "", "", target="upstream 0.3", method="GET")
        box.time("exec of true, session", "/execute", '{"command":"true"}', '"exitCode":0', target="upstream 8 to 10")
        box.time("exec of true, no session", "/execute", '{"command":"true",%s}' % none, '"exitCode":0', target="upstream 2.4")
        megabyte = json.dumps({"command": "head -c 1000000 /dev/zero | tr '\\0' z"})
        box.time_each("exec with 1 MB of output", n, "upstream 136 to 180", "drain", MB, "POST", "/execute", megabyte)
        box.time("session create", "/session/create", '{"id":"made-%d"}', n=n, target="upstream 2.2 to 2.9")
        box.time("process start", "/process/start", '{"command":"sleep 100","processId":"p%d"}', n=n, target="upstream 13 to 16")
        box.time("kill of sleep 100", "/process/p%d", "", n=n, target="upstream 53", method="DELETE")
        box.time("write 1 KB", "/write", '{"path":"/workspace/k.txt","content":"%s"}' % ("k" * 1024), target="upstream 0.5 to 0.7")
        box.time("read 1 KB", "/read", '{"path":"/workspace/k.txt"}', "kkkk", target="upstream 0.5 to 0.7")
        box.ask("repeat", 1, "POST", "/execute", '{"command":"cp k.txt k"}', '"exitCode":0')
        box.time("read 1 KB, no extension", "/read", '{"path":"/workspace/k"}', "kkkk", target="upstream 20")
        box.time_each("write 10 MB", n // 8, "upstream 60", "json", 10 * MB, "/write", '{"path":"/workspace/m.txt","content":"', '"}')
        box.time_each("read 10 MB", n // 8, "upstream 47", "drain", 10 * MB, "POST", "/read", '{"path":"/workspace/m.txt"}')
        r = box.ask("parallel", 50, "4", "POST", "/execute", '{"command":"true","sessionId":"four%d"}', '"exitCode":0')
        bench.value("4 sessions x 50 execs", "atoll", len(r["us"]) / (r["total_us"] / 1e6), "per s", "upstream 124 to 182")


def agent_peak_kb(d, box_id):
    agent = Api(d, box_id).agent_pid()
    for line in Path(f"/proc/{agent}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
