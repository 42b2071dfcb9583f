"""TLS on the TCP listener: who may connect how, certificates that change under open connections, and streams through it."""

import contextlib
import hashlib
import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import warnings
from pathlib import Path

import boxapp
import leaks
import pytest
from atoll import BIN, DEADLINE, Instance, box_path, wait_for
from boxapi import Api
from fixtures import what_is_missing
from wsclient import WebSocket

ECHO = """
def handle(c):
    rest = b""
    while True:
        h, rest = head(c, rest)
        if not h:
            return
        if b"/large " in h:
            c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 20000000\\r\\n\\r\\n")
            for i in range(200):
                c.sendall(bytes([i]) * 100000)
            continue
        n = 0
        for line in h.split(b"\\r\\n"):
            if line.lower().startswith(b"content-length:"):
                n = int(line.split(b":")[1])
        digest = hashlib.sha256(rest)
        got = len(rest)
        while got < n:
            chunk = c.recv(65536)
            got += len(chunk)
            digest.update(chunk)
        rest = b""
        reply(c, h + digest.hexdigest().encode())
"""
LARGE = b"".join(bytes([i]) * 100000 for i in range(200))


class Certificates:
    """An authority of our own, and certificates for *.preview.test by it."""

    def __init__(self, base):
        self.base, self.serial = base, 0
        self.cert, self.key, self.authority = base / "cert.pem", base / "key.pem", base / "ca.pem"
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
                 "-subj", "/CN=test authority", "-days", "2")
        (base / "names").write_text("subjectAltName=DNS:localhost,DNS:preview.test,DNS:*.preview.test,IP:127.0.0.1\n")

    def run(self, *args):
        subprocess.run(["openssl", *args], cwd=self.base, check=True, capture_output=True)

    def make(self, common_name):
        """A new pair, put in the place of the old one, the key first: as careless as people do it."""
        self.serial += 1
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "new.key", "-out", "new.csr",
                 "-subj", f"/CN={common_name}")
        self.run("x509", "-req", "-in", "new.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", str(self.serial), "-days", "2",
                 "-extfile", "names", "-out", "new.pem")
        for new, old in (("new.key", self.key), ("new.pem", self.cert)):
            shutil.copy(self.base / new, old.with_suffix(".tmp"))
            old.with_suffix(".tmp").chmod(0o644)  # the daemon's user reads it
            old.with_suffix(".tmp").rename(old)


class Secured:
    def __init__(self, daemon, certificates):
        self.daemon, self.certificates = daemon, certificates
        self.context = ssl.create_default_context(cafile=certificates.authority)

    def connect(self, name="localhost", context=None):
        return (context or self.context).wrap_socket(self.daemon.connect(), server_hostname=name)

    def subject(self):
        with self.connect() as s:
            return dict(part[0] for part in s.getpeercert()["subject"])["commonName"]

    def request(self, method, path, body=None, host="localhost", **headers):
        c = http.client.HTTPConnection(host, timeout=DEADLINE)
        c.sock = self.connect(host)
        with contextlib.closing(c):
            c.request(method, path, body, headers)
            r = c.getresponse()
            return r.status, r.read()


@pytest.fixture(scope="module")
def secured():
    if what_is_missing():
        pytest.skip(what_is_missing())
    if not shutil.which("openssl"):
        pytest.skip("no openssl: tools/deps test installs it")
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        os.chmod(base, 0o755)  # the daemon's user reads there
        certificates = Certificates(Path(base))
        certificates.make("first")
        with Instance({"ATOLL_TLS_CERT": str(certificates.cert), "ATOLL_TLS_KEY": str(certificates.key),
                       "ATOLL_PREVIEW_DOMAIN": "preview.test"}) as instance:
            yield Secured(instance, certificates)


@pytest.fixture(scope="module")
def app(secured):
    boxapp.raw(Api(secured.daemon, "box"), 8080, ECHO)
    port = secured.daemon.request("POST", box_path("box", "/ports/8080"), {"token": "tok"}).json()
    assert port["url"] == "https://8080-box-tok.preview.test/"
    return "8080-box-tok.preview.test"


def test_the_api_over_tls(secured):
    assert secured.request("GET", "/v1/health")[0] == 200
    assert secured.request("GET", "/v1/sandboxes")[0] == 401
    assert secured.request("GET", "/v1/sandboxes", Authorization=f"Bearer {secured.daemon.token}")[0] == 200
    assert secured.daemon.request("GET", "/v1/health", unix=True).status == 200, "the unix socket stays as it is"


def test_a_real_client(secured, app):
    port = secured.daemon.address.rsplit(":", 1)[1]
    r = subprocess.run(["curl", "-sS", "--max-time", "30", "--cacert", secured.certificates.authority, "--http1.1", "--resolve",
                        f"{app}:{port}:127.0.0.1", f"https://{app}:{port}/x"], capture_output=True, check=False)
    assert r.returncode == 0 and r.stdout.startswith(b"GET /x HTTP/1.1\r\n"), r
    assert b"\r\nX-Forwarded-Proto: https\r\n" in r.stdout


def test_plain_http_gets_nothing(secured):
    assert b"HTTP/1.1 2" not in secured.daemon.raw(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_garbage_and_silence_harm_nobody(secured):
    silent = [secured.daemon.connect() for _ in range(20)]
    for junk in (b"\x16\x03\x01\xff\xff" + b"x" * 70000, b"\x00" * 100, b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02"):
        with secured.daemon.connect() as s:
            with contextlib.suppress(OSError):
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
    assert secured.request("GET", "/v1/health")[0] == 200
    for s in silent:
        s.close()


def test_old_versions_are_refused(secured):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured.connect(context=old)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        new = ssl.create_default_context(cafile=secured.certificates.authority)
        new.minimum_version = new.maximum_version = version
        new.set_alpn_protocols(["h2", "http/1.1"])
        with secured.connect(context=new) as s:
            assert s.selected_alpn_protocol() == "http/1.1"


def test_large_bodies_both_ways(secured, app):
    status, body = secured.request("GET", "/large", host=app)
    assert status == 200 and body == LARGE
    status, body = secured.request("POST", "/up", LARGE, host=app)
    assert status == 200 and body.endswith(hashlib.sha256(LARGE).hexdigest().encode())


def test_a_slow_reader(secured, app):
    with secured.connect(app) as s:
        s.sendall(f"GET /large HTTP/1.1\r\nHost: {app}\r\nConnection: close\r\n\r\n".encode())
        first = s.recv(1000)
        assert secured.request("GET", "/v1/health")[0] == 200, "others are served meanwhile"
        digest = hashlib.sha256()
        head, _, rest = first.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        digest.update(rest)
        n = len(rest)
        while chunk := s.recv(3000 if n < 100_000 else 65536):
            digest.update(chunk)
            n += len(chunk)
        assert (n, digest.hexdigest()) == (len(LARGE), hashlib.sha256(LARGE).hexdigest())


def test_websockets(secured, app):
    path = box_path("box", "/ws/pty?sessionId=tls&cols=80&rows=24")
    with WebSocket(secured.connect(), path, {"Authorization": f"Bearer {secured.daemon.token}"}) as ws:
        seen = ""
        ws.send(b"echo over-$((1+1))-tls\n")
        while "over-2-tls" not in seen:
            message = ws.receive()
            seen += message if isinstance(message, str) else message.decode(errors="replace")


def test_a_new_certificate_under_open_connections(secured, app):
    with secured.connect(app) as kept, secured.connect(app) as downloading:
        downloading.sendall(f"GET /large HTTP/1.1\r\nHost: {app}\r\nConnection: close\r\n\r\n".encode())
        got = downloading.recv(1000)
        secured.certificates.make("second")
        os.kill(secured.daemon.daemon_pid, signal.SIGHUP)
        wait_for(lambda: secured.subject() == "second", "the new certificate is served")
        kept.sendall(f"GET /still HTTP/1.1\r\nHost: {app}\r\n\r\n".encode())
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")
        while chunk := downloading.recv(65536):
            got += chunk
        assert got.endswith(LARGE)
    secured.certificates.make("third")
    wait_for(lambda: secured.subject() == "third", "a change of the files is noticed without a signal")


def test_a_broken_certificate_changes_nothing(secured):
    before = secured.subject()
    good = secured.certificates.cert.read_text()
    secured.certificates.cert.write_text("nonsense")
    os.kill(secured.daemon.daemon_pid, signal.SIGHUP)
    wait_for(lambda: secured.daemon.logged("certificate not taken"), "it is said")
    assert secured.subject() == before
    secured.certificates.cert.write_text(good)
    secured.certificates.make("fourth")
    wait_for(lambda: secured.subject() == "fourth", "the next good one is taken")


@pytest.mark.parametrize("cert,key,words", [("/nonexistent", "/nonexistent", "/nonexistent"), ("cert.pem", "key.pem", "absolute"),
                                            ("/etc/passwd", "/etc/passwd", "/etc/passwd"), ("/etc/passwd", "", "ATOLL_TLS_KEY")])
def test_a_start_without_a_certificate_fails(secured, cert, key, words):
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o777)  # the daemon's user writes there
        env = {**secured.daemon.env, "ATOLL_DATA": place, "ATOLL_RUN": place, "ATOLL_TLS_CERT": cert, "ATOLL_TLS_KEY": key}
        r = subprocess.run([BIN / "atolld"], env=env, capture_output=True, timeout=30, check=False)
        assert r.returncode == 78 and words in r.stderr.decode(), r


def test_half_an_end(secured, app):
    """A client that says goodbye and waits still gets its answer."""
    raw = secured.daemon.connect()
    with secured.context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as s:
        s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        got = b""
        while chunk := s.recv(65536):
            got += chunk
        assert got.startswith(b"HTTP/1.1 200"), "and the end is one that TLS knows"
    with contextlib.suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)


# ---- the command line


def by_https(secured, host="localhost", authority=True):
    port = secured.daemon.address.rsplit(":", 1)[1]
    env = {"ATOLL_URL": f"https://{host}:{port}", "ATOLL_TOKEN": secured.daemon.token}
    return {**env, **({"SSL_CERT_FILE": str(secured.certificates.authority)} if authority else {})}


def helpers(secured):
    """The atoll-tls that lead to this daemon."""
    port, found = secured.daemon.address.rsplit(":", 1)[1], []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if words[0] == b"atoll-tls" and words[2] == port.encode():
                found.append(int(entry.parent.name))
    return found


def program(pid):
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_command_line_over_tls(secured, host):
    def cli(*args, **options):
        return secured.daemon.cli(*args, env=by_https(secured, host), **options)

    r = cli("exec", "far", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (r.returncode, r.stdout, r.stderr) == (3, b"out\n", b"err\n")
    assert b"far" in cli("list").stdout
    data = os.urandom(3_000_000)
    assert cli("exec", "far", "--", "cat", input=data).stdout == data
    assert cli("write", "far", "/tmp/data", input=data).returncode == 0
    assert cli("cat", "far", "/tmp/data").stdout == data
    wait_for(lambda: not helpers(secured), "what carried them ends with them")


def test_the_command_line_trusts_no_other(secured):
    r = secured.daemon.cli("list", env=by_https(secured, authority=False))
    assert r.returncode == 1 and b"is not trusted" in r.stderr and b"SSL_CERT_FILE" in r.stderr, r.stderr
    r = secured.daemon.cli("list", env=by_https(secured, "127.1"))
    assert r.returncode == 1 and b"is not trusted: " in r.stderr and b"mismatch" in r.stderr, r.stderr
    r = secured.daemon.cli("exec", "far", "--", "true", env=by_https(secured, authority=False))
    assert r.returncode == 125 and b"is not trusted" in r.stderr, r.stderr


def test_the_command_line_is_told_of_tls(secured):
    r = secured.daemon.cli("list", env={"ATOLL_URL": f"http://{secured.daemon.address}"})
    assert r.returncode == 1 and b"If that daemon uses TLS, set ATOLL_URL to https://host:port" in r.stderr, r.stderr


def test_a_command_line_that_is_killed_leaves_nothing(secured):
    with secured.daemon.cli_start("exec", "far", "--", "sh", "-c", "echo up; sleep 1000", env=by_https(secured)) as p:
        came, carried = p.stdout.readline(), helpers(secured)
        p.kill()
    assert came == b"up\n" and carried
    wait_for(lambda: not helpers(secured), "what carried it ends with it")


def test_ctrl_c_is_the_command_lines_alone(secured):
    """Every process of a terminal gets it; what carries the bytes must stay, for the box is removed over it."""
    # A shell without a trap may lose the signal when it comes between two of its commands.
    command = "trap 'exit 130' INT; echo up; while :; do sleep 0.05; done"
    with secured.daemon.cli_start("run", "--", "sh", "-c", command, env=by_https(secured), start_new_session=True) as p:
        try:
            assert p.stdout.readline() == b"up\n"
            os.killpg(p.pid, signal.SIGINT)
            assert p.wait(DEADLINE) == 128 + signal.SIGINT
        finally:
            p.kill()
    assert not [box for box in secured.daemon.boxes() if box.startswith("run-")]


def listener_of(pid):
    """The abstract address on which it listens, or None."""
    inode = os.readlink(f"/proc/{pid}/fd/3").removeprefix("socket:[").removesuffix("]")
    for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]:
        words = line.split()
        if words[6] == inode and int(words[3], 16) & 0x10000:  # it accepts connections
            return words[7].removeprefix("@")
    return None


def test_another_user_cannot_borrow_the_way(secured):
    """Its own user is answered by the daemon; another user of the machine gets nothing."""
    if os.geteuid() != 0:
        pytest.skip("root is needed to be another user")
    ask = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1]); "
           "s.sendall(b'GET /v1/health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'); print(s.recv(12))")
    with secured.daemon.cli_start("exec", "far", "--", "sh", "-c", "echo up; sleep 1000", env=by_https(secured)) as p:
        try:
            assert p.stdout.readline() == b"up\n"
            name = next(filter(None, map(listener_of, helpers(secured))))
            answers = [subprocess.run(["/usr/bin/python3", "-c", ask, name], user=user, capture_output=True, text=True, timeout=DEADLINE, check=False)
                       for user in (0, 65534)]
        finally:
            p.kill()
    assert "HTTP/1.1 200" in answers[0].stdout and "HTTP" not in answers[1].stdout, answers


def test_up_has_no_tls_of_its_own(secured):
    """Of a daemon with TLS too: `atoll up` maps no library of OpenSSL and starts no program for it."""
    pid = secured.daemon.up.pid
    assert "atolld" in [program(p) for p in leaks.children(pid)]
    assert "libssl" in Path(f"/proc/{secured.daemon.daemon_pid}/maps").read_text(encoding="utf-8"), "this is what it would look like"
    assert not [line for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines() if "libssl" in line or "libcrypto" in line]
    assert "atoll-tls" not in [program(p) for p in leaks.children(pid)]
    with secured.daemon.cli_start("exec", "far", "--", "sh", "-c", "echo up; sleep 1000", env=by_https(secured)) as p:
        try:
            assert p.stdout.readline() == b"up\n"
            assert {program(helper) for helper in helpers(secured)} == {"atoll-tls"}, "a name that ps can show"
        finally:
            p.kill()
