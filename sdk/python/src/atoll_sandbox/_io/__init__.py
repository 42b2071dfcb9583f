"""The only parts that differ between `_async` and `_sync` by more than `await`: the same names in `aio` and in `blocking`."""
