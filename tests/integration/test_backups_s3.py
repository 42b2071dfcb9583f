"""Backups in a bucket: a real S3 server, a faulty one between that also verifies every signature, and a restore on another machine."""

import http.client
import http.server
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import npmdir
import pytest
import s3verify
from atoll import Instance, box_path, wait_for
from test_backup_room import with_small_disk

COMPAT = Path(__file__).resolve().parents[1] / "compat"
SERVER = """
import S3rver from 's3rver';
const server = new S3rver({ address: '127.0.0.1', port: 0, silent: true, directory: process.argv[1],
  configureBuckets: [{ name: 'backups' }] });
console.log((await server.run()).port);
"""
KEYS = "S3RVER", "S3RVER"


class Faulty(http.server.BaseHTTPRequestHandler):
    """Passes requests on. `faults` are taken one by one, each by the first request whose method and path fit."""

    protocol_version = "HTTP/1.1"
    backend, faults, seen, unsigned = None, [], [], []
    lock = threading.Lock()

    def log_message(self, *args):
        pass

    def fault(self):
        with self.lock:
            self.seen.append((self.command, self.path))
            for f in self.faults:
                if f[0] == self.command and f[1] in self.path:
                    self.faults.remove(f)
                    return f[2]
        return None

    def refuse(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>not now</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.fault()
        try:
            s3verify.Request(self.command, self.path, self.headers.items(), body).verify(*KEYS)
        except (s3verify.Refused, KeyError, ValueError) as e:
            self.unsigned.append((self.command, self.path, repr(e)))
            return self.refuse(403, "SignatureDoesNotMatch")
        if fault == "500":
            return self.refuse(500, "InternalError")
        if fault == "slow":
            return self.refuse(503, "SlowDown")
        if fault == "403":
            return self.refuse(403, "AccessDenied")
        if fault == "hang up":
            self.close_connection = True
            return None
        c = http.client.HTTPConnection("127.0.0.1", self.backend, timeout=60)
        c.request(self.command, self.path, body, dict(self.headers))
        r = c.getresponse()
        data = r.read()
        self.send_response(r.status)
        for name, value in r.getheaders():
            if name.lower() == "etag" and fault == "etag":
                value = '"00000000000000000000000000000000"'
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault == "cut":
            self.wfile.write(data[:len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(data)
        c.close()
        return None

    do_GET = do_PUT = do_POST = do_DELETE = forward


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    if not npmdir.installed(COMPAT):
        pytest.skip("no npm: s3rver cannot be had")
    directory = tmp_path_factory.mktemp("s3")
    p = subprocess.Popen(["node", "--input-type=module", "-e", SERVER, str(directory)], cwd=COMPAT, stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL)
    Faulty.backend = int(p.stdout.readline())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield directory / "backups", server.server_address[1]
    server.shutdown()
    server.server_close()
    p.kill()
    p.wait()
    shutil.rmtree(directory)


def instance(port, tmp, url="s3://backups/some/prefix", prefix=()):
    """A daemon whose backups are in the bucket."""
    path = tmp / f"credentials-{os.urandom(4).hex()}"
    path.write_text(f"# of a test\nendpoint = http://127.0.0.1:{port}\naccess_key_id={KEYS[0]}\nsecret_access_key = {KEYS[1]}\n")
    path.chmod(0o600)
    shutil.chown(path, "atoll")
    os.chmod(tmp, 0o755)
    return Instance({"ATOLL_BACKUP_URL": url, "ATOLL_BACKUP_CREDENTIALS": str(path)}, prefix=prefix)


@pytest.fixture(name="place")
def readable_directory():
    path = Path(tempfile.mkdtemp(prefix="at-s3-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def no_faults():
    Faulty.faults.clear()
    Faulty.seen.clear()
    yield
    assert not Faulty.faults
    assert not Faulty.unsigned


def ask(daemon, method, path, body=None, status=(200, 201)):
    r = daemon.request(method, path, body)
    assert r.status in status, r
    return r.json() if r.body else None


def run(daemon, box, command):
    r = daemon.execute(box, command)
    assert r["exitCode"] == 0, r
    return r["stdout"]


def need_pool(daemon):
    kind = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if kind["kind"] == "plain":
        pytest.skip(f"no pool on this host: {kind['reason']}")


def stored(directory):
    """The objects; s3rver keeps each in files with a mark of its own."""
    return sorted({p.name.split("._S3rver_")[0] for p in directory.rglob("bak-*")}) if directory.exists() else []


SUMS = "cd /root && find . -type f -print0 | sort -z | xargs -0 sha256sum"


def test_a_chain_in_a_bucket_is_restored_on_another_machine(store, place):
    directory, port = store
    with instance(port, place) as first:
        need_pool(first)
        run(first, "box", "dd if=/dev/urandom of=/root/big bs=1M count=40 status=none; echo one > /root/f")
        whole = ask(first, "POST", box_path("box", "/backups"), {"name": "whole"})
        assert any("uploadId" in path for _, path in Faulty.seen)  # 40 MiB that do not compress go in parts
        run(first, "box", "echo two > /root/f; rm -f /root/none")
        part = ask(first, "POST", box_path("box", "/backups"), {})
        assert part["parent"] == whole["id"] and part["size"] < 1 << 20
        sums = run(first, "box", SUMS)
        assert len(stored(directory)) == 4 and not list((first.data / "backups").iterdir())
        key = (first.data / "daemon" / "backup.key").read_text()
    with instance(port, place) as other:
        # Without the key nothing is believed.
        assert ask(other, "GET", "/v1/backups")["backups"] == []
        other.interrupt()
        own = other.data / "daemon" / "backup.key"
        own.write_text(key)
        other.start()
        assert [b["id"] for b in ask(other, "GET", "/v1/backups")["backups"]] == [whole["id"], part["id"]]
        Faulty.faults += [("GET", f"{whole['id']}.zst", "cut"), ("GET", f"{part['id']}.zst", "500"), ("GET", ".json", "hang up")]
        ask(other, "PUT", box_path("box"), {"from": {"backup": part["id"]}})
        assert run(other, "box", SUMS) == sums
        for b in (part, whole):
            ask(other, "DELETE", f"/v1/backups/{b['id']}", None, (204,))
        assert stored(directory) == []
        assert not list((other.data / "backups").iterdir())


def test_a_restore_from_a_bucket_leaves_the_reserve_of_its_disk(store, place):
    """The objects are copied beside the backups first: one that leaves no reserve there is refused, and the box is as it was."""
    directory, port = store
    with instance(port, place, prefix=with_small_disk("backups", 32 << 20)) as d:
        need_pool(d)
        run(d, "box", "head -c 32505856 /dev/urandom > /root/big")
        large = ask(d, "POST", box_path("box", "/backups"), {})
        run(d, "box", "echo more > /root/f")
        r = d.request("POST", box_path("box", "/restore"), {"backup": large["id"]})
        assert r.status == 500 and r.json()["code"] == "NO_SPACE" and "besides its reserve" in r.json()["message"], r
        assert run(d, "box", "cat /root/f") == "more\n" and not list((d.data / "backups").iterdir())
        run(d, "box", "rm /root/f; head -c 20971520 /root/big > /root/less; mv /root/less /root/big")
        ask(d, "DELETE", f"/v1/backups/{large['id']}", None, (204,))
        fits = ask(d, "POST", box_path("box", "/backups"), {})
        sums = run(d, "box", SUMS)
        run(d, "box", "rm /root/big")
        ask(d, "POST", box_path("box", "/restore"), {"backup": fits["id"]})
        assert run(d, "box", SUMS) == sums
        ask(d, "DELETE", f"/v1/backups/{fits['id']}", None, (204,))
        assert stored(directory) == []


def test_faults_that_pass_do_not_matter(store, place):
    directory, port = store
    with instance(port, place) as d:
        need_pool(d)
        run(d, "box", "dd if=/dev/urandom of=/root/big bs=1M count=36 status=none")
        Faulty.faults += [("POST", "uploads", "500"), ("PUT", "partNumber=1", "slow"), ("PUT", "partNumber=1", "etag"),
                          ("PUT", "partNumber=2", "hang up"), ("PUT", "partNumber=2", "cut"), ("PUT", ".json", "etag"), ("PUT", ".json", "slow")]
        made = ask(d, "POST", box_path("box", "/backups"), {})
        Faulty.faults += [("GET", ".zst", "cut"), ("GET", ".zst", "cut"), ("GET", ".zst", "slow"), ("GET", ".json", "cut")]
        sums = run(d, "box", SUMS)
        run(d, "box", "rm /root/big")
        ask(d, "POST", box_path("box", "/restore"), {"backup": made["id"]})
        assert run(d, "box", SUMS) == sums
        Faulty.faults += [("DELETE", ".zst", "500")]
        ask(d, "DELETE", f"/v1/backups/{made['id']}", None, (204,))
        assert stored(directory) == []


def test_faults_that_stay_are_errors_that_leave_nothing(store, place):
    directory, port = store
    with instance(port, place) as d:
        need_pool(d)
        run(d, "box", "dd if=/dev/urandom of=/root/big bs=1M count=36 status=none")
        Faulty.faults += [("PUT", "partNumber=2", "403")]
        r = ask(d, "POST", box_path("box", "/backups"), {}, (502,))
        assert r["code"] == "BAD_GATEWAY" and "403" in r["message"] and "AccessDenied" in r["message"]
        wait_for(lambda: stored(directory) == [] and not list((d.data / "backups").iterdir()), "nothing is left")
        made = ask(d, "POST", box_path("box", "/backups"), {})
        run(d, "box", "echo now > /root/now")
        Faulty.faults += [("GET", ".zst", "403")]
        assert ask(d, "POST", box_path("box", "/restore"), {"backup": made["id"]}, (502,))["code"] == "BAD_GATEWAY"
        assert run(d, "box", "cat /root/now") == "now\n"
        ask(d, "DELETE", f"/v1/backups/{made['id']}", None, (204,))


def test_an_upload_that_was_killed_is_taken_back(store, place):
    directory, port = store
    with instance(port, place) as d:
        need_pool(d)
        run(d, "box", "dd if=/dev/urandom of=/root/big bs=1M count=64 status=none")
        ask(d, "POST", box_path("box", "/backups"), {"wait": False}, (202,))
        wait_for(lambda: any("partNumber" in path for _, path in list(Faulty.seen)), "parts are on their way")
        d.kill_daemon()
        d.await_warden()
        wait_for(lambda: ask(d, "GET", "/v1/backups") is not None, "the list is known")
        left = ask(d, "GET", "/v1/backups")["backups"]
        for b in left:  # it was faster
            ask(d, "DELETE", f"/v1/backups/{b['id']}", None, (204,))
        assert stored(directory) == [] and not list((d.data / "backups").iterdir())
        assert left or any(method == "DELETE" and "uploadId" in path for method, path in Faulty.seen)


def test_wrong_settings_are_named(store, place):
    _, port = store
    for url, words in (("http://backups", "s3://bucket"), ("s3://no-such-bucket", "404")):
        with instance(port, place, url) as d:
            r = ask(d, "GET", "/v1/backups", None, (400, 404))
            assert words in r["message"], r
            r = ask(d, "GET", "/v1/backups", None, (400, 404))  # it is tried again
            assert words in r["message"], r
