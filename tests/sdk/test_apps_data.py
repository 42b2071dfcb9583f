"""examples/data-analysis, in each of its forms, with a bucket of an S3 server that the test starts as its working directory."""

import base64
import contextlib
import os
import subprocess
import tempfile

import apps
import atoll as lib
import fixtures
import internet
import npmdir
import pytest

COMPAT = apps.package.ROOT / "tests/compat"
SALES = (apps.EXAMPLES / "data-analysis/sales.csv").read_bytes()
KEY_ID, KEY_SECRET = "AKIATEST" + os.urandom(6).hex().upper(), os.urandom(20).hex()
BUCKET = {"BUCKET": "data", "BUCKET_KEY": KEY_ID, "BUCKET_SECRET": KEY_SECRET}
pytestmark = pytest.mark.skipif(not (apps.installed() and npmdir.installed(COMPAT)), reason=apps.package.WHY_NOT)

SERVER = """
import { readFileSync } from 'node:fs';
import S3rver from 's3rver';
import Account from 's3rver/lib/models/account.js';
const [directory, cert, key] = process.argv.slice(2);
Account.DUMMY_ACCOUNT.revokeAccessKey('S3RVER');
Account.DUMMY_ACCOUNT.createKeyPair(process.env.KEY_ID, process.env.KEY_SECRET);
const server = new S3rver({
  address: '127.0.0.1', port: 0, silent: true, vhostBuckets: false, directory, configureBuckets: [{ name: 'data' }],
  ...(cert && { cert: readFileSync(cert), key: readFileSync(key) }),
});
console.log((await server.run()).port);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
"""
# A sandbox does not trust the certificate of the test; where the gate signs, the gate verifies it.
ENDPOINTS = {"node": "https://secure.test", "python": "https://secure.test", "worker": "http://plain.test"}


@contextlib.contextmanager
def s3_server(*arguments):
    """Yields the port of an S3 server."""
    env = {**os.environ, "KEY_ID": KEY_ID, "KEY_SECRET": KEY_SECRET}
    with subprocess.Popen(["node", "--input-type=module", "-e", SERVER, "-", *arguments], cwd=COMPAT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    files = tmp_path_factory.mktemp("s3")
    with tempfile.TemporaryDirectory(prefix="atoll-cert-") as place:  # the gate's user may read it
        os.chmod(place, 0o755)
        cert, key = f"{place}/cert.pem", f"{place}/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=secure.test", "-addext",
                        "subjectAltName=DNS:secure.test", "-out", cert, "-keyout", key], check=True, capture_output=True)
        with s3_server(files) as plain, s3_server(files, cert, key) as secure, \
                internet.Internet({}, {"plain.test": plain, "secure.test": secure}) as net, \
                lib.Instance({"ATOLL_EGRESS_PROXY": net.proxy, "SSL_CERT_FILE": cert}) as daemon:
            yield daemon, files


@pytest.mark.parametrize("kind", apps.kinds("data-analysis"))
@pytest.mark.parametrize("bucket", [{}, BUCKET], ids=["disk", "bucket"])
def test_data_analysis(world, tmp_path, kind, bucket):
    daemon, files = world
    with apps.App(daemon, tmp_path / "log", "data-analysis", kind, BUCKET_ENDPOINT=ENDPOINTS[kind], **bucket) as app:
        app.json("PUT", "/files/sales.csv", SALES, status=204)
        assert app.json("GET", "/files") == {"files": ["sales.csv"]}

        best = app.post("/ask", {"question": "Which month had the highest revenue?"})
        assert best["answer"] == "February had the highest revenue." and best["attempts"] == 2 and best["error"] is None
        assert "<td>1355.0</td>" in best["tables"][0] and best["charts"] == []
        chart = app.post("/ask", {"question": "Draw the units sold."})
        assert base64.b64decode(chart["charts"][0])[:4] == b"\x89PNG" and chart["attempts"] == 1

        app.post("/ask", {}, status=400)
        assert app.call("PUT", "/files/..%2fx.csv", SALES)[0] == 404
        if bucket and kind != "worker":  # the key is not in the sandbox
            found = daemon.execute("data-analysis", f"cat /proc/*/environ /root/.passwd-s3fs /etc/passwd-s3fs 2>/dev/null | grep -c {KEY_SECRET}")
            assert found["stdout"] == "0\n"
    daemon.destroy("data-analysis")
    stored = [path for path in files.rglob("*sales.csv*") if path.is_file()]
    assert bool(stored) == bool(bucket)
    for path in stored:
        path.unlink()
