"""docs/interpreter.md and docs/interpreter-js.md say what their examples really print."""

import importlib.machinery
import importlib.util
import struct
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


def program():
    loader = importlib.machinery.SourceFileLoader("docs_interpreter", str(TOP / "tools/docs-interpreter"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def size(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


DOCS = program()


@pytest.mark.parametrize("page", DOCS.PAGES, ids=lambda page: page.stem)
def test_the_page_is_true(code_api, page):
    text, pictures = DOCS.made_page(code_api, page)
    assert text == page.read_text(encoding="utf-8"), "run tools/docs-interpreter"
    assert pictures or page.stem != "interpreter", "at least one chart is drawn"
    for name, data in pictures.items():
        assert size((DOCS.PICTURES / name).read_bytes()) == size(data), name
