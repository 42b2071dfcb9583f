"""The pinned npm packages of a directory with a lock file."""

import fcntl
import shutil
import subprocess


def installed(directory):
    """Installs them once for each state of the lock file, which says which bytes; False without npm."""
    if not shutil.which("npm"):
        return False
    lock = (directory / "package-lock.json").read_bytes()
    stamp = directory / "node_modules/.of-lock-file"
    with open(directory / "package-lock.json", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two suites at once: the second finds it done
        if not stamp.exists() or stamp.read_bytes() != lock:
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=directory, check=True)
            stamp.write_bytes(lock)
    return True


def scenarios(directory, node):
    """The names that its run.mjs lists; none without npm. Scenarios that cannot be loaded are an error, not a reason to skip."""
    if not installed(directory):
        return []
    r = node("--list")
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout.split()
