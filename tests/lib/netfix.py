"""A whole Atoll, or a gate alone, in a network namespace of its own, with gatelib's internet around it, and short ways to use its API.

Fixtures: `world` (a module's PROGRAMS names what it needs besides), `net` (an Atoll in it), `gate` (a gate alone in it). A test
file that needs more overrides them under the same names."""

import contextlib
import http.client
import os
import shutil
import threading

import atoll as lib
import fixtures
import gatelib
import pytest


@pytest.fixture(scope="module")
def world(request):
    if os.geteuid() != 0:
        pytest.skip("root is needed to make network namespaces")
    for program in ("nginx", "dnsmasq", "dig", "curl", "ip", "openssl", *getattr(request.module, "PROGRAMS", ())):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    world = gatelib.World()
    yield world
    world.close()


def make_net(world, env=None):
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    prefix = world.gate_space.argv(binds=((world.resolv, "/etc/resolv.conf"), (world.hosts, "/etc/hosts")))
    return lib.Instance({"ATOLL_ZYGOTE": "off", **(env or {})}, prefix=prefix)


@contextlib.contextmanager
def running(world, env=None):
    """An Atoll in this world; at its end nothing of it may be left on the host."""
    instance = make_net(world, env)
    try:
        yield instance.start()
    finally:
        fixtures.finish(instance)


@pytest.fixture(scope="module")
def net(world):
    with running(world) as instance:
        yield instance


@pytest.fixture
def gate(world):
    gate = gatelib.Gate(world)
    yield gate
    gate.close()


def put(net, box, **network):
    reply = net.request("PUT", f"/v1/sandboxes/{box}", {"network": network} if network else {})
    assert reply.status in (200, 201), reply
    return reply.json()


def patch(net, box, **network):
    reply = net.request("PATCH", f"/v1/sandboxes/{box}/network", network)
    assert reply.status == 200, reply
    return reply.json()


def sh(net, box, command, timeout=60):
    """(exit code, output)"""
    reply = net.request("POST", f"/v1/sandboxes/{box}/api/execute", {"command": command}, timeout=timeout).json()
    return reply["exitCode"], reply["stdout"] + reply["stderr"]


class Running:
    """A command in a box, under way; result() waits for it."""

    def __init__(self, net, box, command, session=None):
        self.reply = None
        body = {"command": command, **({"sessionId": session} if session else {})}

        def go():
            # A daemon that is killed meanwhile does not answer.
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.reply = net.request("POST", f"/v1/sandboxes/{box}/api/execute", body, timeout=90).json()
        self.thread = threading.Thread(target=go, daemon=True)
        self.thread.start()

    def result(self):
        self.thread.join(90)
        assert self.reply is not None, "the command has not ended"
        return self.reply["exitCode"], self.reply["stdout"] + self.reply["stderr"]


def log_of(net, box, **want):
    def find():
        for record in net.request("GET", f"/v1/sandboxes/{box}/network/log").json()["log"]:
            if all(record.get(k) == v for k, v in want.items()):
                return record
        return None
    return lib.wait_for(find, f"a record {want}")


def approvals(net, **want):
    """What waits now, and matches."""
    waiting = net.request("GET", "/v1/approvals").json()["approvals"]
    return [a for a in waiting if all(a.get(k) == v for k, v in want.items())]


def approval(net, **want):
    """Waits until somebody is asked this."""
    return lib.wait_for(lambda: (approvals(net, **want) or [None])[0], f"an approval {want}")


def decide(net, which, decision, **more):
    return net.request("POST", f"/v1/approvals/{which['id']}", {"decision": decision, **more})
