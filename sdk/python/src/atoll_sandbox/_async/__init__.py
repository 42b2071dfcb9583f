"""The client. `_sync` is made from these files by tools/unasync.py: change only these."""
