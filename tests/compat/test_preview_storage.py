"""Backups and buckets of upstream's 1.0 preview on the S3 server of test_worker_storage.py, which refuses what is not signed rightly."""

import json
import subprocess

import pytest
from test_preview import DRIVER, HERE, ROWS, STORED
from test_worker_storage import daemon_that_reaches_it, environment, s3_server  # noqa: F401

NAMES = [name for name, area in ROWS.items() if area == STORED]
pytestmark = [pytest.mark.limit(600), pytest.mark.skipif(not NAMES, reason="npm is missing")]


@pytest.fixture(scope="module")
def results(request, server, world):
    wanted = [i.callspec.params["name"] for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    hosts = server.pair[0].parent / "hosts"
    r = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, *DRIVER, *wanted], cwd=HERE,
                       capture_output=True, text=True, check=False, env=environment(server, world, "rpc"), timeout=500)
    return {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}, r.stderr


@pytest.mark.parametrize("name", NAMES)
def test_row(results, name):
    rows, stderr = results
    assert name in rows, stderr[-3000:]
    assert rows[name]["ok"], rows[name]["error"]
