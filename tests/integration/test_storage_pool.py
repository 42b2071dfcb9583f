"""The pool below the sandboxes: debts of forks, a full one, data directories that are on btrfs, kernels with full quotas only."""

import contextlib
import errno
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import fixtures
import oldkernel
import pytest
from atoll import Instance, box_path, wait_for
from boxapi import check_error
from test_storage import MIB, disk, fill, pool, post, put, read  # noqa: F401  (pool: nothing here runs without one)

# Changes blocks in the middle of the file and shares others: its extents are used in parts, and more than once.
IN_PARTS = """python3 - <<'END'
import os
fd = os.open('/root/f', os.O_WRONLY)
for n in range(40):
    os.pwrite(fd, b'x' * 4096, n << 20)
os.fsync(fd)
END
cp --reflink=always /root/f /root/g
"""


def used(daemon, box):
    return disk(daemon, box)["used"] / MIB


# ---- debts

def test_a_fork_is_charged_for_each_extent_once(daemon, box):
    put(daemon, box, limits={"disk": 200 * MIB})
    assert fill(daemon, box, "/root/f", 40)["exitCode"] == 0
    assert daemon.execute(box, IN_PARTS)["exitCode"] == 0
    fork = post(daemon, box, "/fork", {"count": 1})["sandboxes"][0]["id"]
    wait_for(lambda: 39 < used(daemon, fork) < 45, "the debt has been counted")
    daemon.destroy(fork)


def test_a_fork_gets_space_back_when_it_deletes_what_it_was_given(daemon, box):
    put(daemon, box, limits={"disk": 64 * MIB})
    assert fill(daemon, box, "/root/a", 40)["exitCode"] == 0
    fork = post(daemon, box, "/fork", {"count": 1})["sandboxes"][0]["id"]
    assert fill(daemon, fork, "/root/b", 40)["exitCode"] != 0
    daemon.execute(fork, "rm -f /root/a /root/b")
    wait_for(lambda: used(daemon, fork) < 8, "the debt is paid")
    assert fill(daemon, fork, "/root/b", 40)["exitCode"] == 0
    assert daemon.execute(box, "stat -c %s /root/a")["stdout"] == f"{40 * MIB}\n"
    daemon.destroy(fork)


def test_a_fork_cannot_keep_extents_by_small_parts_of_them(daemon, box):
    """The blocks that a fork has left of an extent keep all of it on the disk: it is charged for all of it."""
    put(daemon, box, limits={"disk": 64 * MIB})
    assert fill(daemon, box, "/root/f", 40)["exitCode"] == 0
    fork = post(daemon, box, "/fork", {"count": 1})["sandboxes"][0]["id"]
    daemon.destroy(box)
    # All but one block of each MiB is replaced by a hole.
    holes = "for n in $(seq 0 39); do fallocate -p -o $(((n << 20) + 4096)) -l $(((1 << 20) - 4096)) /root/f || exit 1; done"
    assert daemon.execute(fork, holes)["exitCode"] == 0
    daemon.execute(fork, "touch /root/mark")
    assert fill(daemon, fork, "/root/b", 48)["exitCode"] != 0
    daemon.destroy(fork)


def test_the_best_of_several_forks_again_and_again(daemon, box):
    """Each round the winner's files become the parent's. What the parent is charged for stays what it has."""
    put(daemon, box, limits={"disk": 128 * MIB})
    for n in range(4):
        assert fill(daemon, box, f"/root/own{n}", 4)["exitCode"] == 0
        fork = post(daemon, box, "/fork", {"count": 1})["sandboxes"][0]["id"]
        assert fill(daemon, fork, f"/root/won{n}", 4)["exitCode"] == 0
        post(daemon, box, "/replace", {"from": {"sandbox": fork}})
        daemon.destroy(fork)
        have = 8 * (n + 1)
        wait_for(lambda: have - 1 < used(daemon, box) < have + 4, "own files and the winner's count once")  # noqa: B023


def test_the_limit_of_a_full_box_goes_down_and_up(daemon, box):
    put(daemon, box, limits={"disk": 48 * MIB})
    assert fill(daemon, box, "/root/a", 100)["exitCode"] != 0
    put(daemon, box, limits={"disk": 20 * MIB})
    assert disk(daemon, box)["allowed"] == 20 * MIB
    assert daemon.execute(box, "echo > /root/b")["exitCode"] != 0
    put(daemon, box, limits={"disk": 100 * MIB})
    assert fill(daemon, box, "/root/b", 8)["exitCode"] == 0


# ---- a full pool

# Takes all space for data, then for metadata, in ways that the command line names, until it is told to stop.
FILL = """
import os, sys
def data():
    with open("/workspace/big", "ab", buffering=0) as f:
        while f.write(bytes(1 << 20)):
            pass
def links():  # the text of a link lies in the metadata
    for n in range(1000000):
        os.symlink("x" * 3800, f"/workspace/links/{os.getpid()}-{n}")
def files():
    for n in range(10000000):
        os.close(os.open(f"/workspace/links/{n:0200}", os.O_CREAT | os.O_EXCL))
for way in sys.argv[1:]:
    while True:
        try:
            {"data": data, "links": links, "files": files, "again": links}[way]()
        except OSError as e:
            print(e.errno, flush=True)
        if way != "again":
            break
"""
FULL = {str(errno.ENOSPC), str(errno.EDQUOT)}


def put_fill(one, *boxes):
    for box in boxes:
        one.execute(box, "mkdir /workspace/links")
        assert one.request("PUT", box_path(box, "/api/file?path=/tmp/fill.py"), FILL.encode()).status in (200, 201)


def check_refused(reply):
    assert "the pool is full" in check_error(reply, "NO_SPACE", 500)["message"]


@pytest.mark.parametrize("ways", ["data links", "data files", "links"])
def test_boxes_cannot_take_the_room_that_a_start_needs(ways):
    """They fill the pool, and never stop to try. All that frees space works all the same."""
    with Instance({"ATOLL_POOL_SIZE": "512M", "ATOLL_ZYGOTE": "off"}) as one:
        stopped = [f"stopped-{n}" for n in range(20)]  # more than there are slots made ahead
        for box in stopped:
            one.execute(box, "echo kept > /workspace/f")
            assert one.request("POST", box_path(box, "/stop")).status == 200
        put_fill(one, "large", "other")
        for box, how in (("large", ways), ("other", "links files")):
            errors = one.execute(box, f"python3 /tmp/fill.py {how}")["stdout"].split()
            assert len(errors) == len(how.split()) and set(errors) <= FULL
        for box in ("large", "other"):
            one.request("POST", box_path(box, "/api/process/start"), {"command": "python3 /tmp/fill.py again"})
        check_refused(one.request("PUT", box_path("new"), {}))
        check_refused(one.request("POST", box_path("large", "/fork"), {"count": 1}))
        check_refused(one.request("POST", "/v1/volumes/new", {}))
        for box in stopped:
            assert one.execute(box, "cat /workspace/f; rm /workspace/f; ls /workspace")["stdout"] == "kept\n"
        assert one.request("POST", box_path("other", "/stop")).status == 200
        one.kill_warden()
        one.await_warden()
        assert one.execute("other", "rm -r /workspace/*; ls -A /workspace")["stdout"] == ""
        assert one.destroy("large").status == 204
        wait_for(lambda: one.request("PUT", box_path("new"), {}).status in (200, 201), "there is room for a box")
        wait_for(lambda: fill(one, "other", "/root/f", 64)["exitCode"] == 0, "all of the space has come back")


# ---- data directories on btrfs

@contextlib.contextmanager
def btrfs(*, full_quotas=False):
    """A directory on a btrfs of its own."""
    if not shutil.which("mkfs.btrfs"):
        pytest.skip("no mkfs.btrfs (btrfs-progs)")
    fixtures.need_room(4, "/tmp")
    base = Path(tempfile.mkdtemp(prefix="atoll-btrfs-", dir="/tmp"))
    base.chmod(0o755)
    image, mnt = base / "img", base / "mnt"
    mnt.mkdir()
    with open(image, "wb") as f:
        f.truncate(3 << 30)
    try:
        subprocess.run(["mkfs.btrfs", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, mnt], check=True)
        try:
            if full_quotas:
                subprocess.run(["btrfs", "quota", "enable", mnt], check=True)
            yield mnt
        finally:
            subprocess.run(["umount", mnt], check=True)
    finally:
        shutil.rmtree(base)


def use_everything(one):
    put(one, "a", limits={"disk": 64 * MIB})
    assert fill(one, "a", "/root/f", 100)["exitCode"] != 0
    one.execute("a", "rm /root/f; echo one > /root/f")
    post(one, "a", "/snapshots", {"name": "s"})
    one.execute("a", "echo two > /root/f")
    assert post(one, "a", "/fork", {"ids": ["b"]})["sandboxes"][0]["id"] == "b"
    post(one, "a", "/restore", {"snapshot": "s"})
    assert (read(one, "a", "/root/f"), read(one, "b", "/root/f")) == ("one\n", "two\n")
    one.kill_warden()
    one.await_warden()
    post(one, "a", "/replace", {"from": {"sandbox": "b"}})
    assert read(one, "a", "/root/f") == "two\n"
    assert 0 < used(one, "a") < 8


def test_a_data_directory_on_btrfs_is_used_as_it_is():
    with btrfs() as mnt, Instance({"ATOLL_DATA": str(mnt / "d"), "ATOLL_ZYGOTE": "off"}) as one:
        shown = one.request("GET", "/v1/health").json()["host"]["pool"]
        assert shown["kind"] == "btrfs", shown
        assert (mnt / "d" / "pool").is_dir() and not (mnt / "d" / "pool.img").exists()
        use_everything(one)


def test_full_quotas_are_used_where_they_are_on():
    with btrfs(full_quotas=True) as mnt, Instance({"ATOLL_DATA": str(mnt / "d"), "ATOLL_ZYGOTE": "off"}) as one:
        shown = one.request("GET", "/v1/health").json()["host"]["pool"]
        assert shown["kind"] == "btrfs" and shown["quota"] == "full", shown
        use_everything(one)
        assert quotas_in_doctor(one).startswith("full quota groups")
    shown = quotas_in_doctor(one)  # without a daemon, of a kernel that has simple ones
    assert shown.startswith("would be "), shown


def quotas_in_doctor(one):
    report = json.loads(one.cli("doctor", "--json").stdout)
    return next(row["detail"] for row in report["checks"] if row["name"] == "disk quotas")


def pool_of(one):
    return one.request("GET", "/v1/health").json()["host"]["pool"]


def test_quotas_that_cannot_be_counted_are_said():
    """Linux gives up counting after a copy in a shared group. A filter lets the count anew fail, until the warden starts without it."""
    no_rescan = oldkernel.without("ioctl", "EPERM", 1, 0x4040942c)  # BTRFS_IOC_QUOTA_RESCAN
    with btrfs(full_quotas=True) as mnt, Instance({"ATOLL_DATA": str(mnt / "d"), "ATOLL_ZYGOTE": "off"}, prefix=no_rescan) as one:
        put(one, "a", limits={"disk": 64 * MIB})
        assert fill(one, "a", "/root/f", 8)["exitCode"] == 0
        assert pool_of(one)["inconsistent"] is False
        subprocess.run(["btrfs", "qgroup", "create", "1/7777", mnt], check=True)
        subprocess.run(["btrfs", "subvolume", "snapshot", "-r", "-i", "1/7777", mnt / "d/pool/boxes/a", mnt / "copy"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["sync", "-f", mnt], check=True)
        wait_for(lambda: one.logged("the quotas of the pool cannot be counted"), "the failed count in the log")
        assert pool_of(one)["inconsistent"] is True and "given up counting" in quotas_in_doctor(one)
        assert one.logged("disk limits do not hold") == 2, "once that they are counted, once that they cannot be"
        assert one.interrupt() == 0
        one.prefix = []
        one.start()
        wait_for(lambda: one.logged("disk limits hold again"), "the count in the log")
        assert pool_of(one)["inconsistent"] is False
        assert fill(one, "a", "/root/g", 100)["exitCode"] != 0


# ---- a pool that cannot be opened

SUPERBLOCK = 65536


def test_a_damaged_pool_is_refused_and_its_files_are_there_when_it_is_mended():
    with Instance({"ATOLL_ZYGOTE": "off"}) as one:
        assert one.execute("kept", "echo kept > /workspace/f; sync")["exitCode"] == 0
        assert one.request("POST", box_path("kept", "/stop")).status == 200  # a box that runs keeps the pool mounted
        assert one.interrupt() == 0
        wait_for(lambda: not subprocess.check_output(["losetup", "-j", one.data / "pool.img"]), "no process has the pool mounted")
        with open(one.data / "pool.img", "r+b") as image:
            image.seek(SUPERBLOCK)
            superblock = image.read(4096)
            image.seek(SUPERBLOCK)
            image.write(bytes(4096))
        with pytest.raises(AssertionError, match="with the files of sandboxes cannot be opened"):  # atoll up ends, and says why
            one.start()
        assert not list((one.data / "boxes").iterdir()), "no sandbox was made in plain directories"
        with open(one.data / "pool.img", "r+b") as image:
            image.seek(SUPERBLOCK)
            image.write(superblock)
        one.start()
        assert read(one, "kept", "/workspace/f") == "kept\n"
