"""ctx.container of a Durable Object without the SDK's class, in a plain `wrangler dev`: exec with its streams and signals."""

import npmdir
import pytest
from dev import HERE, Dev, remove_all

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]


@pytest.fixture(scope="module", params=["4.86", "4.102", "4.158", "vite"])
def dev(request, daemon, tmp_path_factory):
    with Dev(daemon, tmp_path_factory.mktemp("project"), request.param, source="container.ts") as d:
        yield d
    remove_all(daemon)


def test_exec(dev):
    assert dev.ask("a/exec", "echo $FROM_IMAGE; echo bad >&2; exit 3") == {"stdout": "yes\n", "stderr": "bad\n", "exitCode": 3}
    large = dev.ask("a/exec", "head -c 2000000 /dev/zero | tr '\\0' x")["stdout"]
    assert large == "x" * 2000000


def test_exec_with_input_and_a_signal(dev):
    assert dev.ask("a/talk", "hello") == {"said": "hello", "code": 0, "killed": 143, "pid": True}
