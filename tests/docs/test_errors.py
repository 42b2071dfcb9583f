"""docs/errors.md lists every error code with its status and suggestion, as the table in the source has them.

`ATOLL_WRITE_DOCS=1 tests/run docs -k errors` writes the list.
"""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/errors.md"
BEGIN, END = "<!-- codes: written by tests/docs/test_errors.py -->\n", "<!-- end of codes -->"
ENTRY = re.compile(r'\bX\((\w+),\s*(\d{3}),((?:[\s\\]*"(?:[^"\\]|\\.)*")+)[\s\\]*\)')


def table():
    """Returns (code, status, suggestion) of every entry of ERRC_TABLE."""
    sources = [text for path in sorted((ROOT / "src").rglob("*.h")) if "#define ERRC_TABLE(X)" in (text := path.read_text(encoding="utf-8"))]
    assert len(sources) == 1, "the table of errors is defined once"
    body = re.search(r"#define ERRC_TABLE\(X\)(.*?)(?<!\\)\n", sources[0], re.S)[1]
    found = [(code, int(status), "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', words))) for code, status, words in ENTRY.findall(body)]
    assert len(found) == len(re.findall(r"\bX\(", body)), "an entry of the table cannot be read"
    return found


def listed():
    rows = "".join(f"| `{code}` | {status} | {suggestion.replace('<', '&lt;').replace('|', '&#124;')} |\n" for code, status, suggestion in table())
    return "\n| code | status | suggestion |\n|---|---|---|\n" + rows + "\n"


def test_the_page_lists_every_error():
    head, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin and end
    now = head + begin + listed() + end + tail
    if os.environ.get("ATOLL_WRITE_DOCS"):
        PAGE.write_text(now, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == now


def test_the_page_covers_the_codes_of_the_contract():
    """A code that api/openapi.yaml names is a code of the table."""
    codes = {code for code, _, _ in table()}
    named = set(re.findall(r"\b[A-Z]+_[A-Z_]+[A-Z]\b", (ROOT / "api/openapi.yaml").read_text(encoding="utf-8")))
    assert {"SANDBOX_NOT_FOUND", "CONTAINER_UNAVAILABLE"} <= named & codes
    suspects = {name for name in named if re.search(r"(NOT_FOUND|FAILED|ERROR|LOST|UNAVAILABLE|REACHED|TOO_LARGE|NO_SPACE)$", name)}
    assert suspects <= codes
