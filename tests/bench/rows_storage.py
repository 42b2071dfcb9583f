"""Rows of `make bench`: what the pool costs. New boxes, snapshots and forks on it; files in a box beside the same on the pool without
a box, and beside a plain directory of the host."""

import contextlib
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import atoll

ROWS = ["storage_new", "storage_snapshot", "storage_fork", "storage_fio", "storage_git", "storage_npm"]
BOX = {"limits": {"memory": 2 << 30, "cpu": min(2, os.cpu_count()), "pids": 1000}}
FILES = "time <= 1.11 x the same on the pool without a box"


def post(d, box, rest, body=None):
    r = d.request("POST", atoll.box_path(box, rest), body, timeout=300)
    assert r.status in (200, 201), r
    return r.json()


def run(d, box, command):
    body = {"command": command, "sessionId": "__DISABLE_SESSION__"}
    r = post(d, box, "/api/execute", body)
    assert r["exitCode"] == 0, r
    return r["stdout"]


def timed(work, *args):
    begin = time.perf_counter()
    work(*args)
    return (time.perf_counter() - begin) * 1e6


# ---- boxes

def storage_new(bench, d):
    """Takes turns with an Atoll on plain directories."""
    with atoll.Instance({"ATOLL_POOL": "plain"}) as plain:
        plain.await_zygote()
        taken = {"plain": [], "atoll": []}
        for n in range(bench.n):
            for who, one in (("plain", plain), ("atoll", d)):
                taken[who].append(timed(run, one, f"new{n}", "/bin/true"))
                one.destroy(f"new{n}")
    bench.note("new box -> first command, plain directories", "atoll", taken["plain"])
    bench.note("new box on the pool -> first command", "atoll", taken["atoll"], taken["plain"], "<= 1.05 x plain")


# Says the longest time in which it did not run.
WATCH = """
import os, sys, time
worst, last = 0, time.monotonic()
open('/tmp/ready', 'w').close()
while not os.path.exists('/tmp/enough'):
    now = time.monotonic()
    worst, last = max(worst, now - last), now
open('/tmp/worst', 'w').write(str(worst))
"""


def watched(d, box, work):
    """The longest pause of a program in the box while something is done with it, in microseconds."""
    run(d, box, "rm -f /tmp/ready /tmp/enough /tmp/worst; (python3 /root/watch.py </dev/null >/dev/null 2>&1 &); "
        "while [ ! -e /tmp/ready ]; do sleep 0.01; done")
    work()
    return float(run(d, box, "touch /tmp/enough; while [ ! -s /tmp/worst ]; do sleep 0.01; done; cat /tmp/worst")) * 1e6


def storage_snapshot(bench, d):
    d.request("PUT", atoll.box_path("snap"), BOX)
    d.request("POST", atoll.box_path("snap", "/api/write"), {"path": "/root/watch.py", "content": WATCH})
    run(d, "snap", "mkdir /root/d; for i in $(seq 100); do head -c 10M /dev/urandom > /root/d/$i; done; sync /root/d/*")
    took, frozen, idle = [], [], []
    for n in range(10 if bench.quick else 40):
        took.append(timed(post, d, "snap", "/snapshots", {"name": str(n)}))
        frozen.append(watched(d, "snap", lambda: post(d, "snap", "/snapshots", {"name": "watched"})))
        idle.append(watched(d, "snap", lambda: time.sleep(0.05)))
    bench.note("snapshot of a running box with 1 GB", "atoll", took, None, "<= 25 ms")
    bench.note("  longest pause of a program in it", "atoll", frozen, None, "<= 15 ms")
    bench.note("  longest pause without a snapshot", "atoll", idle)
    d.destroy("snap")


def storage_fork(bench, d):
    d.request("PUT", atoll.box_path("parent"), BOX)
    run(d, "parent", "mkdir /root/d; for i in $(seq 1000); do echo $i > /root/d/$i; done")
    post(d, "parent", "/snapshots")  # writes what is dirty
    one, many, answered = [], [], []
    for _ in range(10 if bench.quick else 50):
        begin = time.perf_counter()
        fork = post(d, "parent", "/fork", {"count": 1})["sandboxes"][0]["id"]
        run(d, fork, "/bin/true")
        one.append((time.perf_counter() - begin) * 1e6)
        d.destroy(fork)
    with ThreadPoolExecutor(20) as pool:
        for _ in range(5 if bench.quick else 20):
            begin = time.perf_counter()
            forks = [s["id"] for s in post(d, "parent", "/fork", {"count": 20})["sandboxes"]]
            many.append((time.perf_counter() - begin) * 1e6)
            list(pool.map(lambda f: run(d, f, "/bin/true"), forks))
            answered.append((time.perf_counter() - begin) * 1e6)
            list(pool.map(d.destroy, forks))
    bench.note("fork -> first command", "atoll", one, None, "<= 30 ms")
    bench.note("20 forks at once", "atoll", many, None, "<= 250 ms")
    bench.note("  until all 20 have answered a command", "atoll", answered)
    d.destroy("parent")


# ---- files

class Place:
    """A directory that is measured: `shell` runs a command in it."""

    def __init__(self, who, shell):
        self.who, self.shell = who, shell


@contextlib.contextmanager
def mounted_pool(d):
    """A directory of the pool. Only the warden has it mounted; the same file system is mounted here once more."""
    image = str(d.data / "pool.img")
    device = next(f.parts[3] for f in Path("/sys/block").glob("loop*/loop/backing_file") if image in f.read_text())
    mnt = Path(tempfile.mkdtemp(prefix="atoll-bench-"))
    subprocess.run(["mount", "-t", "btrfs", "-o", "noatime", f"/dev/{device}", mnt], check=True)
    try:
        (mnt / "bench").mkdir()
        yield mnt / "bench"
        shutil.rmtree(mnt / "bench")
    finally:
        subprocess.run(["umount", mnt], check=True)
        mnt.rmdir()


@contextlib.contextmanager
def overlaid(pool):
    """A directory in an overlay of the image and the pool, as a box has it, without a box."""
    upper, work, mnt = (pool.parent / f"bench-{part}" for part in ("upper", "work", "overlay"))
    for part in (upper, work, mnt):
        part.mkdir()
    options = f"lowerdir={os.path.realpath(atoll.IMAGES / 'default')}/rootfs,upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, mnt], check=True)
    try:
        (mnt / "root/w").mkdir()
        yield mnt / "root/w"
    finally:
        subprocess.run(["umount", mnt], check=True)
        for part in (upper, work, mnt):
            shutil.rmtree(part)


@contextlib.contextmanager
def places(d, name):
    """A box, the pool without a box, an overlay on the pool without a box, a plain directory of the host."""
    with mounted_pool(d) as pool, overlaid(pool) as overlay:
        yield from all_four(d, name, pool, overlay)


def all_four(d, name, pool, overlay):
    d.request("PUT", atoll.box_path(name), BOX)
    run(d, name, "mkdir -p /root/w")
    plain = Path(tempfile.mkdtemp(prefix="atoll-bench-", dir="/var/tmp"))

    def on_host(directory):
        def shell(command):
            r = subprocess.run(["sh", "-c", command], cwd=directory, capture_output=True, text=True, check=False, timeout=300)
            assert r.returncode == 0, r.stderr[-500:]
            return r.stdout
        return shell

    try:
        yield [Place("pool", on_host(pool)), Place("overlay", on_host(overlay)), Place("atoll", lambda c: run(d, name, f"cd /root/w && {c}")),
               Place("plain", on_host(plain))]
    finally:
        shutil.rmtree(plain, ignore_errors=True)
        d.destroy(name)


def send_tar(d, box, names):
    """Files of the host at the same paths in the box."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for inside, path in names.items():
            tar.add(path, inside)
    r = d.request("PUT", atoll.box_path(box, "/api/file?path=/root/files.tar"), data.getvalue(), timeout=300)
    assert r.status < 300, r
    run(d, box, "tar xf /root/files.tar -C / && rm /root/files.tar")


def libraries(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"=> (/\S+)", said)


def fio(place, how, prefix=""):
    common_options = "--name=t --filename=f --size=256M --direct=0 --output-format=json --time_based"
    said = json.loads(place.shell(f"{prefix} fio {common_options} {how}"))["jobs"][0]
    place.shell("rm -f f")
    return said


# fsync waits for a disk that others use as well: its rate changes by a factor of two from second to second. So the places take
# turns in short slices, and the medians are compared.
FIO = {"4K random write + fsync, per second": ("--rw=randwrite --bs=4k --fsync=1 --runtime=1", lambda j: j["write"]["iops"], 8, 30),
       "sequential write, MB/s": ("--rw=write --bs=1M --end_fsync=1 --runtime=2", lambda j: j["write"]["bw_bytes"] / 1e6, 4, 10),
       "sequential read, MB/s": ("--rw=read --bs=1M --runtime=2", lambda j: j["read"]["bw_bytes"] / 1e6, 4, 10)}


def storage_fio(bench, d):
    program = shutil.which("fio")
    if not program:
        print("skipped: storage_fio (no fio)")
        return
    with places(d, "fio") as all_places:
        send_tar(d, "fio", {f"opt/fio/{os.path.basename(p)}": os.path.realpath(p) for p in [program, *libraries(program)]})
        prefixes = {"atoll": "PATH=/opt/fio:$PATH LD_LIBRARY_PATH=/opt/fio"}
        for row, (how, number, few, many) in FIO.items():
            taken = {p.who: [] for p in all_places}
            for _ in range(few if bench.quick else many):
                for p in all_places:
                    taken[p.who].append(number(fio(p, how, prefixes.get(p.who, ""))))
            middle = {who: statistics.median(v) for who, v in taken.items()}
            for p in all_places:
                target = f"{middle['atoll'] / middle['pool']:.2f} x pool, >= 0.9" if p.who == "atoll" else ""
                bench.value(f"files: {row}", p.who, middle[p.who], "", target)


def compare(bench, row, all_places, before, commands, rounds):
    """Some rounds, taking turns: the machine has other work. `commands`: of each place."""
    taken = {p.who: [] for p in all_places}
    for _ in range(rounds):
        for p in all_places:
            p.shell(before)
            taken[p.who].append(timed(p.shell, commands[p.who]))
    for p in all_places:
        against = taken["pool"] if p.who == "atoll" else None
        bench.note(row, p.who, taken[p.who], against, FILES if against else "")
    fastest = {who: min(v) for who, v in taken.items()}
    bench.value(f"  {row}: fastest, beside the pool", "atoll", fastest["atoll"] / fastest["pool"], "x", "<= 1.11")
    bench.value("    beside an overlay on the pool", "atoll", fastest["atoll"] / fastest["overlay"], "x", "<= 1.11")


REPOSITORY = """python3 - <<'END'
import os
for a in range(50):
    os.makedirs(f"r/{a}")
    for b in range(1000):
        with open(f"r/{a}/{b}", "w") as f:
            f.write(f"{a} {b}\\n")
END
cd r && git init -q && git add . && git -c user.name=a -c user.email=a@a commit -qm all && git status >/dev/null"""


def storage_git(bench, d):
    with places(d, "git") as all_places:
        for p in all_places:
            p.shell(REPOSITORY)
        status = dict.fromkeys((p.who for p in all_places), "cd r && git status --porcelain")
        compare(bench, "files: git status on 50,000 files", all_places, "true", status, 5 if bench.quick else 20)


def storage_npm(bench, d):
    """npm of the image everywhere, with the packages in its cache: no network takes part."""
    root = Path(os.path.realpath(atoll.IMAGES / "default")) / "rootfs/usr/local"
    locked = Path(__file__).resolve().parents[1] / "compat"
    npm = f"{root}/bin/node {root}/lib/node_modules/npm/bin/npm-cli.js"
    if not (root / "bin/node").exists():
        print("skipped: storage_npm (the default image has no node)")
        return
    ci = "ci --cache ../cache --ignore-scripts --no-audit --no-fund --loglevel=error"
    with tempfile.TemporaryDirectory(prefix="atoll-bench-", dir="/var/tmp") as work, places(d, "npm") as all_places:
        (Path(work) / "p").mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(locked / name, Path(work) / "p")
        filled = subprocess.run(f"{npm} {ci}", shell=True, cwd=f"{work}/p", check=False, capture_output=True, text=True)
        if filled.returncode:
            print(f"skipped: storage_npm (the packages cannot be had: {filled.stderr.strip()[-200:]})")
            return
        shutil.rmtree(f"{work}/p/node_modules")
        send_tar(d, "npm", {"root/w/cache": f"{work}/cache", "root/w/p": f"{work}/p"})
        for p in all_places:
            if p.who != "atoll":
                p.shell(f"cp -a {work}/cache {work}/p .")
        programs = {p.who: npm for p in all_places} | {"atoll": "npm"}
        commands = {who: f"cd p && {program} {ci} --offline" for who, program in programs.items()}
        compare(bench, "files: npm ci of 149 packages", all_places, "rm -rf p/node_modules", commands, 2 if bench.quick else 8)
