"""Open connections when the policy or the secrets of a box change: what a new connection could not do, they cannot do either."""

import subprocess

import pytest
from gatelib import OTHER, WEB, WEB2

PLACE = "atoll_" + "0123456789abcdef" * 2

# Opens what the test names; then each line of stdin is an expression about it.
CLIENT = """
import socket, ssl, sys
def connect(address, port): return socket.create_connection((address, port), 60)
def tls(s, name):
    context = ssl._create_unverified_context()
    return context.wrap_socket(s, server_hostname=name)
def http(s, host, more=''):
    s.sendall(f'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n{more}\\r\\n'.encode())
    got = b''
    while b'\\n' not in got.partition(b'\\r\\n\\r\\n')[2]:
        piece = s.recv(65536)
        if not piece: break
        got += piece
    return got.decode().partition('\\r\\n')[0] + '|' + got.decode().strip().rpartition('\\n')[2]
def echo(s):
    s.sendall(b'x')
    return s.recv(1)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as e: print(type(e).__name__, str(e).partition('(_ssl')[0], flush=True)
"""


class Client:
    """A program in a box that does what it is told, one thing after the other."""

    def __init__(self, box):
        self.process = box.start("/usr/bin/python3", "-u", "-c", CLIENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def do(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def set(self, name, expression):
        assert self.do(f"globals().__setitem__({name!r}, {expression})") == "None"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def client(gate):
    clients = []

    def make(box):
        clients.append(Client(box))
        return clients[-1]

    yield make
    for c in clients:
        c.end()


POLICIES = [{"mode": "list", "allow": ["web.example"]}, {"deny": ["two.example"]}, {"mode": "list", "allow": [WEB], "deny": ["two.example"]}]


@pytest.mark.parametrize("policy", POLICIES, ids=["list", "deny", "range"])
def test_what_was_never_looked_at_is_cut(gate, client, policy):
    box = gate.box(policy={})
    c = client(box)
    c.do("socket.getaddrinfo('web.example', 80)")
    c.set("kept", f"connect('{WEB}', 80)")
    c.set("kept_tls", f"tls(connect('{WEB}', 443), 'web.example')")
    assert c.do("http(kept, 'web.example')") == f"HTTP/1.1 200 OK|http {WEB} web.example"
    assert c.do("http(kept_tls, 'web.example')") == f"HTTP/1.1 200 OK|https {WEB} web.example"
    gate.policy(box, **policy)
    for _ in range(2):
        assert gate.record(decision="deny", end="cut by a changed policy")["rule"] == "the policy was changed"
    assert c.do("http(kept, 'two.example')").startswith("ConnectionResetError")
    assert "Error" in c.do("http(kept_tls, 'two.example')")


@pytest.mark.parametrize("policy", POLICIES, ids=["list", "deny", "range"])
def test_what_is_silent_is_looked_at_from_now_on(gate, client, policy):
    box = gate.box(policy={})
    c = client(box)
    for name in ("web", "two", "plain_web", "plain_two"):
        c.set(name, f"connect('{WEB}', {80 if 'plain' in name else 443})")
    gate.policy(box, **policy)
    assert c.do("http(tls(web, 'web.example'), 'web.example')") == f"HTTP/1.1 200 OK|https {WEB} web.example"
    assert "ACCESS_DENIED" in c.do("tls(two, 'two.example')")
    assert c.do("http(plain_web, 'web.example')") == f"HTTP/1.1 200 OK|http {WEB} web.example"
    assert c.do("http(plain_two, 'two.example')").startswith("HTTP/1.1 403 ")


def test_a_range_that_decides_alone_changes_nothing(gate, client):
    box = gate.box(policy={})
    c = client(box)
    c.set("kept", f"connect('{WEB}', 80)")
    assert c.do("http(kept, 'web.example')").startswith("HTTP/1.1 200 ")
    gate.policy(box, mode="list", allow=["198.51.100.0/24", "web.example"])
    assert c.do("http(kept, 'two.example')").startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("order", [("web.example", "www.web.example"), ("www.web.example", "web.example")], ids=["last", "first"])
def test_all_names_that_were_told_count(gate, client, world, order):
    if not world.connects(world.servers, WEB, 7021):
        world.serve("s.sendall(b'hello')\nwhile True:\n  b=s.recv(100)\n  if not b: break\n  s.sendall(b)", 7021, WEB)
    box = gate.box(policy={})
    c = client(box)
    for name in order:
        c.do(f"socket.getaddrinfo('{name}', 80)")
    c.set("s", f"connect('{WEB}', 7021)")
    assert c.do("s.recv(5)") == "b'hello'"
    # The server spoke first: this is neither TLS nor HTTP, and the names decide.
    for policy in ({"deny": ["two.example"]}, {"mode": "list", "allow": ["web.example:7021"]}, {"mode": "list", "allow": ["www.web.example:7021"]}, {}):
        gate.policy(box, **policy)
        assert c.do("echo(s)") == "b'x'", policy
    gate.policy(box, deny=["www.web.example"])
    assert c.do("echo(s)").startswith("ConnectionResetError")
    assert gate.record(port=7021)["end"] == "cut by a changed policy"


def test_a_name_in_the_hello_does_not_keep_another_server(gate, client):
    box = gate.box(policy={"deny": ["evil.example"]})
    c = client(box)
    c.do("socket.getaddrinfo('web.example', 80)")
    for name, address in (("right", WEB), ("wrong", WEB2)):
        c.set(name, f"tls(connect('{address}', 443), 'web.example')")
        c.set("plain_" + name, f"connect('{address}', 80)")
        assert c.do(f"http({name}, 'web.example')") == f"HTTP/1.1 200 OK|https {address} web.example"
        assert c.do(f"http(plain_{name}, 'web.example')") == f"HTTP/1.1 200 OK|http {address} web.example"
    gate.policy(box, mode="list", allow=["web.example"])
    assert c.do("http(right, 'web.example')") == f"HTTP/1.1 200 OK|https {WEB} web.example"
    assert c.do("http(plain_right, 'web.example')") == f"HTTP/1.1 200 OK|http {WEB} web.example"
    assert "Error" in c.do("http(wrong, 'web.example')")
    assert c.do("http(plain_wrong, 'web.example')").startswith("ConnectionResetError")


def test_a_placeholder_does_not_leave_over_what_was_open_before(gate, client, world):
    if not world.connects(world.servers, OTHER, 7022):
        world.serve("s.sendall(b'hello')\nwhile True:\n  b=s.recv(100)\n  if not b: break\n  s.sendall(b)", 7022)
    box = gate.box(policy={})
    c = client(box)
    c.set("kept", f"connect('{WEB}', 80)")
    c.set("silent", f"connect('{WEB}', 80)")
    c.set("other", f"connect('{OTHER}', 7022)")
    assert c.do("http(kept, 'web.example')").startswith("HTTP/1.1 200 ")
    assert c.do("other.recv(5)") == "b'hello'"
    gate.tell(op="secrets", id=box.id, secrets=[{"name": "key", "placeholder": PLACE, "value": "v", "hosts": ["two.example"]}])
    assert c.do(f"http(kept, 'web.example', 'X-Key: {PLACE}\\r\\n')").startswith("ConnectionResetError")
    assert c.do(f"http(silent, 'web.example', 'X-Key: {PLACE}\\r\\n')").startswith("HTTP/1.1 403 ")
    assert c.do("echo(other)") == "b'x'"
    # What is open now has been looked at: the same secrets once more cut nothing.
    c.set("new", f"connect('{WEB}', 80)")
    assert c.do("http(new, 'web.example')").startswith("HTTP/1.1 200 ")
    gate.policy(box, allow=["two.example"])
    assert c.do("http(new, 'web.example')").startswith("HTTP/1.1 200 ")
