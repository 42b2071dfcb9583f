"""What has passed on this machine: empty or short notes, named by a hash of everything that decides the result.

They are beside the images, so that a clean checkout finds them; in build/ where this user cannot write there. A note that nothing
asked for in DAYS is deleted, and the oldest past MOST.
"""
import hashlib
import os
import time

DAYS = 30
MOST = 20000


def directory(kind):
    """The directory of the notes of this kind, made and without old notes."""
    images = os.environ.get("ATOLL_IMAGES") or (os.environ.get("ATOLL_DATA") or "/var/lib/atoll") + "/images"
    for path in (f"{images}/.cache/{kind}", f"build/{kind}"):
        try:
            os.makedirs(path, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            break
    _forget(path)
    return path


def _forget(path):
    with os.scandir(path) as entries:
        notes = sorted((entry.stat().st_mtime, entry.path) for entry in entries if entry.is_file())
    oldest = time.time() - DAYS * 86400
    for i, (used, note) in enumerate(notes):
        if used < oldest or i < len(notes) - MOST:
            try:
                os.unlink(note)
            except FileNotFoundError:  # another run did it
                pass


def look(note):
    """The text of a note, which counts as used now; None if there is none."""
    try:
        os.utime(note)
        with open(note, encoding="ascii") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Contents:
    """Hashes of files, each read once."""

    def __init__(self):
        self.known = {}

    def of(self, path):
        if path not in self.known:
            with open(path, "rb") as f:
                self.known[path] = hashlib.sha256(f.read()).hexdigest()
        return self.known[path]

    def together(self, paths, *texts):
        """One hash of these files, their names, and more."""
        lines = [f"{self.of(path)} {path}" for path in sorted(paths)]
        return hashlib.sha256("\n".join([*lines, *texts]).encode()).hexdigest()
