"""Starting a box again on a hostile layer: what lies where the warden mounts was chosen by an attacker.

A running box cannot rename its own mount points, so the layer is changed here from outside while the box is stopped: the
worst that a snapshot, a restored backup or a future bug could leave behind. Whatever it is, nothing outside the layer may
be touched, and the box either comes up with every mask in place or is refused with a sentence.
"""
import os
import shutil
import signal
import stat

import atoll as lib
import escape
import pytest


@pytest.fixture
def canary(tmp_path):
    """A directory of the host with one of everything in it; must be the same at the end."""
    os.chmod(tmp_path, 0o777)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != lib.Path("/"):
            os.chmod(parent, parent.stat().st_mode | 0o555)
    (tmp_path / "file").write_text("untouched")
    os.mkdir(tmp_path / "null")
    before = snapshot(tmp_path)
    yield tmp_path
    assert snapshot(tmp_path) == before
    assert not [line for line in lib.Path("/proc/self/mountinfo").read_text().splitlines() if str(tmp_path) in line]


def snapshot(path):
    found = {}
    for p in [path, *sorted(path.rglob("*"))]:
        st = p.lstat()
        found[str(p)] = (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns, st.st_size)
    return found


def upper_of(daemon, box):
    upper = daemon.layers / box / "upper"
    assert (upper / "var/tmp/layer-of" / box).exists()
    return upper


def stopped_with_layer(daemon, box):
    """A box that has run and is stopped; returns its upper directory."""
    escape.load(daemon, box)
    escape.execute(daemon, box, f"mkdir -p /var/tmp/layer-of && touch /var/tmp/layer-of/{box}")
    upper = upper_of(daemon, box)
    os.kill(escape.init_of(daemon, box), signal.SIGKILL)
    lib.wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "the box is stopped")
    return upper


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def up_and_masked_or_refused(daemon, box):
    """Starts it again. Returns the sentence when it is refused."""
    reply = daemon.request("POST", lib.box_path(box, "/api/execute"), {"command": "true", "sessionId": escape.SESSIONLESS})
    if reply.status != 200:
        assert reply.json()["code"] == "BOX_CREATE_FAILED", reply
        assert reply.json()["message"]
        return reply.json()["message"]
    escape.load(daemon, box)
    result = escape.run(daemon, box, "layer-links-absolute", phase="verify")
    assert result["result"] == "refused", result
    return None


TARGETS = {
    "absolute": lambda canary: str(canary),
    "climbing": lambda canary: "../" * 24 + str(canary)[1:],
    "magic": lambda canary: "/proc/1/root" + str(canary),
    "own-proc": lambda canary: "/proc/sys/kernel",
    "descriptor": lambda canary: "/proc/self/fd/3",
    "dangling": lambda canary: str(canary / "new"),
}


@pytest.mark.parametrize("where", ["proc", "dev", "sys", "workspace", "tmp", "etc", "root", "run"])
@pytest.mark.parametrize("way", TARGETS)
def test_link_instead_of_directory(daemon, box, canary, where, way):
    upper = stopped_with_layer(daemon, box)
    remove(upper / where)
    os.symlink(TARGETS[way](canary), upper / where)
    up_and_masked_or_refused(daemon, box)
    assert (upper / where).is_symlink()


@pytest.mark.parametrize("where", ["proc", "dev", "workspace"])
@pytest.mark.parametrize("kind", ["file", "fifo", "socket-like", "device", "closed"])
def test_something_else_instead_of_directory(daemon, box, canary, where, kind):
    upper = stopped_with_layer(daemon, box)
    remove(upper / where)
    if kind == "file":
        (upper / where).write_text("")
    elif kind == "fifo":
        os.mkfifo(upper / where)
    elif kind == "socket-like":
        os.mknod(upper / where, stat.S_IFSOCK | 0o777)
    elif kind == "device":
        os.mknod(upper / where, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    else:
        os.mkdir(upper / where, 0o000)
    assert canary
    up_and_masked_or_refused(daemon, box)


@pytest.mark.parametrize("name", ["null", "zero", "tty", "console", "ptmx", "pts", "shm", "fd", "stdin"])
def test_links_inside_dev(daemon, box, canary, name):
    """CVE-2025-31133, CVE-2025-52565: what masks and terminals are made from comes from the layer."""
    upper = stopped_with_layer(daemon, box)
    (upper / "dev").mkdir(exist_ok=True)
    remove(upper / "dev" / name)
    os.symlink("/proc/sys/kernel/core_pattern" if name in ("null", "console") else str(canary / "null"), upper / "dev" / name)
    assert up_and_masked_or_refused(daemon, box) is None, "what lies under a mount does not matter"


def test_links_inside_proc(daemon, box, canary):
    """CVE-2019-19921, CVE-2025-52881: a directory that looks like /proc, with links where it is protected."""
    upper = stopped_with_layer(daemon, box)
    (upper / "proc").mkdir(exist_ok=True)
    for name in ("sys", "kcore", "keys", "sysrq-trigger", "self", "bus"):
        os.symlink(str(canary), upper / "proc" / name)
    assert up_and_masked_or_refused(daemon, box) is None


@pytest.mark.parametrize("number", range(0, 24))
def test_working_directory_is_a_descriptor_of_the_set_up(daemon, box, number):
    """CVE-2024-21626 in its first form: the working directory of the image is /proc/self/fd/N."""
    upper = stopped_with_layer(daemon, box)
    remove(upper / "workspace")
    os.symlink(f"/proc/self/fd/{number}", upper / "workspace")
    reply = daemon.request("POST", lib.box_path(box, "/api/execute"), {"command": "true", "sessionId": escape.SESSIONLESS})
    if reply.status != 200:
        assert reply.json()["code"] == "BOX_CREATE_FAILED", reply
        return
    escape.load(daemon, box)
    assert escape.run(daemon, box, "cwd-outside")["result"] == "refused"
    assert escape.run(daemon, box, "fd-leak-processes")["result"] == "refused"


def test_overlay_attributes_of_an_attacker(daemon, box, canary):
    """A box cannot set trusted.overlay.*; if a layer had them, a redirect must not lead out of the image."""
    upper = stopped_with_layer(daemon, box)
    (upper / "opt").mkdir(exist_ok=True)
    os.setxattr(upper / "opt", "trusted.overlay.redirect", b"/../../../../../.." + str(canary).encode())
    reply = daemon.request("POST", lib.box_path(box, "/api/execute"), {"command": "ls /opt", "sessionId": escape.SESSIONLESS})
    if reply.status == 200:
        assert "file" not in reply.json()["stdout"].split(), reply


def test_box_cannot_set_overlay_attributes(daemon, box):
    script = "import os; os.setxattr('/opt', 'trusted.overlay.opaque', b'y')"
    done = escape.execute(daemon, box, f'python3 -c "{script}"')
    assert done["exitCode"] == 1 and "PermissionError" in done["stderr"], done
