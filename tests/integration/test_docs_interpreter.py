"""docs/interpreter.md says what its examples really print."""

import importlib.machinery
import importlib.util
import struct
from pathlib import Path

from codeapi import code_api  # noqa: F401

TOP = Path(__file__).resolve().parents[2]


def program():
    loader = importlib.machinery.SourceFileLoader("docs_interpreter", str(TOP / "tools/docs-interpreter"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def size(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def test_the_page_is_true(code_api):
    docs = program()
    text, pictures = docs.made_page(code_api)
    assert text == docs.PAGE.read_text(encoding="utf-8"), "run tools/docs-interpreter"
    assert pictures, "at least one chart is drawn"
    for name, data in pictures.items():
        assert size((docs.PICTURES / name).read_bytes()) == size(data), name
