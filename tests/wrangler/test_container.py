"""ctx.container of a Durable Object without the SDK's class, in a plain `wrangler dev`: exec with its streams and signals, snapshots."""

import json

import matrix
import npmdir
import pytest
from atoll import wait_for
from dev import HERE, LIMIT, Dev, remove_all

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]


def pytest_generate_tests(metafunc):
    matrix.for_tests(metafunc, "dev", ["4.86", "4.102", "4.160", "vite"], indirect=True, scope="module")


@pytest.fixture(scope="module")
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


def run(dev, line):
    """start() does not wait for the container, and older workerds do not wait in exec() either."""
    def done():
        status, text = dev.send("s/exec", line)
        return json.loads(text)["ok"] if status == 200 else None
    return wait_for(done, "a command in the new container", LIMIT)["stdout"]


def test_snapshots(dev):
    run(dev, "mkdir -p /srv/d && echo kept >/srv/d/f && echo all >/root/g")
    made = dev.ask("s/snapshot", "/srv/d")
    assert made["whole"]["size"] > 1 << 20, made
    dev.ask("s/again", json.dumps({"directory": made["directory"]}))
    assert run(dev, "cat /srv/d/f; ls /root/g 2>/dev/null") == "kept\n"
    dev.ask("s/again", json.dumps({"whole": made["whole"]}))
    assert run(dev, "cat /srv/d/f /root/g") == "kept\nall\n"
