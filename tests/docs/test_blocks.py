"""Every block of README.md and docs/*.md is run by a test, or blocks.txt says why not. A block that nobody thought of fails here."""

import re
from pathlib import Path

import examples
from test_docs import PAGES

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).resolve().parent / "blocks.txt"
# Pages with a test of their own that runs all blocks of these kinds.
OWN = {
    "docs/python.md": ({"python", "text"}, "tests/sdk/test_python.py::test_examples_print_what_they_say"),
    "docs/interpreter.md": ({"python", "text", "json"}, "tests/integration/test_docs_interpreter.py::test_the_page_is_true"),
    "docs/interpreter-js.md": ({"javascript", "typescript", "text", "json"}, "tests/integration/test_docs_interpreter.py::test_the_page_is_true"),
}


def listed():
    found = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            page, rest = line.split(" | ", 1)
            beginning, how = rest.rsplit(" | ", 1)
            found.append((page, beginning, how))
    return found


def not_run_by_the_pages():
    """(page, text of the block) of blocks that neither test_docs.py nor test_readme.py nor a test of OWN runs."""
    run = {"README.md", *(f"docs/{page}.md" for page in PAGES)}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        lines = examples.lines_run(text) if name in run else set()
        kinds = OWN.get(name, (set(), ""))[0]
        for block in examples.blocks(text):
            if block.line not in lines and block.kind not in kinds:
                yield name, " ".join(block.text.split())


def test_every_block_is_run_or_has_a_reason():
    entries = listed()
    used = set()
    for page, text in not_run_by_the_pages():
        fitting = [entry for entry in entries if entry[0] == page and text.startswith(entry[1])]
        assert len(fitting) == 1, f"{page}: blocks.txt has {len(fitting)} lines for the block that begins: {text[:80]}"
        used.add(fitting[0])
    assert set(entries) == used, f"no block is like this any more: {set(entries) - used}"


def test_the_named_tests_exist():
    for page, beginning, how in [*listed(), *((page, "", how) for page, (_, how) in OWN.items())]:
        if how.startswith("- "):
            assert len(how) > 20, f"{page}: {beginning}: a reason"
            continue
        file, function = how.split("::")
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.M), how


def test_fences_are_balanced():
    """A fence that does not begin its line, or an odd number of them, would hide blocks from these tests."""
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        assert text.count("```") == 2 * len(examples.blocks(text)), path.name
