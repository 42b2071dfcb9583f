"""Upstream's backup routes: archives of a directory, restored as a mount, uploaded in parts."""

import hashlib
import http.client
import json

import pytest
from atoll import DEADLINE, wait_for

ARCHIVE = "/var/backups/0b5b1b0e-0000-4000-8000-000000000001.sqsh"

# An HTTPS server that takes PUTs and answers as S3 does; the first answer for part 2 is 500.
SERVER = r'''
import hashlib, http.server, os, ssl, subprocess, sys
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/tmp/key.pem", "-out", "/tmp/cert.pem", "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
seen = set()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        part = self.path.split("part=")[1].split("&")[0]
        if part == "9" or (part == "2" and part not in seen):
            seen.add(part)
            self.send_response(500 if part == "2" else 403); self.send_header("Content-Length", "6"); self.end_headers(); self.wfile.write(b"denied"); return
        open("/tmp/part-" + part, "wb").write(body)
        self.send_response(200)
        if part != "8":
            self.send_header("ETag", '"%s"' % hashlib.md5(body).hexdigest())
        self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *a):
        pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 9443), Handler)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain("/tmp/cert.pem", "/tmp/key.pem")
s.socket = c.wrap_socket(s.socket, server_side=True)
print("ready", flush=True)
s.serve_forever()
'''


@pytest.fixture
def project(api):
    api.sh("mkdir -p /workspace/p/src /workspace/p/node_modules '/workspace/p/a b[1]'; cd /workspace/p; git init -q; "
           "printf '*.log\\n/a b\\\\[1\\\\]/\\n' >.gitignore; "
           "echo one >src/a; echo x >x.log; echo n >node_modules/n; echo k >'a b[1]/k'; head -c 3000000 /dev/urandom >big")
    return "/workspace/p"


def names(api, path):
    return api.sh(f"cd {path} && find . -path ./.git -prune -o -type f -print | sort").split("\n")[:-1]


def test_an_archive_is_made_and_mounted(api, project):
    made = api.ok("/api/backup/create", dir=project, archivePath=ARCHIVE)
    assert made["archivePath"] == ARCHIVE and made["sizeBytes"] == int(api.sh(f"stat -c %s {ARCHIVE}"))
    assert api.ok("/api/backup/restore", dir="/workspace/q", archivePath=ARCHIVE)["dir"] == "/workspace/q"
    assert names(api, "/workspace/q") == names(api, project)
    api.sh("cmp /workspace/p/big /workspace/q/big; echo new >/workspace/q/src/b; rm /workspace/q/src/a; test ! -e /workspace/p/src/b")
    api.ok("/api/backup/restore", dir="/workspace/q", archivePath=ARCHIVE)  # again: as it was
    assert api.sh("ls /workspace/q/src") == "a\n"


def test_excludes_and_gitignore(api, project):
    api.ok("/api/backup/create", dir=project, archivePath=ARCHIVE, excludes=["node_modules", "**/big", "/src/a", ""], gitignore=True)
    api.ok("/api/backup/restore", dir="/workspace/q", archivePath=ARCHIVE)
    assert names(api, "/workspace/q") == ["./.gitignore"]


@pytest.mark.parametrize("form", ("gzip", "lz4", "zstd"))
def test_compression(api, project, form):
    api.ok("/api/backup/create", dir=project, archivePath=ARCHIVE, compression={"format": form, "threads": 2})
    assert form in api.sh(f"unsquashfs -s {ARCHIVE}")


def test_what_does_not_fit_is_refused(api, project):
    for field, body in (("dir", {"dir": "workspace/p"}), ("dir", {"dir": "/workspace/../etc"}), ("dir", {"dir": None}),
                        ("archivePath", {"archivePath": "/etc/a.sqsh"}),
                        ("archivePath", {"archivePath": "/var/backups/../a.sqsh"}), ("archivePath", {"archivePath": "/var/backups/a"}),
                        ("excludes", {"excludes": "x"}), ("excludes", {"excludes": ["a\nb"]}), ("excludes", {"excludes": [1]}),
                        ("compression.format", {"compression": {"format": "xz"}}), ("compression", {"compression": 1})):
        api.invalid("/api/backup/create", field, **{"dir": project, "archivePath": ARCHIVE, **body})
    assert "no directory" in api.fails("/api/backup/create", "BACKUP_CREATE_FAILED", 500, dir="/workspace/none", archivePath=ARCHIVE)["message"]
    error = api.fails("/api/backup/restore", "BACKUP_RESTORE_FAILED", 500, dir="/workspace/q", archivePath=ARCHIVE)
    assert "there is no archive" in error["message"] and error["context"]["stderr"]
    api.sh(f"mkdir -p /var/backups; echo nonsense >{ARCHIVE}")
    api.fails("/api/backup/restore", "BACKUP_RESTORE_FAILED", 500, dir="/workspace/q", archivePath=ARCHIVE)
    assert "fuse" not in api.sh("cat /proc/self/mounts") and api.sh("ls -A /var/backups/mounts") == ""
    for part in ({"url": "http://x/"}, {"url": 'https://x/"'}, {"partNumber": 0}, {"size": 0}, {"offset": -1}, {"url": None}):
        one = {"partNumber": 1, "offset": 0, "size": 1, "url": "https://x/", **part}
        reply = api.call("/api/backup/upload-parts", {"archivePath": ARCHIVE, "parts": [one]})
        assert reply.status == 400, (part, reply)
    api.invalid("/api/backup/upload-parts", "parts", archivePath=ARCHIVE, parts=[])


@pytest.mark.parametrize("step", ["mksquashfs", "stat"])
def test_an_archive_whose_client_has_left_does_not_stay(api, project, step):
    """The step hangs: while the archive is written, and when it is complete."""
    api.sh(f"mkdir /tmp/bin; mkfifo /tmp/begun; printf '#!/bin/sh\\n: >>\"$2\"; echo begun >/tmp/begun; exec sleep 600\\n' >/tmp/bin/{step}; "
           f"chmod +x /tmp/bin/{step}")
    api.ok("/api/session/create", id="slow", env={"PATH": "/tmp/bin:/usr/local/bin:/usr/bin:/bin"})
    client = http.client.HTTPConnection("localhost", timeout=DEADLINE)
    client.sock = api.daemon.connect(unix=True)
    client.request("POST", api.path("/api/backup/create"), json.dumps({"dir": project, "archivePath": ARCHIVE, "sessionId": "slow"}))
    assert api.sh("timeout 60 head -n1 /tmp/begun") == "begun\n"
    assert ARCHIVE.rsplit("/", 1)[1] in api.sh("ls /var/backups")
    client.close()
    wait_for(lambda: api.sh("ls -A /var/backups") == "", "nothing is left of the archive")
    assert api.run("pgrep -x sleep")["stdout"] == ""


def test_parts_are_uploaded(api):
    api.sh("mkdir -p /var/backups")
    data = bytes(range(256)) * 4096
    assert api.put(ARCHIVE, data).status in (200, 201)
    api.put("/tmp/server.py", SERVER.encode())
    api.sh("mkfifo /tmp/ready")
    api.ok("/api/process/start", command="exec python3 /tmp/server.py >/tmp/ready")
    assert api.sh("timeout 60 head -n1 /tmp/ready") == "ready\n"
    api.ok("/api/session/create", id="s", env={"CURL_CA_BUNDLE": "/tmp/cert.pem"})

    def part(number, offset, size):
        return {"partNumber": number, "offset": offset, "size": size, "url": f"https://localhost:9443/b/k?part={number}&X-Amz-Signature=secret"}

    size = len(data) // 6
    parts = [part(n, (n - 1) * size, size if n < 6 else len(data) - 5 * size) for n in range(1, 7)]
    sent = api.ok("/api/backup/upload-parts", archivePath=ARCHIVE, parts=parts, sessionId="s")
    expected = {p["partNumber"]: f'"{hashlib.md5(data[p["offset"]:p["offset"] + p["size"]]).hexdigest()}"' for p in parts}
    assert {p["partNumber"]: p["etag"] for p in sent["parts"]} == expected
    for wrong, words in ((part(9, 0, 10), "denied"), (part(8, 0, 10), "no ETag"), (part(7, len(data) - 5, 10), "past the end")):
        error = api.fails("/api/backup/upload-parts", "BACKUP_CREATE_FAILED", 500, archivePath=ARCHIVE, parts=[wrong], sessionId="s")
        assert words in error["context"]["stderr"] and "secret" not in str(error), error
    assert api.sh("ls /var/backups") == ARCHIVE.rsplit("/", 1)[1] + "\n"
