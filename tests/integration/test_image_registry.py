"""Pull and push with a real registry: plain, with TLS, with credentials, behind a mirror, and with everything that goes wrong."""
import gzip
import io
import json
import os
import re
import signal
import socket
import subprocess
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from atoll import BIN, Instance, box_path, wait_for
from boxapi import check_error
from imagelib import built, events, image_instance, names, no_work_left, run
from registry import CuttingProxy, Redirecting, docker_config, listening_in, registry

LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


@pytest.fixture(scope="module", name="place")
def fixture_place():
    """Not one of pytest's directories: the daemon's user reads files there."""
    with tempfile.TemporaryDirectory(prefix="atoll-registry-") as place:
        os.chmod(place, 0o755)
        yield Path(place)


@pytest.fixture(scope="module", name="plain")
def fixture_plain(place):
    with registry(place / "plain") as r:
        yield r


@pytest.fixture(scope="module", name="closed")
def fixture_closed(place):
    """TLS and credentials."""
    with registry(place / "closed", tls=True, auth=True) as r:
        yield r


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory, place, plain, closed):
    mirrors = place / "registries.conf"
    mirrors.write_text(f'unqualified-search-registries = []\n[[registry]]\nprefix = "far.example/team"\nlocation = "far.invalid/team"\n'
                       f'[[registry.mirror]]\nlocation = "{plain.local}/team"\ninsecure = true\n')
    own = docker_config(place / "own", closed.remote)
    env = {"ATOLL_REGISTRY_CERTS": str(place / "closed/certs-of-daemon"), "ATOLL_REGISTRY_CONF": str(mirrors),
           "ATOLL_PULL": "missing", "ATOLL_REGISTRY_AUTH": str(own)}
    trusted = place / "closed/certs-of-daemon"
    trusted.mkdir()
    (trusted / "ca.crt").write_text((closed.root / "certs/ca.crt").read_text())
    with image_instance(tmp_path_factory.mktemp("images"), env) as instance:
        built(instance, "FROM default\nENV A=b\nRUN echo content > /content\n", query="tag=mine")
        yield instance


def cli(atoll, *words, **env):
    return subprocess.run([BIN / "atoll", *words], env={**atoll.env, "HOME": "/nonexistent", **env}, capture_output=True, text=True, check=False)


def ask(atoll, what, **body):
    """The last event of a pull or push."""
    reply = atoll.request("POST", f"/v1/images/{what}", body, timeout=120)
    if reply.status != 200:
        return {"type": "error", **reply.json()}
    return events(reply)[-1]


def nothing_left(atoll):
    return no_work_left(atoll) and not [f for f in os.listdir(os.path.join(atoll.env["ATOLL_DATA"], "daemon")) if f.startswith("image-")]


def refused(atoll, code, sentence, what, **body):
    before = names(atoll)
    last = ask(atoll, what, **body)
    assert (last["type"], last["code"]) == ("error", code) and sentence in last["message"], last
    assert names(atoll) == before and nothing_left(atoll)


def pushed(atoll, ref, name="mine"):
    last = ask(atoll, "push", name=name, reference=ref)
    assert last["type"] == "done", last
    return ref


def test_what_is_pushed_can_be_pulled(atoll, plain):
    ref = pushed(atoll, f"{plain.local}/team/mine:1")
    assert ask(atoll, "pull", reference=ref)["type"] == "done"
    assert run(atoll, "a", ref, "cat /content; echo $A") == "content\nb\n"
    assert nothing_left(atoll)
    # By its digest, too.
    digest = plain.manifest("team/mine", "1")[1]
    assert ask(atoll, "pull", reference=f"{plain.local}/team/mine@{digest}")["type"] == "done"


def test_an_image_is_the_same_each_time_it_is_pushed(atoll, plain):
    """Nothing of the box that packs the image is part of it: /dev and /proc are mounted for each box anew."""
    def uploads():
        """Ends of uploads in the registry's log. A manifest comes after all of them, and has no line of this kind."""
        return sum("/v2/team/same/blobs/uploads/" in line and "http.request.method=PUT" in line and "response completed" in line
                   for line in (plain.root / "log").read_text().splitlines())
    built(atoll, "FROM default\nCOPY new /new\n", files=[("new", os.urandom(1000), {})], query="tag=same")
    pushed(atoll, f"{plain.local}/team/same:1", "same")
    # A layer and a configuration.
    wait_for(lambda: uploads() == 2, "the registry's log")
    pushed(atoll, f"{plain.local}/team/same:2", "same")
    wait_for(lambda: "/v2/team/same/manifests/2" in (plain.root / "log").read_text(), "the registry's log")
    assert uploads() == 2, "the registry has the layer already"
    manifest, digest, _ = plain.manifest("team/same", "1")
    assert plain.manifest("team/same", "2")[1] == digest
    # Two boxes may be made within a second, and then have the same times: look at what is packed, too.
    layer = gzip.decompress(plain.blob_path(manifest["layers"][0]["digest"]).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        mounts = {name: (m.mtime, m.uid, m.gid, m.mode, m.isdir()) for name in ("dev", "proc") for m in [tar.getmember(name)]}
    assert mounts == dict.fromkeys(("dev", "proc"), (0, 0, 0, 0o755, True))


def test_a_manifest_list_is_asked_for_this_platform(atoll, plain):
    pushed(atoll, f"{plain.local}/team/listed:amd64")
    _, digest, size = plain.manifest("team/listed", "amd64")
    kind = "application/vnd.oci.image.manifest.v1+json"
    wrong = {"mediaType": kind, "digest": digest, "size": size, "platform": {"architecture": "s390x", "os": "linux"}}
    listed = {"schemaVersion": 2, "mediaType": LIST,
              "manifests": [wrong, {"mediaType": kind, "digest": digest, "size": size, "platform": {"architecture": "amd64", "os": "linux"}}]}
    plain.put_manifest("team/listed", "all", json.dumps(listed).encode(), LIST)
    assert ask(atoll, "pull", reference=f"{plain.local}/team/listed:all")["type"] == "done"
    assert run(atoll, "a", f"{plain.local}/team/listed:all", "cat /content") == "content\n"
    plain.put_manifest("team/listed", "foreign", json.dumps({**listed, "manifests": [wrong]}).encode(), LIST)
    refused(atoll, "IMAGE_NOT_FOUND", "the registry has no image for linux/amd64", "pull", reference=f"{plain.local}/team/listed:foreign")


def test_a_mirror_is_asked_first(atoll, plain):
    pushed(atoll, f"{plain.local}/team/mirrored:1")
    last = ask(atoll, "pull", reference="far.example/team/mirrored:1")
    assert last["type"] == "done", last
    assert run(atoll, "a", "far.example/team/mirrored:1", "cat /content") == "content\n"


def test_credentials_come_from_dockers_configuration(atoll, closed, tmp_path):
    right, wrong = docker_config(tmp_path / "right", closed.remote), docker_config(tmp_path / "wrong", closed.remote, "no")
    ref = f"{closed.remote}/team/secret:1"
    out = cli(atoll, "push", "mine", ref, DOCKER_CONFIG=str(right.parent))
    assert out.returncode == 0, out
    assert cli(atoll, "pull", ref, DOCKER_CONFIG=str(right.parent)).returncode == 0
    out = cli(atoll, "pull", ref, DOCKER_CONFIG=str(wrong.parent))
    assert out.returncode == 1 and "the registry refuses the credentials" in out.stderr, out
    assert "open sesame" not in out.stderr and nothing_left(atoll)
    auth = json.loads(wrong.read_text())
    refused(atoll, "FORBIDDEN", "credentials", "push", name="mine", reference=ref, auth=auth)


def test_an_image_is_pulled_at_its_first_use(atoll, plain, closed):
    ref = pushed(atoll, f"{plain.local}/team/first:1")
    assert ref not in names(atoll)
    assert run(atoll, "a", ref, "cat /content") == "content\n"
    assert ref in names(atoll)
    # With the daemon's own credentials, from a registry that wants them, and as a base.
    secret = f"{closed.remote}/team/first:1"
    assert ask(atoll, "push", name="mine", reference=secret)["type"] == "done"
    built(atoll, f"FROM {secret}\nRUN cat /content\n", query="tag=based")
    for reference, code, status, sentence in ((f"{plain.local}/team/none:1", "IMAGE_NOT_FOUND", 404, "the registry has no such image"),
                                              (f"127.0.0.1:{free_port()}/team/x:1", "BAD_GATEWAY", 502, "the registry cannot be reached")):
        error = check_error(atoll.request("PUT", box_path("n"), {"image": reference}, timeout=120), code, status)
        assert sentence in error["message"]
        assert atoll.request("GET", box_path("n")).json()["state"] == "failed"
        check_error(atoll.request("POST", box_path("n", "/api/execute"), {"command": "true"}), code, status)


def free_port():
    """A port on which nothing listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_each_failure_has_its_sentence(atoll, plain):
    refused(atoll, "IMAGE_NOT_FOUND", "the registry has no such image", "pull", reference=f"{plain.local}/team/nosuch:1")
    port = free_port()
    refused(atoll, "BAD_GATEWAY", f"the registry cannot be reached at https://127.0.0.1:{port} (Couldn't connect to server)", "pull",
            reference=f"127.0.0.1:{port}/x:1")
    refused(atoll, "BAD_GATEWAY", "registries.conf sets mirrors and plain HTTP (insecure)", "pull", reference="nosuch.invalid/x:1")
    refused(atoll, "BAD_GATEWAY", "the registry cannot be reached", "push", name="mine", reference=f"127.0.0.1:{free_port()}/x:1")
    refused(atoll, "IMAGE_NOT_FOUND", "there is no image 'mnie'. Did you mean 'mine:latest'?", "push", name="mnie", reference=f"{plain.local}/x:1")
    refused(atoll, "VALIDATION_FAILED", "", "pull", reference="--help")
    refused(atoll, "VALIDATION_FAILED", "must name a registry's image", "pull", reference="sha256:" + "0" * 64)
    refused(atoll, "BAD_GATEWAY", "the registry speaks no TLS", "pull", reference=f"{plain.remote}/team/mine:1")


def test_a_blob_with_another_digest_is_refused(atoll, plain):
    """Of a layer that no pull has stored yet."""
    ref = f"{plain.local}/team/spoiled:1"
    built(atoll, "FROM default\nCOPY new /new\n", files=[("new", os.urandom(1000), {})], query="tag=spoiled")
    assert ask(atoll, "push", name="spoiled", reference=ref)["type"] == "done"
    manifest = plain.manifest("team/spoiled", "1")[0]
    path = plain.blob_path(manifest["layers"][-1]["digest"])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused(atoll, "VALIDATION_FAILED", "the registry sent bytes with another digest", "pull", reference=ref)
    assert not blobs_kept(atoll)
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert ask(atoll, "pull", reference=ref)["type"] == "done"


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path_factory, closed):
    with image_instance(tmp_path_factory.mktemp("images")) as stranger:
        refused(stranger, "BAD_GATEWAY", "the registry's certificate is not trusted", "pull", reference=f"{closed.remote}/team/secret:1")
        # A certificate of localhost is not checked, credentials are wanted.
        refused(stranger, "FORBIDDEN", "the registry wants credentials", "pull", reference=f"{closed.local}/team/secret:1")
        # ATOLL_PULL is not set: nothing is pulled by itself.
        check_error(stranger.request("PUT", box_path("n"), {"image": f"{closed.local}/team/secret:1"}), "IMAGE_NOT_FOUND", 404)


def test_sandboxes_that_wait_for_one_image_share_a_pull(atoll, plain):
    # Content of its own: a layer that another test has pulled would not be fetched at all.
    content = os.urandom(16).hex()
    built(atoll, "FROM default\nCOPY new /new\n", files=[("new", content.encode(), {})], query="tag=once")
    ref = pushed(atoll, f"{plain.local}/team/once:1", "once")
    layer = plain.manifest("team/once", "1")[0]["layers"][0]["digest"]
    assert served(plain, layer) == []
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: atoll.request("PUT", box_path(f"once-{i}"), {"image": ref}, timeout=120), range(8)))
    assert [r.status for r in replies] == [201] * 8, replies
    # One more request comes after all fetches: the log is complete when it shows that one.
    refused(atoll, "IMAGE_NOT_FOUND", "the registry has no such image", "pull", reference=f"{plain.local}/team/nosuch:once")
    wait_for(lambda: "team/nosuch/manifests/once" in (plain.root / "log").read_text() and served(plain, layer), "the registry's log")
    assert len(served(plain, layer)) == 1
    assert all(atoll.execute_alone(f"once-{i}", "cat /new")["stdout"] == content for i in range(8))
    for i in range(8):
        atoll.destroy(f"once-{i}")
    # A pull that fails is told to all who wait, and the next create tries again.
    gone = f"{plain.local}/team/never:1"
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda i: atoll.request("PUT", box_path(f"never-{i}"), {"image": gone}, timeout=120), range(4)))
    assert [r.status for r in replies] == [404] * 4, replies
    pushed(atoll, gone)
    assert run(atoll, "never", gone, "cat /content") == "content\n"


@pytest.fixture(name="large")
def fixture_large(atoll, plain):
    """A new image of one layer that does not compress. Its name and its layer."""
    name = f"team/large-{os.urandom(4).hex()}"
    built(atoll, "FROM default\nCOPY noise /noise\n", files=[("noise", os.urandom(4 << 20), {})], query="tag=large")
    assert ask(atoll, "push", name="large", reference=f"{plain.local}/{name}:1")["type"] == "done"
    return f"{name}:1", plain.manifest(name, "1")[0]["layers"][0]


def blobs_kept(atoll):
    """What pulls that did not end have left."""
    place = os.path.join(atoll.env["ATOLL_DATA"], "daemon/blobs")
    return {f: os.path.getsize(os.path.join(place, f)) for f in os.listdir(place)} if os.path.isdir(place) else {}


def served(plain, layer):
    """(status, bytes) of every answer with this layer, from the registry's log."""
    found = []
    for line in (plain.root / "log").read_text().splitlines():
        if f"blobs/{layer}" in line and "http.request.method=GET" in line and "response completed" in line:
            found.append((int(re.search(r"http.response.status=(\d+)", line)[1]), int(re.search(r"http.response.written=(\d+)", line)[1])))
    return found


def test_a_pull_goes_on_where_it_was_cut(atoll, plain, large):
    """Four cuts after a megabyte each: more than a pull that began anew could bear, and no byte is asked for twice."""
    name, layer = large
    before = len(served(plain, layer["digest"]))
    proxy = CuttingProxy(plain.port, 1 << 20, cuts=4)
    ref = f"{proxy.address}/{name}"
    try:
        found = events(atoll.request("POST", "/v1/images/pull", {"reference": ref}, timeout=120))
    finally:
        proxy.close()
    assert found[-1]["type"] == "done", found[-1]
    assert proxy.made == 4
    assert [e for e in found if e.get("text") == "the connection was cut; fetching what is missing"]
    progress = [e for e in found if e["type"] == "progress"]
    assert progress[-1]["bytes"] == progress[-1]["of"] == layer["size"]
    assert run(atoll, "a", ref, "stat -c %s /noise") == f"{4 << 20}\n"
    wait_for(lambda: len(served(plain, layer["digest"])) >= before + 5, "the registry's log")
    assert [status for status, _ in served(plain, layer["digest"])[before:]].count(206) == 4
    assert nothing_left(atoll) and not blobs_kept(atoll)


def test_a_pull_that_was_killed_is_gone_on_with(atoll, plain, large):
    """The daemon's image service is killed amid a pull: the next pull asks for the rest only."""
    name, layer = large
    held = CuttingProxy(plain.port, 1 << 20, cuts=1, hold=True)
    ref = f"{held.address}/{name}"
    with ThreadPoolExecutor(1) as pool:
        pulling = pool.submit(atoll.request, "POST", "/v1/images/pull", {"reference": ref}, timeout=120)
        wait_for(lambda: held.made == 1 and sum(blobs_kept(atoll).values()) > 1 << 19, "a part of the layer")
        for pid in pull_processes(atoll):
            os.kill(pid, signal.SIGKILL)
        pulling.exception(timeout=60)
    held.close()
    wait_for(lambda: no_work_left(atoll), "the work of the killed pull to be removed")
    kept = sum(blobs_kept(atoll).values())
    assert 0 < kept < layer["size"] and ref not in names(atoll)
    wait_for(lambda: len(served(plain, layer["digest"])) == 1, "the end of the killed pull in the registry's log")
    last = ask(atoll, "pull", reference=f"{plain.local}/{name}")
    assert last["type"] == "done", last
    wait_for(lambda: len(served(plain, layer["digest"])) > 1, "the registry's log")
    assert served(plain, layer["digest"])[1:] == [(206, layer["size"] - kept)]
    assert not blobs_kept(atoll)


def test_a_daemon_that_is_killed_amid_a_pull(atoll, plain, large):
    """Nothing of the pull is left but what has arrived; the next daemon's pull asks for the rest alone."""
    name, layer = large
    held = CuttingProxy(plain.port, 1 << 20, cuts=1, hold=True)
    with ThreadPoolExecutor(1) as pool:
        pulling = pool.submit(atoll.request, "POST", "/v1/images/pull", {"reference": f"{held.address}/{name}"}, timeout=120)
        wait_for(lambda: held.made == 1 and sum(blobs_kept(atoll).values()) > 1 << 19, "a part of the layer")
        atoll.kill_daemon()
        assert pulling.exception(timeout=60) or pulling.result().text.find('"done"') < 0
    held.close()
    atoll.await_warden()
    wait_for(lambda: nothing_left(atoll), "the work of the pull to be removed")
    wait_for(lambda: len(served(plain, layer["digest"])) == 1, "the end of the first fetch in the registry's log")
    kept = sum(blobs_kept(atoll).values())
    assert 0 < kept < layer["size"] and f"{held.address}/{name}" not in names(atoll)
    last = ask(atoll, "pull", reference=f"{plain.local}/{name}")
    assert last["type"] == "done", last
    wait_for(lambda: len(served(plain, layer["digest"])) > 1, "the registry's log")
    assert served(plain, layer["digest"])[1:] == [(206, layer["size"] - kept)]
    assert nothing_left(atoll) and not blobs_kept(atoll)


def test_ctrl_c_ends_a_pull(atoll, plain, large):
    name, _ = large
    held = CuttingProxy(plain.port, 1 << 20, cuts=1, hold=True)
    client = subprocess.Popen([BIN / "atoll", "pull", f"{held.address}/{name}"], env=atoll.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: held.made == 1, "a part of the layer")
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=60)
    finally:
        client.kill()
        held.close()
    assert client.returncode == 130 and "cancelled by signal 2; no image was made" in said, said
    wait_for(lambda: nothing_left(atoll), "the work of the pull to be removed")
    assert f"{held.address}/{name}" not in names(atoll)
    assert ask(atoll, "pull", reference=f"{plain.local}/{name}")["type"] == "done"


@contextmanager
def small_disk(where, size, options=""):
    """A file system of `size`; enlarges it when called. Mounted before a daemon starts, which has mounts of its own."""
    where.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700{options}", "tmpfs", where], check=True)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", where], check=True)
    finally:
        subprocess.run(["umount", where], check=True)


def refuse_for_space(small, images, ref, sentence="No space left on device"):
    """A pull onto a full disk: its sentence, and nothing half-made."""
    before = sorted(os.listdir(images / "layers"))
    refused(small, "NO_SPACE", sentence, "pull", reference=ref)
    assert not blobs_kept(small) and sorted(os.listdir(images / "layers")) == before


def test_a_pull_into_a_full_image_directory_says_so(tmp_path, plain, large):
    ref = f"{plain.local}/{large[0]}"
    with small_disk(tmp_path / "images", "7m") as enlarge, image_instance(tmp_path / "images") as small:
        refuse_for_space(small, tmp_path / "images", ref)
        enlarge()
        assert ask(small, "pull", reference=ref)["type"] == "done"


def test_a_pull_whose_layers_find_no_room_to_arrive_says_so(tmp_path, plain, large):
    ref = f"{plain.local}/{large[0]}"
    images = tmp_path / "images"
    images.mkdir()
    with image_instance(images) as small:
        daemon = Path(small.env["ATOLL_DATA"], "daemon")
        owner = f",uid={daemon.stat().st_uid},gid={daemon.stat().st_gid}"
        with small_disk(daemon / "blobs", "2m", owner) as enlarge:
            refuse_for_space(small, images, ref, "no room besides its reserve")
            enlarge()
            assert ask(small, "pull", reference=ref)["type"] == "done"


def pull_processes(atoll):
    """The jobs of atoll-images, which the daemon has started."""
    found = subprocess.run(["pgrep", "-x", "atoll-images", "-P", str(atoll.daemon_pid)], capture_output=True, text=True, check=False)
    return [int(p) for p in found.stdout.split()]


def held_pull(atoll, plain, name, body):
    """A pull whose registry falls silent after a megabyte, or that fails before; `body` runs then. The pull's last event."""
    held = CuttingProxy(plain.port, 1 << 20, cuts=1, hold=True)
    try:
        with ThreadPoolExecutor(1) as pool:
            pulling = pool.submit(ask, atoll, "pull", reference=f"{held.address}/{name}")
            wait_for(lambda: held.made == 1 or pulling.done(), "a part of the layer")
            body()
            return pulling.result(timeout=60)
    finally:
        held.close()


def test_a_pull_whose_fetching_is_killed_fails(atoll, plain, large):
    """The layer is unpacked while it arrives: nothing may wait for bytes that nobody fetches any more."""
    name, _ = large

    def kill_fetching():
        (pull,) = pull_processes(atoll)
        children = subprocess.run(["pgrep", "-P", str(pull)], capture_output=True, text=True, check=True).stdout.split()
        # It alone has a connection to the registry; the other one sends the archive into a box.
        fetching = min(map(int, children))
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{fetching}/status").read_text().splitlines())
        assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
        os.kill(fetching, signal.SIGKILL)
    last = held_pull(atoll, plain, name, kill_fetching)
    assert last["type"] == "error" and "the process that fetches the image was ended" in last["message"], last
    assert nothing_left(atoll) and ask(atoll, "pull", reference=f"{plain.local}/{name}")["type"] == "done"


def test_wrong_bytes_are_not_gone_on_with(atoll, plain, large):
    """Another registry has sent nonsense under this layer's digest, and was cut: the next pull does not begin with it."""
    name, layer = large
    path = plain.blob_path(layer["digest"])
    right = path.read_bytes()
    path.write_bytes(b"\xff" * 4096 + right[4096:])
    try:
        last = held_pull(atoll, plain, name, lambda: None)
    finally:
        path.write_bytes(right)
    assert last["type"] == "error", last
    assert layer["digest"].removeprefix("sha256:") not in blobs_kept(atoll) and nothing_left(atoll)
    last = ask(atoll, "pull", reference=f"{plain.local}/{name}")
    assert last["type"] == "done", last


def test_a_tag_is_never_taken_for_a_digest(atoll, plain):
    """@sha256-… is a digest here, and a tag for a registry: what it sends for that must have the digest."""
    pushed(atoll, f"{plain.local}/team/pinned:1")
    manifest = plain.manifest("team/pinned", "1")[0]
    digest = plain.put_manifest("team/pinned", "sha256-" + "0" * 64, json.dumps(manifest).encode(), manifest["mediaType"])
    refused(atoll, "IMAGE_NOT_FOUND", "the registry has no such image", "pull", reference=f"{plain.local}/team/pinned@sha256-{'0' * 64}")
    assert ask(atoll, "pull", reference=f"{plain.local}/team/pinned@{digest.replace(':', '-')}")["type"] == "done"


def test_an_image_may_have_a_layer_several_times(atoll, plain):
    """Empty layers of builders are often the same."""
    pushed(atoll, f"{plain.local}/team/often:1")
    manifest = plain.manifest("team/often", "1")[0]
    config = json.loads(plain.blob_path(manifest["config"]["digest"]).read_bytes())
    layer, diff = manifest["layers"][-1], config["rootfs"]["diff_ids"][-1]
    manifest["layers"] += [layer] * 3
    config["rootfs"]["diff_ids"] += [diff] * 3
    config.pop("history", None)
    text = json.dumps(config).encode()
    manifest["config"] |= {"digest": plain.put_blob("team/often", text), "size": len(text)}
    plain.put_manifest("team/often", "4", json.dumps(manifest).encode(), manifest["mediaType"])
    atoll.request("POST", "/v1/images/prune", {})
    last = ask(atoll, "pull", reference=f"{plain.local}/team/often:4")
    assert last["type"] == "done", last
    assert run(atoll, "a", f"{plain.local}/team/often:4", "cat /content") == "content\n"
    assert nothing_left(atoll) and not blobs_kept(atoll)


def test_prune_removes_what_pulls_have_left(atoll, plain, large):
    name, _ = large
    proxy = CuttingProxy(plain.port, 1 << 20, cuts=1 << 30, then=20000)
    try:
        refused(atoll, "BAD_GATEWAY", "the connection was cut 5 times", "pull", reference=f"{proxy.address}/{name}")
    finally:
        proxy.close()
    assert proxy.made >= 5
    kept = sum(blobs_kept(atoll).values())
    assert kept > 1 << 19
    usage = atoll.request("GET", "/v1/images?usage=true").json()["usage"]
    assert usage["reclaimableBytes"] >= kept
    freed = atoll.request("POST", "/v1/images/prune", {}).json()["bytes"]
    assert freed >= kept and not blobs_kept(atoll)


@pytest.fixture(name="elsewhere")
def fixture_elsewhere(atoll, place):
    """A daemon on the same images in a network of its own, which has an address of the internet beside loopback."""
    name = f"at-reg-{os.getpid()}"
    for command in (f"ip netns add {name}", f"ip -n {name} link set lo up", f"ip -n {name} addr add 203.0.113.9/32 dev lo"):
        subprocess.run(command.split(), check=True)
    try:
        prefix = ["nsenter", f"--net=/run/netns/{name}"]
        conf = place / "elsewhere.conf"
        conf.write_text("")
        with Instance({"ATOLL_IMAGES": str(atoll.images), "ATOLL_ZYGOTE": "off", "ATOLL_REGISTRY_CONF": str(conf)}, prefix=prefix) as instance:
            instance.images, instance.namespace, instance.conf = atoll.images, name, conf
            yield instance
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_a_redirect_gets_no_credentials(atoll, closed, place, elsewhere):
    """A registry may send a blob's reader elsewhere. The other server sees no Authorization; the bytes are checked as ever."""
    ref = f"{closed.local}/team/elsewhere:1"
    auth = {"auths": {closed.local: json.loads((place / "own/config.json").read_text())["auths"][closed.remote]}}
    assert ask(atoll, "push", name="mine", reference=ref, auth=auth)["type"] == "done"
    sockets = [listening_in(elsewhere.namespace, address) for address in ("127.0.0.1", "203.0.113.9")]
    with Redirecting(closed, sockets=sockets) as front:
        there = {"auths": {front.address: auth["auths"][closed.local]}}
        last = ask(elsewhere, "pull", reference=f"{front.address}/team/elsewhere:1", auth=there)
        assert last["type"] == "done", last
    assert front.redirected and front.leaked == []


@pytest.fixture(name="behind_proxy")
def fixture_behind_proxy(atoll):
    """A proxy is set that is not there; no request goes to it."""
    env = {"ATOLL_IMAGES": str(atoll.images), "ATOLL_ZYGOTE": "off", "https_proxy": "http://127.0.0.1:1", "no_proxy": "*"}
    with Instance(env) as instance:
        instance.images = atoll.images
        yield instance


@pytest.mark.parametrize("which", ("atoll", "behind_proxy"))
def test_a_redirect_leads_neither_to_this_machine_nor_to_its_networks(request, atoll, closed, place, which):
    """The reference may name loopback: a client chose it. A registry may not: it would read what listens there through us."""
    asked, ref = request.getfixturevalue(which), f"{closed.local}/team/inside:1"
    auth = {"auths": {closed.local: json.loads((place / "own/config.json").read_text())["auths"][closed.remote]}}
    assert ask(atoll, "push", name="mine", reference=ref, auth=auth)["type"] == "done"
    with Redirecting(closed) as front:
        there = {"auths": {front.address: auth["auths"][closed.local]}}
        port = front.storage.rsplit(":", 1)[1]
        for storage in (front.storage, f"localhost:{port}", f"[::ffff:127.0.0.1]:{port}", f"0.0.0.0:{port}", "10.0.0.1:80", "192.168.0.1:80", "169.254.169.254",
                        "[::1]:80", "[fd00::1]:80"):
            front.storage, front.redirected = storage, False
            refused(asked, "BAD_GATEWAY", "redirects to where nothing may be fetched", "pull", reference=f"{front.address}/team/inside:1", auth=there)
            assert front.redirected, storage
        assert front.reached == 0


def test_a_redirect_to_a_server_that_is_away_is_no_refusal(closed, place, elsewhere, atoll):
    ref = f"{closed.local}/team/away:1"
    auth = {"auths": {closed.local: json.loads((place / "own/config.json").read_text())["auths"][closed.remote]}}
    assert ask(atoll, "push", name="mine", reference=ref, auth=auth)["type"] == "done"
    with Redirecting(closed, sockets=[listening_in(elsewhere.namespace, "127.0.0.1"), None]) as front:
        there = {"auths": {front.address: auth["auths"][closed.local]}}
        front.storage = "203.0.113.9:1"
        refused(elsewhere, "BAD_GATEWAY", "cannot be reached", "pull", reference=f"{front.address}/team/away:1", auth=there)
        assert front.redirected


def test_a_registry_elsewhere_names_no_token_server_of_this_machine(plain, elsewhere, atoll):
    """The realm of a challenge is the registry's choice, as a redirect is."""
    pushed(atoll, f"{plain.local}/team/realm:1")
    sockets = [listening_in(elsewhere.namespace, address) for address in ("203.0.113.9", "127.0.0.1")]
    with Redirecting(plain, token="t0ken", sockets=sockets) as front:
        elsewhere.conf.write_text(f'[[registry]]\nlocation = "{front.address}"\ninsecure = true\n')
        ref = f"{front.address}/team/realm:1"
        auth = {"auths": {front.address: {"username": "someone", "password": "open sesame"}}}
        front.realm = front.storage
        refused(elsewhere, "BAD_GATEWAY", "for a token to where nothing may be fetched", "pull", reference=ref, auth=auth)
        assert front.reached == 0
        front.realm = front.address
        assert ask(elsewhere, "pull", reference=ref, auth=auth)["type"] == "done"


def test_tokens(atoll, plain):
    """A registry that wants a token of another server: with credentials, without, and with wrong ones."""
    pushed(atoll, f"{plain.local}/team/token:1")
    with Redirecting(plain, token="t0ken") as front:
        ref = f"{front.address}/team/token:1"
        auth = {"auths": {front.address: {"username": "someone", "password": "open sesame"}}}
        assert ask(atoll, "pull", reference=ref, auth=auth)["type"] == "done"
        assert front.scopes == {"repository:team/token:pull"}
        refused(atoll, "FORBIDDEN", "the registry wants credentials", "pull", reference=ref)
        auth["auths"][front.address]["password"] = "wrong"
        refused(atoll, "FORBIDDEN", "the registry refuses the credentials", "pull", reference=ref, auth=auth)
