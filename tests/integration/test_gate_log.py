"""What the gate's log says, and what programs see, of everything that is refused before it is a connection: addresses that the kernel
refuses in the box, datagrams; and of connections that go to several hosts. Also clients that say nothing."""

import time

import gatelib
import pytest
from gatelib import OTHER, WEB, WEB2

CONNECT = """
import socket,sys
for address in sys.argv[1:]:
  host,_,port=address.rpartition(':')
  try:
    socket.create_connection((host.strip('[]'),int(port)),timeout=60); print('connected')
  except OSError as e:
    print(type(e).__name__)
"""
# A connected socket sees the ICMP error of the datagram before.
DATAGRAM = """
import socket,sys,select
u=socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET,socket.SOCK_DGRAM); u.settimeout(60); u.connect((sys.argv[1],int(sys.argv[2])))
try:
  u.send(b'x'*int(sys.argv[3])); print(len(u.recv(65536)))
except OSError as e:
  print(type(e).__name__)
"""


def connect(box, *addresses):
    out = box.run("/usr/bin/python3", "-c", CONNECT, *addresses)
    return out.stdout.split() or out


def datagram(box, address, port, size=1):
    out = box.run("/usr/bin/python3", "-c", DATAGRAM, address, str(port), str(size))
    return out.stdout.strip() or out


def echo(world, port, address=OTHER):
    code = ("import socket\nu=socket.socket(socket.AF_INET6 if ':' in '%s' else socket.AF_INET,socket.SOCK_DGRAM); u.bind(('%s',%d)); print('up',flush=True)\n"
            "while True:\n  d,a=u.recvfrom(65536); u.sendto(d,a)" % (address, address, port))
    server = world.start(world.servers, "/usr/bin/python3", "-c", code, stdout=-1, text=True)
    assert server.stdout.readline() == "up\n"


@pytest.mark.parametrize("address, why", [
    ("10.1.2.3", "a private address"), ("192.168.1.1", "a private address"), ("169.254.169.254", "a link-local address"),
    ("100.64.0.1", "an address of carrier-grade NAT"), ("240.0.0.1", "a reserved address"), ("fd00:ec2::254", "a private address")])
def test_addresses_that_the_kernel_refuses_are_logged(gate, address, why):
    box = gate.box("v6", policy={})
    assert connect(box, f"[{address}]:8080") == ["ConnectionRefusedError"]
    record = gate.record(address=address)
    assert (record["id"], record["port"], record["protocol"], record["decision"], record["end"]) == (box.id, 8080, "tcp", "deny", "refused")
    assert record["rule"] == f"never reachable: {why}" and "times" not in record


def test_the_reason_is_the_policy_of_the_moment(gate):
    box = gate.box(policy={"mode": "off"})
    assert connect(box, "10.1.2.3:80") == ["ConnectionRefusedError"]
    assert gate.record(address="10.1.2.3")["rule"] == "mode off"
    gate.policy(box, deny=["10.0.0.0/8"])
    assert connect(box, "10.1.2.4:80") == ["ConnectionRefusedError"]
    assert gate.record(address="10.1.2.4")["rule"] == "10.0.0.0/8"
    assert datagram(box, "198.51.100.99", 443) == "ConnectionRefusedError"
    record = gate.record(address="198.51.100.99")
    assert (record["protocol"], record["port"], record["rule"]) == ("udp", 443, "UDP needs a udp:// rule")


def test_many_refused_addresses_share_a_line_and_are_counted(gate):
    """A port scan, and another box meanwhile."""
    box, other = gate.box(policy={}), gate.box(policy={})
    scan = """
import socket
for port in range(1, 3001):
  if port == 53: continue
  s=socket.socket()
  try: s.connect(('10.9.9.9',port)); print('connected',port)
  except ConnectionRefusedError: pass
print('done')
"""
    assert box.python(scan) == "done\n"
    assert connect(other, "10.7.7.7:1") == ["ConnectionRefusedError"]
    assert gate.record(address="10.7.7.7")["id"] == other.id
    seen, lines = 0, 0
    while seen < 2999:
        record = gate.record(address="10.9.9.9")
        lines += 1
        seen += record.get("times", 1)
        assert record["id"] == box.id and record["decision"] == "deny"
    assert seen == 2999 and lines < 2999


def test_what_was_refused_while_the_gate_was_away_is_logged(gate):
    box = gate.box(policy={})
    gate.kill()
    assert connect(box, "10.1.2.3:80") == ["ConnectionRefusedError"]
    gate.start()
    # The policy comes before the box has its name; what it did before counts by it.
    gate.policy(box)
    assert box.warden.stdout.readline() == "again\n"
    assert connect(box, "10.1.2.4:80") == ["ConnectionRefusedError"]
    assert gate.record(address="10.1.2.4")["id"] == box.id


def test_a_refused_datagram_beside_a_rule_is_told(gate, world):
    echo(world, 123)
    box = gate.box("datagrams", "private", policy={"allow": [f"udp://{OTHER}:123"]})
    assert datagram(box, OTHER, 123, 900) == "900"
    assert datagram(box, OTHER, 124, 1400) == "ConnectionRefusedError"
    record = gate.record(address=OTHER, port=124)
    assert (record["protocol"], record["decision"], record["rule"]) == ("udp", "deny", "UDP needs a udp:// rule")
    assert datagram(box, "10.1.2.3", 9) == "ConnectionRefusedError"
    assert gate.record(address="10.1.2.3")["rule"] == "never reachable: a private address"


def test_datagrams_to_a_denied_name_are_refused(gate, world):
    """Where the box knows the name of the address. The log has the rule that denies the name."""
    for address in (WEB2, OTHER):
        echo(world, 129, address)
    around = "udp://198.51.100.0/24:129"
    for policy in ({"allow": [around], "deny": ["two.example:129"]},
                   {"mode": "list", "allow": [around, "two.example"], "deny": ["two.example:129"]},
                   {"allow": ["udp://two.example:129"], "deny": ["*.example:129"]},
                   {"allow": [around], "deny": ["web.example", "udp://two.example:129"]}):
        box = gate.box("datagrams", policy=policy)
        assert WEB2 in box.dig("two.example")
        assert datagram(box, WEB2, 129) == "ConnectionRefusedError"
        record = gate.record(address=WEB2, port=129)
        assert (record["name"], record["protocol"], record["decision"], record["rule"]) == ("two.example", "udp", "deny", policy["deny"][-1])
        if around in policy["allow"]:
            assert datagram(box, OTHER, 129) == "1"


def test_datagrams_to_neighbours_of_the_host_need_a_rule_that_names_them(world):
    """A rule for every name is none that names the neighbour."""
    echo(world, 131)
    gate = gatelib.Gate(world, env={"ATOLL_ONLINK": "deny"})
    try:
        for rule, wanted in (("udp://*:131", "ConnectionRefusedError"), ("udp://other.example:131", "1"), (f"udp://{OTHER}:131", "1")):
            for mode in ("open", "list"):
                box = gate.box("datagrams", policy={"mode": mode, "allow": [rule, "other.example"]})
                assert OTHER in box.dig("other.example")
                assert datagram(box, OTHER, 131) == wanted, (rule, mode)
                if wanted != "1":
                    assert gate.record(address=OTHER, port=131)["rule"] == "a neighbour of the host: a rule has to name it"
    finally:
        gate.close()


def test_an_approval_opens_a_neighbour_of_the_host_by_its_rule_alone(world):
    gate = gatelib.Gate(world, env={"ATOLL_ONLINK": "deny"})
    try:
        box = gate.box(policy={"mode": "list", "ask": True})
        process = box.start("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://web.example/", stdout=-1)
        gate.tell(op="answer", ask=gate.record(op="ask")["ask"], decision="allow")
        assert process.communicate(timeout=60)[0] == "403"
        assert "a neighbour of the host" in gate.record(op="log", port=80)["rule"]
        gate.policy(box, mode="list", ask=True, allow=["web.example:80"])
        assert box.curl("http://web.example/")[0] == 200
    finally:
        gate.close()


def test_a_flow_that_a_changed_policy_cuts_is_logged_as_denied(gate, world):
    echo(world, 127)
    box = gate.box("datagrams", policy={"allow": ["udp://other.example:127"]})
    code = """
import socket
u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); u.settimeout(60); u.connect(('other.example',127)); u.send(b'x'); print(u.recv(9),flush=True)
input()
try: u.send(b'y'); print(u.recv(9))
except OSError as e: print(type(e).__name__)
"""
    process = box.start("/usr/bin/python3", "-c", code, stdin=-1, stdout=-1)
    assert process.stdout.readline() == "b'x'\n"
    gate.policy(box, allow=["udp://other.example:127"], deny=["web.example"])
    gate.policy(box, allow=["udp://other.example:128"])
    record = gate.record(op="log", port=127)
    assert (record["name"], record["decision"], record["rule"], record["end"], record["sent"], record["received"]) == (
        "other.example", "deny", "the policy was changed", "cut by a changed policy", 1, 1)
    assert process.communicate("\n", timeout=60)[0] == "ConnectionRefusedError\n"


def test_a_closed_port_behind_a_rule_is_told(gate):
    box = gate.box("datagrams", policy={"allow": [f"udp://{OTHER}:125"]})
    assert datagram(box, OTHER, 125) == "ConnectionRefusedError"


def test_refused_datagrams_over_ipv6_are_told(gate, world):
    echo(world, 123, "2001:db8:1::10")
    box = gate.box("datagrams", "v6", policy={"allow": ["udp://[2001:db8:1::10]:123"]})
    assert datagram(box, "2001:db8:1::10", 123, 500) == "500"
    assert datagram(box, "2001:db8:1::10", 124, 1200) == "ConnectionRefusedError"
    assert gate.record(address="2001:db8:1::10", port=124)["decision"] == "deny"


def test_datagrams_count_for_the_rate(gate, world):
    echo(world, 126)
    box = gate.box("datagrams", policy={"allow": [f"udp://{OTHER}:126"], "rateBps": 65536})
    code = f"""
import socket
u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); u.connect(('{OTHER}',126))
for i in range(2000): u.send(b'x'*1000)
"""
    box.python(code)
    gate.policy(box, mode="off")  # ends the flow
    record = gate.record(port=126)
    # Two megabytes in a moment: a quarter of a second's share may come at once, and what the sending took.
    assert 0 < record["sent"] + record["received"] < 1 << 20


ASK_SEVERAL = """
import socket,sys
s=socket.create_connection(('web.example',80)); f=s.makefile('rb')
for host in sys.argv[1:]:
  s.sendall(b'GET /x HTTP/1.1\\r\\nHost: '+host.encode()+b'\\r\\n\\r\\n')
  status=f.readline().split()[1].decode(); n=0
  while (h:=f.readline())!=b'\\r\\n':
    if h.lower().startswith(b'content-length:'): n=int(h.split()[1])
  f.read(n); print(status,end=' ')
"""


def test_each_host_of_a_kept_connection_has_its_record(gate):
    box = gate.box(policy={"mode": "list", "allow": ["web.example", "two.example"]})
    hosts = ("web.example", "web.example", "two.example", "evil.example", "two.example", "web.example", "evil.example")
    out = box.run("/usr/bin/python3", "-c", ASK_SEVERAL, *hosts)
    assert out.stdout.split() == ["200", "200", "200", "403", "200", "200", "403"], out
    told = [gate.record(op="log", port=80) for _ in range(5)]
    assert [(r["name"], r["decision"], r["rule"]) for r in told] == [
        ("web.example", "allow", "web.example"), ("evil.example", "deny", "mode list: no rule in allow matches"),
        ("two.example", "allow", "two.example"), ("evil.example", "deny", "mode list: no rule in allow matches"),
        ("web.example", "allow", "web.example")]
    first, second, last = told[0], told[2], told[4]
    assert (first["address"], second["address"], last["address"]) == (WEB, WEB2, WEB)
    assert first["end"] == second["end"] == "the next request names another host" and last["end"] == "closed"
    size = len("GET /x HTTP/1.1\r\nHost: web.example\r\n\r\n")
    assert first["sent"] == 2 * size and second["sent"] >= 2 * size and last["sent"] >= size
    # Both directions over all records are the bytes of the connection: seven requests, and what is refused is counted with its neighbour.
    assert first["sent"] + second["sent"] + last["sent"] == 5 * size + 2 * (size + 1)
    assert first["received"] > 300 and second["received"] > 300


def test_the_record_of_a_connection_that_was_cut_says_why(gate, world):
    world.serve("s.recv(999)\ns.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')\nimport time\ntime.sleep(600)", 7080)
    box = gate.box(policy={"mode": "list", "allow": ["other.example:7080"]})
    code = """
import socket
s=socket.create_connection(('other.example',7080)); s.sendall(b'GET / HTTP/1.1\\r\\nHost: other.example:7080\\r\\n\\r\\n'); s.settimeout(60)
d=b''
while not d.endswith(b'ok'): d+=s.recv(99)
print(d[:15],flush=True)
try: print(s.recv(99))
except OSError as e: print(type(e).__name__)
"""
    process = box.start("/usr/bin/python3", "-c", code, stdout=-1)
    assert process.stdout.readline() == "b'HTTP/1.1 200 OK'\n"
    gate.policy(box, mode="list", allow=["web.example"])
    assert process.communicate(timeout=60)[0] == "ConnectionResetError\n"
    record = gate.record(op="log", port=7080)
    assert (record["name"], record["decision"], record["rule"], record["end"]) == (
        "other.example", "deny", "the policy was changed", "cut by a changed policy")


def test_the_record_of_a_client_that_did_not_wait_for_an_approval(gate):
    box = gate.box(policy={"mode": "list", "ask": True})
    process = box.start("/usr/bin/python3", "-c", "import socket; s=socket.create_connection(('198.51.100.10',22)); input()", stdin=-1)
    gate.record(op="ask", port=22)
    process.communicate("\n", timeout=60)
    record = gate.record(op="log", port=22)
    assert (record["decision"], record["rule"]) == ("deny", "ask: somebody has to approve it")


def test_rtsp_is_not_decided_by_names(gate, world):
    world.serve("d=s.recv(999)\ns.sendall(b'RTSP/1.0 200 OK\\r\\n\\r\\n')", 5540)
    talk = """
import socket,sys
s=socket.create_connection(('%s',5540)); s.settimeout(60)
s.sendall(b'DESCRIBE rtsp://other.example:5540/1 RTSP/1.0\\r\\nCSeq: 1\\r\\n\\r\\n')
try: print(s.recv(99))
except OSError as e: print(type(e).__name__)
"""
    box = gate.box(policy={"mode": "list", "allow": ["other.example:5540"]})
    assert box.python(talk % "other.example") == "ConnectionResetError\n"
    assert gate.record(port=5540)["rule"] == "RTSP is not decided by names: allow its address range"
    # An address decides without a look, and so it does in a box whose requests are looked at because of its secrets.
    gate.policy(box, mode="list", allow=[f"{OTHER}:5540"])
    assert "200 OK" in box.python(talk % OTHER)
    place = "atoll_" + "0123456789abcdef" * 2
    gate.tell(op="secrets", id=box.id, secrets=[{"name": "key", "placeholder": place, "value": "v", "hosts": ["two.example"]}])
    assert "200 OK" in box.python(talk % OTHER)


SILENT = """
import socket,ssl,sys
a=socket.gethostbyname('two.example'); s=socket.create_connection((a,443)); s.settimeout(60)
try: print('told', s.recv(99))
except OSError as e: print(type(e).__name__)
"""


def test_silence_decides_nothing_where_somebody_is_asked(gate):
    """A client that waits until we are tired of it gets no way around an outbound handler, nor around the look at its first bytes."""
    box = gate.box(policy={"mode": "list", "ask": True, "allow": ["two.example:443"]})
    gate.tell(op="hooks", id=box.id, http=[], https=["two.example"])
    begun = time.monotonic()
    assert box.python(SILENT) == "ConnectionResetError\n" and time.monotonic() - begun > 0.9
    record = gate.record(op="log", port=443)
    assert (record["decision"], record["end"], record["name"]) == ("deny", "the client said nothing", "two.example")
    # One that nobody decided yet is asked.
    gate.policy(box, mode="list", ask=True, askTimeout=1)
    gate.tell(op="hooks", id=box.id, http=[], https=[])
    assert box.python(SILENT) == "ConnectionResetError\n"
    assert gate.record(op="ask")["host"] == "two.example"
    assert gate.record(op="log", port=443)["rule"] == "ask: nobody approved it within 1 s"


@pytest.mark.parametrize("request_, status, why", [
    ("GET / HTTP/1.1\\r\\nHost: web.example\\r\\nHost: two.example\\r\\n\\r\\n", 400, "more than one Host"),
    ("POST / HTTP/1.1\\r\\nHost: web.example\\r\\nTransfer-Encoding: chunked\\r\\nContent-Length: 4\\r\\n\\r\\n0\\r\\n\\r\\n", 400,
     "malformed head: Content-Length can't be present"),
    ("GET / HTTP/1.1\\r\\nHost: a/b\\r\\n\\r\\n", 400, "the host is malformed"),
    ("FOO / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n", 501, "the method is not known"),
    ("GET / HTTP/1.1\\r\\nHost: web.example\\r\\nA: '+'x'*99999+'\\r\\n\\r\\n", 431, "")], ids=lambda v: str(v)[-12:])
@pytest.mark.parametrize("kept", [False, True])
def test_a_request_that_cannot_be_read_has_its_record(gate, kept, request_, status, why):
    box = gate.box(policy={"mode": "list", "allow": ["web.example"]})
    code = f"""
import socket
s=socket.create_connection(('web.example',80)); s.settimeout(60); f=s.makefile('rb')
if {kept}:
  s.sendall(b'GET / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')
  while f.readline()!=b'http {WEB} web.example\\n': pass
try: s.sendall(('{request_}').encode())
except OSError: pass
try: print(f.read().decode())
except OSError: print('reset')
"""
    out = box.python(code)
    assert f"HTTP/1.1 {status} " in out and f"\n\n{status} denied: no request that could be read: {why}" in out and "{" not in out, out
    record = gate.record(op="log", protocol="http", decision="deny")
    assert record["rule"].startswith(f"no request that could be read: {why}") and record["end"] == "refused"
    if kept:
        record = gate.record(op="log", protocol="http")
        assert (record["name"], record["decision"], record["rule"]) == ("web.example", "allow", "web.example")
    assert not [r for r in gate.records if r.get("op") == "log" and r.get("protocol") == "http"]


def test_a_connection_without_a_byte_was_not_refused(gate):
    touch = f"import socket; socket.create_connection(('{WEB}',80)).close()"
    box = gate.box(policy={"deny": ["unrelated.example"]})
    box.python(touch)
    record = gate.record(op="log", port=80)
    assert (record["decision"], record["rule"], record["end"]) == ("allow", "mode open", "the client ended")
    gate.policy(box, mode="list", allow=["web.example"])
    box.python(touch)
    record = gate.record(op="log", port=80)
    assert (record["decision"], record["rule"]) == ("deny", "mode list: no name is known for this address")
    box.python(touch.replace(WEB, "web.example"))
    record = gate.record(op="log", port=80)
    assert (record["decision"], record["rule"]) == ("allow", "web.example")


def test_the_rule_and_the_end_of_requests_that_are_looked_at(gate):
    box = gate.box(policy={"allow": [f"{WEB}/32"], "deny": ["unrelated.example"]})
    assert box.curl(f"http://{WEB}/")[0] == 200
    assert gate.record(op="log", port=80)["rule"] == f"{WEB}/32"
    status, body = box.curl(f"http://{OTHER}:7099/")
    assert status == 502 and "cannot be reached" in body
    record = gate.record(op="log", port=7099)
    assert (record["decision"], record["end"]) == ("allow", "cannot be reached")
