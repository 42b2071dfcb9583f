import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from fixtures import *  # noqa: E402,F401,F403


def pytest_collection_modifyitems(items):
    """The tests of a file version by version: a server is started once for each."""
    files = list(dict.fromkeys(item.path for item in items))
    items.sort(key=lambda item: (files.index(item.path), item.callspec.params.get("dev", "") if hasattr(item, "callspec") else ""))
