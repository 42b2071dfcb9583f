"""Buckets of sandboxes: s3fs in a box, against a real S3 server with TLS, with keys that only the daemon and the gate have. The whole of Atoll
runs in a network namespace of its own (gatelib)."""

import netfix
import pytest
import s3server
from gatelib import WEB2
from netfix import sh

PROGRAMS = ("node",)
PORT = 8444
ENDPOINT = f"https://two.example:{PORT}"


@pytest.fixture(scope="module")
def world(world):
    world.buckets = world.tmp / "buckets"
    world.tmp.chmod(0o755)
    pair = world.tmp / "cert.pem", world.tmp / "key.pem"
    world.s3 = s3server.Server(world.buckets, lambda argv, **kw: world.start(world.servers, *argv, **kw), WEB2, PORT, pair)
    return world


@pytest.fixture(scope="module")
def net(world):
    with netfix.running(world, {"SSL_CERT_FILE": str(world.tmp / "cert.pem")}) as instance:
        aws = {"accessKeyId": world.s3.key_id, "region": "us-east-1", "service": "s3"}
        secret = {"value": world.s3.secret, "hosts": [f"two.example:{PORT}"], "aws": aws}
        assert instance.request("PUT", "/v1/secrets/s3", secret).status == 201
        assert instance.request("PUT", "/v1/secrets/wrong", {**secret, "aws": {**aws, "accessKeyId": "AKIAWRONG"}}).status == 201
        assert instance.request("PUT", "/v1/secrets/plain", {"value": "x", "hosts": ["two.example"], "env": "X"}).status == 201
        yield instance


def mount(net, box, path="/mnt/data", **more):
    body = {"bucket": "data", "path": path, "endpoint": ENDPOINT, "secret": "s3", **more}
    return net.request("POST", f"/v1/sandboxes/{box}/mounts", body, timeout=120)


def mounted(net, box, path="/mnt/data", **more):
    r = mount(net, box, path, **more)
    assert r.status == 201, r
    return r.json()


def unmount(net, box, path="/mnt/data"):
    return net.request("DELETE", f"/v1/sandboxes/{box}/mounts?path={path}", timeout=120)


def listed(net, box):
    return net.request("GET", f"/v1/sandboxes/{box}/mounts").json()["mounts"]


def good(net, box, command):
    code, out = sh(net, box, command, timeout=120)
    assert code == 0, out
    return out


def test_write_and_read_through_a_bucket_without_a_key_in_the_box(net, world):
    made = mounted(net, "b-one")
    assert made == {"bucket": "data", "path": "/mnt/data", "endpoint": ENDPOINT, "readOnly": False, "secret": "s3"}
    assert listed(net, "b-one") == [made]
    good(net, "b-one", "echo through > /mnt/data/one.txt; mkdir /mnt/data/dir; head -c 3000000 /dev/urandom | tee /mnt/data/dir/big | sha256sum > /root/sum")
    assert [p for p in world.buckets.rglob("*one.txt*") if p.is_file()], list(world.buckets.rglob("*"))
    assert good(net, "b-one", "cat /mnt/data/one.txt") == "through\n"
    assert good(net, "b-one", "sha256sum < /mnt/data/dir/big | cmp - /root/sum && echo same") == "same\n"
    # Not in a variable, a command line or a file.
    for key in (world.s3.key_id, world.s3.secret):
        everything = "(cat /proc/*/environ /proc/*/cmdline; find / -xdev -type f -newer /proc/1 -exec cat {} +) 2>/dev/null"
        out = good(net, "b-one", f"{everything} | grep -ac {key[:-1]}[{key[-1]}] || true")
        assert out == "0\n", out
    assert unmount(net, "b-one").status == 200
    assert listed(net, "b-one") == []
    assert good(net, "b-one", "ls -A /mnt/data; grep -c s3fs /proc/mounts || true") == "0\n"
    r = unmount(net, "b-one")
    assert r.status == 404 and "no bucket is mounted at /mnt/data" in r.json()["message"], r


def test_prefix_and_read_only(net):
    mounted(net, "b-prefix", "/rw", prefix="/below/here/")
    good(net, "b-prefix", "echo deep > /rw/f")
    mounted(net, "b-prefix", "/all")
    assert good(net, "b-prefix", "cat /all/below/here/f") == "deep\n"
    mounted(net, "b-prefix", "/ro's place", readOnly=True, prefix="/below")
    assert good(net, "b-prefix", "cat \"/ro's place/here/f\"") == "deep\n"
    code, out = sh(net, "b-prefix", "echo no > \"/ro's place/here/f\"")
    assert code != 0 and "Read-only file system" in out
    assert {m["path"] for m in listed(net, "b-prefix")} == {"/rw", "/all", "/ro's place"}


def test_mounts_come_back_after_sleep_stop_and_kills(net):
    mounted(net, "b-life")
    good(net, "b-life", "echo kept > /mnt/data/life")
    for way in ("sleep", "stop"):
        assert net.request("POST", f"/v1/sandboxes/b-life/{way}", timeout=60).status == 200
        assert good(net, "b-life", "cat /mnt/data/life") == "kept\n"
    net.kill_daemon()
    net.await_warden()
    assert good(net, "b-life", "cat /mnt/data/life") == "kept\n"
    assert net.request("POST", "/v1/sandboxes/b-life/stop", timeout=60).status == 200
    assert good(net, "b-life", "cat /mnt/data/life") == "kept\n"


def test_a_secret_that_was_deleted_is_not_in_the_way(net):
    assert net.request("PUT", "/v1/secrets/gone", {"value": "x", "hosts": ["two.example"], "env": "GONE"}).status == 201
    assert net.request("PUT", "/v1/sandboxes/b-gone", {"secrets": ["gone"]}).status == 201
    assert net.request("DELETE", "/v1/secrets/gone").status == 200
    mounted(net, "b-gone")
    assert net.request("GET", "/v1/sandboxes/b-gone").json()["secrets"] == ["s3"]


def test_a_fork_has_them_with_a_placeholder_of_its_own(net):
    mounted(net, "b-parent")
    good(net, "b-parent", "echo shared > /mnt/data/forked")
    assert net.request("POST", "/v1/sandboxes/b-parent/fork", {"ids": ["b-child"]}).status == 201
    assert good(net, "b-child", "cat /mnt/data/forked") == "shared\n"
    assert [m["path"] for m in listed(net, "b-child")] == ["/mnt/data"]


def test_failures_have_the_words_of_s3fs_and_leave_nothing(net):
    for box, more, words in (("b-no-bucket", {"bucket": "none"}, "bucket or key not found"), ("b-bad-key", {"secret": "wrong"}, "invalid credentials")):
        r = mount(net, box, **more)
        assert r.status == 502 and r.json()["code"] == "BUCKET_MOUNT_FAILED" and words in r.json()["message"], r
        assert listed(net, box) == []
        assert good(net, box, "ls -d /mnt/data 2>/dev/null || echo none") == "none\n"
    good(net, "b-no-bucket", "mkdir -p /mnt/full; touch /mnt/full/f")
    r = mount(net, "b-no-bucket", "/mnt/full")
    assert r.status == 502 and "is not empty" in r.json()["message"], r
    assert good(net, "b-no-bucket", "ls /mnt/full") == "f\n"


def test_a_start_whose_bucket_is_away_fails(net, world):
    mounted(net, "b-away")
    assert net.request("POST", "/v1/sandboxes/b-away/stop", timeout=60).status == 200
    world.s3.stop()
    try:
        r = net.request("POST", "/v1/sandboxes/b-away/api/execute", {"command": "true"}, timeout=120)
        assert r.status == 502 and r.json()["code"] == "BUCKET_MOUNT_FAILED" and "mount its buckets" in r.json()["message"], r
    finally:
        world.s3.start()
    assert good(net, "b-away", "touch /mnt/data/again && mountpoint -q /mnt/data && echo mounted") == "mounted\n"
    assert net.request("POST", "/v1/sandboxes/b-away/stop", timeout=60).status == 200
    assert unmount(net, "b-away").status == 200
    assert good(net, "b-away", "ls -A /mnt/data") == ""


def test_a_bucket_that_is_used_stays(net):
    mounted(net, "b-busy")
    good(net, "b-busy", "touch /mnt/data/busy; (exec 3</mnt/data/busy; exec sleep 1000) >/dev/null 2>&1 & echo $! > /root/pid; "
         "until [ -e /proc/$(cat /root/pid)/fd/3 ]; do sleep 0.05; done")
    r = unmount(net, "b-busy")
    assert r.status == 502 and "busy" in r.json()["message"].lower(), r
    assert [m["path"] for m in listed(net, "b-busy")] == ["/mnt/data"]
    good(net, "b-busy", "kill $(cat /root/pid); while kill -0 $(cat /root/pid) 2>/dev/null; do sleep 0.05; done")
    assert unmount(net, "b-busy").status == 200


@pytest.mark.parametrize("wrong", [
    {"bucket": "a"}, {"bucket": "a/b"}, {"bucket": "x" * 64}, {"bucket": 7}, {"path": "/"}, {"path": "rel"}, {"path": "/proc/x"}, {"path": "/a/../b"},
    {"endpoint": "http://two.example"}, {"endpoint": "https://two.example/x"}, {"endpoint": "https://"}, {"endpoint": "https://a,b"},
    {"prefix": "rel"}, {"prefix": "/a/../b"}, {"prefix": "/" + "x" * 255}, {"secret": ""}, {"secret": "a b"}, {"readOnly": "yes"}, {"keys": 1}])
def test_requests_that_cannot_be(net, wrong):
    r = mount(net, "b-none", **wrong)
    assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED", r
    assert net.request("GET", "/v1/sandboxes/b-none").status == 404


def test_unknown_secrets_taken_places_and_too_many(net):
    for name in ("nobody", "plain"):
        r = mount(net, "b-limits", secret=name)
        assert r.status == 404 and f"there is no secret '{name}' with 'aws'" in r.json()["message"], r
    mounted(net, "b-limits", "/m/0")
    for path in ("/m/0", "/m", "/m/0/in"):
        r = mount(net, "b-limits", path)
        assert r.status == 409 and r.json()["code"] == "RESOURCE_BUSY", r
    for i in range(1, 16):
        mounted(net, "b-limits", f"/m/{i}")
    r = mount(net, "b-limits", "/m/16")
    assert r.status == 429 and r.json()["code"] == "LIMIT_REACHED", r
    assert net.request("DELETE", "/v1/sandboxes/b-limits").status in (200, 204)


def test_the_command_line(net):
    words = ("mount", "b-cli", "data", "/mnt/c", "--endpoint", ENDPOINT, "--secret", "s3")
    assert net.cli("create", "b-cli").returncode == 0
    r = net.cli(*words, timeout=120)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b""), r
    assert b"/mnt/c  data" in net.cli("mounts", "b-cli").stdout
    assert good(net, "b-cli", "echo hi > /mnt/c/cli; cat /mnt/c/cli") == "hi\n"
    r = net.cli("unmount", "b-cli", "/mnt/c", timeout=120)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b""), r
    assert net.cli("mounts", "b-cli").stderr == b"no buckets are mounted\n"
    for bad in (words[:3], words[:-2], ("unmount", "b-cli"), ("mounts",)):
        assert net.cli(*bad).returncode == 2


def test_every_signature_was_right(world):
    """The server has verified them all; it refused the key of another secret, and s3fs asks once more without one then."""
    if len(world.s3.accepted("header")) < 20:
        pytest.skip("some tests only")
    assert all("key id" in line or "is not signed" in line for line in world.s3.refused()), world.s3.refused()


# ---- through the bridge


def bridge(net, box, verb, status, **body):
    r = net.request("POST", f"/v1/sandbox/{box}/{verb}", body, timeout=120)
    assert r.status == status, r
    return r.json()


def remote(world, **more):
    """The options of a mount. The box does not know the server's certificate."""
    keys = {"accessKeyId": world.s3.key_id, "secretAccessKey": world.s3.secret}
    return {"endpoint": ENDPOINT, "credentials": keys, "s3fsOptions": ["no_check_certificate"], **more}


def test_the_bridge_mounts_with_keys_of_the_request(net, world):
    assert bridge(net, "bridgeone", "mount", 200, bucket="data", mountPath="/mnt//b/./it's", options=remote(world)) == {"ok": True}
    good(net, "bridgeone", "echo bridged > \"/mnt/b/it's/bridged\"; mkdir \"/mnt/b/it's/below\"; echo deep > \"/mnt/b/it's/below/f\"")
    assert listed(net, "bridgeone") == []
    bridge(net, "bridgeone", "mount", 200, bucket="data", mountPath="/ro", options=remote(world, prefix="/below", readOnly=True))
    code, out = sh(net, "bridgeone", "cat /ro/f; echo no > /ro/f")
    assert code != 0 and out.startswith("deep\n") and "Read-only file system" in out
    said = bridge(net, "bridgeone", "mount", 502, bucket="data", mountPath="/ro", options=remote(world))
    assert said["code"] == "mount_error" and said["error"].startswith("mount failed: /ro is a mount point already"), said
    for path in ("/ro", "/mnt/b/x/../it's"):
        assert bridge(net, "bridgeone", "unmount", 200, mountPath=path) == {"ok": True}
    assert good(net, "bridgeone", "ls -d /ro \"/mnt/b/it's\" 2>/dev/null; grep -c s3fs /proc/mounts || true") == "0\n"
    said = bridge(net, "bridgeone", "unmount", 502, mountPath="/ro")
    assert said == {"error": "unmount failed: No active mount found at path: /ro", "code": "unmount_error"}


def test_the_bridge_mounts_with_keys_of_the_box(net, world):
    options = remote(world)
    del options["credentials"]
    said = bridge(net, "bridgeenv", "mount", 502, bucket="data", mountPath="/mnt/e", options=options)
    assert said["code"] == "mount_error" and "No credentials found" in said["error"], said
    keys = {"R2_ACCESS_KEY_ID": world.s3.key_id, "R2_SECRET_ACCESS_KEY": world.s3.secret}
    assert net.request("PUT", "/v1/sandboxes/bridgeenv", {"envChanges": keys}).status == 200
    bridge(net, "bridgeenv", "mount", 200, bucket="data", mountPath="/mnt/e", options=options)
    good(net, "bridgeenv", "echo mine > /mnt/e/of-the-box")


def test_the_bridge_tells_why_a_mount_failed_and_leaves_nothing(net, world):
    wrong = {"accessKeyId": "AKIAWRONG", "secretAccessKey": "$(touch /tmp/run)"}
    for bucket, options, words in (("none", remote(world), "bucket or key not found"), ("data", remote(world, credentials=wrong), "invalid credentials"),
                                   ("Data", remote(world), "Invalid bucket name"), ("data", remote(world, prefix="below"), "Prefix must start"),
                                   ("data", remote(world, endpoint="ftp://two.example"), "Invalid endpoint URL"),
                                   ("data", remote(world, credentialProxy=True), "credentialProxy")):
        said = bridge(net, "bridgebad", "mount", 502, bucket=bucket, mountPath="/mnt/bad", options=options)
        assert said["code"] == "mount_error" and words in said["error"], said
        assert world.s3.secret not in said["error"]
    assert good(net, "bridgebad", "ls -d /mnt/bad /tmp/run 2>/dev/null || echo none") == "none\n"


def test_the_bridge_ends_mounts_of_the_settings_too(net):
    mounted(net, "bridgenote")
    assert bridge(net, "bridgenote", "unmount", 200, mountPath="/mnt/data") == {"ok": True}
    assert listed(net, "bridgenote") == []
