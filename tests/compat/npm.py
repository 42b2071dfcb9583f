"""The pinned npm packages of this suite."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def installed():
    """Installs them once for each state of the lock file, which says which bytes; False without npm."""
    if not shutil.which("npm"):
        return False
    lock = (HERE / "package-lock.json").read_bytes()
    stamp = HERE / "node_modules/.of-lock-file"
    if not stamp.exists() or stamp.read_bytes() != lock:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=HERE, check=True)
        stamp.write_bytes(lock)
    return True
