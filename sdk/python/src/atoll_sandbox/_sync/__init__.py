"""Made by tools/unasync.py from ../_async: change those files."""
