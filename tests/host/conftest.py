import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import atoll as lib  # noqa: E402
import guest as machines  # noqa: E402
from fixtures import (pytest_configure, pytest_make_collect_report, pytest_runtest_call, pytest_runtest_setup,  # noqa: E402,F401
                      pytest_runtest_teardown, pytest_terminal_summary, pytest_unconfigure, what_is_missing)

PROGRAMS = ["atoll", "atolld", "atoll-agent", "atoll-backup", "atoll-escape", "atoll-fusermount", "atoll-gate",
            "atoll-images", "atoll-mover", "atoll-warden"]
UNIT = Path(__file__).resolve().parents[2] / "packaging" / "atoll.service.in"
BOOT = 600  # seconds, beside load


class Guest(machines.Machine):
    """A machine with Atoll's programs and unit."""

    def __init__(self, version):
        super().__init__(machines.CACHE / f"run-{version}-{os.getpid()}")
        self.version = version
        self.ready = False

    def sh(self, script, timeout=900, status=0):
        """Runs a script of bash in the guest; returns its standard output."""
        done, out, err = self.run(["bash", "-euo", "pipefail", "-c", script], timeout)
        assert done == status, f"status {done}\n{out[-4000:]}\n{err[-4000:]}\n{self.log()}"
        return out

    def json(self, script, timeout=900, status=0):
        return json.loads(self.sh(script, timeout, status))

    def log(self):
        return "the unit's log:\n" + self.run(["journalctl", "-u", "atoll", "-n", "30", "-o", "cat", "--no-pager"])[1]

    def install(self):
        self.push([lib.BIN / program for program in PROGRAMS], "/usr/local/bin")
        self.sh("ln -sf atoll /usr/local/bin/atoll-docker")
        self.state.joinpath("atoll.service").write_text(UNIT.read_text(encoding="utf-8").replace("@BINDIR@", "/usr/local/bin"), encoding="utf-8")
        self.push([self.state / "atoll.service"], "/etc/systemd/system")
        # Interpreters that wait for contexts would take all of an emulated processor for minutes.
        self.sh("printf 'ATOLL_ZYGOTE=off\\nATOLL_WARM_WORKERS=0\\n' > /etc/atoll.env")


@pytest.fixture(scope="session")
def made():
    missing = machines.what_is_missing() or what_is_missing()
    if missing:
        pytest.skip(missing)
    machines.remove_rests()
    machines.make(lib.IMAGES / "default")


@pytest.fixture(scope="session")
def guests(request, made):
    """The machines that the tests of this run need, which boot side by side."""
    found = {}
    try:
        for version in sorted({item.callspec.params["guest"] for item in request.session.items if "guest" in item.fixturenames}):
            found[version] = Guest(version)
            found[version].boot(version)
        yield found
    finally:
        for machine in found.values():
            machine.remove()


@pytest.fixture(scope="module", params=machines.KERNELS)
def guest(request, guests):
    machine = guests[request.param]
    if not machine.ready:
        machine.wait(BOOT)
        machine.install()
        machine.ready = True
    return machine
