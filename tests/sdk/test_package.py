"""The package itself: it compiles, is declared as upstream is, and holds what it should."""

import json
import re

import package
import pytest

pytestmark = pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)


def test_declarations_do_where_upstreams_are_asked_for():
    package.compiled("tests/types/tsconfig.json")


def test_declarations_need_no_types_of_node():
    package.compiled("tests/types/plain/tsconfig.json")


def test_sources_and_tests_compile():
    package.compiled("tsconfig.json")


def test_biome_has_nothing_to_say():
    package.tool("biome", "check", "--error-on-warnings", ".")


def test_no_dependencies_at_run_time():
    manifest = json.loads((package.PACKAGE / "package.json").read_text())
    assert "dependencies" not in manifest
    for name, version in manifest["devDependencies"].items():
        assert re.fullmatch(r"(npm:[a-z]+@)?\d+\.\d+\.\d+", version), f"{name} is not pinned: {version}"
    optional = {"@openai/agents", "ai", "@langchain/core/tools", "@cloudflare/containers", "@cloudflare/sandbox"}
    for path in (package.PACKAGE / "dist").rglob("*.js"):
        for name in re.findall(r"""^(?:import|export)\b[^=\n]*?['"]([^.'"][^'"]*)['"];$""", path.read_text(), re.M):
            assert name in optional or name.startswith(("cloudflare:", "node:")), f"{path.name} imports {name}"


def test_every_entry_is_there():
    manifest = json.loads((package.PACKAGE / "package.json").read_text())
    for name, entry in manifest["exports"].items():
        for path in entry.values():
            assert (package.PACKAGE / path).is_file(), f"{name}: {path}"
    script = "for (const e of ['', '/xterm']) await import('atoll-sandbox' + e)"
    package.run("node", "--input-type=module", "-e", script)
