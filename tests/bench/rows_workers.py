"""Rows of `make bench`: the unmodified class of @cloudflare/sandbox in workerd, beside the least that a Worker can do."""

import json
import os
import subprocess

import npmdir
from common import ROOT

ROWS = ["workers"]
COMPAT = ROOT / "tests/compat"
NAMES = {"warm": "exec through the class in workerd", "cold": "first exec of a new box, class in workerd", "burst": "25 new boxes at once, class in workerd"}
WHO = {"exec": "atoll", "hollow": "class alone", "floor": "one hop, one fetch"}


def workers(bench, d):
    if not npmdir.installed(COMPAT):
        print("no row of Workers: npm is missing")
        return
    env = {**os.environ, "ATOLL_URL": f"http://{d.address}", "ATOLL_TOKEN": d.token}
    r = subprocess.run(["node", "--no-warnings", "workers/bench.mjs", str(bench.n)], cwd=COMPAT, env=env, capture_output=True, text=True, check=True)
    got = json.loads(r.stdout)
    for key, row in NAMES.items():
        for kind, who in WHO.items():
            target = "<= 1.5 x one hop, one fetch" if kind == "exec" else ""
            bench.note(row, who, got[key][kind], got[key]["floor"] if kind == "exec" else None, target)
