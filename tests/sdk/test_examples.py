"""The example applications, run as their readers run them."""

import package
import pytest

pytestmark = pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)

SHOWN = {
    "dev-environment.ts": ["preview: http://8080-dev-", "shows: Hello from preview", "changed: /workspace/app/greeting.js",
                           "shows: Good morning from preview"],
}


def test_every_example_is_run():
    assert {p.name for p in (package.PACKAGE / "examples").glob("*.ts")} == SHOWN.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_example(daemon, name, tmp_path):
    env = package.reaching(daemon, TMPDIR=str(tmp_path))
    out = package.run(*package.RUNTIMES["bun"], f"examples/{name}", "--demo", env=env, timeout=200)
    at = 0
    for line in SHOWN[name]:
        at = out.find(line, at)
        assert at >= 0, f"'{line}' is missing, or too early, in\n{out}"
    assert not [box for box in daemon.boxes() if box.startswith(("code-", "dev-", "ci-", "repair-"))]
