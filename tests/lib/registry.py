"""A real registry (Debian's docker-registry) on a loopback address, with TLS and with basic auth if asked."""
import base64
import ctypes
import crypt  # pylint: disable=deprecated-module
import hashlib
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = "/usr/bin/docker-registry"
USER, PASSWORD = "someone", "open sesame"


class Registry:
    """`host` is for references: 127.0.0.1 is local, 0.0.0.0 is the same machine by a name that nothing trusts."""

    def __init__(self, process, port, root, tls, auth):
        self.process, self.port, self.root, self.tls, self.auth = process, port, root, tls, auth
        self.local = f"127.0.0.1:{port}"
        self.remote = f"0.0.0.0:{port}"

    def blob_path(self, digest):
        name = digest.removeprefix("sha256:")
        return self.root / "data" / "docker/registry/v2/blobs/sha256" / name[:2] / name / "data"

    def ask(self, method, path, body=b"", kind="application/octet-stream"):
        scheme = "https" if self.tls else "http"
        url = path if "://" in path else f"{scheme}://{self.local}{path}"
        request = urllib.request.Request(url, body if method != "GET" else None, {"Content-Type": kind}, method=method)
        if self.auth:
            request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())
        if kind and method == "GET":
            request.add_header("Accept", kind)
        context = ssl._create_unverified_context() if self.tls else None
        with urllib.request.urlopen(request, timeout=60, context=context) as reply:
            return reply.headers, reply.read()

    def put_manifest(self, name, tag, manifest, kind):
        headers, _ = self.ask("PUT", f"/v2/{name}/manifests/{tag}", manifest, kind)
        return headers["Docker-Content-Digest"]

    def put_blob(self, name, content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        headers, _ = self.ask("POST", f"/v2/{name}/blobs/uploads/")
        self.ask("PUT", f"{headers['Location']}&digest={digest}", content)
        return digest

    def manifest(self, name, tag, kind="application/vnd.oci.image.manifest.v1+json"):
        headers, body = self.ask("GET", f"/v2/{name}/manifests/{tag}", kind=kind)
        return json.loads(body), headers["Docker-Content-Digest"], len(body)


def docker_config(directory, host, password=PASSWORD):
    """A docker config.json with credentials for this registry."""
    directory.mkdir(parents=True, exist_ok=True)
    token = base64.b64encode(f"{USER}:{password}".encode()).decode()
    path = directory / "config.json"
    path.write_text(json.dumps({"auths": {host: {"auth": token}}}))
    return path


def make_certificate(root):
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=registry",
                    "-addext", "subjectAltName=IP:0.0.0.0,IP:127.0.0.1", "-keyout", root / "key.pem", "-out", root / "ca.crt"],
                   check=True, capture_output=True)


@contextmanager
def registry(root, tls=False, auth=False):
    if not os.path.exists(PROGRAM):
        pytest.skip("docker-registry is not installed")
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    config = {"version": 0.1, "log": {"level": "info", "formatter": "text"}, "storage": {"filesystem": {"rootdirectory": str(root / "data")}},
              "http": {"addr": "127.0.0.1:0", "secret": "of-the-test"}}
    if tls:
        make_certificate(root / "certs")
        config["http"]["tls"] = {"certificate": str(root / "certs/ca.crt"), "key": str(root / "certs/key.pem")}
    if auth:
        (root / "htpasswd").write_text(f"{USER}:{crypt.crypt(PASSWORD, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))}\n")
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(root / "htpasswd")}}
    (root / "config.yml").write_text(json.dumps(config))
    process = subprocess.Popen([PROGRAM, "serve", root / "config.yml"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    log = open(root / "log", "w", encoding="utf-8")
    try:
        port = None
        for line in process.stderr:
            log.write(line)
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
                break
        assert port, (root / "log").read_text()
        # The rest of the log goes to a file: a full pipe would hold the registry.
        rest = subprocess.Popen(["cat"], stdin=process.stderr, stdout=log)
        yield Registry(process, port, root, tls, auth)
    finally:
        process.kill()
        process.wait()
        if port:
            rest.wait()
        log.close()


class CuttingProxy:
    """Stands before a registry on loopback. The first `cuts` connections that have carried `after` bytes to the client are cut;
    with `hold` they stay open and silent, with `then` further ones are cut after so many bytes."""

    def __init__(self, port, after, cuts, hold=False, then=None):
        self.port, self.after, self.cuts, self.made = port, after, cuts, 0
        self.hold, self.then, self.closed = hold, then, threading.Event()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self._carry, args=(client, server, None), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, self.after), daemon=True).start()
            # The two threads close them, by their end. Kept open here, a full one would leave the registry waiting to write.
            del client, server

    def _carry(self, source, target, after):
        carried = 0
        try:
            while piece := source.recv(65536):
                carried += len(piece)
                if after and carried > after and self._take_cut():
                    if self.then:
                        self.after = self.then
                    if self.hold:
                        self.closed.wait()
                    break
                target.sendall(piece)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _take_cut(self):
        with self.lock:
            if self.made >= self.cuts:
                return False
            self.made += 1
            return True

    def close(self):
        self.closed.set()
        self.listener.close()


def listening_in(namespace, address):
    """A socket that listens in the network namespace of this name."""
    made = []

    def make():  # a thread of its own enters it
        with open(f"/run/netns/{namespace}", "rb") as f:
            assert ctypes.CDLL(None, use_errno=True).setns(f.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        made.append(socket.create_server((address, 0)))
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


class Redirecting:
    """A registry's front on loopback, over plain HTTP. Without a token it sends readers of blobs to a second server, which notes
    credentials that it should not see; with one it wants the token that it gives to those who know the password."""

    def __init__(self, behind, token=None, sockets=(None, None)):
        """`sockets`: of the front and of the second server, where they are not on the host's loopback."""
        front = self
        self.behind, self.token, self.redirected, self.leaked, self.scopes, self.reached = behind, token, False, [], set(), 0

        class Front(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # pylint: disable=invalid-name
                front.answer(self, self.path, self.headers)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        class Storage(Front):
            def do_GET(self):
                front.reached += 1
                if "Authorization" in self.headers:
                    front.leaked.append(self.path)
                front.relay(self, self.path)
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind, bind_and_activate=s is None) for kind, s in zip((Front, Storage), sockets)]
        for server, given in zip(self.servers, sockets):
            if given:
                server.socket.close()
                server.socket, server.server_address = given, given.getsockname()
        self.address, self.storage = ("%s:%d" % s.server_address for s in self.servers)
        self.realm = self.address

    def __enter__(self):
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    @staticmethod
    def send(request, status, headers, body=b""):
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body)

    def answer(self, request, path, headers):
        given = headers.get("Authorization", "")
        if path.startswith("/token?"):
            query = urllib.parse.parse_qs(path.partition("?")[2])
            self.scopes.update(query["scope"])
            known = given == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            ok = known or not given
            return self.send(request, 200 if ok else 401, {}, json.dumps({"token": self.token if known else "anonymous"}).encode() if ok else b"")
        if self.token and given != f"Bearer {self.token}":
            return self.send(request, 401, {"WWW-Authenticate": f'Bearer realm="http://{self.realm}/token",service="here"'})
        if not self.token and not given:
            return self.send(request, 401, {"WWW-Authenticate": 'Basic realm="here"'})
        if "/blobs/" in path and not self.token:
            self.redirected = True
            return self.send(request, 307, {"Location": f"http://{self.storage}{path}"})
        return self.relay(request, path)

    def relay(self, request, path):
        kind = request.headers.get("Accept", "*/*").split(",")[1 if "manifests" in path else 0].strip()
        headers, body = self.behind.ask("GET", path, kind=kind)
        self.send(request, 200, {k: v for k, v in headers.items() if k in ("Content-Type", "Docker-Content-Digest")}, body)
