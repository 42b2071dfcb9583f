"""Outbound handlers of atoll-sandbox in every runtime: answers, bodies that stream in both directions, WebSockets that are forwarded."""

import subprocess
import sys

import package
import pytest
from outbound_parts import CLIENT, SERVER, SHOWN, WSCLIENT

pytestmark = pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)


@pytest.fixture
def server():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.mark.parametrize("runtime", package.RUNTIMES)
def test_outbound(daemon, box, server, runtime):
    for name, content in (("wsclient.py", WSCLIENT.read_text()), ("client.py", CLIENT)):
        reply = daemon.request("POST", f"/v1/sandboxes/{box}/api/write", {"path": f"/workspace/{name}", "content": content})
        assert reply.status == 200, reply
    out = package.run(*package.RUNTIMES[runtime], "tests/programs/outbound.mjs", box, server, env=package.reaching(daemon))
    assert out == SHOWN
