"""The command line of tests/run."""

import dataclasses
import re
import sys
from pathlib import Path

ALL = ["unit", "integration", "security", "compat", "browser", "sdk", "mcp", "wrangler", "docs", "host"]
BESIDE = ["lint", "fuzz", "ratios"]  # suites that are no part of "every"
WORKERS = 4


@dataclasses.dataclass
class Options:
    suites: list  # in the order of the command line
    files: list  # tests/SUITE/test_NAME.py[::TEST]; a suite with files runs only those
    pytest: list
    workers: int = WORKERS
    record: bool = False
    nightly: bool = False
    whole: bool = False  # every suite, every test

    @property
    def whole_files(self):
        """Whether the times are those of whole files."""
        return not self.pytest and not any("::" in file for file in self.files)


def wrong_usage(text):
    print(f"tests/run: {text}", file=sys.stderr)
    sys.exit(2)


def suite_of_file(argument):
    """The suite of tests/SUITE/test_NAME.py[::TEST]."""
    name = argument.split("::")[0]
    if not Path(name).is_file():
        wrong_usage(f'there is no suite and no test file "{name}"; suites are: {" ".join(["every", *ALL, *BESIDE])}')
    found = re.fullmatch(r"tests/([^/]+)/(?:.*/)?test_[^/]*\.py", name)
    if not found or found[1] not in ALL:
        wrong_usage(f'"{name}" is no test file of a suite (tests/SUITE/test_NAME.py)')
    return found[1]


def _number(text):
    if not re.fullmatch(r"[1-9][0-9]?", text):
        wrong_usage(f'--workers takes a number from 1 to 99, not "{text}"')
    return int(text)


def read(words, usage):
    """Ends the program on --help and on wrong usage."""
    options = Options([], [], [])
    words = list(words)
    while words:
        word = words.pop(0)
        if word in ("--help", "-h"):
            print(usage.strip())
            sys.exit(0)
        elif word == "--record":
            options.record = True
        elif word == "--nightly":
            options.nightly = True
        elif word == "--workers" or word.startswith("--workers="):
            options.workers = _number(word.partition("=")[2] if "=" in word else words.pop(0) if words else "")
        elif word.startswith("-") or options.pytest:
            options.pytest.append(word)
        elif word == "every":
            options.suites += [name for name in ALL if name not in options.suites]
        else:
            name = word
            if word not in ALL + BESIDE:
                name = suite_of_file(word)
                options.files.append(word)
            if name not in options.suites:
                options.suites.append(name)
    options.suites = options.suites or list(ALL)
    options.whole = set(options.suites) >= set(ALL) and not options.files and not options.pytest
    if options.record and not options.whole:
        wrong_usage("--record needs a run of every suite: a part would forget the times of the rest")
    return options
