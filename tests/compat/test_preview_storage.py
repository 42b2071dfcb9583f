"""Backups and buckets of upstream's 1.0 preview on the S3 server of test_worker_storage.py, which refuses what is not signed rightly."""

import pytest
from test_preview import DRIVER, ROWS, STORED
from test_worker_storage import daemon_that_reaches_it, environment, run_rows, s3_server  # noqa: F401

NAMES = [name for name, area in ROWS.items() if area == STORED]
pytestmark = [pytest.mark.limit(900), pytest.mark.skipif(not NAMES, reason="npm is missing")]


@pytest.fixture(scope="module")
def results(request, server, world):
    wanted = [i.callspec.params["name"] for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    return run_rows([*DRIVER, *wanted], server, environment(server, world, "rpc"))


@pytest.mark.parametrize("name", NAMES)
def test_row(results, name):
    rows, stderr = results
    assert name in rows, stderr[-3000:]
    assert rows[name]["ok"], rows[name]["error"]
