"""Rows of `make bench`: the rpc transport beside http, both with the unmodified clients of @cloudflare/sandbox in Node."""

import json
import os
import subprocess

import npmdir
from common import ROOT

ROWS = ["rpc"]
COMPAT = ROOT / "tests/compat"
STREAMS = {"read": "readFileStream of 100 MB", "output": "executeStream of 100 MB of text"}


def rpc(bench, d):
    if not npmdir.installed(COMPAT):
        print("no row of the rpc transport: npm is missing")
        return
    env = {**os.environ, "ATOLL_URL": f"http://{d.address}", "ATOLL_TOKEN": d.token, "NODE_NO_WARNINGS": "1"}
    r = subprocess.run(["node", "bench.mjs", str(bench.n)], cwd=COMPAT, env=env, capture_output=True, text=True, check=True)
    got = json.loads(r.stdout)
    bench.note("a small call in Node", "http", got["small"]["http"])
    bench.note("a small call in Node", "atoll", got["small"]["rpc"], got["small"]["http"], "<= 1.2 x http")
    for key, row in STREAMS.items():
        bench.value(row, "http", max(got[key]["http"]), "MB/s")
        bench.value(row, "atoll", max(got[key]["rpc"]), "MB/s", ">= 0.7 x http")
    bench.value("100 MB as bytes", "atoll", max(got["raw"]["rpc"]), "MB/s", f"{max(got['raw']['rpc']) / max(got['raw']['npm']):.2f} x capnweb's own server")
    bench.value("100 MB as bytes", "capnweb in Node", max(got["raw"]["npm"]), "MB/s")
