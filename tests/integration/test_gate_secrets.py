"""The gate and secrets: which requests get the value, which are refused, and what is never changed. The test plays warden and
daemon; the servers are real ones."""

import base64
import gzip
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import urllib.parse

import gatelib
import pytest
from gatelib import OTHER, WEB2

VALUE = "sk-live_Zx81+/=tail"
PLACE = "atoll_" + "0123456789abcdef" * 2
OTHER_PLACE = "atoll_" + "fedcba9876543210" * 2
ECHO = pathlib.Path(__file__).resolve().parents[1] / "lib/echoserver.py"
URL = "https://two.example:8443"


@pytest.fixture(scope="module")
def world(world):
    for port, more in ((8443, ()), (8081, ("plain",))):
        process = world.start(world.servers, "/usr/bin/python3", ECHO, WEB2, port, world.tmp / "cert.pem", world.tmp / "key.pem", *more,
                              stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "up\n"
    return world


@pytest.fixture
def gate(gate):
    yield gate
    log = gate.log()
    assert VALUE not in log and VALUE not in json.dumps(gate.records)


def secret(**more):
    return {"name": "key", "placeholder": PLACE, "value": VALUE, "hosts": ["two.example:8443"], **more}


def new_box(gate, *secrets, policy=None):
    box = gate.box(policy=policy or {})
    gate.tell(op="secrets", id=box.id, secrets=list(secrets) or [secret()])
    return box


def ask(box, target, *more, url=URL):
    status, body = box.curl(url + target, "--cacert", str(box.gate.ca), *more)
    assert status == 200, (status, body)
    reply = json.loads(body)
    reply["headers"] = {k.lower(): v for k, v in reply["headers"]}
    return reply


def refused(box, target, *more, url=URL):
    status, body = box.curl(url + target, "--cacert", str(box.gate.ca), *more)
    assert status == 403 and body.startswith("403 denied: ") and "secret 'key'" in body, (status, body)
    assert VALUE not in body
    record = box.gate.record(decision="deny")
    assert "secret 'key'" in record["rule"]
    return record


def test_the_placeholder_becomes_the_value_in_the_head(gate):
    box = new_box(gate)
    got = ask(box, f"/v1?key={PLACE}&x=1", "-H", f"Authorization: Bearer {PLACE}", "-H", f"X-Two: {PLACE}.{PLACE}", "-H", f"Cookie: a={PLACE}")
    assert got["headers"]["authorization"] == f"Bearer {VALUE}"
    assert got["headers"]["x-two"] == f"{VALUE}.{VALUE}" and got["headers"]["cookie"] == f"a={VALUE}"
    assert got["target"] == "/v1?key=sk-live_Zx81%2B%2F%3Dtail&x=1"
    record = gate.record(port=8443)
    assert record["protocol"] == "https" and record["decision"] == "allow" and record["name"] == "two.example"
    assert gate.record(op="used")["secret"] == "key"


PLACES = ["header:X-Key", "header:Authorization", "query:key", "path"]


@pytest.mark.parametrize("member, target, more", [
    ("header:X-Key", "/", ("-H", f"X-Key: {PLACE}")), ("header:Authorization", "/", ("-u", f"joe:{PLACE}")),
    ("query:key", f"/?a=1&key={PLACE}", ()), ("path", f"/v1/{PLACE}/x", ())])
def test_a_placeholder_is_replaced_in_the_places_of_in_only(gate, member, target, more):
    box = new_box(gate, secret(**{"in": PLACES}))
    got = ask(box, target, *more)
    assert PLACE not in json.dumps(got) and gate.record(op="used")["secret"] == "key"
    gate.tell(op="secrets", id=box.id, secrets=[secret(**{"in": [place for place in PLACES if place != member]})])
    assert f'"{member}" in its \'in\'' in refused(box, target, *more)["rule"]
    assert gate.record(port=8443, decision="allow")
    assert not [r for r in gate.records if r["op"] == "used"]


def test_a_server_that_shows_its_query_gets_no_value(gate):
    """The usual places are headers that keys stand in, which servers do not show."""
    box = new_box(gate, secret(**{"in": ["header:Authorization", "query:key"]}))
    for target in (f"/?q={PLACE}", f"/?key=1&q={PLACE}", f"/?key=1;q={PLACE}", f"/?{PLACE}=key", f"/?q={PLACE.replace('_', '%5f')}"):
        refused(box, target)
    refused(box, "/", "-H", f"Cookie: a={PLACE}")
    refused(box, "/", "-H", f"User-Agent: {PLACE}")


def test_trace_is_refused(gate):
    box = new_box(gate, secret(header="X-Set: {}", **{"in": ["header:X-Key"]}))
    status, body = box.curl(URL + "/", "--cacert", str(gate.ca), "-X", "TRACE", "-H", f"X-Key: {PLACE}")
    assert status == 403 and VALUE not in body and "TRACE" in gate.record(decision="deny")["rule"]
    # Where no value goes TRACE is the server's own affair.
    assert box.curl("http://two.example:8081/", "-X", "TRACE")[0] == 200


@pytest.mark.parametrize("value", [VALUE, "sk-live-no-blanks"])
def test_values_in_heads_of_responses_become_the_placeholder(gate, value):
    """In the reason, in headers and their names, in hints, in trailers, percent-encoded and in Basic credentials."""
    box = new_box(gate, secret(value=value, **{"in": PLACES}))
    credentials = base64.b64encode(f"joe:{PLACE}".encode()).decode()
    for more in (("-H", f"X-Key: {PLACE}", "-u", f"joe:{PLACE}"), ("-H", f"X-Key: {PLACE}", "-H", f"Authorization: Bearer {PLACE}")):
        out = box.run("curl", "-sS", "-D", "-", "--cacert", str(gate.ca), *more, f"{URL}/shown?key={PLACE}").stdout
        heads, body = out.rsplit("\n\n", 1)[0], out
        assert f"HTTP/1.1 200 {PLACE}" in heads and "x-early: yes" in heads.lower(), out
        assert f"X-Target: /shown?key={PLACE}" in heads and f"X-Key: {PLACE}" in heads and f"X-Last: {PLACE}" in body, out
        assert f"X-Credentials: Basic {credentials}" in heads or f"X-Credentials: Bearer {PLACE}" in heads, out
        assert value not in out and base64.b64encode(f"joe:{value}".encode()).decode() not in out


def test_values_in_the_head_of_a_101_become_the_placeholder(gate):
    """What follows it belongs to another protocol, and passes."""
    box = new_box(gate, secret(**{"in": PLACES}))
    out = box.python(f"""
import socket, ssl
c = ssl.create_default_context(cafile={str(gate.ca)!r})
s = c.wrap_socket(socket.create_connection(('two.example', 8443)), server_hostname='two.example')
s.settimeout(60)
s.sendall(b'GET /ws?key={PLACE} HTTP/1.1\\r\\nHost: two.example:8443\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\nX-Key: {PLACE}\\r\\n\\r\\n')
b = b''
while b'\\r\\n\\r\\n' not in b: b += s.recv(65536)
print(b.decode())
s.sendall(b'bytes')
assert s.recv(100) == b'bytes'
""")
    assert f"X-Length: {len(VALUE)}" in out, "the server has got the value"
    assert out.startswith("HTTP/1.1 101") and f"X-Shown: {PLACE}" in out and f"X-Target: /ws?key={PLACE}" in out and VALUE not in out, out


def test_basic_credentials(gate):
    box = new_box(gate)
    got = ask(box, "/", "-u", f"user:{PLACE}")
    assert base64.b64decode(got["headers"]["authorization"].split()[1]).decode() == f"user:{VALUE}"
    got = ask(box, "/", "-u", f"{PLACE}:x")
    assert base64.b64decode(got["headers"]["authorization"].split()[1]).decode() == f"{VALUE}:x"
    # Credentials that hold no placeholder, or are no base64, pass as they are.
    assert ask(box, "/", "-H", "Authorization: Basic dXNlcjpwYXNz")["headers"]["authorization"] == "Basic dXNlcjpwYXNz"
    assert ask(box, "/", "-H", "Authorization: Basic %%%")["headers"]["authorization"] == "Basic %%%"


@pytest.mark.parametrize("form", ["BASIC {}", "bASIC {}", "Basic\t{}", "Basic   {}", "Basic \t {}", "basic {}"])
@pytest.mark.parametrize("padded", [True, False])
def test_basic_credentials_in_all_their_forms(gate, form, padded):
    box = new_box(gate)
    text = base64.b64encode(f"u:{PLACE}".encode()).decode()
    assert text.endswith("==")
    header = "Authorization: " + form.format(text if padded else text.rstrip("="))
    got = ask(box, "/", "-H", header)
    assert base64.b64decode(got["headers"]["authorization"].split()[1]).decode() == f"u:{VALUE}"
    refused(box, "/", "-H", header, url="http://two.example:8081")
    refused(box, "/", "-H", "Proxy-" + header, url="http://web.example")


def test_a_placeholder_that_is_percent_encoded(gate):
    box = new_box(gate)
    for place in (PLACE.replace("_", "%5f"), PLACE.replace("_", "%5F"), "%61" + PLACE[1:], "".join(f"%{ord(c):02x}" for c in PLACE)):
        assert ask(box, f"/v1/{place}/x?k={place}&x=%5f")["target"] == "/v1/sk-live_Zx81%2B%2F%3Dtail/x?k=sk-live_Zx81%2B%2F%3Dtail&x=%5f"
        refused(box, f"/?k={place}", url="http://two.example:8081")
        refused(box, f"/{place}", url="http://web.example")


def test_a_header_needs_no_placeholder(gate):
    box = new_box(gate, secret(header="Authorization: Bearer {}"))
    assert ask(box, "/")["headers"]["authorization"] == f"Bearer {VALUE}"
    assert ask(box, "/", "-H", "Authorization: Bearer mine")["headers"]["authorization"] == f"Bearer {VALUE}"


def test_a_placeholder_on_its_way_elsewhere_is_refused(gate, world):
    other = {"name": "second", "placeholder": OTHER_PLACE, "value": "v2", "hosts": ["web.example"]}
    box = new_box(gate, secret(), other)
    # Plain HTTP, to its own host and to another.
    refused(box, "/", "-H", f"X-Key: {PLACE}", url="http://two.example:8081")
    refused(box, f"/?q={PLACE}", url="http://web.example")
    refused(box, "/", "-u", f"u:{PLACE}", url="http://web.example")
    # TLS that is intercepted for another secret.
    refused(box, "/", "-H", f"X-Key: {PLACE}", url="https://web.example")
    # As the name of a header, and as a host name.
    refused(box, "/", "-H", f"{PLACE}: 1")
    out = box.dig(f"{PLACE}.evil.example")
    assert "NXDOMAIN" in out, out
    assert PLACE not in world.dns_log.read_text()
    assert gate.record(protocol="dns")["rule"].startswith("the placeholder of secret 'key'")


def test_bodies_are_neither_scanned_nor_changed(gate):
    box = new_box(gate)
    for body in (f"key={PLACE}".encode(), gzip.compress(PLACE.encode()), PLACE.encode() * 5000):
        path = gate.world.tmp / "upload"
        path.write_bytes(body)
        for how in ((), ("-H", "Transfer-Encoding: chunked")):
            got = ask(box, "/", "--data-binary", f"@{path}", *how)
            assert got["bytes"] == len(body) and got["sha256"] == hashlib.sha256(body).hexdigest()


def test_a_redirect_does_not_carry_the_value_away(gate):
    """curl follows with its own, useless placeholder; the gate refuses it on plain HTTP."""
    box = new_box(gate)
    status, body = box.curl(URL + "/redirect", "--cacert", str(gate.ca), "-L", "--location-trusted", "-H", "X-To: http://two.example:8081/",
                            "-H", f"X-Key: {PLACE}")
    assert status == 403 and "secret 'key'" in body and VALUE not in body
    status, body = box.curl(URL + "/redirect", "-k", "-L", "-H", f"X-To: https://{OTHER}:1/", "-H", f"X-Key: {PLACE}")
    assert VALUE not in body


def test_a_placeholder_over_a_chunk_boundary_and_in_trailers_stays(gate):
    box = new_box(gate)
    out = box.python(f"""
import socket, ssl
c = ssl.create_default_context(cafile={str(gate.ca)!r})
s = c.wrap_socket(socket.create_connection(('two.example', 8443)), server_hostname='two.example')
half = {PLACE!r}[:20]; rest = {PLACE!r}[20:]
s.sendall(('POST / HTTP/1.1\\r\\nHost: two.example:8443\\r\\nTransfer-Encoding: chunked\\r\\nConnection: close\\r\\n\\r\\n'
  '%x\\r\\n%s\\r\\n' % (len(half), half) + '%x\\r\\n%s\\r\\n0\\r\\n\\r\\n' % (len(rest), rest)).encode())
b = b''
while d := s.recv(65536): b += d
print(b.decode())
""")
    assert hashlib.sha256(PLACE.encode()).hexdigest() in out and VALUE not in out


def test_a_head_that_comes_byte_by_byte_is_replaced(gate):
    box = new_box(gate)
    out = box.python(f"""
import socket, ssl
c = ssl.create_default_context(cafile={str(gate.ca)!r})
s = c.wrap_socket(socket.create_connection(('two.example', 8443)), server_hostname='two.example')
for byte in 'GET / HTTP/1.1\\r\\nHost: two.example:8443\\r\\nX-Key: {PLACE}\\r\\nConnection: close\\r\\n\\r\\n': s.sendall(byte.encode())
b = b''
while d := s.recv(65536): b += d
print(b.decode())
""")
    assert json.dumps(VALUE)[1:-1] in out


def test_only_the_hosts_concerned_are_intercepted(gate):
    box = new_box(gate)
    # web.example is not a host of the secret: its own certificate is seen, and HTTP/2 would be offered as before.
    assert box.curl("https://web.example/")[0] == 200
    assert box.curl("https://web.example/", "--cacert", str(gate.ca))[0] == -60
    # A port that the secret does not name is not intercepted either.
    assert box.curl("https://two.example/")[0] == 200


def test_alpn_is_http1_only(gate):
    box = new_box(gate)
    out = box.run("openssl", "s_client", "-connect", "two.example:8443", "-servername", "two.example", "-alpn", "h2,http/1.1",
                  "-CAfile", str(gate.ca), stdin=subprocess.DEVNULL).stdout
    assert "ALPN protocol: http/1.1" in out and "Verify return code: 0" in out, out


def test_upstream_certificates_are_verified(gate, world):
    """A server with the wrong name, an unknown authority, or an expired certificate never sees the request."""
    seen = world.tmp / "seen"
    seen.write_text("")
    port = 9440
    for subject, alt, more in (("wrong", "DNS:else.example", ()), ("unknown", "DNS:other.example", ()),
                               ("expired", "DNS:other.example", ("-not_after", "20200102000000Z", "-not_before", "20200101000000Z"))):
        port += 1
        key, cert = world.tmp / f"{subject}.key", world.tmp / f"{subject}.crt"
        if more:
            gatelib.run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                        "-addext", f"subjectAltName={alt}", "-keyout", str(key), "-out", str(world.tmp / "csr"))
            gatelib.run("openssl", "x509", "-req", "-in", str(world.tmp / "csr"), "-signkey", str(key), "-days", "-1", "-copy_extensions", "copy",
                        "-out", str(cert))
        else:
            gatelib.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=x", "-addext", f"subjectAltName={alt}", "-keyout", str(key), "-out", str(cert))
        process = world.start(world.servers, "/usr/bin/python3", ECHO, OTHER, port, cert, key, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "up\n"
        box = new_box(gate, secret(hosts=[f"other.example:{port}"]))
        status, body = box.curl(f"https://other.example:{port}/", "--cacert", str(gate.ca), "-H", f"X-Key: {PLACE}")
        assert status == 502 and "cannot be reached" in body and "certificate" in body, (subject, status, body)


def test_host_must_be_the_name_of_the_connection(gate):
    box = new_box(gate)
    for host in ("web.example", "two.example:443", "evil.example:8443"):
        status, body = box.curl(URL + "/", "--cacert", str(gate.ca), "-H", f"Host: {host}")
        assert status == 403 and "SNI" in body, (host, status, body)


def test_smuggling_is_refused(gate):
    """Two framings, two lengths, an obsolete fold: no second request hides behind the first."""
    box = new_box(gate)
    heads = ("Content-Length: 5\\r\\nTransfer-Encoding: chunked", "Content-Length: 5\\r\\nContent-Length: 6",
             "Transfer-Encoding: xchunked", "Transfer-Encoding : chunked", "X: a\\r\\n b", "Content-Length: +5")
    for head in heads:
        out = box.python(f"""
import socket, ssl
c = ssl.create_default_context(cafile={str(gate.ca)!r})
s = c.wrap_socket(socket.create_connection(('two.example', 8443)), server_hostname='two.example')
s.sendall('POST /a HTTP/1.1\\r\\nHost: two.example:8443\\r\\n{head}\\r\\n\\r\\n0\\r\\n\\r\\n'
          'GET /smuggled HTTP/1.1\\r\\nHost: two.example:8443\\r\\nX-Key: {PLACE}\\r\\n\\r\\n'.encode())
b = b''
s.settimeout(60)
try:
    while d := s.recv(65536): b += d
except OSError: pass
print(b.decode())
""")
        assert out.startswith("HTTP/1.1 400"), (head, out)
        assert "smuggled" not in out and VALUE not in out


def test_big_uploads_sockets_and_events_pass_unbuffered(gate, world):
    box = new_box(gate)
    out = box.run("bash", "-c", f"head -c {1 << 30} /dev/zero | curl -sS --cacert {gate.ca} -T - -H 'X-Key: {PLACE}' {URL}/up", timeout=300)
    assert json.loads(out.stdout)["bytes"] == 1 << 30, out.stderr
    rss = int(next(line for line in pathlib.Path(f"/proc/{gate.pid}/status").read_text().splitlines() if line.startswith("VmHWM")).split()[1])
    assert rss < 64 * 1024, f"{rss} KiB"
    # An event for every byte of the request: each side waits for the other.
    out = box.python(f"""
import socket, ssl
c = ssl.create_default_context(cafile={str(gate.ca)!r})
def connect():
    return c.wrap_socket(socket.create_connection(('two.example', 8443)), server_hostname='two.example')
s = connect()
s.settimeout(60)
s.sendall(b'POST /sse HTTP/1.1\\r\\nHost: two.example:8443\\r\\nX-Key: {PLACE}\\r\\nContent-Length: 3\\r\\n\\r\\n')
b = b''
for i, byte in enumerate(b'abc'):
    s.sendall(bytes([byte]))
    while b'data: %d' % i not in b:
        b += s.recv(65536)
print('events')
s = connect()
s.settimeout(60)
s.sendall(b'GET /ws HTTP/1.1\\r\\nHost: two.example:8443\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\nX-Key: {PLACE}\\r\\n\\r\\n')
b = b''
while b'\\r\\n\\r\\n' not in b: b += s.recv(65536)
assert b.startswith(b'HTTP/1.1 101'), b
for i in range(5):
    s.sendall(b'ping%d' % i)
    assert s.recv(100) == b'ping%d' % i
print('socket')
s = connect()
s.settimeout(60)
s.sendall(b'POST /slow HTTP/1.1\\r\\nHost: two.example:8443\\r\\nExpect: 100-continue\\r\\nContent-Length: 4\\r\\n\\r\\n')
b = s.recv(65536)
assert b.startswith(b'HTTP/1.1 100'), b
s.sendall(b'body')
assert b'200 OK' in s.recv(65536)
print('continue')
""")
    assert out.split() == ["events", "socket", "continue"]


def test_list_mode_still_decides(gate):
    box = new_box(gate, policy={"mode": "list", "allow": ["web.example"]})
    assert box.curl(URL + "/", "--cacert", str(gate.ca))[0] in (-6, -35, -56)
    box = new_box(gate, policy={"mode": "list", "allow": ["two.example:8443"]})
    # The box may claim any address: the name's own is used.
    got = ask(box, "/", "-H", f"X-Key: {PLACE}", "--resolve", "two.example:8443:203.0.113.77")
    assert got["headers"]["x-key"] == VALUE


def test_a_secret_that_is_taken_away_is_gone_at_once(gate):
    box = new_box(gate)
    assert ask(box, "/", "-H", f"X-Key: {PLACE}")["headers"]["x-key"] == VALUE
    gate.tell(op="secrets", id=box.id, secrets=[])
    # Nothing is intercepted any more: only the useless placeholder leaves.
    status, body = box.curl(URL + "/", "-H", f"X-Key: {PLACE}")
    assert status == 200 and PLACE in body and VALUE not in body


def test_a_placeholder_of_another_box_is_nothing(gate):
    new_box(gate)
    box = new_box(gate, {**secret(), "placeholder": OTHER_PLACE, "value": "mine"})
    got = ask(box, "/", "-H", f"X-Key: {PLACE}")
    assert got["headers"]["x-key"] == PLACE


def test_the_authority_is_kept_and_closed_to_others(gate):
    path = gate.data / "gate/ca.pem"
    stat = path.stat()
    assert stat.st_mode & 0o777 == 0o600 and stat.st_uid == 65534
    before = gate.ca.read_text()
    gate.kill()
    gate.start()
    assert gate.ca.read_text() == before and "PRIVATE" not in before


def test_values_are_wiped_and_cannot_be_dumped(gate):
    value = "wipe-me-" + os.urandom(12).hex()
    # nginx does not send back what it was sent.
    box = new_box(gate, secret(value=value, hosts=["web.example"]))
    for _ in range(3):
        assert box.curl(f"https://web.example/?k={PLACE}", "--cacert", str(gate.ca), "-H", f"X-Key: {PLACE}", "-u", f"u:{PLACE}")[0] == 200
    assert value in (gate.world.tmp / "nginx.log").read_text()
    assert value.encode() in gatelib.memory_of(gate.pid)
    limits = pathlib.Path(f"/proc/{gate.pid}/limits").read_text()
    assert [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core file size")] == [["0", "0"]]
    assert os.stat(f"/proc/{gate.pid}/environ").st_uid == 0, "another process of the gate's user could read its memory"
    gate.tell(op="secrets", id=box.id, secrets=[])
    assert box.curl("https://web.example/")[0] == 200
    left = gatelib.memory_of(gate.pid)
    assert value.encode() not in left, "the value is still in memory"
    assert base64.b64encode(f"u:{value}".encode()) not in left


# ---- AWS ----

def test_keys_and_tokens_are_wiped(gate):
    value, token = "wipe-me-" + os.urandom(12).hex(), "wipe-token-" + os.urandom(40).hex()
    box = new_box(gate, secret(value=value, hosts=["web.example"], aws={**AWS, "sessionToken": token}))
    for _ in range(3):
        assert box.curl(f"https://web.example/b/k?x={PLACE}&y=2", "--cacert", str(gate.ca), "-H", "x-amz-acl: private")[0] == 200
    assert value.encode() in gatelib.memory_of(gate.pid) and token.encode() in gatelib.memory_of(gate.pid)
    gate.tell(op="secrets", id=box.id, secrets=[])
    assert box.curl("https://web.example/")[0] == 200
    left = gatelib.memory_of(gate.pid)
    assert value.encode() not in left and token.encode() not in left


AWS = {"accessKeyId": "AKIDEXAMPLE", "region": "eu-central-1", "service": "s3"}


def hmac_of(key, text):
    return hmac.new(key, text.encode(), "sha256").digest()


def signature_holds(got, secret_key=VALUE, service="s3"):
    """Computes the signature of what the server has got, as AWS describes it."""
    headers, auth = got["headers"], got["headers"]["authorization"]
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/(\d{8})/eu-central-1/(\w+)/aws4_request, SignedHeaders=([\w;-]+), Signature=(\w{64})", auth)
    assert found, auth
    day, named, names, signature = found.groups()
    assert named == service and "host" in names and "x-amz-date" in names
    path, _, query = got["target"].partition("?")
    path = urllib.parse.quote(urllib.parse.unquote(path), safe="/~")
    pairs = sorted((urllib.parse.quote(k, safe="~"), urllib.parse.quote(v, safe="~")) for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
    payload = headers.get("x-amz-content-sha256") or got["sha256"]
    canonical = "\n".join([got["method"], path, "&".join(f"{k}={v}" for k, v in pairs), *(f"{n}:{headers[n]}" for n in names.split(";")), "", names, payload])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], f"{day}/eu-central-1/{service}/aws4_request", hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret_key).encode()
    for part in (day, "eu-central-1", service, "aws4_request"):
        key = hmac_of(key, part)
    return hmac_of(key, text).hex() == signature


def test_unsigned_requests_are_signed(gate):
    box = new_box(gate, secret(aws=AWS))
    got = ask(box, "/bucket/key%20one?list-type=2&prefix=a/b", "-H", "x-amz-acl: private")
    assert signature_holds(got) and "x-amz-acl" in got["headers"]["authorization"]
    got = ask(box, "/bucket/key", "-X", "PUT", "--data-binary", "hello")
    assert signature_holds(got) and got["headers"]["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD" and got["bytes"] == 5


def test_many_headers_with_placeholders_are_signed(gate):
    """Each takes several of the buffers of a head: one for its name and two for its value."""
    box = new_box(gate, secret(aws=AWS), secret(name="other", placeholder=OTHER_PLACE, value="other-value"))
    got = ask(box, "/bucket/key", *(w for i in range(80) for w in ("-H", f"X-Amz-Meta-{i}: {OTHER_PLACE}")))
    assert signature_holds(got)
    assert all(got["headers"][f"x-amz-meta-{i}"] == "other-value" for i in range(80))


@pytest.mark.parametrize("more", [{}, {"aws": True}])
def test_a_head_without_room_for_its_secrets_is_refused(gate, more):
    box = new_box(gate, secret(value="v" * 4096, **({"aws": AWS} if more else {})))
    for header in (f"X-Amz-Meta-Key: {PLACE * 40}", f"X-Key: {PLACE * 40}"):
        status, body = box.curl(URL + "/", "--cacert", str(gate.ca), "-H", header)
        assert (status, body) == (431, "431 the head of the request to two.example has no room for its secrets\n")
    status, body = box.curl(URL + f"/?k={'&k='.join([PLACE] * 40)}", "--cacert", str(gate.ca))
    assert (status, body) == (431, "431 the head of the request to two.example has no room for its secrets\n")
    gate.tell(op="policy", id=box.id)  # whatever it had to tell of them has come before this
    assert not [r for r in gate.records if r["op"] == "used"]
    assert ask(box, "/", "-H", f"X-Key: {PLACE}")["headers"]["x-key"] == "v" * 4096
    assert gate.record(op="used")["secret"] == "key"


def test_requests_signed_with_placeholders_are_signed_anew(gate):
    box = new_box(gate, secret(aws={**AWS, "sessionToken": "the-session"}))
    digest = hashlib.sha256(b"hello").hexdigest()
    got = ask(box, "/b/k", "-X", "PUT", "--data-binary", "hello", "-H", f"x-amz-content-sha256: {digest}", "-H", "x-amz-date: 20200101T000000Z",
              "-H", f"Authorization: AWS4-HMAC-SHA256 Credential={PLACE}/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature={'0' * 64}")
    assert signature_holds(got) and got["headers"]["x-amz-content-sha256"] == digest and got["headers"]["x-amz-security-token"] == "the-session"
    # A presigned URL of a placeholder.
    got = ask(box, f"/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={PLACE}%2F20200101&X-Amz-Signature=00&versionId=3")
    assert signature_holds(got) and got["target"] == "/b/k?versionId=3"
    # Another signature is the box's own affair.
    own = "AWS4-HMAC-SHA256 Credential=MINE/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
    assert ask(box, "/b/k", "-H", f"Authorization: {own}")["headers"]["authorization"] == own


def test_the_key_signs_whose_placeholder_was_used(gate):
    first, second = secret(aws=AWS), secret(name="second", placeholder=OTHER_PLACE, value="other-" + VALUE, aws=AWS)
    box = new_box(gate, first, second)
    given = "Authorization: AWS4-HMAC-SHA256 Credential=%s/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=" + "0" * 64
    for place, value in ((PLACE, VALUE), (OTHER_PLACE, "other-" + VALUE)):
        assert signature_holds(ask(box, "/b/k", "-H", given % place), secret_key=value)
        got = ask(box, f"/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={place}%2F20200101&X-Amz-Signature=00")
        assert signature_holds(got, secret_key=value)
    assert signature_holds(ask(box, "/b/k"))  # unsigned: the first one's
    # A placeholder of a secret that signs nothing is replaced, as anywhere.
    plain = secret(name="plain", placeholder="atoll_" + "ab" * 16, value="token")
    gate.tell(op="secrets", id=box.id, secrets=[first, plain])
    assert ask(box, "/b/k", "-H", f"Authorization: Bearer {plain['placeholder']}")["headers"]["authorization"] == "Bearer token"


@pytest.mark.parametrize("trailer", [False, True])
def test_signed_uploads_in_chunks_stream(gate, world, trailer):
    box = new_box(gate, secret(aws=AWS))
    data = os.urandom(3 << 20)
    pieces = [data[i:i + 65536] for i in range(0, len(data), 65536)] + [b""]
    body = b"".join(b"%x;chunk-signature=%s\r\n%s%s" % (len(p), b"0" * 64, p, b"\r\n" if p else b"") for p in pieces)
    body += b"x-amz-checksum-crc32:AAAAAA==\r\nx-amz-trailer-signature:00\r\n\r\n" if trailer else b"\r\n"
    path = world.tmp / "signed"
    path.write_bytes(body)
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    headers = ["-H", f"x-amz-content-sha256: {kind}", "-H", "Content-Encoding: aws-chunked",
               "-H", f"Authorization: AWS4-HMAC-SHA256 Credential={PLACE}/20200101/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature={'0' * 64}"]
    if trailer:
        headers += ["-H", "x-amz-trailer: x-amz-checksum-crc32"]
    got = ask(box, "/b/k", "-T", str(path), *headers, "-H", f"x-amz-decoded-content-length: {len(data)}")
    assert signature_holds(got) and got["bytes"] == len(data) and got["sha256"] == hashlib.sha256(data).hexdigest()
    assert "content-encoding" not in got["headers"] and "x-amz-trailer" not in got["headers"]
    assert got["headers"]["content-length"] == str(len(data))
    # Lengths that do not agree cut the request off; a missing one is refused.
    assert box.curl(URL + "/b/k", "--cacert", str(gate.ca), "-T", str(path), *headers, "-H", f"x-amz-decoded-content-length: {len(data) - 1}")[0] < 0
    assert box.curl(URL + "/b/k", "--cacert", str(gate.ca), "-T", str(path), *headers)[0] == 411


def test_other_services_need_the_hash_of_the_body(gate, world):
    box = new_box(gate, secret(aws={**AWS, "service": "dynamodb"}))
    got = ask(box, "/", "--data-binary", '{"TableName": "t"}', "-H", "X-Amz-Target: DynamoDB_20120810.ListTables")
    assert signature_holds(got, service="dynamodb")
    got = ask(box, "/", "--data-binary", "x", "-H", "Expect: 100-continue")
    assert signature_holds(got, service="dynamodb")
    path = world.tmp / "long"
    path.write_bytes(b"x" * ((8 << 20) + 1))
    assert box.curl(URL + "/", "--cacert", str(gate.ca), "-T", str(path))[0] == 413


@pytest.mark.parametrize("policy", [{}, {"mode": "list", "allow": ["two.example", "other.example:3128"]}])
def test_no_placeholder_goes_to_a_proxy_of_the_box(gate, world, policy):
    """Nor inside of Basic credentials of CONNECT, which are base64."""
    heads = world.tmp / "proxy-heads"
    if not world.connects(world.servers, OTHER, 3128):
        world.serve(f"b=s.recv(4096)\nopen('{heads}','ab').write(b)\ns.sendall(b'HTTP/1.1 407 No\\r\\n\\r\\n')\ns.close()", 3128)
    box = new_box(gate, policy=policy)
    for user, code in ((f"joe:{PLACE}", 403), ("joe:other", 407)):
        out = box.run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_connect}", "-x", "http://other.example:3128", "-U", user, "https://two.example/")
        assert out.stdout == str(code), out
    assert gate.record(decision="deny", rule="a secret's placeholder may not go to a proxy")
    assert base64.b64encode(f"joe:{PLACE}".encode()) not in heads.read_bytes() and base64.b64encode(b"joe:other") in heads.read_bytes()


def test_no_placeholder_goes_to_an_outbound_handler(gate):
    """Nobody listens at the hook's socket here: what is handed over gets 520."""
    box = new_box(gate)
    gate.tell(op="hooks", id=box.id, http=["hooked.example"], https=["two.example:8443", "two.example"])
    assert box.curl("http://hooked.example/", "--connect-to", f"hooked.example:80:{WEB2}:80")[0] == 520
    refused(box, "/", "-H", f"X-Key: {PLACE}", "--connect-to", f"hooked.example:80:{WEB2}:80", url="http://hooked.example")
    refused(box, f"/?k={PLACE}", "--connect-to", f"hooked.example:80:{WEB2}:80", url="http://hooked.example")
    refused(box, "/", "-u", f"joe:{PLACE}", url="https://two.example")
