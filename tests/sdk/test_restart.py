"""A client whose daemon is killed under it."""

import subprocess

import package
import pytest

pytestmark = pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)


@pytest.mark.parametrize("runtime", package.RUNTIMES)
def test_logs_go_on_over_a_killed_daemon(own_daemon, own_box, runtime, tmp_path):
    command = [*package.RUNTIMES[runtime], "tests/programs/follow.mjs", own_box]
    with open(tmp_path / "err", "w+", encoding="utf-8") as err, subprocess.Popen(
            command, cwd=package.PACKAGE, stdout=subprocess.PIPE, stderr=err, env=package.reaching(own_daemon), text=True) as p:
        assert p.stdout.readline() == "begin\n", (tmp_path / "err").read_text()
        own_daemon.kill_daemon()
        own_daemon.await_warden()
        own_daemon.execute_alone(own_box, "touch /tmp/go")
        rest = p.stdout.read()
        assert p.wait(60) == 0, (tmp_path / "err").read_text()
    assert rest == "".join(f"{i}\n" for i in range(1, 5001)) + "exit 9\n"
