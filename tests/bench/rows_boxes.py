"""Rows of `make bench`: how long a box takes to come, to answer, to go, and what it costs to keep."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import atoll
import leaks
from common import driver, have

ROWS = ["cold", "warm", "burst", "sustain", "memory"]
ROOTFS = (atoll.IMAGES / "default/rootfs").resolve()


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


def cold(bench, d):
    with tempfile.TemporaryDirectory() as where:
        rivals = peers(Path(where))
        for missing in {"bwrap", "crun", "runc"} - set(rivals):
            print(f"skipped peer: {missing} is not installed")
        for idle in (0, 200):
            cold_after(bench, d, rivals, idle)


def cold_after(bench, d, rivals, idle):
    n = bench.n if idle == 0 or bench.quick else 200
    args = [x for argv in rivals.values() for x in ("--", *argv)]
    r = driver("cold", d.port, d.token, n, idle, *args, hide_v2=True)
    row = "new box -> result of /bin/true" + (f", {idle} ms idle" if idle else "")
    base = r.get("peer0")
    bench.note(row, "atoll", r["atoll"], base, "<= 1.0 x bwrap (over HTTP, with cgroups and seccomp)")
    for i, name in enumerate(rivals):
        bench.note(row, name, r[f"peer{i}"], base)
    bench.note("  destroy, answered" + (f", {idle} ms idle" if idle else ""), "atoll", r["atoll destroy"])


def warm(bench, d):
    r = driver("warm", d.port, d.token, bench.n * 4, "--", "/bin/true")
    bench.note("next /bin/true in the box", "atoll", r["atoll"], r["peer0"], "<= 1.5 x fork+exec+wait")
    bench.note("next /bin/true in the box", "fork+exec+wait", r["peer0"])


def burst(bench, d):
    times = [driver("burst", d.port, d.token, 25)["us"] for _ in range(3 if bench.quick else 10)]
    bench.note("25 boxes at once, one exec each", "atoll", times, target="<= 250 ms")


def sustain(bench, d):
    before = steady_census(d)
    cycles = 200 if bench.quick else 2000
    r = driver("sustain", d.port, d.token, cycles, 4)
    bench.value("create + exec + destroy, 4 clients", "atoll", r["cycles"] / (r["us"] / 1e6), "per s", ">= 150/s")
    settle(d, before)
    after = census(d)
    left = {k: after[k] - before[k] for k in before if after[k] != before[k]}
    bench.value(f"left behind after {r['cycles']} cycles", "atoll", sum(left.values()), str(left or "nothing"), "0")


def memory(bench, d):
    boxes = 50 if bench.quick else 500
    driver("fill", d.port, d.token, 5)
    for b in d.boxes():
        d.destroy(b)
    before = host_memory()
    driver("fill", d.port, d.token, boxes)
    used = before - host_memory()
    bench.value(f"memory of an idle box, over {boxes}", "atoll", used / boxes / 1024, "MB", "<= 0.8 MB")
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
        "layers": len(list(d.layers.iterdir())) if d.layers.exists() else 0,
        "trash": len(list((d.layers.parent / "trash").iterdir())) if d.layers.exists() else 0,
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
