"""Outbound handlers of a Worker in a plain `wrangler dev`: the gate asks workerd about the connections of the box."""

import matrix
import npmdir
import pytest
from dev import HERE, Dev, remove_all

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]


@pytest.mark.parametrize("version", ["4.160", "vite"] + ["4.86", "4.102"] * matrix.NIGHTLY)
def test_handlers_answer_for_hosts(daemon, tmp_path, version):
    with Dev(daemon, tmp_path, version, source="handlers.ts") as dev:
        def run(line):
            return dev.ask("a", "curl -sS --max-time 60 " + line)["stdout"]
        assert run("http://greeter.example/x?y=1 -d body") == "hello POST http://greeter.example/x?y=1 body\n"
        assert run("https://greeter.example/safe") == "hello GET https://greeter.example/safe \n"
        assert run("http://other.example/a https://other.example/b") == "caught http://other.example/a\ncaught https://other.example/b\n"
        # A program that speaks to an address without a name is caught as well; nothing else leaves the box.
        assert run("http://198.51.100.7/") == "caught http://198.51.100.7/\n"
        assert dev.ask("a", "curl -sS --max-time 5 http://198.51.100.7:5000/")["exitCode"] != 0
    remove_all(daemon)
