#!/usr/bin/python3
"""make bench: how long things take, beside peers in the same run.

Prints a table, writes bench-results/bench.json (all samples) and bench-results/bench.svg. Nothing here passes or fails:
a target is printed beside its number. `bench.py --quick` takes fewer samples, `bench.py ROW…` only some rows.

The rows live in rows_*.py beside this file: each has a list ROWS of names, and for each name a function of the Bench and
a running Instance.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]
import atoll  # noqa: E402
from common import ROOT, Bench  # noqa: E402

OUT = ROOT / "bench-results"


def all_rows():
    found = {}
    for path in sorted(HERE.glob("rows_*.py")):
        module = importlib.import_module(path.stem)
        found.update((name, getattr(module, name)) for name in module.ROWS)
    return found


def chart(rows, path):
    try:
        import matplotlib
        matplotlib.use("svg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no chart: python3-matplotlib is not installed")
        return
    timed = [r for r in rows if "p50" in r]
    if not timed:
        return
    names = [f"{r['row'].strip()}  |  {r['who']}" for r in timed]
    fig, ax = plt.subplots(figsize=(11, 0.34 * len(timed) + 1.2))
    ax.barh(names, [r["p50"] for r in timed], color=["#0b7285" if r["who"] == "atoll" else "#adb5bd" for r in timed])
    ax.scatter([r["p99"] for r in timed], names, marker="|", color="#c92a2a", label="p99")
    ax.set_xscale("log")
    ax.set_xlabel("ms, median (bar) and p99 (mark)")
    ax.invert_yaxis()
    ax.legend()
    fig.tight_layout()
    fig.savefig(path)


def main():
    rows = all_rows()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer samples, for a first look")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these: {', '.join(rows)}")
    args = parser.parse_args()
    if unknown := set(args.rows) - set(rows):
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(rows)}")
    bench = Bench(args.quick)
    print(f"{'':44} {'':14} {'p50 ms':>9} {'p99 ms':>9}  {'ratio':9} target")
    with atoll.Instance() as d:
        d.port = d.address.rsplit(":", 1)[1]
        # It imports for a second or more on one of the cores: whatever is timed meanwhile is timed beside it.
        d.await_zygote()
        for row in args.rows or rows:
            rows[row](bench, d)
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.json").write_text(json.dumps(bench.rows))
    chart(bench.rows, OUT / "bench.svg")
    print(f"samples: {OUT / 'bench.json'}  chart: {OUT / 'bench.svg'}")


if __name__ == "__main__":
    main()
