"""mountBucket of atoll-sandbox outside of a Worker, against an S3 server that refuses what is not signed rightly."""

import pathlib
import subprocess
import tempfile

import fixtures
import internet
import package
import pytest
import s3server
from atoll import Instance

pytestmark = [pytest.mark.limit(600), pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)]


@pytest.fixture(name="server")
def s3_server():
    # Not pytest's directory, which is for root alone: the gate reads the certificate.
    with tempfile.TemporaryDirectory(prefix="at-s3-", dir="/tmp") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        with s3server.on_loopback(directory, "s3.test") as server:
            yield server


@pytest.fixture(name="reaching")
def daemon_that_reaches_it(server):
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    with internet.Internet({}, {"s3.test": server.port}) as net:
        instance = Instance({"ATOLL_EGRESS_PROXY": net.proxy, "ATOLL_ZYGOTE": "off", "SSL_CERT_FILE": str(server.pair[0])})
        try:
            yield instance.start()
        finally:
            fixtures.finish(instance)


def test_buckets_with_keys(server, reaching):
    env = package.reaching(reaching, S3_ENDPOINT="https://s3.test", KEY_ID=server.key_id, KEY_SECRET=server.secret, S3_CERT=str(server.pair[0]))
    r = subprocess.run(["node", "tests/programs/buckets.mjs"], cwd=package.PACKAGE, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert r.stdout == "done\n", r.stdout + r.stderr + "".join(server.refused())
    assert len(server.accepted("header")) > 20
    assert all("key id" in line or "is not signed" in line for line in server.refused()), server.refused()
