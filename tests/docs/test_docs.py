"""The documentation: the site builds, every example prints its documented output, the API's contract is valid."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import atoll as lib
import examples
import npmdir
import pytest
import special

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests/sdk"))
import package  # noqa: E402

PAGES = ["index", "concepts", "moving", "spellings", "commands", "files", "terminals", "previews", "storage", "command-line", "configuration",
         "security", "operations", "troubleshooting", "api", "errors", "interpreter", "lifecycle", "network", "buckets", "console", "images"]


@pytest.mark.skipif(not shutil.which("mkdocs"), reason="mkdocs is missing")
def test_the_site_is_built_without_a_broken_link(tmp_path):
    r = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout + r.stderr
    for page in PAGES:
        assert (tmp_path / f"{page}.html").stat().st_size > 2000
    # It works without a network: nothing is loaded from elsewhere.
    loaded = [tag for page in tmp_path.rglob("*.html") for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", page.read_text(encoding="utf-8"))]
    assert loaded and not [tag for tag in loaded if re.search(r"(?:src|href)=.?(?:https?:)?//", tag) and "canonical" not in tag]


@pytest.mark.limit(600)
@pytest.mark.skipif(not shutil.which("mkdocs") or not shutil.which("chromium"), reason="mkdocs or chromium is missing")
def test_the_site_works_in_a_browser(tmp_path):
    """Menu, search, tables and pictures at 1280 and 380 pixels. ATOLL_WRITE_DOCS=1 keeps its pictures in docs/pictures."""
    if not npmdir.installed(ROOT / "tests/browser"):
        pytest.skip("npm is missing")
    subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"], cwd=ROOT, check=True)
    pictures = ROOT / "docs/pictures" if os.environ.get("ATOLL_WRITE_DOCS") else tmp_path
    r = subprocess.run(["node", HERE / "site.mjs", tmp_path / "site", pictures], capture_output=True, text=True, check=False, timeout=500)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing")
def test_the_contract_is_sound():
    env = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    lint = [HERE / "node_modules/.bin/redocly", "lint", "--config", HERE / "redocly.yaml", ROOT / "api/openapi.yaml"]
    r = subprocess.run(lint, capture_output=True, text=True, check=False, env=env, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr


def run(command, stdin, env, cwd):
    r = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=env, cwd=cwd, timeout=120)
    return r.returncode, r.stdout, r.stderr


@pytest.fixture(name="page_daemon")
def daemon_of_page(request, tmp_path_factory):
    """Two pages need servers beside the daemon. `words` of the page are replaced; `variables` are set before it begins."""
    own = {"buckets": special.with_bucket, "images": lambda: special.with_registry(tmp_path_factory.mktemp("images"))}
    with contextlib.ExitStack() as stack:
        make = own.get(request.getfixturevalue("page"))
        daemon = stack.enter_context(make()) if make else request.getfixturevalue("daemon")
        yield daemon
        left = daemon.boxes()
        for box in left:
            daemon.destroy(box)
        assert left == [], "a page cleans up after itself"


@pytest.fixture
def tidy(daemon):
    yield
    left = daemon.boxes()
    for box in left:
        daemon.destroy(box)
    assert left == [], "a page cleans up after itself"


@pytest.mark.parametrize("page", PAGES)
def test_examples_do_what_they_say(page_daemon, tmp_path, page):
    daemon = page_daemon
    found = examples.of_page((ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    assert found, f"{page} has no example"
    here = tmp_path / "empty"
    here.mkdir()
    env = {**examples.environment(daemon, tmp_path), **getattr(daemon, "variables", {})}
    if page == "index":
        (here / "build").symlink_to(lib.BIN)  # it begins in the project's directory
    else:
        env["PATH"] = f"{lib.BIN}:{env['PATH']}"
    shell = examples.Shell(here, env)
    env.update(ATOLL_URL=f"http://{daemon.address}", ATOLL_TOKEN=daemon.token)  # for programs
    try:
        for one in found:
            if isinstance(one, examples.Program):
                if not package.built():
                    pytest.skip(package.WHY_NOT)
                code, out, err = run(["node", "--input-type=module", "-"], one.text, env, package.PACKAGE)
            else:
                code, out = shell.run(examples.adapted(daemon, one.text))
                err = ""
            assert code == 0 and (one.output is None or examples.matches(examples.adapted(daemon, one.output), out)), f"{one.text}\n{out}\n{err}"
    finally:
        shell.close()


def test_the_skill_does_what_it_says(daemon, tidy, tmp_path):
    """Every line of skills/atoll/SKILL.md succeeds, in order, for a box with files as the lines name them."""
    del tidy
    page = (ROOT / "skills/atoll/SKILL.md").read_text(encoding="utf-8")
    lines = [line.partition("  #")[0] for block in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) for line in block.splitlines()]
    assert len(lines) > 12
    (tmp_path / "src").mkdir()
    env = {**examples.environment(daemon, tmp_path), "PATH": f"{lib.BIN}:{os.environ['PATH']}"}
    shell = examples.Shell(tmp_path, env)
    try:
        for name in ("Makefile", "out.png", "a.txt"):
            assert shell.run(f"printf 'test:\\n\\techo tested\\n' | atoll write skill {name}")[0] == 0
        for line in lines:
            code, out = shell.run(line.replace("BOX", "skill"))
            assert code == 0, f"{line}\n{out}"
    finally:
        shell.close()


def test_pages_set_the_variables_that_they_use():
    """A page whose commands use $ATOLL_URL or $ATOLL_TOKEN sets them first, with the same line as every other page."""
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        lines = page.read_text(encoding="utf-8").splitlines()
        for name in ("ATOLL_URL", "ATOLL_TOKEN"):
            uses = [i for i, line in enumerate(lines) if line.startswith("$ ") and f"${name}" in line]
            sets = [i for i, line in enumerate(lines) if line == '$ eval "$(atoll env --export)"']
            assert not uses or sets and sets[0] < uses[0], f"{page.name} uses ${name} in line {uses[0] + 1} and does not set it before"


# Set by one program of Atoll for another.
INTERNAL = {"ATOLL_AGENT", "ATOLL_BACKUP_DIR", "ATOLL_BESIDE", "ATOLL_BACKUP_KEY", "ATOLL_GIT_PASSWORD", "ATOLL_GIT_USER"}


def test_every_variable_is_documented():
    named = re.compile(r'"(ATOLL_[A-Z0-9_]+)"')
    read = {name for source in (ROOT / "src").rglob("*.[ch]") for name in named.findall(source.read_text(encoding="utf-8"))}
    documented = set(re.findall(r"`(ATOLL_[A-Z0-9_]+)`", (ROOT / "docs/configuration.md").read_text(encoding="utf-8")))
    undocumented = read - INTERNAL - documented
    assert read & documented and not undocumented, undocumented
