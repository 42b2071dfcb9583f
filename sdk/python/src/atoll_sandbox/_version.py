"""The version of this package, and whether a daemon's fits."""

from __future__ import annotations

import re

__version__ = "0.1.0"

#: The oldest daemon that has every route that is used here. Later ones of the same major version have them too.
OLDEST_DAEMON = (0, 1)


def fits(daemon: str) -> bool:
    """Whether a daemon of this version can be used. Words behind the numbers ("0.2.0-rc1") do not matter."""
    numbers = re.match(r"(\d+)\.(\d+)", daemon)
    if not numbers:
        return False
    major, minor = int(numbers[1]), int(numbers[2])
    return major == OLDEST_DAEMON[0] and minor >= OLDEST_DAEMON[1]
