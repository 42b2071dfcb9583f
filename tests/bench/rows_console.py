"""Rows of `make bench`: the console in Chromium, beside `atoll shell` for the echo of a key."""

import json
import os
import pty
import subprocess
import time

import atoll
from boxapi import Api
from common import ROOT, have
from npmdir import installed
from screen import Screen
from ttylib import Terminal

ROWS = ["console"]
BROWSER = ROOT / "tests/browser"
MEGABYTES = 60
LONG = 79 * "x"


def shell_echo(d, samples):
    """From a key to its echo, through `atoll shell`: microseconds."""
    taken = []
    with Terminal([atoll.BIN / "atoll", "shell", "bench-shell"], d.env) as t:
        t.wait(r"[$#] ")
        for _ in range(samples):
            before, began = t.out.count(b"x"), time.perf_counter()
            t.type("x")
            while t.out.count(b"x") == before:
                t.step(10)
            taken.append((time.perf_counter() - began) * 1e6)
        t.type("\x15exit\r")
        t.exit_code()
    d.destroy("bench-shell")
    return taken


def bare_flood(line):
    """The same output on a terminal of this machine, read and thrown away: what its kernel can do. It writes each line feed by itself, as CR LF."""
    master, slave = pty.openpty()
    with subprocess.Popen(["sh", "-c", f"yes {line} | head -c {MEGABYTES}000000"], stdout=slave) as p:
        os.close(slave)
        began, n = time.perf_counter(), 0
        try:
            while piece := os.read(master, 65536):
                n += len(piece)
        except OSError:  # the end of a terminal
            pass
        took = time.perf_counter() - began
        os.close(master)
    assert p.returncode == 0
    return n / took / 1e6


def plain_flood(d, line):
    """The same output through a client that draws nothing: what the box and the daemon can do."""
    d.request("PUT", atoll.box_path("bench-plain"), {"limits": {"cpu": 2}})
    with Screen(Api(d, "bench-plain")) as s:
        s.control("ready")
        s.type(f"yes {line} | head -c {MEGABYTES}000000; echo over-$((6*7))\n")
        began, tail, n = time.perf_counter(), b"", 0
        while b"over-42" not in tail:
            message = s.ws.receive()
            n, tail = n + len(message), (tail + message.encode() if isinstance(message, str) else tail + message)[-100:]
        took = time.perf_counter() - began
    d.destroy("bench-plain")
    return n / took / 1e6


def measured(d, samples):
    env = {**os.environ, **d.env, "CHROMIUM": "/usr/bin/chromium", "ATOLL_URL": f"http://127.0.0.1:{d.port}", "ATOLL_TOKEN": d.token,
           "ATOLL_CLI": str(atoll.BIN / "atoll")}
    with subprocess.Popen(["node", "run.mjs", "--serve"], cwd=BROWSER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as server:
        env["BROWSER"] = server.stdout.readline().strip()
        r = subprocess.run(["node", "bench.mjs", str(samples), str(MEGABYTES)], cwd=BROWSER, env=env, capture_output=True, text=True, check=False,
                           timeout=900)
        server.stdin.close()
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def console(bench, d):
    if not have("chromium") or not installed(BROWSER):
        print("skipped: chromium or npm is not installed")
        return
    samples = 40 if bench.quick else 200
    got, shell = measured(d, samples), shell_echo(d, samples)
    bench.value("console: first load, gzipped", "atoll", got["bytes"] / 1000, "kB", "< 60 kB")
    bench.note("console: navigation → list of boxes", "atoll", [ms * 1000 for ms in got["list"]], target="<= 150 ms")
    bench.note("console: key → character in the page", "atoll", [ms * 1000 for ms in got["echo"]], target="<= 10 ms more than atoll shell")
    bench.note("atoll shell: key → echo", "atoll", shell)
    for name, line, flood in (("yes", "y", got["flood"]), ("yes, lines of 79", LONG, got["long"])):
        bare = bare_flood(line)
        bench.value(f"console: {name} in a terminal", "atoll", flood["rate"], "MB/s", ">= 20 MB/s")
        bench.value("  to a client that draws nothing", "atoll", plain_flood(d, line), "MB/s")
        bench.value("  a bare terminal, read by a program", "linux", bare, "MB/s")
        bench.value("  the page to the bare terminal", "atoll", flood["rate"] / bare, "x")
        bench.value("  meanwhile, time between frames: p50", "atoll", flood["frame50"], "ms")
        bench.value("  p99", "atoll", flood["frame99"], "ms")
        bench.value("  longest", "atoll", flood["longest"], "ms")
