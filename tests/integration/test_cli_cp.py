"""`atoll cp` against a real daemon: both ways, whole or not at all, and nothing outside of its destination whatever a box sends."""

import hashlib
import io
import json
import os
import resource
import signal
import stat
import subprocess
import tarfile

import fixtures
import pytest
from atoll import BIN, SANITIZED, run_as_stranger, wait_for
from ttylib import Terminal

W = "/workspace"
MIB = 1024 * 1024
ROOM = 5  # GiB for a copy of the large file, if nothing stopped it


def sh(daemon, box, script):
    r = daemon.execute_alone(box, script)
    assert r["exitCode"] == 0, r
    return r["stdout"]


def cp(daemon, source, target, *options, **kw):
    r = daemon.cli("cp", *options, str(source), str(target), **kw)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b""), r


def fails(daemon, source, target, text, code=1):
    r = daemon.cli("cp", str(source), str(target))
    assert r.returncode == code and text in r.stderr.decode() and b"\x1b" not in r.stderr, r


def tree(root):
    """Every path below root with what matters about it."""
    out = {}
    for path in sorted(root.rglob("*")):
        st = path.lstat()
        kind = ("link", os.readlink(path)) if path.is_symlink() else ("dir",) if path.is_dir() else (
            "file", path.read_bytes(), stat.S_IMODE(st.st_mode), int(st.st_mtime))
        out[os.fsdecode(path.relative_to(root))] = kind
    return out


@pytest.fixture
def source(tmp_path):
    """A tree with long names, links, modes, an empty directory and names that are no text."""
    root = tmp_path / "src"
    (root / "sub" / ("d" * 120) / ("e" * 120)).mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a").write_bytes(b"A" * 1000)
    (root / "sub" / "bin").write_bytes(bytes(range(256)) * 33)
    (root / "sub" / "run").write_text("#!/bin/sh\n")
    (root / "sub" / "run").chmod(0o755)
    (root / "sub" / ("d" * 120) / ("e" * 120) / ("f" * 200)).write_bytes(b"deep")
    (root / "link").symlink_to("sub/bin")
    (root / "long-link").symlink_to("x/" * 150)
    (root / "dangling").symlink_to("/no/such")
    (root / "zero").touch()
    (root / os.fsdecode(b"n\xff\n\x1b[2J")).write_text("odd")
    os.utime(root / "a", (1_000_000_000, 1_000_000_000))
    return root


# ---- there and back

def test_a_tree_there_and_back(daemon, box, source, tmp_path):
    cp(daemon, source, f"{box}:/tmp/copy")
    assert sh(daemon, box, "cd /tmp/copy; stat -c '%a %Y %U' a; readlink link; cat sub/bin | md5sum; ls -A /tmp; "
              "stat -c %a sub/run").splitlines() == [
        "644 1000000000 root", "sub/bin", hashlib.md5(bytes(range(256)) * 33).hexdigest() + "  -", "copy", "755"]
    cp(daemon, f"{box}:/tmp/copy", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(source)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "src"]


def test_into_a_directory_that_is_there_under_its_name(daemon, box, source, tmp_path):
    cp(daemon, source, f"{box}:")
    cp(daemon, source / "a", f"{box}:src/sub")
    assert sh(daemon, box, f"cd {W}; ls -A; cat src/sub/a") == "src\n" + "A" * 1000
    target = tmp_path / "into"
    target.mkdir()
    cp(daemon, f"{box}:src", target)
    cp(daemon, f"{box}:src/a", target)
    cp(daemon, f"{box}:{W}/src/a", target / "renamed")
    assert sorted(p.name for p in target.iterdir()) == ["a", "renamed", "src"]
    assert (target / "renamed").read_bytes() == b"A" * 1000


def test_the_content_of_a_directory(daemon, box, source, tmp_path):
    cp(daemon, f"{source}/.", f"{box}:/tmp/new")
    assert "zero" in sh(daemon, box, "ls /tmp/new")
    cp(daemon, f"{box}:/tmp/new/.", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(source)
    here = tmp_path / "here"
    here.mkdir()
    r = subprocess.run([BIN / "atoll", "cp", f"{box}:/tmp/new/.", "."], env=daemon.env, cwd=here, capture_output=True, check=False)
    assert (r.returncode, r.stderr) == (0, b"") and tree(here) == tree(source)
    (tmp_path / "by-link").symlink_to(here)
    (here / "a").unlink()
    cp(daemon, f"{box}:/tmp/new/.", tmp_path / "by-link")
    assert tree(here) == tree(source) and (tmp_path / "by-link").is_symlink()


def test_a_slash_at_the_end_means_a_directory(daemon, box, source, tmp_path):
    cp(daemon, source / "a", f"{box}:/tmp/made/here/")
    assert sh(daemon, box, "ls /tmp/made/here") == "a\n"
    cp(daemon, f"{box}:/tmp/made/here/a", f"{tmp_path}/made/")
    assert (tmp_path / "made" / "a").exists()


def test_merging_replaces_files_and_keeps_the_rest(daemon, box, source, tmp_path):
    sh(daemon, box, "mkdir -p /tmp/m/sub; echo keep > /tmp/m/keep; echo old > /tmp/m/sub/bin; echo old > /tmp/m/a")
    cp(daemon, f"{source}/.", f"{box}:/tmp/m")
    assert sh(daemon, box, "cd /tmp/m; cat keep; wc -c < sub/bin; wc -c < a; ls -A /tmp") == "keep\n8448\n1000\nm\n"
    target = tmp_path / "m"
    (target / "sub").mkdir(parents=True)
    (target / "keep").write_text("keep")
    (target / "sub" / "bin").write_text("old")
    cp(daemon, f"{box}:/tmp/m/.", target)
    assert (target / "keep").read_text() == "keep\n" and (target / "sub" / "bin").stat().st_size == 8448
    assert not [p for p in target.rglob(".atoll*")] and not list(tmp_path.glob(".atoll*"))


def test_stdin_and_stdout(daemon, box):
    data = bytes(range(256)) * 100
    cp(daemon, "-", f"{box}:/tmp/in", input=data)
    r = daemon.cli("cp", f"{box}:/tmp/in", "-")
    assert (r.returncode, r.stdout, r.stderr) == (0, data, b"")


def test_a_named_link_is_followed(daemon, box, tmp_path):
    sh(daemon, box, f"cd {W}; mkdir real; echo x > real/f; ln -s real dirlink; ln -s real/f filelink")
    cp(daemon, f"{box}:filelink", tmp_path / "f")
    cp(daemon, f"{box}:dirlink", tmp_path / "d")
    assert (tmp_path / "f").read_text() == "x\n" and not (tmp_path / "f").is_symlink()
    assert (tmp_path / "d" / "f").read_text() == "x\n" and not (tmp_path / "d").is_symlink()


def test_as_json(daemon, box, source):
    r = daemon.cli("cp", "--json", str(source), f"{box}:/tmp/x")
    out = json.loads(r.stdout)
    assert out["to"] == f"{box}:/tmp/x" and out["bytes"] > 10000


def test_recursive_is_accepted_as_in_cp(daemon, box, source):
    assert daemon.cli("cp", "-r", source, f"{box}:/workspace/tree").returncode == 0
    assert daemon.cli("cat", box, "/workspace/tree/a").stdout == b"A" * 1000


# ---- what cannot be

@pytest.mark.parametrize("args, text", [
    ([], "name a source"), (["a"], "name a source"), (["a", "b"], "one side must be in a box"), (["a:b", "c:d"], "on this machine"),
    (["a", "b:c", "d"], "one word too many"), (["./a:b", "/c:d"], "one side must be in a box"),
])
def test_wrong_usage(daemon, args, text):
    r = daemon.cli("cp", *args)
    assert r.returncode == 2 and text.encode() in r.stderr and b"Usage: atoll cp SRC DST" in r.stderr


def test_errors_name_what_is_missing(daemon, box, tmp_path, source):
    fails(daemon, f"{box}:/etc/passwd", tmp_path, f"no box '{box}'")
    assert box not in daemon.boxes()
    fails(daemon, tmp_path / "nope", f"{box}:/tmp", "No such file")
    daemon.cli("create", box)
    fails(daemon, f"{box}:/no/such", tmp_path, "there is no '/no/such' in box")
    fails(daemon, f"{box}:/etc/passwd", tmp_path / "no" / "such", "No such file")
    sh(daemon, box, "mkdir -p /tmp/t/a")
    fails(daemon, source / "a", f"{box}:/tmp/t", "annot overwrite")
    fails(daemon, source, f"{box}:/etc/passwd", "passwd")
    fails(daemon, f"{box}:/dev/null", tmp_path, "neither a file nor a directory")
    assert sh(daemon, box, "ls -A /tmp /tmp/t; find / -xdev -name '.atoll-tmp*'") == "/tmp:\nt\n\n/tmp/t:\na\n"


@pytest.mark.parametrize("name", ["big", "."])
def test_a_full_disk_is_named_and_nothing_is_left(daemon, box, tmp_path, name):
    daemon.cli("create", box, "--disk", "32m")
    if "disk" not in json.loads(daemon.cli("inspect", box, "--json").stdout)["limits"]:
        pytest.skip("the pool has no disk limits")
    (tmp_path / "big").write_bytes(os.urandom(1 << 20) * 80)
    fails(daemon, tmp_path / name, f"{box}:target", "the disk of the box is full")
    assert sh(daemon, box, "ls -A /workspace") == ""


def test_an_unreadable_source_changes_nothing(daemon, box, source):
    (source / "a").chmod(0)
    for parent in [source, *list(source.parents)[:3]]:
        parent.chmod(0o755)
    env = {**daemon.env, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}
    r = run_as_stranger(BIN / "atoll", "cp", source, f"{box}:/tmp/x", env=env)
    assert r.returncode == 1 and "Permission denied" in r.stderr and r.stderr.count("atoll cp:") == 1
    assert sh(daemon, box, "ls -A /tmp") == ""


# ---- size, speed, interruption

def children_rss():
    """KiB, the most that any child had. A child counts as large as we are until it has become another program, so one more is
    started to know what that is."""
    subprocess.run(["true"], check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def test_a_large_file_in_constant_memory(daemon, box, tmp_path):
    big = tmp_path / "big"
    piece = hashlib.sha512(b"x").digest() * (MIB // 64)
    with open(big, "wb") as f:
        for _ in range(64):
            f.write(piece)
    before = children_rss()
    cp(daemon, big, f"{box}:big")
    cp(daemon, f"{box}:big", tmp_path / "back")
    assert subprocess.run(["cmp", big, tmp_path / "back"], check=False).returncode == 0
    assert SANITIZED or children_rss() <= before + 16 * 1024


def test_a_progress_bar_on_a_terminal_only(daemon, box, tmp_path):
    with open(tmp_path / "big", "wb") as f:
        f.truncate(80 * MIB)
    with Terminal([BIN / "atoll", "cp", tmp_path / "big", f"{box}:big"], daemon.env) as t:
        assert t.exit_code() == 0
    assert b"%" in t.out and b"/s" in t.out and t.out.endswith(b"\r\033[K")
    with Terminal([BIN / "atoll", "cp", "-q", f"{box}:big", tmp_path / "again"], daemon.env) as t:
        assert t.exit_code() == 0 and t.out == b""


def test_ctrl_c_leaves_nothing_in_the_box(daemon, box, tmp_path):
    fixtures.need_room(ROOM, tmp_path)
    with open(tmp_path / "big", "wb") as f:
        f.truncate(4096 * MIB)
    sh(daemon, box, "mkdir /tmp/there")
    with daemon.cli_start("cp", str(tmp_path / "big"), f"{box}:/tmp/there/big") as p:
        wait_for(lambda: ".atoll-tmp" in sh(daemon, box, "ls -A /tmp/there"), "it has begun")
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130
    wait_for(lambda: sh(daemon, box, "ls -A /tmp/there") == "", "the box has cleaned up")


def test_ctrl_c_leaves_nothing_here(daemon, box, tmp_path):
    fixtures.need_room(ROOM, tmp_path)
    sh(daemon, box, f"truncate -s 4G {W}/big")
    with daemon.cli_start("cp", f"{box}:big", str(tmp_path / "big")) as p:
        wait_for(lambda: list(tmp_path.glob(".atoll-tmp*/x")), "it has begun")
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_that_dies_in_the_middle(own_daemon, own_box, tmp_path):
    daemon, box = own_daemon, own_box
    fixtures.need_room(2 * ROOM, tmp_path)
    with open(tmp_path / "big", "wb") as f:
        f.truncate(4096 * MIB)
    sh(daemon, box, f"mkdir /tmp/there; truncate -s 4G {W}/big")
    target = tmp_path / "target"
    target.mkdir()
    with daemon.cli_start("cp", str(tmp_path / "big"), f"{box}:/tmp/there/big") as up, \
            daemon.cli_start("cp", f"{box}:big", str(target)) as down:
        wait_for(lambda: ".atoll-tmp" in sh(daemon, box, "ls -A /tmp/there"), "it has begun there")
        wait_for(lambda: list(target.glob(".atoll-tmp*/x")), "it has begun here")
        daemon.kill_daemon()
        assert up.wait(30) == 1 and down.wait(30) == 1
        assert b"connection broke" in up.stderr.read() and b"connection broke" in down.stderr.read()
    assert list(target.iterdir()) == []
    wait_for(lambda: sh(daemon, box, "ls -A /tmp/there") == "", "the box has cleaned up")


# ---- a hostile box: its tar sends what it likes

def member(name, kind=tarfile.REGTYPE, content=b"", link="", mode=0o644):
    t = tarfile.TarInfo(name)
    t.type, t.size, t.linkname, t.mode = kind, len(content), link, mode
    return t, content


def hostile_tar(daemon, box, *members, raw=None):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
        for info, content in members:
            t.addfile(info, io.BytesIO(content))
    daemon.cli("write", box, "/tmp/evil.tar", input=raw if raw is not None else out.getvalue())
    sh(daemon, box, "printf '#!/bin/sh\\nexec cat /tmp/evil.tar\\n' > /usr/bin/tar; chmod +x /usr/bin/tar; mkdir -p /tmp/d")


TOP = member("./", tarfile.DIRTYPE, mode=0o755)


@pytest.mark.parametrize("members, text", [
    ([TOP, member("./../outside", content=b"x")], "leads outside"),
    ([TOP, member("./a/../../outside", content=b"x")], "leads outside"),
    ([TOP, member("..", tarfile.DIRTYPE)], "leads outside"),
    ([TOP, member("/tmp/atoll-absolute", content=b"x")], "is absolute"),
    ([TOP, member("./l", tarfile.SYMTYPE, link=".."), member("./l/outside", content=b"x")], "not a directory"),
    ([TOP, member("./l", tarfile.SYMTYPE, link="/tmp"), member("./l/atoll-absolute", content=b"x")], "not a directory"),
    ([TOP, member("./l", tarfile.SYMTYPE, link="/tmp"), member("./l", tarfile.DIRTYPE)], "appears twice"),
    ([TOP, member("./a", content=b"x"), member("./h", tarfile.LNKTYPE, link="./a")], "kind '1'"),
    ([TOP, member("./h", tarfile.LNKTYPE, link="/etc/passwd")], "kind '1'"),
    ([member("./f", content=b"x"), member("./g", content=b"y")], "was not asked for"),
    ([TOP, member("./" + "a/" * 300 + "f", content=b"x")], "too long"),
])
def test_names_that_lead_elsewhere_end_the_transfer(daemon, box, tmp_path, members, text):
    hostile_tar(daemon, box, *members)
    target = tmp_path / "t" / "target"
    target.mkdir(parents=True)
    fails(daemon, f"{box}:/tmp/d", target, text)
    assert list(target.iterdir()) == [] and [p.name for p in target.parent.iterdir()] == ["target"]
    assert not os.path.exists("/tmp/atoll-absolute")


def test_modes_devices_and_links_of_a_hostile_box(daemon, box, tmp_path):
    hostile_tar(daemon, box, TOP, member("./suid", content=b"#!", mode=0o6777), member("./dev", tarfile.CHRTYPE),
                member("./pipe", tarfile.FIFOTYPE), member("./l", tarfile.SYMTYPE, link="/etc/passwd"),
                member("./open", tarfile.DIRTYPE, mode=0o1777), member("./l2", tarfile.SYMTYPE, link="/etc/passwd"),
                member("./l2", content=b"a file after all"))
    r = daemon.cli("cp", f"{box}:/tmp/d", str(tmp_path / "t"))
    assert r.returncode == 0 and b"2 devices, pipes or sockets" in r.stderr
    t = tmp_path / "t"
    assert sorted(p.name for p in t.iterdir()) == ["l", "l2", "open", "suid"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((t / "suid").stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((t / "open").stat().st_mode) == 0o777 & ~mask | 0o700
    assert os.readlink(t / "l") == "/etc/passwd" and (t / "l2").read_bytes() == b"a file after all"


def test_a_link_at_the_destination_is_never_written_through(daemon, box, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("mine")
    target = tmp_path / "target"
    target.mkdir()
    (target / "f").symlink_to(outside / "f")
    (target / "dir").symlink_to(outside)
    sh(daemon, box, f"mkdir -p {W}/d/dir; echo theirs > {W}/d/f")
    cp_out = daemon.cli("cp", f"{box}:d/.", str(target))
    sh(daemon, box, f"echo theirs > {W}/d/dir/f")
    again = daemon.cli("cp", f"{box}:d/.", str(target))
    assert (outside / "f").read_text() == "mine" and sorted(p.name for p in outside.iterdir()) == ["f"]
    assert cp_out.returncode == again.returncode == 1 and b"dir" in again.stderr


@pytest.mark.parametrize("raw", [b"", b"\0" * 512, b"not a tar at all" * 100, b"\xff" * 512, b"./x\0".ljust(512, b"\0")])
def test_what_is_no_tar_stream_is_refused(daemon, box, tmp_path, raw):
    hostile_tar(daemon, box, raw=raw)
    r = daemon.cli("cp", f"{box}:/tmp/d", str(tmp_path / "t"))
    assert r.returncode == 1 and r.stderr and list(tmp_path.iterdir()) == []


def test_a_stream_that_stops_in_the_middle_is_not_taken_for_whole(daemon, box, tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
        for info, content in (TOP, member("./a", content=b"x" * 5000)):
            t.addfile(info, io.BytesIO(content))
    for n in (512, 1024, 3000, 512 * 12):
        hostile_tar(daemon, box, raw=out.getvalue()[:n])
        fails(daemon, f"{box}:/tmp/d", tmp_path / "t", "too early")
    assert list(tmp_path.iterdir()) == []


def test_a_box_without_tar_is_told(daemon, box, tmp_path, source):
    sh(daemon, box, "rm /usr/bin/tar")
    for pair in ((source / "a", f"{box}:/tmp/a"), (f"{box}:/etc/passwd", tmp_path / "p")):
        fails(daemon, *pair, "tar")
    assert not (tmp_path / "p").exists() and sh(daemon, box, "ls -A /tmp") == ""
