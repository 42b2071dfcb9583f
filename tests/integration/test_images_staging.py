"""Layers that are being unpacked, beside those of images: what is left when someone is killed, whose they are, and a disk that fills up."""
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from atoll import wait_for
from imagelib import events, image_instance, import_error, names, no_work_left, run, shell_tree, staged, tar_of
from registry import CuttingProxy, registry

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module", name="plain")
def fixture_plain(tmp_path_factory):
    with registry(tmp_path_factory.mktemp("registry")) as r:
        yield r


def put_image(plain, name, layer):
    """An image of one layer, a plain tar; the size of its blob."""
    packed = gzip.compress(layer, 1)
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
    text = json.dumps(config).encode()
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST,
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": plain.put_blob(name, text), "size": len(text)},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": plain.put_blob(name, packed), "size": len(packed)}]}
    plain.put_manifest(name, "1", json.dumps(manifest).encode(), MANIFEST)
    return len(packed)


@contextmanager
def begun_pull(atoll, plain, name, size):
    """A pull whose registry falls silent just before the end of the layer, until `closed` of its front is set: what will be the pull's last event, and
    the front."""
    held = CuttingProxy(plain.port, size - 65536, cuts=1, hold=True)
    with ThreadPoolExecutor(1) as pool:
        try:
            pulling = pool.submit(lambda: events(atoll.request("POST", "/v1/images/pull", {"reference": f"{held.address}/{name}:1"}, timeout=120))[-1])
            wait_for(lambda: (held.made == 1 and staged(atoll)) or pulling.done(), "a part of the layer")
            yield pulling, held
        finally:
            held.close()


@contextmanager
def small_disk(where, options):
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", where], check=True)


def noise(size):
    return tar_of(shell_tree() + [("noise", os.urandom(size), {})])


def test_a_layer_is_unpacked_where_it_stays(tmp_path, plain):
    """Taking it is a rename: the very directory becomes the layer."""
    size = put_image(plain, "team/stays", noise(2 << 20))
    with image_instance(tmp_path / "images") as atoll:
        with begun_pull(atoll, plain, "team/stays", size) as (pulling, held):
            (where,) = staged(atoll)
            upper = os.stat(f"{where}/upper").st_ino
            held.closed.set()
            last = pulling.result(timeout=60)
        assert last["type"] == "done", last
        assert upper in [os.stat(atoll.images / "layers" / name).st_ino for name in os.listdir(atoll.images / "layers")]
        assert no_work_left(atoll)
        assert run(atoll, "a", f"{held.address}/team/stays:1", "ls /noise") == "/noise\n"


def test_a_warden_that_is_killed_amid_a_pull(tmp_path, plain):
    size = put_image(plain, "team/warden", noise(2 << 20))
    with image_instance(tmp_path / "images") as atoll:
        with begun_pull(atoll, plain, "team/warden", size) as (pulling, held):
            atoll.kill_warden()
            atoll.await_warden()
            held.closed.set()
            last = pulling.result(timeout=60)
        wait_for(lambda: no_work_left(atoll), "the work of the pull to be removed")
        assert (f"{held.address}/team/warden:1" in names(atoll)) == (last["type"] == "done"), last
        with begun_pull(atoll, plain, "team/warden", size) as (pulling, held):
            held.closed.set()
            assert pulling.result(timeout=60)["type"] == "done"


def test_what_a_dead_daemon_left_goes_and_what_a_living_one_makes_stays(tmp_path, plain):
    size = put_image(plain, "team/shared", noise(2 << 20))
    images = tmp_path / "images"
    with image_instance(images) as one:
        with begun_pull(one, plain, "team/shared", size) as (pulling, held):
            left = images / "staging/gone/boxes/image-1/upper"
            left.mkdir(parents=True)
            (left / "file").write_text("half-made")
            with image_instance(images):
                assert not (images / "staging/gone").exists()
                assert len(staged(one)) == 1
                held.closed.set()
                last = pulling.result(timeout=60)
                assert last["type"] == "done", last
                assert no_work_left(one)


def test_a_layer_does_not_take_the_last_of_the_disk(tmp_path, plain):
    """The disk has room for it, and then less than its reserve: the box is ended, though its mover waits for more."""
    size = put_image(plain, "team/reserve", noise(60 << 20))
    with small_disk(tmp_path / "images", "size=66m") as where, image_instance(where) as atoll:
        with begun_pull(atoll, plain, "team/reserve", size) as (pulling, held):
            last = pulling.result(timeout=60)
        assert (last["type"], last["code"]) == ("error", "NO_SPACE") and "No space left on device" in last["message"], last
        assert no_work_left(atoll) and f"{held.address}/team/reserve:1" not in names(atoll)
        wait_for(lambda: os.statvfs(where).f_bavail * 4096 > 50 << 20, "the room is free again")
        assert events(atoll.request("POST", "/v1/images/import?name=fits", noise(1 << 20)))[-1]["type"] == "done"


def test_a_layer_of_too_many_files_says_so(tmp_path):
    many = tar_of([(f"file{i}", b"", {}) for i in range(6000)])
    with small_disk(tmp_path / "images", "size=64m,nr_inodes=4000") as where, image_instance(where) as atoll:
        assert "No space left on device" in import_error(atoll, many)
        wait_for(lambda: os.statvfs(where).f_favail > 3000, "the inodes are free again")
        assert len(os.listdir(where / "layers")) == 1


def exported(atoll, name):
    """The files of an exported image, and the archive."""
    reply = atoll.request("GET", f"/v1/images/{name}?export=rootfs")
    assert reply.status == 200, reply
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        return tar.getnames(), reply.body


def test_an_export_has_the_image_alone_and_is_the_same_on_every_host(tmp_path):
    """Nothing of the boxes that unpack and pack: no program that every box has, no time of this host."""
    archive = tar_of(shell_tree() + [("usr", None, {"mtime": 5}), ("usr/bin", None, {"mtime": 6}), ("usr/bin/own", b"own", {"mtime": 7})])
    found = []
    for host in ("one", "two"):
        with image_instance(tmp_path / host) as atoll:
            assert events(atoll.request("POST", "/v1/images/import?name=same", archive))[-1]["type"] == "done"
            found.append(exported(atoll, "same"))
            assert "/usr/bin/fusermount3" in run(atoll, "a", "same", "ls /usr/bin/fusermount3")
            wait_for(lambda atoll=atoll: no_work_left(atoll), "the work of the export to be removed")
    listed = found[0][0]
    assert "usr/bin/own" in listed and "usr/bin/fusermount3" not in listed, listed
    assert found[0][1] == found[1][1]


def test_hard_links_between_directories(tmp_path):
    link = {"type": tarfile.LNKTYPE}
    tree = shell_tree() + [("d", None, {}), ("d/file", b"one", {}), ("e", None, {}), ("e/link", b"", {**link, "linkname": "d/file"}),
                           ("link", b"", {**link, "linkname": "d/file"})]
    with image_instance(tmp_path / "images") as atoll:
        assert events(atoll.request("POST", "/v1/images/import?name=links", tar_of(tree)))[-1]["type"] == "done"
        assert run(atoll, "a", "links", "cat /e/link /link; stat -c %h /d/file") == "oneone3\n"
