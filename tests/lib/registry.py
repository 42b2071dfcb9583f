"""A real registry (Debian's docker-registry) on a loopback address, with TLS and with basic auth if asked."""
import base64
import crypt  # pylint: disable=deprecated-module
import json
import os
import re
import socket
import ssl
import subprocess
import threading
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
    """Stands before a registry on loopback. The first `cuts` connections that have carried `after` bytes to the client are cut."""

    def __init__(self, port, after, cuts):
        self.port, self.after, self.cuts, self.made = port, after, cuts, 0
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

    def _carry(self, source, target, after):
        carried = 0
        try:
            while piece := source.recv(65536):
                carried += len(piece)
                if after and carried > after and self._take_cut():
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
        self.listener.close()
