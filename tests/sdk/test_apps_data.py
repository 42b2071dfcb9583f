"""examples/data-analysis, in each of its forms, with a bucket of an S3 server that the test starts as its working directory."""

import base64
import subprocess

import apps
import atoll as lib
import fixtures
import internet
import npmdir
import pytest

COMPAT = apps.package.ROOT / "tests/compat"
SALES = (apps.EXAMPLES / "data-analysis/sales.csv").read_bytes()
BUCKET = {"BUCKET": "sandbox-bucket", "BUCKET_ENDPOINT": "http://s3.test", "BUCKET_KEY": "S3RVER", "BUCKET_SECRET": "S3RVER"}
pytestmark = pytest.mark.skipif(not (apps.installed() and npmdir.installed(COMPAT)), reason=apps.package.WHY_NOT)

SERVER = """
import S3rver from 's3rver';
const server = new S3rver({
  address: '127.0.0.1', port: 0, silent: true, vhostBuckets: false, directory: process.argv[2],
  configureBuckets: [{ name: 'sandbox-bucket' }],
});
console.log((await server.run()).port);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    files = tmp_path_factory.mktemp("s3")
    with subprocess.Popen(["node", "--input-type=module", "-e", SERVER, "-", files], cwd=COMPAT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        port = int(server.stdout.readline())
        try:
            with internet.Internet({}, {"s3.test": port}) as net, lib.Instance({"ATOLL_EGRESS_PROXY": net.proxy}) as daemon:
                yield daemon, files
        finally:
            server.stdin.close()


@pytest.mark.parametrize("kind", apps.kinds("data-analysis"))
@pytest.mark.parametrize("bucket", [{}, BUCKET], ids=["disk", "bucket"])
def test_data_analysis(world, tmp_path, kind, bucket):
    daemon, files = world
    with apps.App(daemon, tmp_path / "log", "data-analysis", kind, **bucket) as app:
        app.json("PUT", "/files/sales.csv", SALES, status=204)
        assert app.json("GET", "/files") == {"files": ["sales.csv"]}

        best = app.post("/ask", {"question": "Which month had the highest revenue?"})
        assert best["answer"] == "February had the highest revenue." and best["attempts"] == 2 and best["error"] is None
        assert "<td>1355.0</td>" in best["tables"][0] and best["charts"] == []
        chart = app.post("/ask", {"question": "Draw the units sold."})
        assert base64.b64decode(chart["charts"][0])[:4] == b"\x89PNG" and chart["attempts"] == 1

        app.post("/ask", {}, status=400)
        assert app.call("PUT", "/files/..%2fx.csv", SALES)[0] == 404
    daemon.destroy("data-analysis")
    stored = [path for path in files.rglob("*sales.csv*") if path.is_file()]
    assert bool(stored) == bool(bucket)
    for path in stored:
        path.unlink()
