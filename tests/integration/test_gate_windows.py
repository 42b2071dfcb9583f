"""Programs in a box that open many connections and do not read: how much of the host's memory that fills, and who notices."""

import re
import subprocess
from pathlib import Path

import gatelib
import pytest
from gatelib import OTHER

ALONE = "fills buffers of TCP, which are the host's, and judges how full they are"

PORT, ECHO = 9760, 9761
CLIENT = f"""
import socket, sys
conns = [socket.create_connection(({OTHER!r}, {PORT})) for _ in range(int(sys.argv[1]))]
print('open', flush=True)
sys.stdin.read()
"""
TRICKLE = f"""
import socket, sys, time
conns = [socket.create_connection(({OTHER!r}, {PORT})) for _ in range(int(sys.argv[1]))]
print('open', flush=True)
while True:
    for c in conns:
        try:
            c.send(b'x')
        except OSError:
            pass
    time.sleep(1)
"""


@pytest.fixture(scope="module")
def world(world):
    world.serve("data = bytes(1 << 20)\nwhile True: s.sendall(data)", PORT)
    world.serve("while b := s.recv(100): s.sendall(b)", ECHO)
    return world


@pytest.fixture
def stall(gate):
    """Opens connections whose answers nobody reads."""
    processes = []

    def start(box, n, client=CLIENT):
        process = box.start("/usr/bin/python3", "-c", client, str(n), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout.readline() == "open\n"
    yield start
    for process in processes:
        process.kill()
        process.wait()


def memory(space):
    """Bytes of all TCP sockets in a namespace: received and not read, sent and not taken."""
    out = subprocess.run(space.argv("ss", "-tmnH"), capture_output=True, text=True, check=True).stdout
    return sum(int(r) + int(w) for r, w in re.findall(r"skmem:\(r(\d+),rb\d+,t\d+,tb\d+,f\d+,w(\d+)", out))


def settled(gate):
    """What the gate holds when it holds no more than a moment ago."""
    last = -1
    while (now := memory(gate.world.gate_space)) > last:
        last = now
        gatelib.run("sleep", "1")
    return last


def test_connections_that_stop_reading_fill_little(gate, stall):
    """100 of them filled 1.5 GB."""
    box, other = gate.box(policy={}), gate.box(policy={})
    stall(box, 100)
    assert settled(gate) < 400 << 20
    # The more there are, the less each of them may hold; what is more than 64 MiB all the same is taken away when it stands still.
    stall(box, 500)
    assert gate.record(end="too many bytes wait for their readers in this sandbox")["port"] == PORT
    gate.world.wait(lambda: memory(gate.world.gate_space) < 72 << 20, "the bound on what waits")
    out = other.python(f"import socket\ns = socket.create_connection(({OTHER!r}, {ECHO}))\ns.sendall(b'x')\nprint(s.recv(1))")
    assert out == "b'x'\n"


def low_mark():
    return int(Path("/proc/sys/net/ipv4/tcp_mem").read_text().split()[0]) * 4096


@pytest.mark.skipif(low_mark() / 4 > 400 << 20, reason="this host has so much memory for TCP that one box does not make it short")
def test_a_box_that_holds_little_keeps_it_while_another_one_makes_the_host_short(gate, stall):
    """Every box with 8 MiB lost connections for what two others had filled."""
    quiet, loud = gate.box(policy={}), gate.box(policy={})
    stall(quiet, 20)
    assert 8 << 20 < settled(gate) < 64 << 20, "more than the least that is kept, less than a part"
    stall(loud, 1000)
    gate.world.wait(lambda: "short=1" in gate.log(), "the host is short")
    assert gate.record(end="too many bytes wait for their readers in this sandbox")["id"] == loud.id
    gate.world.wait(lambda: memory(gate.world.gate_space) < 100 << 20, "the loud box has given back what is too much")
    ends = [r for r in gate.records if r.get("end") and r["id"] == quiet.id]
    assert not ends, f"{ends}\n{gate.log()}"


def test_a_byte_a_second_in_the_other_direction_keeps_nothing(gate, stall):
    """The last byte in either direction counted: so the bytes that wait stayed for as long as the box liked."""
    box = gate.box(policy={})
    stall(box, 700, TRICKLE)
    gate.world.wait(lambda: memory(gate.world.gate_space) > 64 << 20, "much waits")
    assert gate.record(end="too many bytes wait for their readers in this sandbox")["port"] == PORT
    gate.world.wait(lambda: memory(gate.world.gate_space) < 72 << 20, "the bound on what waits")
