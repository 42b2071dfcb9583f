"""A box that attacks: the gate, its own policy, or other boxes. Everything here must fail, and nothing may notice."""

import os
import shutil
import subprocess

import gatelib
import pytest
from gatelib import GATE, OTHER, WEB, WEB2


@pytest.fixture(scope="module")
def world():
    if os.geteuid() != 0:
        pytest.skip("root is needed to make network namespaces")
    for program in ("nginx", "dnsmasq", "dig", "curl", "ip"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    world = gatelib.World()
    yield world
    world.close()


@pytest.fixture
def gate(world):
    gate = gatelib.Gate(world)
    yield gate
    gate.close()


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


def test_slow_clients_end(gate):
    """A hello or a head that comes byte by byte is waited for, and not for ever: no other connection notices."""
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    slow = box.start("/usr/bin/python3", "-c",
                     "import socket,time\nall=[]\n"
                     "for i in range(200):\n s=socket.create_connection(('198.51.100.10',443 if i%2 else 80))\n"
                     " s.send(b'\\x16' if i%2 else b'G'); all.append(s)\n"
                     "print('held',flush=True)\n"
                     "for s in all:\n s.settimeout(60)\n try: s.recv(1)\n except OSError: pass\nprint('over',flush=True)", stdout=subprocess.PIPE)
    assert slow.stdout.readline() == "held\n"
    assert box.curl("http://web.example/")[0] == 200
    assert slow.stdout.readline() == "over\n"
    slow.wait(60)
    assert gate.record(decision="deny", end="the client said nothing")


def test_a_flood_of_connections_is_its_own_problem(gate, world):
    """A box opens more connections than it may and says nothing; another box is served, request after request."""
    noisy = gate.box(policy={"mode": "list", "allow": ["web.example"], "maxConnections": 2000})
    quiet = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    flood = noisy.start("/usr/bin/python3", "-c",
                        "import resource,socket\nresource.setrlimit(resource.RLIMIT_NOFILE,(20000,20000))\nall=[]\n"
                        "for i in range(10000):\n s=socket.socket(); s.setblocking(False); s.connect_ex(('198.51.100.10',443)); all.append(s)\n"
                        "print('open',flush=True)\ninput()", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert flood.stdout.readline() == "open\n"
    assert [quiet.curl("http://web.example/")[0] for _ in range(20)] == [200] * 20
    flood.kill()
    flood.wait()
    world.wait(lambda: noisy.curl("http://web.example/")[0] == 200, "the box itself")
