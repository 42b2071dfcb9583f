"""Swap for a test: the machine's own, or a file that is taken away again at the end."""

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

SIZE = 512 << 20


def there():
    return len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1


@contextlib.contextmanager
def swap(size=SIZE):
    """Yields None, or a sentence that says why there is no swap."""
    if there():
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="atoll-swap-", dir="/var/tmp") as file:
        os.chmod(file.name, 0o600)
        os.posix_fallocate(file.fileno(), 0, size)
        subprocess.run(["mkswap", file.name], check=True, capture_output=True)
        on = subprocess.run(["swapon", file.name], check=False, capture_output=True, text=True)
        try:
            yield f"swapon: {on.stderr.strip()}" if on.returncode else None
        finally:
            if not on.returncode:
                subprocess.run(["swapoff", file.name], check=True, capture_output=True)
