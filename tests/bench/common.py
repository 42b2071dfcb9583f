"""What the rows of `make bench` share: the table, percentiles, the C driver that does the timed loops."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/host/tests/bench"


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def have(program):
    return subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True, check=False).returncode == 0


def driver(mode, *args, hide_v2=False, program="bench_driver"):
    command = [str(PROGRAMS / program), mode, *map(str, args)]
    if hide_v2:  # crun refuses hosts with v1 and v2 side by side: it sees the v1 controllers only
        command = ["unshare", "-m", "sh", "-c", "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"", "sh", *command]
    r = subprocess.run(command, capture_output=True, text=True, check=False)
    if r.returncode:
        sys.exit(f"bench: {' '.join(command[:4])} failed: {r.stderr.strip()[-500:]}")
    return json.loads(r.stdout)


class Bench:
    """The rows so far. A row calls `note` with samples or `value` with one number; both print a line at once."""

    def __init__(self, quick):
        self.n = 40 if quick else 250
        self.quick = quick
        self.rows = []

    def note(self, row, who, samples_us, ratio_to=None, target=""):
        entry = {"row": row, "who": who, "p50": percentile(samples_us, 50) / 1000, "p99": percentile(samples_us, 99) / 1000,
                 "n": len(samples_us), "samples_us": samples_us, "target": target}
        if ratio_to:
            entry["ratio"] = percentile(samples_us, 50) / percentile(ratio_to, 50)
        self.rows.append(entry)
        ratio = f"{entry['ratio']:6.2f} x" if ratio_to else ""
        print(f"{row:44} {who:14} {entry['p50']:9.2f} {entry['p99']:9.2f}  {ratio:9} {target}", flush=True)

    def value(self, row, who, value, unit, target=""):
        self.rows.append({"row": row, "who": who, "value": value, "unit": unit, "target": target})
        print(f"{row:44} {who:14} {value:9.2f} {unit:9}  {'':9} {target}", flush=True)
