"""The pinned npm packages of this suite."""

from pathlib import Path

import npmdir

HERE = Path(__file__).resolve().parent


def installed():
    return npmdir.installed(HERE)
