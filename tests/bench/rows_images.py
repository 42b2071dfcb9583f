"""Rows of `make bench`: boxes, contexts, builds and pulls of images made here, beside the default image, buildah and skopeo."""

import gzip
import hashlib
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import atoll
from atoll import box_path
from common import have
from imagelib import built, tar_of
from registry import registry
from rows_code import Client

ROWS = ["images_start", "images_context", "images_build", "images_pull", "images_many"]
STEPS = "".join(f"RUN echo {i} > /step{i}\n" for i in range(12))


def twelve(d):
    """An image of 12 layers over the default image."""
    found = d.request("GET", "/v1/images/bench-12")
    if found.status != 200:
        built(d, "FROM default\n" + STEPS, query="tag=bench-12")


def start(client, box, image):
    connection = client.connection
    before = time.perf_counter()
    connection.request("PUT", box_path(box), json.dumps({"image": image}))
    response = connection.getresponse()
    response.read()
    assert response.status == 201, response.status
    client.ask(box, "/api/execute", {"command": "/bin/true"})
    took = (time.perf_counter() - before) * 1e6
    connection.request("DELETE", box_path(box))
    connection.getresponse().read()
    return took


def images_start(bench, d):
    """In turn, so that both have the same neighbours."""
    twelve(d)
    client = Client(d)
    times = {"default": [], "bench-12": []}
    for i in range(10 + 2 * bench.n):
        image = ("default", "bench-12")[i % 2]
        took = start(client, f"bench-{i}", image)
        if i >= 10:
            times[image].append(took)
        time.sleep(0.05)  # the pool is full again: this row is not about bursts
    bench.note("new box -> first command", "default image", times["default"])
    bench.note("  … of an image with 12 layers", "atoll", times["bench-12"], times["default"], "<= 1.1 x the default image")


def images_context(bench, d):
    twelve(d)
    client = Client(d)
    times = {"default": [], "bench-12": []}
    for image in times:
        d.request("PUT", box_path(f"py-{image}"), {"image": image})
        for _ in range(3):  # the first pays the imports of the box's zygote
            client.delete(f"py-{image}", client.context(f"py-{image}")[1])
    for i in range(bench.n):
        image = ("default", "bench-12")[i % 2]
        took, made = client.context(f"py-{image}")
        client.delete(f"py-{image}", made)
        times[image].append(took)
    for image in times:
        d.destroy(f"py-{image}")
    bench.note("python context with imports, later one", "default image", times["default"])
    bench.note("  … in an image made here", "atoll", times["bench-12"], times["default"], "<= 1.1 x the default image")


def timed(*command, **options):
    before = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return (time.perf_counter() - before) * 1e6


def images_build(bench, d):
    """Ten small steps on the same files: the default image, as a rootfs archive for buildah."""
    rounds = 3 if bench.quick else 7
    ten = "".join(f"RUN echo {i} > /step{i}\n" for i in range(10))
    base = None
    with tempfile.TemporaryDirectory(dir=d.base) as where:
        Path(where, "Dockerfile").write_text("FROM default\n" + ten)
        if have("buildah"):
            base = buildah(d, Path(where), ten, rounds)
        else:
            print("skipped peer: buildah is not installed")
        whole = [timed(atoll.BIN / "atoll", "build", "-q", "--no-cache", "-t", "bench-ten", where, env=d.env) for _ in range(rounds)]
        timed(atoll.BIN / "atoll", "build", "-q", "-t", "bench-ten", where, env=d.env)
        cached = [timed(atoll.BIN / "atoll", "build", "-q", "-t", "bench-ten", where, env=d.env) for _ in range(rounds)]
    if base:
        bench.note("build of 10 RUN steps, no cache", "buildah", base)
    bench.note("build of 10 RUN steps, no cache", "atoll", whole, base, "<= 1.0 x buildah, chroot isolation")
    bench.note("  … all cached", "atoll", cached, target="<= 300 ms")


def buildah(d, where, ten, rounds):
    store = ["--root", str(where / "store"), "--runroot", str(where / "run"), "--storage-driver", "overlay"]
    (where / "peer").mkdir()
    (where / "peer/Dockerfile").write_text("FROM scratch\nADD rootfs.tar /\n")
    rootfs = (atoll.IMAGES / "default/rootfs").resolve()
    subprocess.run(["tar", "-cf", where / "peer/rootfs.tar", "-C", rootfs, "."], check=True)
    flags = ["--isolation", "chroot", "--layers", "--signature-policy", policy(where)]
    try:
        timed("buildah", *store, "bud", *flags, "-q", "-t", "base", where / "peer", stderr=subprocess.DEVNULL)
        (where / "peer/rootfs.tar").unlink()
        (where / "peer/Dockerfile").write_text("FROM localhost/base\n" + ten)
        return [timed("buildah", *store, "bud", *flags, "--no-cache", "-q", "-t", "ten", where / "peer", stderr=subprocess.DEVNULL)
                for _ in range(rounds)]
    finally:
        subprocess.run(["buildah", *store, "rmi", "-a", "-f"], capture_output=True, check=False)


def policy(where):
    path = where / "policy.json"
    path.write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
    return str(path)


def push_large(where, ref, size, count):
    """An image of `size` bytes that do not compress, in `count` layers."""
    blobs = where / "large/blobs/sha256"
    blobs.mkdir(parents=True)

    def put(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}
    tars = [tar_of([(f"file{i}", os.urandom(size // count), {})]) for i in range(count)]
    diffs = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diffs}}
    manifest = {"schemaVersion": 2, "config": put(json.dumps(config).encode(), "config.v1+json"),
                "layers": [put(gzip.compress(tar, 1), "layer.v1.tar+gzip") for tar in tars]}
    index = {"schemaVersion": 2, "manifests": [put(json.dumps(manifest).encode(), "manifest.v1+json")]}
    (where / "large/index.json").write_text(json.dumps(index))
    (where / "large/oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    subprocess.run(["skopeo", "--policy", policy(where), "copy", "-q", "--dest-tls-verify=false", f"oci:{where}/large", f"docker://{ref}"], check=True)
    subprocess.run(["rm", "-rf", where / "large"], check=True)


def images_pull(bench, d):
    if not have("docker-registry") or not have("skopeo"):
        print("skipped: images_pull (docker-registry or skopeo is missing)")
        return
    size, layers = (100, 4) if bench.quick else (500, 5)
    with tempfile.TemporaryDirectory(dir=d.base) as where, registry(Path(where, "registry")) as r:
        peer, mine = [], []
        for i in range(1 if bench.quick else 3):
            # New content each time: layers of a removed image stay for some seconds, and would not be fetched again.
            ref = f"{r.local}/bench/large:{i}"
            push_large(Path(where), ref, size << 20, layers)
            out = Path(where, f"peer{i}")
            peer.append(timed("skopeo", "--policy", policy(Path(where)), "copy", "-q", "--src-tls-verify=false", f"docker://{ref}", f"oci:{out}"))
            subprocess.run(["rm", "-rf", out], check=True)
            mine.append(timed(atoll.BIN / "atoll", "pull", ref, env=d.env))
            d.cli("image", "rm", ref)
    bench.note(f"pull of {size} MB from a registry here", "skopeo copy", peer)
    bench.note(f"pull of {size} MB from a registry here", "atoll", mine, peer, "speed >= 0.8 x; skopeo unpacks nothing")


def images_many(bench, d):
    """Disk and memory of 200 boxes of one image against one box."""
    twelve(d)
    boxes = 20 if bench.quick else 200

    def disk():
        images = Path(d.env["ATOLL_IMAGES"]) / "layers"
        return int(subprocess.run(["du", "-s", "--block-size=1", images], capture_output=True, text=True, check=True).stdout.split()[0])

    def memory():
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return sum(int(fields[k].split()[0]) for k in ("AnonPages", "Shmem", "Slab", "PageTables", "KernelStack")) * 1024

    def make(i):
        assert d.request("PUT", box_path(f"many-{i}"), {"image": "bench-12"}).status == 201
        assert d.execute_alone(f"many-{i}", "cat /step0 /step11 > /dev/null")["exitCode"] == 0
    make(0)
    before = disk(), memory()
    for i in range(1, boxes):
        make(i)
    after = disk(), memory()
    bench.value(f"layers of {boxes} boxes of one image", "against one", after[0] / before[0], "x", "1.00: stored once")
    bench.value("  … memory of a box more", "atoll", (after[1] - before[1]) / (boxes - 1) / (1 << 20), "MB")
    for i in range(boxes):
        d.destroy(f"many-{i}")
