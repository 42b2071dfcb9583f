"""sdk/python: its types and style, its wheel and sdist in a clean virtual environment, its own tests there, and the
examples of its README and of docs/python.md.

The package's dependencies are Debian's (tools/deps test): the virtual environment sees the system's packages.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import atoll as lib
import package as typescript
import pytest
from fixtures import what_is_missing

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sdk/python"
NEEDED = ["httpx", "websockets", "build", "setuptools", "wheel", "venv", "mypy", "flake8"]
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
FILES = sorted(path.name for path in (PACKAGE / "tests").glob("test_*.py"))

sys.path.insert(0, str(ROOT / "tests/docs"))
import examples  # noqa: E402

POOL = "snapshots come from it"

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"tools/deps test installs what is missing: {', '.join(MISSING)}")


def run(*command, cwd=PACKAGE, env=None, stdin="", timeout=300):
    r = subprocess.run([str(word) for word in command], cwd=cwd, input=stdin, capture_output=True, text=True, check=False, env=env,
                       timeout=timeout)
    assert r.returncode == 0, f"{' '.join(map(str, command))} ended with {r.returncode}\n{r.stdout[-6000:]}\n{r.stderr[-6000:]}"
    return r.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The sdist, and the wheel that is built from it. Built in a copy: nothing is left in the checkout."""
    base = tmp_path_factory.mktemp("python")
    shutil.copytree(PACKAGE, base / "source", ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache", "dist"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", base / "dist", cwd=base / "source")
    return base / "dist"


def installed(archive, where):
    """The interpreter of a clean virtual environment that has the package."""
    run(sys.executable, "-m", "venv", "--system-site-packages", where)
    run(where / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", archive)
    return where / "bin/python"


@pytest.fixture(scope="module")
def python(dist, tmp_path_factory):
    return installed(next(dist.glob("*.whl")), tmp_path_factory.mktemp("venv") / "v")


def test_types():
    run(sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null")


def test_style():
    run(sys.executable, "-m", "flake8")


def test_wheel_and_sdist_hold_what_they_should(dist):
    wheel = zipfile.ZipFile(next(dist.glob("*.whl"))).namelist()
    sources = {str(path.relative_to(PACKAGE / "src")) for path in (PACKAGE / "src").rglob("*.py")}
    assert {name for name in wheel if name.endswith(".py")} == sources
    assert "atoll_sandbox/py.typed" in wheel
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "pyproject.toml", "tests/conftest.py", "tools/unasync.py"} <= names


def test_the_installed_package_is_the_wheel(python, tmp_path):
    shown = run(python, "-c", "import atoll_sandbox as a; print(a.__file__, a.__version__)", cwd=tmp_path)
    assert str(python.parents[1]) in shown and shown.split()[1] == "0.1.0"


TYPED = """
import httpx
from atoll_sandbox import AsyncSandbox, Sandbox
sandbox, other = Sandbox("x"), AsyncSandbox("x")
stdout: str = sandbox.exec("true").stdout
data: bytes = sandbox.read_file("f", encoding=None)
text: str = sandbox.read_file("f")
code: int = sandbox.start_process("x", session=sandbox.get_session("s")).wait_for_exit(1.5)
for event in sandbox.exec_stream("x"):
    kind: str = event.type
sandbox.exec("true", timeout="5")  # refused
sandbox.exec(["true"])  # refused
sandbox.exec("true", tiemout=5)  # refused
sandbox.exec("true", session=7)  # refused
sandbox.create_code_context("cobol")  # refused
sandbox.write_file("f", {"a": 1})  # refused
sandbox.expose_port("8080")  # refused
sandbox.start_process("x").wait_for_port(1, mode="udp")  # refused
sandbox.configure(memory=1)  # refused
made: str = sandbox.backup(ttl=60).id
kept: str = sandbox.restore_backup(sandbox.create_backup("/workspace", name="one")).dir
sandbox.restore_backup({"id": "bak-1", "dir": "/workspace"})
sandbox.restore_backup("bak-1")  # refused
sandbox.create_backup("/workspace", ttl="1d")  # refused
sandbox.restore_from(7)  # refused
sandbox.approve("a", "perhaps")  # refused
sandbox.configure(instance="huge")  # refused
sandbox.set_outbound_handler(lambda request: 200)  # refused
sandbox.set_outbound_handler(lambda request: httpx.Response(200, text=request.method))
sandbox.open_tunnel("8080")  # refused
other.exec("true").stdout  # refused
"""


def test_types_refuse_what_the_server_would(python, tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    r = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "--python-executable", python, "typed.py"],
                       cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    refused = {int(line.split(":")[1]) for line in r.stdout.splitlines() if ": error:" in line}
    assert refused == {n for n, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# refused")}, r.stdout + r.stderr


def test_the_sdist_installs_and_works(daemon, dist, box, tmp_path):
    program = "import sys; from atoll_sandbox import Sandbox; print(Sandbox(sys.argv[1]).exec('echo from the sdist').stdout)"
    found = installed(next(dist.glob("*.tar.gz")), tmp_path / "v")
    assert run(found, "-c", program, box, cwd=tmp_path, env=typescript.reaching(daemon)).strip() == "from the sdist"


def test_there_are_files():
    assert len(FILES) > 14


@pytest.mark.limit(600)
@pytest.mark.parametrize("file", FILES)
def test_file(daemon, dist, python, file):
    """The package's own tests, with the installed package."""
    r = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{file}"], cwd=dist.parent / "source", capture_output=True,
                       text=True, check=False, timeout=580, env=typescript.reaching(daemon, PYTHONDONTWRITEBYTECODE="1"))
    assert r.returncode == 0, f"{r.stdout[-12000:]}\n{r.stderr[-2000:]}"


@pytest.mark.parametrize("page", ["sdk/python/README.md", "docs/python.md"])
def test_examples_print_what_they_say(daemon, python, page, tmp_path):
    """Each `python` block is a program, and the `text` block behind it is what it prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.M | re.S)
    assert found and len(found) == text.count("```python"), "a block without its output"
    for program, output in found:
        printed = run(python, "-", cwd=tmp_path, env=typescript.reaching(daemon), stdin=program)
        assert examples.matches(output, printed), f"{program}\nprinted\n{printed}\ninstead of\n{output}"
    assert daemon.boxes() == [], "a page cleans up after itself"


KEPT_BY_PYTHON = """
import json, sys
from atoll_sandbox import Sandbox
with Sandbox(sys.argv[1]) as sandbox:
    sandbox.write_file("/workspace/d/f", "by Python")
    print(json.dumps(sandbox.create_backup("/workspace/d", ttl=600).to_dict()))
"""

RESTORED_BY_TYPESCRIPT = """
import { getSandbox } from './dist/index.js';
const [id, made] = process.argv.slice(-2);
const backup = JSON.parse(made);
const sandbox = getSandbox(undefined, id);
await sandbox.restoreBackup(backup);
const found = (await sandbox.readFile('/workspace/d/f')).content;
await sandbox.storage.deleteBackup(backup.id);
await sandbox.writeFile('/workspace/d/f', `${found}, then by TypeScript`);
console.log(JSON.stringify(await sandbox.createBackup({ dir: '/workspace/d', ttl: 600, localBucket: true })));
"""

RESTORED_BY_PYTHON = """
import json, sys
from atoll_sandbox import Sandbox
with Sandbox(sys.argv[1]) as sandbox:
    backup = json.loads(sys.argv[2])
    sandbox.restore_backup(backup)
    print(sandbox.read_file("/workspace/d/f"))
    sandbox.delete_backup(backup["id"])
"""


@pytest.mark.limit(600)
def test_each_sdk_restores_directories_that_the_other_has_kept(daemon, python, box, tmp_path):
    if not typescript.built():
        pytest.skip(typescript.WHY_NOT)
    env = typescript.reaching(daemon)
    kept = run(python, "-c", KEPT_BY_PYTHON, box, cwd=tmp_path, env=env)
    daemon.destroy(box)
    kept = typescript.run("node", "--input-type=module", "-e", RESTORED_BY_TYPESCRIPT, "--", box, kept, env=env)
    daemon.destroy(box)
    assert run(python, "-c", RESTORED_BY_PYTHON, box, kept, cwd=tmp_path, env=env) == "by Python, then by TypeScript\n"
    assert daemon.boxes() == [box]


SECURED = """
import re
from atoll_sandbox import ContainerUnavailableError, ProcessReadyTimeoutError, Sandbox
with Sandbox("tls", destroy_on_exit=True) as sandbox:
    try:
        print(sandbox.exec("echo over TLS").stdout, end="")
    except ContainerUnavailableError as error:
        print(error)
        raise SystemExit
    process = sandbox.start_process("seq 1 5000; sleep 600")
    print(process.wait_for_log(re.compile("^4999$")).line)
    try:
        process.wait_for_log("never", timeout=0.3)
    except ProcessReadyTimeoutError as error:
        print(error.timeout)
    with sandbox.terminal() as terminal:
        terminal.write("exit 3\\r")
        print(terminal.wait(timeout=60))
"""


@pytest.mark.skipif(not shutil.which("openssl"), reason="tools/deps test installs openssl")
def test_tls(python, tmp_path):
    if what_is_missing():
        pytest.skip(what_is_missing())
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        os.chmod(base, 0o755)  # the daemon's user reads there
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem",
            "-out", "cert.pem", "-subj", "/CN=test", "-days", "2", "-addext", "subjectAltName=IP:127.0.0.1", cwd=base)
        os.chmod(f"{base}/key.pem", 0o644)
        with lib.Instance({"ATOLL_ZYGOTE": "off", "ATOLL_TLS_CERT": f"{base}/cert.pem", "ATOLL_TLS_KEY": f"{base}/key.pem"}) as instance:
            env = typescript.reaching(instance, ATOLL_URL=f"https://{instance.address}")
            assert run(python, "-", cwd=tmp_path, env={**env, "SSL_CERT_FILE": f"{base}/cert.pem"}, stdin=SECURED) == "over TLS\n4999\n0.3\n3\n"
            assert "Set SSL_CERT_FILE" in run(python, "-", cwd=tmp_path, env=env, stdin=SECURED.replace(", destroy_on_exit=True", ""))


FOLLOW = {
    "blocking": """
import sys
from atoll_sandbox import Sandbox
with Sandbox(sys.argv[1]) as sandbox:
    process = sandbox.start_process("echo begin; until [ -e /tmp/go ]; do sleep 0.05; done; seq 1 5000; (exit 9)")
    for event in process.stream_logs():
        print(event.data if event.type == "stdout" else "", end="", flush=True)
    print("exit", event.exit_code)
""",
    "asyncio": """
import asyncio, sys
from atoll_sandbox import AsyncSandbox
async def main():
    async with AsyncSandbox(sys.argv[1]) as sandbox:
        process = await sandbox.start_process("echo begin; until [ -e /tmp/go ]; do sleep 0.05; done; seq 1 5000; (exit 9)")
        async for event in process.stream_logs():
            print(event.data if event.type == "stdout" else "", end="", flush=True)
        print("exit", event.exit_code)
asyncio.run(main())
""",
}


@pytest.mark.parametrize("kind", FOLLOW)
def test_logs_go_on_over_a_killed_daemon(own_daemon, own_box, python, kind, tmp_path):
    with open(tmp_path / "err", "w+", encoding="utf-8") as err, subprocess.Popen(
            [python, "-c", FOLLOW[kind], own_box], stdout=subprocess.PIPE, stderr=err, env=typescript.reaching(own_daemon), text=True) as p:
        assert p.stdout.readline() == "begin\n", (tmp_path / "err").read_text()
        own_daemon.kill_daemon()
        own_daemon.await_warden()
        own_daemon.execute_alone(own_box, "touch /tmp/go")
        rest = p.stdout.read()
        assert p.wait(60) == 0, (tmp_path / "err").read_text()
    assert rest == "".join(f"{i}\n" for i in range(1, 5001)) + "exit 9\n"


AGENT = """
from agents import Agent
from atoll_sandbox import AsyncSandbox
from atoll_sandbox.openai_agents import TOOLS, sandbox_tools
tools = sandbox_tools(AsyncSandbox("unused"))
assert [tool.name for tool in Agent(name="coder", tools=tools).tools] == [tool.name for tool in TOOLS]
assert [tool.params_json_schema for tool in tools] == [tool.schema for tool in TOOLS]
"""


@pytest.mark.skipif(not importlib.util.find_spec("agents"), reason="the Python package openai-agents is missing: Debian does not have it")
def test_agents_of_openai_have_the_tools(python, tmp_path):
    run(python, "-", cwd=tmp_path, stdin=AGENT)
