"""Rows of `make bench`: the rpc transport beside http, both with the unmodified clients of @cloudflare/sandbox in Node."""

import json
import os
import subprocess

import npmdir
from common import ROOT

ROWS = ["rpc"]
COMPAT = ROOT / "tests/compat"
STREAMS = {"read": "readFileStream of 100 MB", "output": "executeStream of 100 MB of text", "raw": "100 MB as bytes"}
FLOOR = "npm client, frames made beforehand"  # the same bytes from memory: what the client itself can take


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
        rates = {who: max(samples) for who, samples in got[key].items()}
        if "http" in rates:
            bench.value(row, "http", rates["http"], "MB/s")
        bench.value(row, "atoll", rates["rpc"], "MB/s", "; ".join(target(rates)))
        bench.value(row, FLOOR, rates["frames"], "MB/s")
    bench.value(STREAMS["raw"], "capnweb in Node", max(got["raw"]["npm"]), "MB/s")


def target(rates):
    if "http" in rates:
        yield f"{rates['rpc'] / rates['http']:.2f} x http (>= 0.7)"
    yield f"{rates['rpc'] / rates['frames']:.2f} x {FLOOR} (>= 0.9)"
