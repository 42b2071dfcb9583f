"""More connections than the gate has room for: who gets one, who loses one, and what they may take of the gate's descriptors. The
gate may open few files here, so that few connections fill it."""

import os
import pathlib
import re
import subprocess

import gatelib
import pytest
from gatelib import OTHER

ALONE = "fills a gate to its last descriptor and judges who is served"

FILES = 1300
PORT = 9750
#: Connections of a box, driven by lines: `open N` opens and greets that many, `hear N` waits for the answers of all but the last N,
#: `say I` is answered on one, `ended I` waits for the end of one, `big N` asks for much and reads nothing.
CLIENT = f"""
import socket, sys, time
conns = []
def hear(s):
    s.settimeout(100)
    try: return s.recv(1)
    except OSError: return b''
for line in sys.stdin:
    word, n = line.split()
    n = int(n)
    if word == 'open':
        for _ in range(n):
            s = socket.create_connection(({OTHER!r}, {PORT}))
            s.sendall(b'x')
            conns.append(s)
        print(n, flush=True)
    if word == 'hear': print(sum(hear(s) == b'x' for s in conns[:len(conns) - n]), flush=True)
    if word == 'say':
        time.sleep(0.3)  # the order of connections is as exact as that
        conns[n].sendall(b'x')
        print(hear(conns[n]) == b'x', flush=True)
    if word == 'ended': print(hear(conns[n]) == b'', flush=True)
    if word == 'big':
        for _ in range(n):
            s = socket.create_connection(('web.example', 80))
            s.sendall(b'GET /big HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')
            conns.append(s)
        print(n, flush=True)
"""


class Client:
    def __init__(self, box):
        self.process = box.start("/usr/bin/python3", "-c", CLIENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, word, number):
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def world(world):
    world.serve("while b := s.recv(100): s.sendall(b)", PORT)
    return world


@pytest.fixture
def gate(world):
    gate = gatelib.Gate(world, files=FILES)
    yield gate
    gate.close()


@pytest.fixture
def client(gate):
    made = []

    def make(**policy):
        made.append(Client(gate.box(policy=policy)))
        return made[-1]
    yield make
    for one in made:
        one.close()


def places(gate, boxes):
    """(connections that fit, those that are kept for boxes with few)"""
    at_most = int(re.search(r"connections_max=(\d+)", gate.log())[1]) - boxes
    return at_most, at_most // 16


def test_a_newcomer_gets_the_place_of_the_longest_idle_connection(gate, client):
    greedy, newcomer = client(), client()
    most, kept = places(gate, boxes=2)
    assert greedy.ask("open", most) == str(most)
    assert greedy.ask("hear", kept + 2) == str(most - kept - 2)
    assert greedy.ask("say", 0) == "True"  # so the second is the longest idle one now
    assert newcomer.ask("open", 1) == "1" and newcomer.ask("hear", 0) == "1"
    assert greedy.ask("ended", 1) == "True"
    assert greedy.ask("say", 0) == "True" and greedy.ask("say", 2) == "True"
    record = gate.record(end="closed for another sandbox: the gate is full")
    assert record["decision"] == "allow" and record["port"] == PORT


def test_boxes_that_want_all_get_equal_numbers(gate, client):
    greedy, others = client(), [client() for _ in range(3)]
    most, kept = places(gate, boxes=4)
    greedy.ask("open", most)
    greedy.ask("hear", kept + 4)
    share = (most - kept) // 4 - 4
    for other in others:
        assert other.ask("open", share) == str(share)
    for other in others:
        assert other.ask("hear", 0) == str(share)


def test_many_newcomers_with_few_connections_are_served(gate, client):
    greedy, others = client(), [client() for _ in range(12)]
    most, kept = places(gate, boxes=13)
    greedy.ask("open", most)
    greedy.ask("hear", kept + 12)
    for other in others:
        assert other.ask("open", 8) == "8" and other.ask("hear", 0) == "8"


def test_connections_never_take_the_last_descriptor(gate, client):
    """Requests that are decided by name, with answers that wait in pipes: the most that a connection takes."""
    greedy, newcomer = client(mode="list", allow=["web.example"]), client()
    most, kept = places(gate, boxes=2)
    greedy.ask("big", most)
    assert newcomer.ask("open", 4) == "4" and newcomer.ask("hear", 0) == "4"
    files = len(os.listdir(f"/proc/{gate.pid}/fd"))
    assert files < FILES, f"{files} descriptors for some {most - kept} connections"
    assert "Too many open files" not in gate.log()
    left = pathlib.Path(f"/proc/{gate.pid}/limits").read_text(encoding="ascii")
    assert re.search(rf"^Max open files\s+{FILES}\s", left, re.M), left
