"""A box that takes all connections that it, or the gate, may have: others are served, at once or when there is room."""

import subprocess

import gatelib
from gatelib import WEB

ALONE = "it judges what a flood does to others"


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


def test_boxes_that_found_the_gate_full_go_on_when_there_is_room(world, monkeypatch):
    """One box takes all connections that the gate may have, to the resolver. Another one, which has none, goes on when they end."""
    few = world.tmp / "few"
    few.mkdir()
    few.chmod(0o755)
    (few / "atoll-gate").write_text(f"#!/bin/sh\nulimit -n 600\nexec {gatelib.BUILD}/atoll-gate\n")
    (few / "atoll-gate").chmod(0o755)
    with monkeypatch.context() as m:
        m.setattr(gatelib, "BUILD", few)
        gate = gatelib.Gate(world)
    try:
        greedy, other = gate.box(policy={}), gate.box(policy={})
        held = greedy.start("/usr/bin/python3", "-c", "import socket\nall=[socket.create_connection(('192.0.0.1',53)) for i in range(200)]\n"
                            "print('held',flush=True); input()", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert held.stdout.readline() == "held\n"
        world.wait(lambda: "as many connections as it may" in gate.log(), "the limit")
        waits = other.start("curl", "-sS", "--max-time", "60", f"http://{WEB}/", stdout=subprocess.PIPE)
        world.wait(lambda: gate.log().count("as many connections as it may") > 1, "the other box's turn")
        held.communicate("\n", timeout=60)
        assert waits.communicate(timeout=90)[0] == f"http {WEB} {WEB}\n"
    finally:
        gate.close()
