"""The pinned npm packages of a directory with a lock file.

A machine installs each lock file once, into a cache beside the images: a clean checkout gets hard links to its files. No program may change a
file of node_modules in place, new files beside them are its own.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import time

import atoll as lib

CACHE = lib.IMAGES / ".cache/modules"
UNUSED = 30 * 86400  # seconds after which a tree of the cache is deleted


def _install(directory):
    """Up to three times: npm gives up on a download that breaks off, and keeps what it has fetched. A connection that is silent for
    a minute counts as broken; npm's own limit is five."""
    command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-timeout=60000"]
    if all(subprocess.run(command, cwd=directory, check=False).returncode for _ in range(2)):
        subprocess.run(command, cwd=directory, check=True)


@functools.cache
def _node():
    """Packages install programs for the version and the machine."""
    return subprocess.run(["node", "-p", "process.version + process.platform + process.arch"], capture_output=True, check=True).stdout


def _key(directory):
    parts = [_node(), *((directory / name).read_bytes() for name in ("package.json", "package-lock.json"))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


@contextlib.contextmanager
def locked(path, mode="rb"):
    with open(path, mode) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _remove_unused():
    for tree in CACHE.glob("*/node_modules"):
        if time.time() - tree.parent.stat().st_mtime > UNUSED:
            shutil.rmtree(tree.parent, ignore_errors=True)


def _cached(directory, key):
    """The tree of the cache, made now if it is not there; None if this user has no cache."""
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(CACHE, os.W_OK):
        return None
    with locked(CACHE / f"{key}.lock", "ab"):
        tree = CACHE / key
        if not tree.exists():
            _remove_unused()
            new = CACHE / f"{key}.new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(directory / name, new)
            _install(new)
            new.rename(tree)
        os.utime(tree)
        return tree / "node_modules"


def _link(tree, directory):
    """Copies where the cache is on another file system."""
    new = directory / "node_modules" / ".new"
    shutil.rmtree(new.parent, ignore_errors=True)
    new.parent.mkdir()
    if subprocess.run(["cp", "-al", tree, new], capture_output=True, check=False).returncode:
        shutil.rmtree(new, ignore_errors=True)
        subprocess.run(["cp", "-a", tree, new], check=True)
    for entry in new.iterdir():
        entry.rename(new.parent / entry.name)
    new.rmdir()


def installed(directory):
    """Installs them once for each state of the lock file, which says which bytes; False without npm."""
    if not shutil.which("npm"):
        return False
    stamp, key = directory / "node_modules/.of-lock-file", _key(directory)
    with locked(directory / "package-lock.json"):  # two files at once: the second finds it done
        if not stamp.exists() or stamp.read_text(encoding="ascii", errors="replace") != key:
            tree = _cached(directory, key)
            if tree:
                _link(tree, directory)
            else:
                _install(directory)
            stamp.write_text(key, encoding="ascii")
    return True


def scenarios(directory, node):
    """The names that its run.mjs lists; none without npm. Scenarios that cannot be loaded are an error, not a reason to skip."""
    if not installed(directory):
        return []
    r = node("--list")
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout.split()
