"""Programs in a box that open many connections and do not read: how much of the host's memory that fills, and who notices."""

import re
import subprocess

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


def test_a_byte_a_second_in_the_other_direction_keeps_nothing(gate, stall):
    """The last byte in either direction counted: so the bytes that wait stayed for as long as the box liked."""
    box = gate.box(policy={})
    stall(box, 700, TRICKLE)
    gate.world.wait(lambda: memory(gate.world.gate_space) > 64 << 20, "much waits")
    assert gate.record(end="too many bytes wait for their readers in this sandbox")["port"] == PORT
    gate.world.wait(lambda: memory(gate.world.gate_space) < 72 << 20, "the bound on what waits")
