"""The examples compile, and read like the rest."""

import json
import subprocess

import apps
import package
import pytest

pytestmark = pytest.mark.skipif(not apps.installed(), reason=package.WHY_NOT)


def test_types():
    package.compiled(apps.EXAMPLES / "tsconfig.json")


def test_style():
    package.tool("biome", "check", "--error-on-warnings", "--config-path", package.PACKAGE, *sorted(apps.EXAMPLES.glob("*/*.ts")),
                 *sorted(apps.EXAMPLES.glob("*/*.mjs")))


def test_every_example_is_described():
    listed = (apps.EXAMPLES / "README.md").read_text(encoding="utf-8")
    for readme in apps.EXAMPLES.glob("*/README.md"):
        name = readme.parent.name
        assert f"({name}/README.md)" in listed, name
        assert f"examples/start {name}" in readme.read_text(encoding="utf-8"), name


def test_start_names_the_examples():
    r = subprocess.run([apps.EXAMPLES / "start", "nope"], capture_output=True, text=True, check=False, timeout=60)
    assert r.returncode == 2 and "code-api/README.md" in r.stderr


def test_packages_are_pinned():
    manifest = json.loads((apps.EXAMPLES / "package.json").read_text())
    assert all(version[0].isdigit() for kind in ("dependencies", "devDependencies") for version in manifest[kind].values())
