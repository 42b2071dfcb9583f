#!/usr/bin/python3
"""make bench: how long things take, beside peers in the same run.

Prints a table, writes bench-results/bench.json (all samples) and bench-results/bench.svg. Nothing here passes or fails:
a target is printed beside its number. `bench.py --quick` takes fewer samples, `bench.py ROW…` only some rows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
import atoll  # noqa: E402
import leaks  # noqa: E402

DRIVER = ROOT / "build/host/tests/bench/bench_driver"
ROOTFS = (atoll.IMAGES / "default/rootfs").resolve()
OUT = ROOT / "bench-results"


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def have(program):
    return subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True, check=False).returncode == 0


def bundle(where, name):
    """An OCI bundle that runs /bin/true on the image, with the runtime's own defaults."""
    d = where / name
    d.mkdir()
    subprocess.run([name, "spec"], cwd=d, check=True)
    config = json.loads((d / "config.json").read_text())
    config["root"] = {"path": str(ROOTFS), "readonly": True}
    config["process"].update(terminal=False, args=["/bin/true"])
    config["process"].pop("rlimits", None)  # raising them needs a capability that containers of CI lack
    (d / "config.json").write_text(json.dumps(config))
    return [name, "run", "--bundle", str(d), f"atoll-bench-{name}"]


def peers(where):
    found = {}
    if have("bwrap"):
        found["bwrap"] = ["bwrap", "--unshare-all", "--ro-bind", str(ROOTFS), "/", "--proc", "/proc", "--dev", "/dev",
                          "/bin/true"]
    for name in ("crun", "runc"):
        if have(name):
            found[name] = bundle(where, name)
    return found


def driver(mode, *args, hide_v2=False):
    command = [str(DRIVER), mode, *map(str, args)]
    if hide_v2:  # crun refuses hosts with v1 and v2 side by side: it sees the v1 controllers only
        command = ["unshare", "-m", "sh", "-c", "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"", "sh", *command]
    r = subprocess.run(command, capture_output=True, text=True, check=False)
    if r.returncode:
        sys.exit(f"bench: {' '.join(command[:4])} failed: {r.stderr.strip()[-500:]}")
    return json.loads(r.stdout)


class Bench:
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

    def cold(self, d, rivals):
        for idle in (0, 200):
            n = self.n if idle == 0 or self.quick else 200
            args = [x for argv in rivals.values() for x in ("--", *argv)]
            r = driver("cold", d.port, d.token, n, idle, *args, hide_v2=True)
            row = "new box -> result of /bin/true" + (f", {idle} ms idle" if idle else "")
            base = r.get("peer0")
            self.note(row, "atoll", r["atoll"], base, "<= 1.0 x bwrap (over HTTP, with cgroups and seccomp)")
            for i, name in enumerate(rivals):
                self.note(row, name, r[f"peer{i}"], base)
            self.note("  destroy, answered" + (f", {idle} ms idle" if idle else ""), "atoll", r["atoll destroy"])

    def warm(self, d, _):
        r = driver("warm", d.port, d.token, self.n * 4, "--", "/bin/true")
        self.note("next /bin/true in the box", "atoll", r["atoll"], r["peer0"], "<= 1.5 x fork+exec+wait")
        self.note("next /bin/true in the box", "fork+exec+wait", r["peer0"])

    def burst(self, d, _):
        times = [driver("burst", d.port, d.token, 25)["us"] for _ in range(3 if self.quick else 10)]
        self.note("25 boxes at once, one exec each", "atoll", times, target="<= 250 ms")

    def sustain(self, d, _):
        before = steady_census(d)
        cycles = 200 if self.quick else 2000
        r = driver("sustain", d.port, d.token, cycles, 4)
        self.value("create + exec + destroy, 4 clients", "atoll", r["cycles"] / (r["us"] / 1e6), "per s", ">= 150/s")
        settle(d, before)
        after = census(d)
        left = {k: after[k] - before[k] for k in before if after[k] != before[k]}
        self.value(f"left behind after {r['cycles']} cycles", "atoll", sum(left.values()), str(left or "nothing"), "0")

    def memory(self, d, _):
        boxes = 50 if self.quick else 500
        driver("fill", d.port, d.token, 5)
        for b in d.boxes():
            d.destroy(b)
        before = host_memory()
        driver("fill", d.port, d.token, boxes)
        used = before - host_memory()
        self.value(f"memory of an idle box, over {boxes}", "atoll", used / boxes / 1024, "MB", "<= 0.8 MB")
        for b in d.boxes():
            d.destroy(b)


def host_memory():
    """What the host could still give away, in kB, with the page cache out of the picture."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    return 0


def census(d):
    """Everything a box could leave behind, counted."""
    return {
        "cgroups": len(leaks.cgroups(d.cgroup)),
        "layers": len(list((d.data / "boxes").iterdir())) if (d.data / "boxes").exists() else 0,
        "trash": len(list((d.data / "trash").iterdir())) if (d.data / "trash").exists() else 0,
        "sockets": len(list((d.run / "s").iterdir())),
        "daemon fds": len(os.listdir(f"/proc/{d.daemon_pid}/fd")),
        "warden fds": len(os.listdir(f"/proc/{d.warden_pid}/fd")),
        "warden mounts": len(Path(f"/proc/{d.warden_pid}/mountinfo").read_text().splitlines()),
        "host mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "net namespaces": netns_count(),
    }


def steady_census(d):
    """Once the warden has filled its pool of prepared boxes: two looks that agree."""
    last = {}

    def agrees():
        nonlocal last
        now = census(d)
        same, last = now == last, now
        time.sleep(0.5)
        return same

    atoll.wait_for(agrees, "a steady state")
    return last


def netns_count():
    seen = set()
    for p in Path("/proc").iterdir():
        if p.name.isdigit():
            try:
                seen.add(os.readlink(p / "ns/net"))
            except OSError:
                pass
    return len(seen)


def settle(d, before):
    """Background clean-up may take a moment: waits for it, but not for ever."""
    try:
        atoll.wait_for(lambda: census(d) == before, "clean-up", 20)
    except AssertionError:
        pass


def chart(rows, path):
    try:
        import matplotlib
        matplotlib.use("svg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no chart: python3-matplotlib is not installed")
        return
    timed = [r for r in rows if "p50" in r]
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
    rows = ["cold", "warm", "burst", "sustain", "memory"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer samples, for a first look")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these: {', '.join(rows)}")
    args = parser.parse_args()
    if unknown := set(args.rows) - set(rows):
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(rows)}")
    bench = Bench(args.quick)
    print(f"{'':44} {'':14} {'p50 ms':>9} {'p99 ms':>9}  {'ratio':9} target")
    with atoll.Instance() as d, tempfile.TemporaryDirectory() as where:
        d.port = d.address.rsplit(":", 1)[1]
        rivals = peers(Path(where))
        for missing in {"bwrap", "crun", "runc"} - set(rivals):
            print(f"skipped peer: {missing} is not installed")
        for row in args.rows or rows:
            getattr(bench, row)(d, rivals)
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.json").write_text(json.dumps(bench.rows))
    chart(bench.rows, OUT / "bench.svg")
    print(f"samples: {OUT / 'bench.json'}  chart: {OUT / 'bench.svg'}")


if __name__ == "__main__":
    main()
