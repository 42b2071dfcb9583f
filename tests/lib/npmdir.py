"""The pinned npm packages of a directory with a lock file."""

import fcntl
import shutil
import subprocess


def _install(directory):
    """Up to three times: npm gives up on a download that breaks off, and keeps what it has fetched. A connection that is silent for
    a minute counts as broken; npm's own limit is five."""
    command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-timeout=60000"]
    if all(subprocess.run(command, cwd=directory, check=False).returncode for _ in range(2)):
        subprocess.run(command, cwd=directory, check=True)


def installed(directory):
    """Installs them once for each state of the lock file, which says which bytes; False without npm."""
    if not shutil.which("npm"):
        return False
    lock = (directory / "package-lock.json").read_bytes()
    stamp = directory / "node_modules/.of-lock-file"
    with open(directory / "package-lock.json", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two suites at once: the second finds it done
        if not stamp.exists() or stamp.read_bytes() != lock:
            _install(directory)
            stamp.write_bytes(lock)
    return True


def scenarios(directory, node):
    """The names that its run.mjs lists; none without npm. Scenarios that cannot be loaded are an error, not a reason to skip."""
    if not installed(directory):
        return []
    r = node("--list")
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout.split()
