"""Images without the usual: a musl system like Alpine, made from Debian's busybox and musl, and one static program on nothing."""
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from atoll import BIN, box_path, wait_for
from boxapi import Api, check_error
from imagelib import BUSYBOX, built, image_instance, import_image, tar_of
from ttylib import Terminal

LOADER = Path("/lib/ld-musl-x86_64.so.1")
PROGRAM = r"""
#include <stdio.h>
int main(int argc, char **argv) { printf("%s says %s\n", argv[0], argc > 1 ? argv[1] : "nothing"); return argc > 2 ? 3 : 0; }
"""


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


@pytest.fixture(scope="module", name="alpine")
def fixture_alpine(atoll, tmp_path_factory):
    """ash, musl's loader, and a program that is linked with musl: no bash, no glibc, no python, no node, no /tmp, no /etc/passwd."""
    if not LOADER.exists() or not shutil.which("musl-gcc"):
        pytest.skip("musl and musl-tools are not installed")
    work = tmp_path_factory.mktemp("musl")
    (work / "hello.c").write_text(PROGRAM)
    subprocess.run(["musl-gcc", "-O1", "-o", work / "hello", work / "hello.c"], check=True)
    applets = ("sh", "ash", "cat", "ls", "echo", "id", "mkdir", "rm", "env", "pwd", "sleep", "touch", "true", "test", "stat", "tty", "grep")
    links = [(f"bin/{name}", b"", {"type": tarfile.SYMTYPE, "linkname": "busybox"}) for name in applets]
    import_image(atoll, "alpine", tar_of([
        ("bin", None, {}), ("bin/busybox", BUSYBOX.read_bytes(), {}), *links, ("lib", None, {}),
        ("lib/ld-musl-x86_64.so.1", LOADER.read_bytes(), {}),
        ("usr", None, {}), ("usr/bin", None, {}), ("usr/bin/hello", (work / "hello").read_bytes(), {})]))
    return "alpine"


@pytest.fixture(name="box")
def fixture_box(atoll):
    yield "bare"
    atoll.request("DELETE", box_path("bare"))


def out(atoll, box, command, **fields):
    result = atoll.execute(box, command, **fields)
    return result["stdout"] + result["stderr"], result["exitCode"]


def test_a_musl_system_is_a_box(atoll, alpine, box):
    atoll.request("PUT", box_path(box), {"image": alpine})
    assert out(atoll, box, "hello world") == ("hello says world\n", 0)
    assert out(atoll, box, "hello a b; echo $?") == ("hello says a\n3\n", 0)
    assert out(atoll, box, "id -u; echo $HOME") == ("0\n/root\n", 0)
    # A session of ash keeps its directory and what it exported.
    assert out(atoll, box, "mkdir -p /srv/x && cd /srv/x && export WORD=kept") == ("", 0)
    assert out(atoll, box, "pwd; echo $WORD") == ("/srv/x\nkept\n", 0)
    assert out(atoll, box, "cat | grep g", stdin="given\nnone\n") == ("given\n", 0)
    assert atoll.execute(box, "exit 7")["exitCode"] == 7


def test_files_processes_and_terminals_work_there(atoll, alpine, box):
    atoll.request("PUT", box_path(box), {"image": alpine})
    api = Api(atoll, box)
    api.ok("/api/write", path="/data/deep/file", content="text")
    assert api.ok("/api/read", path="/data/deep/file")["content"] == "text"
    api.ok("/api/process/start", command="while :; do echo tick; sleep 0.05; done", processId="ticker")
    wait_for(lambda: "tick\ntick\n" in api.call("/api/process/ticker/logs", method="GET").json()["stdout"], "its output", seconds=60)
    assert api.call("/api/process/ticker", method="DELETE").status == 200
    with Terminal([BIN / "atoll", "shell", box], atoll.env) as t:
        t.type("echo on $((6 * 7)); exit\r")
        t.wait("on 42")
    # Long output goes through a file of the agent's, although there is no /tmp.
    said, code = out(atoll, box, "i=0; while test $i -lt 20000; do echo 0123456789; i=$((i + 1)); done; test ! -e /tmp")
    assert code == 0 and said == "0123456789\n" * 20000


@pytest.mark.parametrize("language, code", [("python", "PYTHON_NOT_AVAILABLE"), ("javascript", "JAVASCRIPT_NOT_AVAILABLE"),
                                            ("typescript", "JAVASCRIPT_NOT_AVAILABLE")])
def test_a_language_that_is_not_there_is_told(atoll, alpine, box, language, code):
    atoll.request("PUT", box_path(box), {"image": alpine})
    error = check_error(atoll.request("POST", box_path(box, "/api/contexts"), {"language": language}), code, 501)
    assert "There is no" in error["message"]


def test_it_is_a_base_for_builds(atoll, alpine, box):
    built(atoll, f"FROM {alpine}\nWORKDIR /app\nRUN hello build > said\nCMD [\"hello\", \"service\"]\n", query="tag=onalpine")
    atoll.request("PUT", box_path(box), {"image": "onalpine"})
    assert out(atoll, box, "cat /app/said") == ("hello says build\n", 0)
    shown = wait_for(lambda: (p := atoll.request("GET", box_path(box, "/api/process/entrypoint")).json()["process"])["status"] == "completed" and p,
                     "its program has ended", seconds=60)
    assert shown["exitCode"] == 0


def test_one_static_program_is_a_box(atoll, box):
    built(atoll, 'FROM scratch\nCOPY busybox /busybox\n', [("busybox", BUSYBOX.read_bytes(), {})], "tag=one")
    atoll.request("PUT", box_path(box), {"image": "one"})

    def run(*words):
        done = subprocess.run([BIN / "atoll", "exec", box, "--", *words], env=atoll.env, capture_output=True, text=True, check=False)
        return done.stdout, done.returncode
    assert run("/busybox", "echo", "hi") == ("hi\n", 0)
    assert run("/busybox", "ls", "/")[1] == 0
    # Without a shell, plain commands run; a pipe needs one, and is an error that says so.
    assert atoll.execute_alone(box, "/busybox echo plain")["stdout"] == "plain\n"
    reply = atoll.request("POST", box_path(box, "/api/execute"), {"command": "/busybox echo a | /busybox cat"})
    assert reply.status != 200 or reply.json()["exitCode"] != 0
    assert "sh" in reply.text
    api = Api(atoll, box)
    api.ok("/api/write", path="/new/file", content="text")
    assert run("/busybox", "cat", "/new/file") == ("text", 0)
