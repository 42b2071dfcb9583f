"""A real S3 server (s3rver, npm) with TLS, behind s3verify.py: every signature is checked."""

import contextlib
import os
import secrets
import subprocess
import threading
from pathlib import Path

import npmdir
import pytest

LIB = Path(__file__).resolve().parent
COMPAT = LIB.parent / "compat"


def certificate(directory, *names):
    """A certificate for the names, signed by itself: the paths of cert.pem and key.pem."""
    paths = directory / "cert.pem", directory / "key.pem"
    alternatives = ",".join(f"DNS:{name}" for name in names)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    f"/CN={names[0]}", "-addext", f"subjectAltName={alternatives}", "-keyout", paths[1], "-out", paths[0]], check=True,
                   capture_output=True)
    return paths


class Server:
    """`said` has a line for every request: "ok header PUT /data/key", "refused - GET / why"."""

    def __init__(self, directory, start, address="127.0.0.1", port=0, pair=(), host=""):
        """`start(argv, **kw)` starts a program where the server shall be; BUCKET.`host` names a bucket."""
        if not npmdir.installed(COMPAT):
            pytest.skip("no npm: s3rver cannot be had")
        self.directory, self.start_program, self.address, self.port, self.pair, self.host = directory, start, address, port, pair, host
        self.key_id, self.secret = "AKIATEST" + secrets.token_hex(6).upper(), secrets.token_hex(20)
        self.said, self.programs = [], []
        self.start()

    def program(self, *argv):
        env = {**os.environ, "KEY_ID": self.key_id, "KEY_SECRET": self.secret, "S3_HOST": self.host}
        p = self.start_program([*map(str, argv)], env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.programs.append(p)
        return p, int(p.stdout.readline())

    def start(self):
        _, backend = self.program("node", COMPAT / "s3.mjs", self.directory)
        proxy, self.port = self.program("/usr/bin/python3", LIB / "s3verify.py", self.address, self.port, backend, *self.pair)
        threading.Thread(target=lambda: self.said.extend(proxy.stdout), daemon=True).start()

    def stop(self):
        for p in reversed(self.programs):
            p.kill()
            p.wait()
        self.programs.clear()

    def refused(self):
        return [line for line in self.said if line.startswith("refused")]

    def accepted(self, how):
        return [line for line in self.said if line.startswith(f"ok {how} ")]


@contextlib.contextmanager
def on_loopback(directory, *names):
    """A server on this machine for the names, with TLS; without names without TLS."""
    server = Server(directory / "buckets", lambda argv, **kw: subprocess.Popen(argv, **kw), pair=certificate(directory, *names) if names else (),
                    host=names[0] if names else "")
    try:
        yield server
    finally:
        server.stop()
