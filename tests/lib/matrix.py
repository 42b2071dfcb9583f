"""Tables of rows (scenarios) and columns (transports, runtimes, versions of wrangler). A run of CI takes every row in the first column, and a
diagonal: one row after the other in one column after the other. ATOLL_NIGHTLY=1 (`make nightly`) takes all."""

import inspect
import os

NIGHTLY = bool(os.environ.get("ATOLL_NIGHTLY"))


def chosen(rows, columns):
    """[(row, column)] of a list of rows, column by column: a fixture of a column is made once. `columns` is a list, or returns the list of a row."""
    pairs = []
    for i, row in enumerate(rows):
        own = columns(row) if callable(columns) else columns
        pairs += [(row, column) for column in own if NIGHTLY or column in (own[0], own[(i + 1) % len(own)])]
    order = list(dict.fromkeys(column for _, column in pairs))
    return sorted(pairs, key=lambda pair: order.index(pair[1]))


def for_tests(metafunc, name, columns, **options):
    """For a module's pytest_generate_tests: its tests that take `name` are the rows. `columns` may depend on the name of the test."""
    rows = [test for test, function in vars(metafunc.module).items()
            if test.startswith("test_") and callable(function) and name in inspect.signature(function).parameters]
    if name in metafunc.fixturenames:
        metafunc.parametrize(name, [column for row, column in chosen(rows, columns) if row == metafunc.function.__name__], **options)
