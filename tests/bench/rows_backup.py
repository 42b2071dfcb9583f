"""Rows of `make bench`: a backup of 1 GB and of 10 MB that changed, beside `btrfs send | zstd` of the same bytes on a btrfs of its own."""

import subprocess
import tempfile
import time

import common
from atoll import box_path

ROWS = ["backup"]
FILL = ("dd if=/dev/urandom of={to}/half bs=1M count={half} status=none; "
        "yes 'a line of text that compresses' | head -c {half}M > {to}/rest; sync {to}/half {to}/rest")
CHANGE = "dd if=/dev/urandom of={to}/half bs=1M count={n} conv=notrunc status=none; sync {to}/half"

PEER = r"""
set -eu
cd {dir}; truncate -s 4G img; mkfs.btrfs -q -m single img >/dev/null; mkdir m; mount -o loop img m; trap 'umount m' EXIT
btrfs subvolume create m/v >/dev/null
({fill})
btrfs subvolume snapshot -r m/v m/a >/dev/null; sync -f m
a=$(date +%s%N); btrfs send -q m/a | zstd -q -3 > whole; sync whole; b=$(date +%s%N)
({change})
btrfs subvolume snapshot -r m/v m/b >/dev/null; sync -f m
c=$(date +%s%N); btrfs send -q -p m/a m/b | zstd -q -3 > part; sync part; d=$(date +%s%N)
echo $(( (b - a) / 1000 )) $(( (d - c) / 1000 ))
"""


def backup(bench, d):
    size, change = (128, 10) if bench.quick else (1024, 10)
    if not all(map(common.have, ("btrfs", "mkfs.btrfs", "zstd"))):
        print("skipped: backup (btrfs-progs or zstd is missing)")
        return
    with tempfile.TemporaryDirectory(dir=d.base) as t:
        script = PEER.format(dir=t, fill=FILL.format(to="m/v", half=size // 2), change=CHANGE.format(to="m/v", n=change))
        out = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, check=True, text=True).stdout.split()
    peer = [[float(us)] for us in out]
    rows = f"backup of {size} MB", f"  … of {change} MB that changed"
    bench.note(rows[0], "send | zstd", peer[0])
    bench.note(rows[1], "send | zstd", peer[1])
    d.request("PUT", box_path("backup"), {})
    for row, command, base in zip(rows, (FILL.format(to="/root", half=size // 2), CHANGE.format(to="/root", n=change)), peer):
        ran = d.execute("backup", command)
        assert ran["exitCode"] == 0, ran
        begin = time.monotonic()
        r = d.request("POST", box_path("backup", "/backups"), {}, timeout=600)
        assert r.status == 201, r
        bench.note(row, "atoll", [(time.monotonic() - begin) * 1e6], base, "time ≤ 1.25 x")
    for one in reversed(d.request("GET", "/v1/backups").json()["backups"]):
        d.request("DELETE", f"/v1/backups/{one['id']}")
    d.destroy("backup")
