"""Backups and buckets of the unmodified @cloudflare/sandbox in workerd: every row over each of its transports. The Worker and the boxes reach one S3
server, with a name as R2 has them, that refuses what is not signed rightly."""

import json
import os
import subprocess

import fixtures
import internet
import pytest
import s3server
from atoll import Instance
from test_workers import DRIVER, HERE, ROWS, STORED

HOST = "atoll.r2.cloudflarestorage.com"  # upstream signs for S3 when the name ends like this
NAMES = [name for name, area in ROWS.items() if area == STORED]
pytestmark = [pytest.mark.limit(900), pytest.mark.skipif(not NAMES, reason="npm is missing")]


@pytest.fixture(scope="module", name="server")
def s3_server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("s3")
    with s3server.on_loopback(directory, HOST, f"*.{HOST}") as server:
        (directory / "hosts").write_text(f"127.0.0.1 localhost {HOST}\n", encoding="utf-8")
        yield server


@pytest.fixture(scope="module", name="world")
def daemon_that_reaches_it(server):
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    with internet.Internet({}, {f"{bucket}{HOST}": server.port for bucket in ("", "data.", "none-such.")}) as net:
        instance = Instance({"ATOLL_EGRESS_PROXY": net.proxy, "ATOLL_ZYGOTE": "off"})
        try:
            yield instance.start()
        finally:
            fixtures.finish(instance)


def environment(server, daemon, transport):
    """The server has a name in /etc/hosts of a mount namespace."""
    cert = server.pair[0]
    bindings = {"BACKUP_BUCKET_ENDPOINT": f"https://{HOST}:{server.port}", "BACKUP_BUCKET_NAME": "data", "CLOUDFLARE_ACCOUNT_ID": "none",
                "R2_ACCESS_KEY_ID": server.key_id, "R2_SECRET_ACCESS_KEY": server.secret, "S3_CA": cert.read_text(encoding="utf-8")}
    return {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "SANDBOX_TRANSPORT": transport,
            "S3_BINDINGS": json.dumps(bindings), "NODE_EXTRA_CA_CERTS": str(cert)}


def run_rows(command, server, env):
    """All of them in one workerd; the result of each by its name, and what was written to stderr."""
    hosts = server.pair[0].parent / "hosts"
    r = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, *command], cwd=HERE,
                       capture_output=True, text=True, check=False, env=env, timeout=600)
    return {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}, r.stderr


@pytest.fixture(scope="module", params=("http", "websocket", "rpc"))
def results(request, server, world):
    """Of the rows that were asked for."""
    wanted = [i.callspec.params for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    names = [params["name"] for params in wanted if params["results"] == request.param]
    return run_rows([*DRIVER, *names], server, environment(server, world, request.param))


@pytest.mark.parametrize("name", NAMES)
def test_row(results, name):
    rows, stderr = results
    assert name in rows, stderr[-3000:]
    assert rows[name]["ok"], rows[name]["error"]


def test_requests_were_signed(server, request):
    """Each kind of signature was used, and what was refused had the wrong key of a row."""
    if len([i for i in request.session.items if i.module is request.module]) < 3 * len(NAMES):
        pytest.skip("some rows only")
    assert len(server.accepted("query")) > 10 and len(server.accepted("header")) > 10
    # s3fs asks once more without a key when one is refused.
    assert server.refused() and all("key id" in line or "is not signed" in line for line in server.refused()), server.refused()
