"""examples/ci: repositories in three languages, at the same time, with a git server, a registry and an index that the test starts."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import apps
import atoll as lib
import fixtures
import internet
import pytest

pytestmark = pytest.mark.skipif(not apps.installed() or not shutil.which("git"), reason=apps.package.WHY_NOT)

PROJECTS = {
    "javascript": {
        "package.json": json.dumps({"name": "p", "type": "module", "scripts": {"test": "node --test"}, "dependencies": {"double": "1.0.0"}}),
        "p.test.js": "import assert from 'node:assert';\nimport test from 'node:test';\nimport double from 'double';\n"
                     "test('doubles', () => assert.equal(double(21), 42));\n",
    },
    "python": {
        "requirements.txt": "halve==1.0\n",
        "test_p.py": "import unittest\nfrom halve import halve\n\n\nclass P(unittest.TestCase):\n    def test_it(self):\n"
                     "        self.assertEqual(halve(84), 42)\n",
    },
    "c": {
        "Makefile": "p: p.c\n\t$(CC) -o $@ $<\ntest: p\n\t./p\n",
        "p.c": "#include <stdio.h>\nint main(void) { puts(\"forty-two\"); return 0; }\n",
    },
    "broken": {
        "Makefile": "p:\n\ttouch p\ntest:\n\techo it is broken; exit 3\n",
    },
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    root = tmp_path_factory.mktemp("git")
    commits = {name: internet.repository(root, f"team/{name}", files) for name, files in PROJECTS.items()}
    package = tmp_path_factory.mktemp("npm") / "node_modules/double"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "double", "version": "1.0.0", "type": "module", "main": "index.js"}')
    (package / "index.js").write_text("export default (n) => 2 * n;\n")
    halve = internet.wheel("halve", "1.0", "def halve(n):\n    return n // 2\n")
    statuses = []
    with internet.Internet({
        "git.test": internet.git_server(root, statuses),
        "npm.test": internet.npm_registry(package.parent, "npm.test"),
        "pypi.test": internet.python_index({"halve-1.0-py3-none-any.whl": halve}),
    }) as net, lib.Instance({"ATOLL_ZYGOTE": "off", "ATOLL_EGRESS_PROXY": net.proxy}) as daemon:
        yield net, daemon, commits, statuses


@pytest.mark.parametrize("kind", apps.kinds("ci"))
def test_ci(world, tmp_path, kind):
    net, daemon, commits, statuses = world
    statuses.clear()
    variables = {"npm_config_registry": "http://npm.test", "PIP_INDEX_URL": "http://pypi.test/simple", "PIP_TRUSTED_HOST": "pypi.test"}
    env = {"STATUS_URL": net.url("git.test"), "STATUS_TOKEN": "secret", "CI_ENV": json.dumps(variables)}
    with apps.App(daemon, tmp_path / "log", "ci", kind, **env) as app, ThreadPoolExecutor(len(PROJECTS)) as pool:
        def run(name):
            return app.post("/runs", {"repository": f"http://git.test/team/{name}.git", "ref": "main"})
        runs = dict(zip(PROJECTS, pool.map(run, PROJECTS)))  # in parallel

        for name, done in runs.items():
            assert done["commit"] == commits[name]
            assert done["state"] == ("failure" if name == "broken" else "success"), done
            assert [step["name"] for step in done["steps"]] == ["install", "test"]
            path = f"/repos/team/{name}/statuses/{commits[name]}"
            assert [(status["state"], token) for at, token, status in statuses if at == path] == \
                [("pending", "Bearer secret"), (done["state"], "Bearer secret")]
        assert "forty-two" in runs["c"]["steps"][1]["output"]
        assert runs["broken"]["steps"][1]["exitCode"] == 2 and "it is broken" in runs["broken"]["steps"][1]["output"]

        assert app.call("POST", "/runs", {"repository": "http://git.test/team/none.git"})[0] >= 400
        app.post("/runs", {"repository": "file:///etc"}, status=400)
    lib.wait_for(lambda: daemon.boxes() == [], "every run destroys its sandbox")
