import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from fixtures import *  # noqa: E402,F401,F403
from agentlib import Agent  # noqa: E402
from codeapi import code_api, python  # noqa: E402,F401
from dockersock import docker, own_docker  # noqa: E402,F401
from netfix import gate, net, world  # noqa: E402,F401


@pytest.fixture(scope="module")
def agent():
    """atoll-agent alone, for the tests of a file; it must end well."""
    a = Agent()
    yield a
    assert a.close() == 0
