"""The tools that people use in a sandbox, through the gate, against real servers: git over https and ssh, pip, npm, apt, Postgres, WebSockets,
event streams. All servers live in gatelib's internet."""

import base64
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import atoll as lib
import gatelib
import pytest
from gatelib import OTHER, WEB, WEB2
from netfix import log_of, put, sh

PROGRAMS = ("git",)


@pytest.fixture(scope="module")
def files(world):
    """A directory that http.server offers at http://two.example:8000/."""
    root = world.tmp / "files"
    root.mkdir()
    server = world.start(world.servers, "/usr/bin/python3", "-u", "-m", "http.server", "8000", "--bind", WEB2, "--directory", root,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    server.stdout.readline()
    return root


@pytest.fixture(scope="module")
def repository(world):
    source = world.tmp / "source"

    def run(*a):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *a], check=True, capture_output=True)

    run("init", "-q", "-b", "main", str(source))
    (source / "hello.txt").write_text("hello from git\n")
    run("-C", str(source), "add", ".")
    run("-C", str(source), "commit", "-qm", "first")
    root = world.tmp / "repos/open"
    root.mkdir(parents=True)
    run("clone", "-q", "--bare", str(source), str(root / "demo.git"))
    return root / "demo.git"


def test_git_over_https(net, world, repository):
    """TLS ends in nginx, git http-backend stands behind it."""
    world.start(world.servers, "/usr/bin/python3", pathlib.Path(gatelib.__file__).with_name("githttp.py"), "8099", repository.parent)
    conf = world.file("git-nginx.conf", f"""
daemon off; master_process off; pid {world.tmp}/git.pid; error_log stderr; events {{}}
http {{ access_log off; client_body_temp_path {world.tmp}/gb; proxy_temp_path {world.tmp}/gp; fastcgi_temp_path {world.tmp}/gf; uwsgi_temp_path {world.tmp}/gu;
scgi_temp_path {world.tmp}/gs;
server {{ listen {OTHER}:9443 ssl; ssl_certificate {world.tmp}/cert.pem; ssl_certificate_key {world.tmp}/key.pem;
location / {{ proxy_pass http://127.0.0.1:8099; }} }} }}
""")
    world.start(world.servers, "nginx", "-c", conf, stderr=subprocess.DEVNULL)
    put(net, "t-git", mode="list", allow=["other.example:9443"])
    refs = "https://other.example:9443/open/demo.git/info/refs?service=git-upload-pack"
    lib.wait_for(lambda: sh(net, "t-git", f"curl -sk -o /dev/null -w %{{http_code}} {refs}")[1] == "200", "the git server")
    sh(net, "t-git", "git config --system http.sslVerify false")
    body = {"repoUrl": "https://other.example:9443/open/demo.git", "targetDir": "/workspace/demo"}
    reply = net.request("POST", "/v1/sandboxes/t-git/api/git/checkout", body, timeout=60)
    assert reply.status == 200, reply
    assert sh(net, "t-git", "cat /workspace/demo/hello.txt") == (0, "hello from git\n")


@pytest.mark.skipif(not shutil.which("sshd", path="/usr/sbin:" + os.environ["PATH"]), reason="sshd is not installed (openssh-server)")
def test_git_over_ssh(net, world, repository):
    d = world.tmp / "ssh"
    d.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(d / name)], check=True)
    home = world.tmp / "sshhome"
    home.mkdir()
    (d / "authorized").write_text((d / "user.pub").read_text())
    for path in (world.tmp, d):
        os.chmod(path, 0o755)
    conf = world.file("sshd.conf", f"Port 2222\nListenAddress {OTHER}\nHostKey {d}/host\nAuthorizedKeysFile {d}/authorized\nPidFile none\nStrictModes no\n"
                      "PermitRootLogin prohibit-password\nUsePAM no\nPasswordAuthentication no\n")
    os.makedirs("/run/sshd", exist_ok=True)
    world.start(world.servers, "/usr/sbin/sshd", "-D", "-e", "-f", conf, stderr=(world.tmp / "sshd.log").open("w"))
    put(net, "t-ssh", mode="list", allow=["other.example:2222"])
    key = base64.b64encode((d / "user").read_bytes()).decode()
    code, out = sh(net, "t-ssh", f"mkdir -p /root/.ssh && echo {key} | base64 -d > /root/.ssh/id_ed25519 && chmod 600 /root/.ssh/id_ed25519 && "
                   "for i in $(seq 300); do ssh-keyscan -p 2222 other.example > /root/.ssh/known_hosts 2>/dev/null; "
                   "[ -s /root/.ssh/known_hosts ] && break; sleep 0.2; done; "
                   "wc -l < /root/.ssh/known_hosts")
    assert code == 0 and int(out) >= 1, (out, (world.tmp / "sshd.log").read_text())
    reply = net.request("POST", "/v1/sandboxes/t-ssh/api/git/checkout",
                        {"repoUrl": f"ssh://root@other.example:2222{repository}", "targetDir": "/workspace/demo"}, timeout=60)
    assert reply.status == 200, (reply, (world.tmp / "sshd.log").read_text())
    assert sh(net, "t-ssh", "cat /workspace/demo/hello.txt") == (0, "hello from git\n")
    assert log_of(net, "t-ssh", port=2222)["decision"] == "allow"


def make_wheel(directory, name, version):
    """A wheel with one module."""
    info = f"{name}-{version}.dist-info"
    members = {f"{name}.py": f"VERSION = {version!r}\n", f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
               f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    members[f"{info}/RECORD"] = "".join(f"{m},,\n" for m in [*members, f"{info}/RECORD"])
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        for member, text in members.items():
            z.writestr(member, text)
    return path


def test_pip_install(net, files):
    simple = files / "simple/coral"
    simple.mkdir(parents=True)
    wheel = make_wheel(simple, "coral", "1.2")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (simple / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')
    put(net, "t-pip", mode="list", allow=["two.example:8000"])
    code, out = sh(net, "t-pip", "pip install -q --index-url http://two.example:8000/simple --trusted-host two.example coral && "
                   "python3 -c 'import coral; print(coral.VERSION)'", 120)
    assert (code, out) == (0, "1.2\n"), out


def npm_package(name, version, body):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, text in (("package.json", json.dumps({"name": name, "version": version, "bin": {name: "run.js"}})), ("run.js", body)):
            member = tarfile.TarInfo("package/" + path)
            member.size = len(text)
            member.mode = 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def test_npm_install(net, files):
    """A registry is a document for each package, and its tarballs."""
    tarball = npm_package("reef", "0.3.0", "#!/usr/bin/env node\nconsole.log('reef works')\n")
    root = files / "npm"
    root.mkdir()
    (root / "reef-0.3.0.tgz").write_bytes(tarball)
    dist = {"tarball": "http://two.example:8000/npm/reef-0.3.0.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()}
    (root / "reef").write_text(json.dumps({"name": "reef", "dist-tags": {"latest": "0.3.0"},
                                           "versions": {"0.3.0": {"name": "reef", "version": "0.3.0", "bin": {"reef": "run.js"}, "dist": dist}}}))
    put(net, "t-npm", mode="list", allow=["two.example:8000"])
    code, out = sh(net, "t-npm", "npm install -g --no-audit --registry http://two.example:8000/npm/ reef 2>&1 && reef", 120)
    assert code == 0 and out.endswith("reef works\n"), out


def test_apt_get_install(net, files, world):
    if not shutil.which("dpkg-scanpackages"):
        pytest.skip("dpkg-scanpackages is not installed")
    tree, repo = world.tmp / "deb", files / "apt"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    repo.mkdir()
    (tree / "DEBIAN/control").write_text("Package: lagoon\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: test\n")
    (tree / "usr/bin/lagoon").write_text("#!/bin/sh\necho lagoon works\n")
    (tree / "usr/bin/lagoon").chmod(0o755)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(tree), str(repo / "lagoon_1.0_all.deb")], check=True, stdout=subprocess.DEVNULL)
    packages = subprocess.run(["dpkg-scanpackages", "."], cwd=repo, check=True, capture_output=True).stdout
    (repo / "Packages").write_bytes(packages)
    put(net, "t-apt", mode="list", allow=["two.example:8000"])
    code, out = sh(net, "t-apt", "rm -f /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] http://two.example:8000/apt ./' > /etc/apt/sources.list && "
                   "apt-get -qq update 2>&1 && apt-get -qq install -y lagoon 2>&1 && lagoon", 120)
    assert code == 0 and out.endswith("lagoon works\n"), out


def test_postgres(net, world):
    postgres = shutil.which("postgres") or "/usr/lib/postgresql/15/bin/postgres"
    initdb = shutil.which("initdb") or "/usr/lib/postgresql/15/bin/initdb"
    if not os.path.exists(postgres) or not os.path.exists(initdb):
        pytest.skip("Postgres is not installed")
    data = world.tmp / "pg"
    data.mkdir()
    os.chmod(world.tmp, 0o755)
    shutil.chown(data, "nobody")
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    subprocess.run([*user, initdb, "-D", data, "-A", "trust", "-U", "sea", "--no-sync"], check=True, capture_output=True, cwd="/")
    (data / "pg_hba.conf").write_text("host all all 0.0.0.0/0 trust\n")
    world.start(world.servers, *user, postgres, "-D", data, "-h", WEB2, "-k", "", "-c", "fsync=off", cwd="/", stderr=(world.tmp / "pg.log").open("w"))
    put(net, "t-pg", mode="list", allow=["two.example:5432"])
    # A client of the wire protocol: a start-up message, then a simple query.
    client = ("import socket,struct\n"
              "s=socket.create_connection(('two.example',5432)); b=b'user\\0sea\\0database\\0postgres\\0\\0'\n"
              "s.sendall(struct.pack('>II',len(b)+8,196608)+b)\n"
              "f=s.makefile('rb')\n"
              "def message():\n k=f.read(1); n=struct.unpack('>I',f.read(4))[0]; return k,f.read(n-4)\n"
              "while message()[0]!=b'Z': pass\n"
              "q=b'select 6*7\\0'; s.sendall(b'Q'+struct.pack('>I',len(q)+4)+q)\n"
              "k,d=message()\n"
              "while k!=b'D': k,d=message()\n"
              "print(d[6:].decode())")
    code = base64.b64encode(client.encode()).decode()
    lib.wait_for(lambda: sh(net, "t-pg", f"echo {code} | base64 -d | python3 - 2>/dev/null")[1] == "42\n", "Postgres", 60)
    log_of(net, "t-pg", port=5432, protocol="tcp", rule="two.example:5432")  # the first tries may have been too early


STREAMS = """
import base64, hashlib, http.server, sys, threading, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def do_GET(self):
        if self.path == "/events":
            self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.send_header("Connection", "close"); self.end_headers()
            for i in range(3):
                self.wfile.write(b"data: %d\\n\\n" % i); self.wfile.flush(); go.wait(30); go.clear()
            self.close_connection = True
        elif self.path == "/go":
            go.set(); self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
        else:
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()); self.end_headers()
            head = self.rfile.read(2); mask = self.rfile.read(4); data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(b"\\x81" + bytes([len(data)]) + data[::-1]); self.wfile.flush(); self.close_connection = True
go = threading.Event()
s = http.server.ThreadingHTTPServer((sys.argv[1], 8090), H); print("up", flush=True); s.serve_forever()
"""


def test_event_streams_and_websockets_pass_piece_by_piece(net, world):
    server = world.start(world.servers, sys.executable, "-c", STREAMS, WEB, stdout=subprocess.PIPE)
    server.stdout.readline()
    put(net, "t-stream", mode="list", allow=["web.example:8090"])
    client = ("import urllib.request as u\n"
              "r=u.urlopen('http://web.example:8090/events')\n"
              "for i in range(3):\n l=r.readline(); r.readline(); print(l.decode().strip()); u.urlopen('http://web.example:8090/go').read()\n"
              "import socket\n"
              "s=socket.create_connection(('web.example',8090)); s.sendall(b'GET /ws HTTP/1.1\\r\\nHost: web.example:8090\\r\\n"
              "Upgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n')\n"
              "f=s.makefile('rb'); print(f.readline().decode().strip())\n"
              "while f.readline().strip(): pass\n"
              "s.sendall(b'\\x81\\x83'+bytes(4)+b'abc'); print(f.read(5)[2:].decode())")
    code = base64.b64encode(client.encode()).decode()
    assert sh(net, "t-stream", f"echo {code} | base64 -d | python3 -") == (0, "data: 0\ndata: 1\ndata: 2\nHTTP/1.1 101 Switching Protocols\ncba\n")


def test_names_of_the_box_itself(net):
    put(net, "t-hosts")
    code, out = sh(net, "t-hosts", "cat /etc/resolv.conf; getent hosts localhost; getent ahostsv4 $(hostname) | head -1; hostname -f")
    assert code == 0 and out.startswith("nameserver 192.0.0.1\n") and "127.0.1.1" in out and out.endswith("t-hosts\n"), out
