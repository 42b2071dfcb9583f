"""Other users of the host: which files of an instance can they reach? Everything that there is is tried as the user
nobody: list, read, lock, write, connect. What may succeed is written down here."""
import json
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import atoll as lib
import pytest

ZYGOTE = True
NOBODY = 65534

TRY = r"""
import fcntl, json, os, socket, sys
def tried(what, path, act):
    try:
        act()
        done.append((what, path))
    except OSError:
        pass
def lock(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
def connect(kind):
    def act():
        s = socket.socket(socket.AF_UNIX, kind)
        s.connect(path)
    return act
done = []
for path in json.load(sys.stdin):
    tried("list", path, lambda: os.listdir(path))
    tried("read", path, lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
    tried("write", path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
    tried("lock", path, lambda: lock(path))
    tried("plant", path, lambda: os.close(os.open(path + "/planted", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)))
    tried("connect", path, connect(socket.SOCK_STREAM))
    tried("connect", path, connect(socket.SOCK_SEQPACKET))
    tried("remove", path, lambda: os.rename(path, path + ".moved"))
print(json.dumps(done))
"""


def succeeded(paths):
    """What nobody can do: pairs of a verb and a path."""
    r = subprocess.run(["/usr/bin/python3", "-c", TRY], input=json.dumps([str(p) for p in paths]), capture_output=True, text=True,
                       user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=True, timeout=lib.DEADLINE)
    return {(verb, path) for verb, path in json.loads(r.stdout)}


def everything(base):
    found = [base]
    for d, dirs, files in os.walk(base):
        dirs[:] = [x for x in dirs if not os.path.islink(os.path.join(d, x))]
        found += [Path(d) / name for name in dirs + files]
    return found


def test_the_instance_is_closed(daemon):
    daemon.execute("box", "mkdir -m 1777 /open && echo secret >/open/file && chmod 666 /open/file")
    paths = everything(daemon.run) + everything(daemon.data)
    assert any(p.name == "pool.img" for p in paths) and any(p.suffix == ".sock" and p.parent.name == "s" for p in paths)
    listen = str(daemon.run / "listen")
    # Where to connect is no secret; the token is what counts.
    assert succeeded(paths) == {("read", listen), ("lock", listen)}


@pytest.fixture
def images():
    """An image directory of an old installation: everybody may enter. Its image is the real one."""
    base = Path(tempfile.mkdtemp(prefix="at-images-", dir="/tmp"))
    base.chmod(0o755)
    key = os.readlink(lib.IMAGES / "default")
    (base / key).mkdir()
    (base / "default").symlink_to(key)
    (base / ".lock").touch()
    subprocess.run(["mount", "--bind", lib.IMAGES / key, base / key], check=True)
    # Its own modes are open too: the shared directory above it is what closes it elsewhere.
    try:
        yield base
    finally:
        (base / "default/rootfs/tmp/planted").unlink(missing_ok=True)
        subprocess.run(["umount", base / key], check=True)
        (base / key).rmdir()
        for name in ("layers", "making", "meta", "staging", "trash", "users"):  # of the warden, for images made here
            shutil.rmtree(base / name, ignore_errors=True)
        for name in (".lock", "default"):
            (base / name).unlink(missing_ok=True)
        base.rmdir()


def image_paths(base):
    return [base, base / ".lock", base / "default", base / "default/image.json", base / "default/rootfs", base / "default/rootfs/tmp"]


def test_up_closes_the_images(images):
    tmp = images / "default/rootfs/tmp"
    assert stat.S_IMODE(tmp.stat().st_mode) == 0o1777
    assert ("lock", str(images / ".lock")) in succeeded(image_paths(images)[:2]), "the test cannot fail"
    instance = lib.Instance()
    instance.env["ATOLL_IMAGES"] = str(images)
    with instance as daemon:
        assert stat.S_IMODE(images.stat().st_mode) == 0o700
        assert succeeded(image_paths(images)) == set()
        assert daemon.logged("could enter the image directory until now") == 1
        # The zygote is a user of its own and still gets there.
        assert daemon.execute("box", "ls -d /tmp /usr/bin/python3")["exitCode"] == 0
        lib.wait_for(lambda: daemon.logged('msg="zygote ready"'), "a zygote from a closed directory", 120)
        assert daemon.interrupt() == 0
        daemon.start()
        assert daemon.logged("could enter the image directory until now") == 1, "said once, not at every start"


def test_build_closes_the_images(images):
    r = subprocess.run([lib.ROOT / "tools/image/build"], env={**os.environ, "ATOLL_IMAGES": str(images)}, capture_output=True, text=True,
                       check=True, timeout=lib.DEADLINE)
    assert "is there" in r.stdout
    assert stat.S_IMODE(images.stat().st_mode) == 0o700 and stat.S_IMODE((images / ".lock").stat().st_mode) == 0o600
    assert succeeded(image_paths(images)) == set()


def test_doctor_says_that_it_cannot_look(images):
    images.chmod(0o700)
    r = subprocess.run([lib.BIN / "atoll", "doctor"], env={**os.environ, "ATOLL_IMAGES": str(images)}, capture_output=True, text=True,
                       user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=False, timeout=lib.DEADLINE)
    assert f"you may not read {images}" in r.stdout
