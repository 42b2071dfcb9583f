"""sdk/typescript as the tests use it: installed, built, and the programs that run it."""

import functools
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import npmdir

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sdk/typescript"
MODULES = PACKAGE / "node_modules"
RUNTIMES = {
    "node": ["node"],
    "bun": [str(MODULES / "@oven/bun-linux-x64/bin/bun")],
    "deno": [str(MODULES / "@deno/linux-x64-glibc/deno"), "run", "-A", "--quiet"],
}
# How the rows of tests/compat are run, names appended.
ROWS_IN = {
    **{name: [*command, "node_modules/.rows/rows.mjs"] for name, command in RUNTIMES.items()},
    "workerd": ["node", "--no-warnings", "tests/rows/workerd.mjs"],
}
WHY_NOT = "npm is missing"


def run(*command, env=None, timeout=120):
    """A program of the package's, in its directory; returns what it printed or fails with it."""
    r = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=False, env=env, timeout=timeout)
    assert r.returncode == 0, f"{' '.join(map(str, command))} ended with {r.returncode}\n{r.stdout[-6000:]}\n{r.stderr[-6000:]}"
    return r.stdout


def tool(name, *arguments, **options):
    return run(MODULES / ".bin" / name, *arguments, **options)


def compiled(project):
    """TypeScript 7 compiles; the 5 that lies beside it only serves openapi-typescript."""
    return run("node", MODULES / "typescript-7/bin/tsc", "-p", project)


def _sources():
    """What the package and the rows are made of, as one number."""
    total = hashlib.sha256((MODULES / ".of-lock-file").read_bytes())
    for place in (PACKAGE / "src", PACKAGE / "tools", PACKAGE / "tests/rows", ROOT / "tests/compat", ROOT / "api"):
        for path in sorted(place.rglob("*")):
            if path.is_file() and path.suffix != ".py" and not {"generated", "node_modules", "__pycache__"} & set(path.parts):
                total.update(f"\0{path}\0".encode() + path.read_bytes())
    for path in (*sorted(PACKAGE.glob("*.json")), Path(__file__)):
        total.update(path.read_bytes())
    return total.hexdigest()


def _build():
    """Programs of another run may use the package: dist is replaced whole, for examples/start installs and builds what is missing."""
    dist, new, old = (PACKAGE / name for name in ("dist", ".dist-new", ".dist-old"))
    for path in (new, old):
        shutil.rmtree(path, ignore_errors=True)
    run("node", "tools/generate.mjs")
    run("node", MODULES / "typescript-7/bin/tsc", "-p", "tsconfig.build.json", "--outDir", new)
    if dist.exists():
        dist.rename(old)
    new.rename(dist)
    shutil.rmtree(old, ignore_errors=True)
    run("node", "tests/rows/bundle.mjs")


@functools.cache
def built():
    """Whether the package is there, compiled, with the rows of tests/compat bundled for it. Files that run at the same time, also of two
    runs, build it once for each state of its sources."""
    if not npmdir.installed(PACKAGE) or not npmdir.installed(ROOT / "tests/compat"):
        return False
    stamp = MODULES / ".of-sources"
    with npmdir.locked(PACKAGE / "package.json"):
        sources = _sources()
        made = (PACKAGE / "dist/index.js", PACKAGE / "src/generated/openapi.ts", MODULES / ".rows/rows.mjs")
        if not all(path.exists() for path in (stamp, *made)) or stamp.read_text(encoding="ascii") != sources:
            _build()
            stamp.write_text(sources, encoding="ascii")
    return True


@functools.cache
def row_names():
    return json.loads(run("node", "node_modules/.rows/rows.mjs", "--list")) if built() else []


def reaching(daemon, **more):
    """The environment of a program that uses this daemon."""
    here = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
    return {**here, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "ATOLL_TEST_SOCKET": daemon.socket,
            "NO_COLOR": "1", **more}
