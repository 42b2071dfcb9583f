"""Rows of `make bench`: a bucket through s3fs in a box, beside the same s3fs on the host. Each has the S3 server (s3rver) beside it, on its
own loopback."""

import base64
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import common
import npmdir

ROWS = ["bucket"]
COMPAT = common.ROOT / "tests/compat"
PORT = 4568
TARGET = "time <= 1.05 x the same on the host"

BUNDLE = """
const { build } = await import('esbuild');
await build({ entryPoints: ['workers/s3rver.mjs'], bundle: true, outfile: process.argv[1], platform: 'node', format: 'cjs', target: 'node20' });
"""
MOUNT = f"""set -e; mkdir -p $D/m; echo S3RVER:S3RVER >$D/keys; chmod 600 $D/keys
s3fs data $D/m -o passwd_file=$D/keys,url=http://127.0.0.1:{PORT},use_path_request_style; mountpoint -q $D/m"""
STEPS = {"write {mb} MB": "head -c {mb}M /dev/zero | tr '\\0' x >$D/m/big",
         "read {mb} MB": "fusermount3 -u $D/m; " + MOUNT + "; cat $D/m/big >/dev/null",
         "{files} small files": "for i in $(seq {files}); do echo $i >$D/m/f$i; done"}


def steps(bench, who, run, against=None):
    size = {"mb": 20 if bench.quick else 100, "files": 100 if bench.quick else 1000}
    run(MOUNT)
    taken = {}
    for name, script in STEPS.items():
        begin = time.perf_counter()
        run(script.format(**size) if "{mb}" in script or "{files}" in script else script)
        taken[name] = (time.perf_counter() - begin) * 1e6
        bench.note("bucket: " + name.format(**size), who, [taken[name]], [against[name]] if against else None, TARGET if against else "")
    run("fusermount3 -u $D/m")
    return taken


@contextlib.contextmanager
def on_host(program):
    directory = tempfile.mkdtemp(prefix="atoll-bucket-")
    with open(program, encoding="utf-8") as f:
        own = f"{directory}/s3rver.cjs"
        with open(own, "w", encoding="utf-8") as g:
            g.write(f.read().replace("/srv/buckets", f"{directory}/buckets"))
    # A network namespace of its own: the port is free in it.
    script = ("ip link set lo up; node \"$D/s3rver.cjs\" & while ! (echo >/dev/tcp/127.0.0.1/4568) 2>/dev/null; do sleep 0.1; done; "
              "while read -r line; do bash -c \"$(echo $line | base64 -d)\"; echo $?; done; kill $!")
    with subprocess.Popen(["unshare", "-n", "bash", "-c", script], env={**os.environ, "D": directory}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as p:
        def run(text):
            p.stdin.write(base64.b64encode(text.encode()).decode() + "\n")
            p.stdin.flush()
            assert p.stdout.readline() == "0\n", text
        try:
            yield run
        finally:
            p.stdin.close()
            p.wait()
            shutil.rmtree(directory)


def bucket(bench, d):
    if not npmdir.installed(COMPAT) or not common.have("s3fs"):
        print("skipped: bucket (npm or s3fs is missing)")
        return
    with tempfile.TemporaryDirectory() as t:
        program = f"{t}/s3rver.cjs"
        subprocess.run(["node", "--input-type=module", "-e", BUNDLE, program], cwd=COMPAT, check=True)
        with on_host(program) as run:
            host = steps(bench, "host", run)
        d.request("PUT", "/v1/sandboxes/bucket", {"limits": {"memory": 2 << 30, "cpu": min(2, os.cpu_count())}})
        with open(program, "rb") as f:
            d.request("PUT", "/v1/sandboxes/bucket/api/file?path=/srv/s3rver.cjs", f.read())
    d.request("POST", "/v1/sandboxes/bucket/api/process/start", {"command": "node /srv/s3rver.cjs"})
    wait = f"while ! (echo >/dev/tcp/127.0.0.1/{PORT}) 2>/dev/null; do sleep 0.1; done"
    d.request("POST", "/v1/sandboxes/bucket/api/execute", {"command": wait}, timeout=60)

    def inside(text):
        body = {"command": "export D=/tmp/b; mkdir -p $D; " + text, "sessionId": "__DISABLE_SESSION__"}
        r = d.request("POST", "/v1/sandboxes/bucket/api/execute", body, timeout=300).json()
        assert r["exitCode"] == 0, r

    steps(bench, "atoll", inside, host)
    d.destroy("bucket")
