"""What there is to run. A job is a program that prints a line of counts last."""

import dataclasses
import json
import os
import re
import subprocess
from pathlib import Path

from .arguments import BESIDE

BUILD = Path(os.environ.get("ATOLL_BUILD", "build"))
DURATIONS = Path("tests/durations.json")
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
ALONE = re.compile(r'^ALONE = "', re.M)
UNKNOWN = 600.0  # seconds; a job that was never timed begins among the first: it could be the longest
NO_TESTS = 5  # pytest's exit code when -k or the like leaves none


@dataclasses.dataclass
class Job:
    suite: str
    name: str  # what durations.json and the output call it
    argv: list
    seconds: float = UNKNOWN  # it took so long before
    alone: bool = False
    idle: bool = False  # gets the processor time that others leave
    may_be_empty: bool = False


def _programs(directory, prefix):
    found = (BUILD / "host/tests" / directory).glob(prefix + "*")
    return sorted(p for p in found if p.is_file() and os.access(p, os.X_OK))


def _unit():
    for program in _programs("unit", "unit_"):
        yield Job("unit", f"unit {program.name}", [str(program)])
    for program in _programs("fuzz", "replay_"):
        corpus = "tests/fuzz/corpus/" + program.name[len("replay_"):]
        yield Job("unit", f"unit {program.name}", [str(program), corpus])


def _beside(name, options, directory):
    if name == "ratios":
        yield Job(name, name, ["/usr/bin/python3", "tests/bench/ratios.py", f"{directory}/ratios"], alone=True)
        return
    argv = ["tools/lint"] if name == "lint" else ["make", "--no-print-directory", "fuzz" if options.nightly else "fuzz-changed"]
    yield Job(name, name, argv, idle=len(options.suites) > 1)


def _collected(suite, pytest_words):
    """The files of the suite that have a test under these words; all of them if pytest cannot tell."""
    listed = subprocess.run([*PYTEST, "--collect-only", *pytest_words, f"tests/{suite}"], capture_output=True, text=True, check=False,
                            stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    files = sorted({line.split("::")[0] for line in listed.stdout.splitlines() if line.startswith(f"tests/{suite}/") and "::" in line})
    return files if listed.returncode in (0, NO_TESTS) else None


def _test_files(suite, options):
    """(argument of pytest, file)"""
    named = [f for f in options.files if f.startswith(f"tests/{suite}/")]
    if not named and options.pytest:
        named = _collected(suite, options.pytest)
    if named is None or (not named and not options.pytest):
        named = sorted(str(p) for p in Path(f"tests/{suite}").glob("**/test_*.py") if "node_modules" not in p.parts)
    by_file = {}
    for argument in named:
        by_file.setdefault(argument.split("::")[0], []).append(argument)
    return by_file


def _python(suite, options):
    for file, arguments in _test_files(suite, options).items():
        alone = bool(ALONE.search(Path(file).read_text(encoding="utf-8")))
        yield Job(suite, file, [*PYTEST, *options.pytest, *arguments], alone=alone, may_be_empty=bool(options.pytest))


def known(what="seconds", path=DURATIONS):
    """A part of a file of durations."""
    try:
        return json.loads(path.read_text(encoding="utf-8")).get(what, {})
    except FileNotFoundError:
        return {}


def make(options, directory):
    """The jobs in the order in which they are to begin. `directory` is for files of this run."""
    durations = known()
    jobs = []
    for suite in options.suites:
        if suite == "unit":
            jobs += _unit()
        elif suite in BESIDE:
            jobs += _beside(suite, options, directory)
        else:
            jobs += _python(suite, options)
    for job in jobs:
        job.seconds = durations.get(job.name, UNKNOWN if job.suite != "unit" else 1.0)
    return sorted(jobs, key=lambda job: (job.alone, -job.seconds))
