"""The examples of the README, run one after the other as one program."""

import json
import os
import re

import package
import pytest

pytestmark = pytest.mark.skipif(not package.built(), reason=package.WHY_NOT)


def test_readme(daemon):
    text = (package.PACKAGE / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```ts\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) > 6
    # Inside of the package: its own name is known there. Two runs may be in one checkout.
    program = package.PACKAGE / f"readme-{os.getpid()}.generated.mts"
    program.write_text("\n".join(blocks), encoding="utf-8")
    try:
        out = package.run(*package.RUNTIMES["bun"], program, env=package.reaching(daemon))
    finally:
        program.unlink()
    for shown in ["42\n 0", "value in /tmp", "debug", "stdout 1", "grüße", "notes/today.txt", "200000 200000",
                  "proc_", "exitCode: 0", "http://8000-readme-demo.", "/dev/pts/", "code: 0", "/nope", "6 null", "true"]:
        assert shown in out, f"'{shown}' is missing in\n{out}"
    assert "readme" not in daemon.boxes()


def test_the_readme_names_every_option_of_get_sandbox():
    text = (package.PACKAGE / "README.md").read_text(encoding="utf-8")
    options = text[text.index("Options are upstream's"):text.index("An option with another name")]
    generated = (package.PACKAGE / "src/generated/openapi.ts").read_text(encoding="utf-8")
    fields = json.loads(re.search(r"sandboxSpecFields: readonly string\[\] = (\[.*?\]);", generated)[1])
    assert set(fields) - {"envChanges"} <= set(re.findall(r"`(\w+)`", options))
