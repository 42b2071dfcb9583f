"""The gate alone: what boxes reach through it, and what not. Servers are real (nginx, dnsmasq); the test plays warden and daemon."""

import os
import signal

import gatelib
import pytest
from gatelib import GATE, OTHER, WEB, WEB2


def test_open_reaches_servers_by_name_and_address(gate):
    box = gate.box(policy={})
    assert box.curl("http://web.example/x") == (200, f"http {WEB} web.example\n")
    assert box.curl("https://web.example/x") == (200, f"https {WEB} web.example\n")
    assert box.curl(f"http://{WEB2}:8080/") == (200, f"http {WEB2} {WEB2}\n")
    record = gate.record(port=443)
    assert record["name"] == "web.example" and record["decision"] == "allow" and record["rule"] == "mode open"
    assert record["received"] > 500 and record["sent"] > 300 and record["end"] == "closed"


def test_resolver_answers_at_every_address_with_every_type(gate):
    box = gate.box(policy={})
    assert box.dig("web.example", "+short").strip() == WEB
    out = box.dig("web.example", "@8.8.8.8")
    assert "SERVER: 8.8.8.8#53" in out and WEB in out
    assert WEB in box.dig("web.example", "+tcp", "@10.9.9.9", "+short")
    assert "hello there" in box.dig("text.example", "TXT", "+short")
    assert "10 mail.web.example." in box.dig("web.example", "MX", "+short")
    assert "0 0 80 web.example." in box.dig("_x._tcp.web.example", "SRV", "+short")
    assert "web.example." in box.dig("10.100.51.198.in-addr.arpa", "PTR", "+short")
    assert f"web.example.\n{WEB}" in box.dig("alias.example", "+short")
    assert "NXDOMAIN" in box.dig("missing.example")
    assert WEB in box.dig("from-hosts.example", "+short")
    assert "NOTIMP" in box.dig("web.example", "ANY", "+notcp")


def test_list_decides_tls_by_sni_and_http_by_host(gate):
    box = gate.box(policy={"mode": "list", "allow": ["web.example", "*.web.example:443"]})
    assert box.curl("https://web.example/")[0] == 200
    assert box.curl("https://www.web.example/")[0] == 200
    assert box.curl("http://web.example/")[0] == 200
    status, body = box.curl("http://two.example/", "--resolve", f"two.example:80:{WEB}")
    assert status == 403 and body.startswith("403 denied: this sandbox may not reach two.example port 80")
    status, body = box.curl("https://two.example/", "--resolve", f"two.example:443:{WEB}")
    assert status == -35 and "alert access denied" in body, body
    assert gate.record(name="two.example", protocol="tls")["decision"] == "deny"
    # The wrong port, and no name at all.
    assert box.curl("http://web.example:8080/")[0] == 403
    assert box.curl(f"http://{WEB}/")[0] == 403
    assert box.curl(f"https://{WEB}/", "-k")[0] == -35


def test_list_dials_what_it_resolved_itself(gate):
    """The box may claim any address for an allowed name: the name's own is used."""
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    for address in (WEB2, "203.0.113.77"):
        assert box.curl("https://web.example/", "--resolve", f"web.example:443:{address}") == (200, f"https {WEB} web.example\n")
        assert box.curl("http://web.example/", "--resolve", f"web.example:80:{address}") == (200, f"http {WEB} web.example\n")


def test_names_outside_the_list_never_leave_the_host(gate, world):
    box = gate.box(policy={"mode": "list", "allow": ["web.example"], "deny": ["bad.web.example"]})
    for name, kind in (("secret-data.evil.example", "A"), ("secret-text.evil.example", "TXT"),
                       ("secret-tcp.evil.example", "A"), ("secret-sub.web.example", "A")):
        out = box.dig(name, kind, *(("+tcp",) if "tcp" in name else ()))
        assert "NXDOMAIN" in out and "EDE: 15 (Blocked)" in out, out
    assert "NXDOMAIN" in box.dig("7.113.0.203.in-addr.arpa", "PTR")
    assert "secret" not in world.dns_log.read_text() and "203.in-addr" not in world.dns_log.read_text()
    assert gate.record(name="secret-text.evil.example")["rule"] == "mode list: no rule in allow matches"


@pytest.mark.parametrize("address", ["10.0.0.7", "169.254.169.254", "192.168.1.1", "100.64.0.1", GATE, "127.0.0.2", "172.16.5.5"])
def test_never_reachable_addresses(gate, address):
    box = gate.box("private", policy={})
    status, body = box.curl(f"http://{address}:8700/")
    assert status == (-7 if address.startswith("127.") else 403), body
    if status == 403:
        assert "never reachable" in body


def test_odd_spellings_arrive_as_addresses(gate):
    box = gate.box("private", policy={})
    for host in ("0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518"):
        assert box.curl(f"http://{host}/")[0] == 403
    assert box.curl("http://127.1/")[0] == -7


@pytest.mark.parametrize("address", [
    "::ffff:169.254.169.254", "::ffff:10.0.0.7", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.7", "2002:a9fe:a9fe::1", "fd00::1", "fe80::1", "fd00:ec2::254",
    "ff02::1", "2001:0:a9fe:a9fe::1", "2001:db8:1::1"])  # the last one is the gate's own
def test_ipv6_forms_of_what_is_never_reachable(gate, address):
    box = gate.box("v6", "private", policy={})
    status, body = box.curl(f"http://[{address}]/")
    assert status in (403, -7), (status, body)
    assert status != 403 or "never reachable" in body
    assert box.curl("http://[2001:db8:1::10]/")[0] == 200


def test_names_that_lead_inside_have_no_addresses(gate):
    box = gate.box("private", policy={"mode": "list", "allow": ["*"]})
    for name in ("inside.example", "meta.example", "gate.example"):
        out = box.dig(name)
        assert "ANSWER: 0" in out and "NOERROR" in out
        assert box.curl(f"http://{name}/", "--resolve", f"{name}:80:{WEB}")[0] == 403


def test_an_address_rule_opens_a_private_range(gate, world):
    world.servers.ip("addr", "add", "10.77.0.1/32", "dev", "lo")
    box = gate.box("private", policy={"mode": "list", "allow": ["10.77.0.0/16:8080"]})
    assert box.curl("http://10.77.0.1:8080/") == (200, "http 10.77.0.1 10.77.0.1\n")
    assert box.curl("http://10.77.0.1:80/")[0] == 403
    assert box.curl("http://10.78.0.1:8080/")[0] == 403


def test_what_an_address_allows_only_a_denied_name_can_refuse(gate, world):
    box = gate.box(policy={"mode": "list", "allow": [WEB], "deny": ["two.example", "two.example:8080"]})
    for url in ("http://web.example/", f"http://{WEB}/", "http://web.example:8080/", "https://web.example/"):
        assert box.curl(url, "--resolve", f"web.example:80:{WEB}", "--resolve", f"web.example:8080:{WEB}",
                        "--resolve", f"web.example:443:{WEB}")[0] == 200, url
    for url in ("http://two.example/", "https://two.example/", "http://two.example:8080/"):
        port = url.count("8080") and 8080 or (443 if url.startswith("https") else 80)
        status, body = box.curl(url, "--resolve", f"two.example:{port}:{WEB}")
        assert status == (-35 if port == 443 else 403), (url, body)
    assert gate.record(decision="deny", protocol="http")["rule"] == "two.example"
    gate.record(decision="allow", name="web.example", rule=WEB, protocol="http")
    # Another address is still decided by the list.
    assert box.curl("http://web.example/", "--resolve", f"web.example:80:{WEB2}")[0] == 403


def test_a_range_keeps_what_is_open_when_a_name_is_denied(gate):
    box = gate.box(policy={"mode": "list", "allow": [WEB], "deny": ["evil.example"]})
    code = """
import http.client,sys
c=http.client.HTTPConnection('198.51.100.10',timeout=60)
def ask(): c.request('GET','/',headers={'Host':'web.example'}); r=c.getresponse(); r.read(); return r.status
print(ask(), flush=True); sys.stdin.readline(); print(ask())
"""
    process = box.start("/usr/bin/python3", "-c", code, stdin=-1, stdout=-1)
    assert process.stdout.readline() == "200\n"
    gate.policy(box, mode="list", allow=[WEB], deny=["evil.example", "two.example"])
    assert process.communicate("\n")[0] == "200\n"


SLOW_SIX = """
import socket, threading
u=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('198.51.100.30', 53)); print('up', flush=True)
while True:
  q,a=u.recvfrom(512); n=q.index(b'\\0',12)+5; four=q[n-3]==1
  head=q[:2]+b'\\x81\\x80\\0\\1\\0'+(b'\\1' if four else b'\\0')+b'\\0\\0\\0\\0'+q[12:n]
  answer=head+(b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4'+bytes([198,51,100,10]) if four else b'')
  threading.Timer(0 if four else 1.5, u.sendto, (answer, a)).start()
"""


def test_an_address_that_expires_while_the_other_family_is_asked_is_asked_again(world):
    """The answer with addresses is good for a second, the one without them takes longer."""
    server = world.start(world.servers, "/usr/bin/python3", "-c", SLOW_SIX, stdout=-1, text=True)
    assert server.stdout.readline() == "up\n"
    before = world.resolv.read_text()
    world.resolv.write_text(f"nameserver {OTHER}\n")
    gate = gatelib.Gate(world)
    try:
        box = gate.box(policy={"mode": "list", "allow": ["slow.example"]})
        assert box.curl("http://slow.example/", "--resolve", f"slow.example:80:{WEB2}") == (200, f"http {WEB} slow.example\n")
    finally:
        gate.close()
        world.resolv.write_text(before)
        server.kill()


def listen_on_the_host(world, address, datagrams=False):
    """A server beside the gate that answers everybody; `address` may come later."""
    code = ("import socket,sys\ns=socket.socket(socket.AF_INET6 if ':' in '%(a)s' else socket.AF_INET, socket.%(k)s)\n"
            "s.setsockopt(socket.SOL_IP,15,1)\ns.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\ns.bind(('%(a)s',9999))\n"
            % {"a": address, "k": "SOCK_DGRAM" if datagrams else "SOCK_STREAM"})
    code += ("print('up',flush=True)\nwhile True:\n  d,a=s.recvfrom(99); s.sendto(b'host',a)" if datagrams else
             "s.listen()\nprint('up',flush=True)\nwhile True:\n  c,_=s.accept(); c.recv(99); c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nhost'); c.close()")
    process = world.start(world.gate_space, "/usr/bin/python3", "-c", code, stdout=-1, text=True)
    assert process.stdout.readline() == "up\n"


@pytest.mark.parametrize("address,route", [
    ("192.0.2.7", ("192.0.2.0/24",)), ("192.0.2.7", ("192.0.2.0/24", "src", GATE)), ("2001:db8:77::7", ("2001:db8:77::/48",))])
def test_a_range_that_is_the_hosts_is_never_reachable(gate, world, address, route):
    family = "-6" if ":" in address else "-4"
    host = f"[{address}]" if ":" in address else address
    world.gate_space.ip(family, "route", "add", "local", route[0], "dev", "lo", *route[1:])
    try:
        listen_on_the_host(world, "::" if ":" in address else "0.0.0.0")
        box = gate.box("v6", policy={})
        status, body = box.curl(f"http://{host}:9999/")
        assert status == 403 and "never reachable: an address of the host" in body, body
        assert gate.record(port=9999)["rule"] == "never reachable: an address of the host"
        # A rule for the address opens it, as any other that is never reachable.
        gate.policy(box, allow=[f"{host}:9999"])
        assert box.curl(f"http://{host}:9999/") == (200, "host")
    finally:
        world.gate_space.ip(family, "route", "del", "local", route[0], "dev", "lo")
        world.processes[-1].kill()


def test_an_address_that_the_host_gets_is_never_reachable_at_once(gate, world):
    listen_on_the_host(world, "192.0.2.99")
    box = gate.box(policy={})
    assert box.curl(f"http://{WEB}/")[0] == 200  # the list of addresses has been read just now
    world.gate_space.ip("addr", "add", "192.0.2.99/32", "dev", "lo")
    try:
        status, body = box.curl("http://192.0.2.99:9999/")
        assert status == 403 and "never reachable: an address of the host" in body, body
    finally:
        world.gate_space.ip("addr", "del", "192.0.2.99/32", "dev", "lo")
        world.processes[-1].kill()


def test_an_address_that_became_the_hosts_is_not_dialled_for_a_kept_connection(gate, world):
    """Decided in mode open, kept, and dialled again for the next request: the address is looked at again."""
    listen_on_the_host(world, "192.0.2.99")
    world.servers.ip("addr", "add", "192.0.2.99/32", "dev", "lo")
    world.serve("""
while True:
  q = s.recv(9999)
  if not q: break
  s.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\nfar\\n')
  s.close(); break
""", 9999, "192.0.2.99")
    box = gate.box(policy={"deny": ["evil.example"]})
    asks = ("import http.client\nc=http.client.HTTPConnection('192.0.2.99',9999,timeout=60)\n"
            "def get():\n c.request('GET','/',headers={'Host':'far.example:9999'}); r=c.getresponse(); print(r.status, r.read().decode().strip(), flush=True)\n"
            "get(); input(); get()")
    process = box.start("/usr/bin/python3", "-c", asks, stdin=-1, stdout=-1, stderr=-1)
    assert process.stdout.readline() == "200 far\n"
    world.gate_space.ip("addr", "add", "192.0.2.99/32", "dev", "lo")
    try:
        out, errors = process.communicate("\n", timeout=60)
        assert out.startswith("403 ") and "never reachable: an address of the host" in out, out + errors
    finally:
        world.gate_space.ip("addr", "del", "192.0.2.99/32", "dev", "lo")
        world.servers.ip("addr", "del", "192.0.2.99/32", "dev", "lo")


def test_what_is_known_of_a_route_ends_with_any_change_of_it(gate, world):
    """The gate keeps answers about routes. Whatever makes an address the host's, or takes it away, counts for the next connection."""
    listen_on_the_host(world, "192.0.2.98")
    world.servers.ip("addr", "add", "192.0.2.98/32", "dev", "lo")
    world.serve("s.recv(9999); s.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nfar'); s.close()", 9999, "192.0.2.98")
    world.gate_space.ip("route", "add", "local", "192.0.2.0/24", "dev", "lo", "table", "77")
    box = gate.box(policy={})
    try:
        for what, *how in (("addr", "192.0.2.98/32", "dev", "lo"), ("route", "local", "192.0.2.0/24", "dev", "lo"),
                           ("rule", "to", "192.0.2.98", "lookup", "77", "pref", "10")):
            assert [box.curl("http://192.0.2.98:9999/") for _ in range(2)] == [(200, "far")] * 2
            world.gate_space.ip(what, "add", *how)
            try:
                status, body = box.curl("http://192.0.2.98:9999/")
                assert status == 403 and "never reachable: an address of the host" in body, (what, status, body)
            finally:
                world.gate_space.ip(what, "del", *how)
        assert box.curl("http://192.0.2.98:9999/") == (200, "far")
    finally:
        world.gate_space.ip("route", "del", "local", "192.0.2.0/24", "dev", "lo", "table", "77")
        world.servers.ip("addr", "del", "192.0.2.98/32", "dev", "lo")
        for server in world.processes[-2:]:
            server.kill()


def test_datagrams_to_a_range_that_is_the_hosts(gate, world):
    world.gate_space.ip("route", "add", "local", "192.0.2.0/24", "dev", "lo")
    try:
        listen_on_the_host(world, "192.0.2.7", datagrams=True)
        ask = ("import socket; u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); u.settimeout(60); u.connect(('192.0.2.7',9999)); "
               "u.send(b'x'); print(u.recv(99))")
        box = gate.box("datagrams", policy={"allow": ["udp://other.example:123"]})
        assert "ConnectionRefusedError" in box.run("/usr/bin/python3", "-c", ask).stderr
        assert gate.record(port=9999, protocol="udp")["rule"] == "never reachable: an address of the host"
        gate.policy(box, allow=["udp://192.0.2.7:9999"])
        assert box.python(ask) == "b'host'\n"
    finally:
        world.gate_space.ip("route", "del", "local", "192.0.2.0/24", "dev", "lo")
        world.processes[-1].kill()


def test_idle_connections_hold_no_pipes(gate, world):
    """Long reads go through a pipe. It is given back when nothing more comes, however the last read ended."""
    world.serve("s.recv(1); s.sendall(bytes(1<<20)); s.recv(1)", 2600)
    code = ("import socket\nall=[]\nfor i in range(30):\n  s=socket.create_connection(('%s',2600)); s.sendall(b'x'); left=1<<20\n"
            "  while left: left-=len(s.recv(left))\n  all.append(s)\nprint('open',flush=True); input()" % OTHER)
    process = gate.box(policy={}).start("/usr/bin/python3", "-c", code, stdin=-1, stdout=-1)
    assert process.stdout.readline() == "open\n"
    fds = f"/proc/{gate.pid}/fd"
    pipes = [fd for fd in os.listdir(fds) if os.readlink(f"{fds}/{fd}").startswith("pipe:")]
    process.kill()
    process.wait()
    assert len(pipes) <= 8, len(pipes)  # those of ways that were in use at the same time


def test_servers_that_speak_first(gate, world):
    world.serve("s.sendall(b'220 hello\\r\\n'); s.sendall(b'you said '+s.recv(99)); s.close()", 2525)
    code = ("import socket; s=socket.create_connection(('other.example',2525)); b=s.recv(9); s.sendall(b'EHLO me'); "
            "print(b.decode().strip(), s.makefile().read())")
    open_box = gate.box(policy={})
    assert open_box.python(code).split() == "220 hello you said EHLO me".split()
    # With a name rule for that port, and with deny rules that have to be looked at.
    assert gate.box(policy={"mode": "list", "allow": ["other.example:2525"]}).python(code).split() == "220 hello you said EHLO me".split()
    assert gate.box(policy={"deny": ["bad.example"]}).python(code).split() == "220 hello you said EHLO me".split()
    # A bare name means HTTP and TLS on their ports.
    box = gate.box(policy={"mode": "list", "allow": ["other.example"]})
    out = box.run("/usr/bin/python3", "-c", code)
    assert "ConnectionResetError" in out.stderr, out.stderr


def test_half_close_and_big_answers(gate, world):
    world.serve("n=0\nwhile True:\n  b=s.recv(65536)\n  if not b: break\n  n+=len(b)\ns.sendall(str(n).encode()+b'y'*5000000); s.close()", 7001)
    box = gate.box(policy={})
    code = """
import socket
s=socket.create_connection(('other.example',7001))
for i in range(300): s.sendall(b'x'*20001)
s.shutdown(socket.SHUT_WR)
b=b''
while True:
  p=s.recv(65536)
  if not p: break
  b+=p
print(b[:7].decode(), len(b))
"""
    assert box.python(code).split() == ["6000300", "5000007"]
    record = gate.record(port=7001)
    assert (record["sent"], record["received"]) == (6000300, 5000007)


def test_a_client_that_has_left_ends_the_connection(gate, world):
    """The server keeps its side open for ever. A client that only says no more (shutdown) still gets what comes."""
    world.serve("while s.recv(65536): pass\ns.sendall(b'late')\nthreading.Event().wait()", 7093)
    box = gate.box(policy={})
    code = "import socket\ns=socket.create_connection(('other.example',7093)); s.sendall(b'all of it')\n"
    box.python(code + "s.close()")
    record = gate.record(port=7093)
    assert (record["end"], record["sent"]) == ("closed", 9)
    assert box.python(code + "s.shutdown(socket.SHUT_WR); print(s.recv(4).decode())") == "late\n"


def test_resets_pass_through(gate, world):
    world.serve("import struct\ns.recv(1)\ns.setsockopt(socket.SOL_SOCKET,socket.SO_LINGER,struct.pack('ii',1,0)); s.close()", 7002)
    box = gate.box(policy={})
    out = box.run("/usr/bin/python3", "-c", "import socket; s=socket.create_connection(('other.example',7002)); s.sendall(b'x'); s.recv(1)")
    assert "ConnectionResetError" in out.stderr
    assert gate.record(port=7002)["end"] == "the server reset"


def test_what_cannot_be_reached(gate):
    box = gate.box(policy={})
    status, body = box.curl("http://other.example:81/")
    assert status == 502 and "cannot be reached: Connection refused" in body
    assert box.curl("https://other.example:444/")[0] in (-35, -56)
    listed = gate.box(policy={"mode": "list", "allow": ["other.example:81"]})
    assert listed.curl("http://other.example:81/")[0] == 502


def test_ipv6_and_families_in_turns(gate):
    box = gate.box("v6", policy={})
    assert "2001:db8:1::10" in box.dig("six.example", "AAAA", "+short")
    # Its IPv4 address is dead; the client asks for that one.
    assert box.curl("https://six.example/", "--resolve", "six.example:443:198.51.100.99")[0] in (-28, -35, -56)
    assert box.curl("https://six.example/", "-4")[0] == 200
    assert box.curl("http://[2001:db8:1::10]/")[0] == 200


def test_requests_on_a_kept_connection_are_decided_each(gate):
    box = gate.box(policy={"mode": "list", "allow": ["web.example", "two.example"]})
    code = """
import socket
s=socket.create_connection(('web.example',80))
f=s.makefile('rb')
def ask(host, more=b''):
  s.sendall(b'GET / HTTP/1.1\\r\\nHost: '+host+b'\\r\\n'+more+b'\\r\\n')
  status=f.readline().split()[1].decode(); n=0
  while True:
    h=f.readline()
    if h==b'\\r\\n': break
    if h.lower().startswith(b'content-length:'): n=int(h.split()[1])
  return status, f.read(n).decode()
print(ask(b'web.example'))
print(ask(b'two.example'))
print(ask(b'evil.example'))
print(ask(b'web.example'))
"""
    lines = box.python(code).splitlines()
    assert lines[0] == str(("200", f"http {WEB} web.example\n")) and lines[1] == str(("200", f"http {WEB2} two.example\n"))
    assert lines[2].startswith("('403', '403 denied:") and lines[3] == lines[0]
    assert gate.record(name="evil.example", decision="deny")


@pytest.mark.parametrize("smuggled", [
    b"POST / HTTP/1.1\r\nHost: web.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: web.example\r\nHost: evil.example\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : evil.example\r\nHost: web.example\r\n\r\n",
    b"GET / HTTP/1.1\nHost: web.example\n\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    b"CONNECT 198.51.100.20:443 HTTP/1.1\r\nHost: 198.51.100.20:443\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: web.example:8080\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
])
def test_smuggled_requests_are_refused(gate, world, smuggled):
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    before = (world.tmp / "nginx.log").read_text()
    code = (f"import socket; s=socket.create_connection(('web.example',80)); s.sendall({smuggled!r}); s.settimeout(60); "
            "print(s.makefile('rb').readline().decode())")
    answer = box.python(code)
    assert answer.split()[1][0] in "45", answer
    assert (world.tmp / "nginx.log").read_text() == before


def test_uploads_and_downloads_through_both_ways(gate, world):
    for policy in ({}, {"mode": "list", "allow": ["web.example"]}):
        box = gate.box(policy=policy)
        for scheme in ("http", "https"):
            out = box.run("sh", "-c", f"curl -sS --cacert {world.tmp}/cert.pem {scheme}://web.example/big | sha256sum", timeout=60).stdout
            want = gatelib.run("sha256sum", str(world.tmp / "site/big")).stdout
            assert out.split()[0] == want.split()[0]


def test_a_changed_policy_counts_at_once(gate, world):
    world.serve("while True:\n  b=s.recv(100)\n  if not b: break\n  s.sendall(b)", 7003)
    box = gate.box(policy={})
    code = """
import socket,sys
s=socket.create_connection(('other.example',7003)); s.sendall(b'x'); assert s.recv(1)==b'x'
print('connected', flush=True); sys.stdin.readline()
try: print(repr(s.recv(1)))
except ConnectionResetError: print('reset')
"""
    process = box.start("/usr/bin/python3", "-c", code, stdin=-1, stdout=-1)
    assert process.stdout.readline() == "connected\n"
    gate.policy(box, mode="list", allow=["web.example"])
    assert gate.record(port=7003)["end"] == "cut by a changed policy"
    assert process.communicate("\n")[0] == "reset\n"
    assert box.curl("https://web.example/")[0] == 200
    gate.policy(box, mode="off")
    assert box.curl("https://web.example/")[0] != 200


def test_connections_wait_for_a_policy(gate):
    box = gate.box()
    process = box.start("curl", "-sS", "http://198.51.100.10/", stdout=-1)
    gate.policy(box)
    assert process.communicate(timeout=120)[0].startswith("http")


@pytest.mark.parametrize("before", [
    [{"op": "synced"}],  # atolld has just connected, and told all sandboxes that it had by then
    [{"op": "forget", "id": "same"}]])  # the sandbox was destroyed, and is made again
def test_a_name_that_comes_before_its_policy_stays(gate, before):
    gate.policy("same", mode="off")
    # The gate sees the warden's record first, then all lines of the daemon at once.
    os.kill(gate.pid, signal.SIGSTOP)
    box = gate.box(name="new" if before[0]["op"] == "synced" else "same")
    for line in before:
        gate.say(**line)
    gate.say(op="policy", id=box.id)
    os.kill(gate.pid, signal.SIGCONT)
    assert WEB in box.dig("web.example", "+short")
    assert box.curl("https://web.example/")[0] == 200


@pytest.mark.parametrize("how", ["+notcp", "+tcp"])
def test_questions_wait_for_a_policy(gate, how):
    box = gate.box()
    process = box.start("dig", "+short", "+time=60", "+tries=1", how, "web.example", stdout=-1)
    kind = "udp" if how == "+notcp" else "tcp"

    def waits():  # bytes that arrived in a socket and were not read
        rows = box.run("cat", f"/proc/net/{kind}", f"/proc/net/{kind}6").stdout.splitlines()
        return any(int(row.split()[4].split(":")[1], 16) for row in rows if "sl" not in row)
    gate.world.wait(waits, "the question", 60)
    gate.policy(box)
    assert process.communicate(timeout=120)[0] == WEB + "\n"


def test_a_killed_gate_comes_back(gate, world):
    world.serve("s.recv(1)", 7004)
    box = gate.box(policy={})
    assert box.curl("http://web.example/")[0] == 200
    gate.kill()
    process = box.start("curl", "-sS", "http://198.51.100.10/", stdout=-1)
    gate.start()
    assert box.warden.stdout.readline() == "again\n"
    gate.policy(box)
    assert process.communicate(timeout=120)[0].startswith("http")
    assert box.curl("http://web.example/")[0] == 200


def test_datagrams_need_a_rule(gate, world):
    code = ("import socket\nu=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); u.bind(('%s',123)); print('up',flush=True)\n"
            "while True:\n  d,a=u.recvfrom(9999); u.sendto(b'got '+d,a)" % OTHER)
    server = world.start(world.servers, "/usr/bin/python3", "-c", code, stdout=-1, text=True)
    assert server.stdout.readline() == "up\n"
    ask = ("import socket; a=socket.gethostbyname('other.example'); u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); "
           "u.settimeout(%s); u.sendto(b'time',(a,123)); print(u.recvfrom(99))")
    box = gate.box("datagrams", policy={"allow": ["udp://other.example:123"]})
    assert box.python(ask % 60).strip() == str((b"got time", (OTHER, 123)))
    box = gate.box("datagrams", policy={"mode": "open"})
    assert "timed out" in box.run("/usr/bin/python3", "-c", ask % 1).stderr


@pytest.mark.parametrize("questions", [3, 12, 40, 200])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_pipelined_questions_have_whole_answers(gate, questions, cached, ends):
    """Over one connection, while nothing is read: what has no room for its answer waits, and goes on when it has."""
    box = gate.box(policy={})
    if cached:
        assert "ANSWER: 40" in box.dig("big.example", "TXT", "+tcp")
    code = f"""
import socket,struct
def q(i):
  m=struct.pack('>6H',i,256,1,0,0,0)+b'\\x03big\\x07example\\0\\0\\x10\\0\\1'
  return struct.pack('>H',len(m))+m
s=socket.socket(); s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,4096); s.settimeout(60); s.connect(('192.0.0.1',53))
s.sendall(b''.join(q(i) for i in range({questions})))
if {ends}: s.shutdown(socket.SHUT_WR)
f=s.makefile('rb'); got={{}}
for i in range({questions}):
  m=f.read(struct.unpack('>H',f.read(2))[0]); got[m[0]<<8|m[1]]=(len(m),m[3]&15,m[7])
assert sorted(got)==list(range({questions})),got
print(set(got.values()))
if {ends}: assert f.read()==b''
else:
  s.sendall(q(999)); m=f.read(struct.unpack('>H',f.read(2))[0]); assert m[:2]==b'\\x03\\xe7'
"""
    assert box.python(code).strip() == "{(10269, 0, 40)}"


def test_a_rate_is_kept(gate):
    box = gate.box(policy={"rateBps": 4 << 20})
    out = box.run("curl", "-sS", "-o", "/dev/null", "-w", "%{speed_download}", "http://web.example/big").stdout
    assert float(out) < 8 << 20


def test_a_box_is_held_to_its_connections(gate, world):
    world.serve("s.recv(1)", 7005)
    box = gate.box(policy={"maxConnections": 5})
    other = gate.box(policy={})
    code = """
import socket,time
a=[socket.create_connection(('198.51.100.30',7005)) for i in range(50)]
print('connected', flush=True); input()
"""
    process = box.start("/usr/bin/python3", "-c", code, stdin=-1, stdout=-1)
    assert process.stdout.readline() == "connected\n"
    assert other.curl("http://web.example/")[0] == 200
    assert gatelib.run("nsenter", f"--net={world.servers.path}", "ss", "-tnH", "state", "established", "sport", "=", ":7005").stdout.count("\n") == 5
    process.communicate("\n")
    assert box.curl("http://web.example/")[0] == 200


def test_questions_have_a_rate(gate):
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    code = """
import socket,struct
u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); u.connect(('192.0.0.1',53)); u.settimeout(1)
n=0
for i in range(10000):
  u.send(struct.pack('>6H',i,256,1,0,0,0)+b'\\x05n%04d\\x04evil\\x07example\\0\\0\\1\\0\\1'%(i%10000))
try:
  while True: u.recv(999); n+=1
except TimeoutError: print(n)
"""
    assert int(box.python(code)) < 4000


FAR = "203.0.113.9"


@pytest.fixture(scope="module")
def far(world):
    """An address behind the gateway, as the others are neighbours of the host."""
    world.servers.ip("addr", "add", FAR + "/32", "dev", "lo")


@pytest.mark.parametrize("wish, status", [("deny", 403), ("allow", 200), ("", 200)])
def test_neighbours_of_the_host_need_a_rule_that_names_them(world, far, wish, status):
    """Hosts of a data centre share a network with public addresses. Rules are of any kind: an address, a name, in any mode."""
    gate = gatelib.Gate(world, env={"ATOLL_ONLINK": wish})
    try:
        for policy in ({}, {"deny": ["evil.example"]}, {"allow": ["*"]}, {"allow": ["two.example"]}, {"allow": ["web.example:8443"]}):
            box = gate.box(policy=policy)
            for url in ("http://web.example/", f"http://{WEB}/"):
                got, body = box.curl(url)
                assert got == status and (status == 200 or "a neighbour of the host: a rule has to name it" in body), (policy, url, got, body)
            assert box.curl(f"http://{FAR}/") == (200, f"http {FAR} {FAR}\n")
        assert gate.box(policy={"mode": "list", "allow": ["*"]}).curl("http://web.example/")[0] == status
        for policy in ({"allow": ["web.example"]}, {"mode": "list", "allow": ["web.example"]}, {"allow": [WEB]}, {"allow": ["*.example"]}):
            box = gate.box(policy=policy)
            for url in ("http://web.example/", "https://web.example/"):
                assert box.curl(url)[0] == 200, (policy, url)
        # A name that has a rule opens its own addresses, not those that the box claims for it.
        claimed = gate.box(policy={"allow": ["web.example"]}).curl("http://web.example/", "--resolve", f"web.example:80:{WEB2}")[1]
        assert claimed.split()[1] == (WEB if wish == "deny" else WEB2)
    finally:
        gate.close()
