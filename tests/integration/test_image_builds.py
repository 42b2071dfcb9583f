"""Builds as people write them: what the reference of the Dockerfile says about values, flags and files."""
import gzip
import os
import signal
import subprocess
from urllib.parse import quote

import pytest
from atoll import BIN, wait_for
from imagelib import build, built, events, image_instance, no_work_left, run, tar_of


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


def test_values_with_blanks_stay_whole(atoll):
    built(atoll, "FROM default\nENV OLD hello  world\nENV TAB\tx\nENV A=$OLD B=\"it's $OLD\" C='$OLD' D=${NONE:-p q}\nLABEL l=$OLD\n"
                 "ARG V=lib-1.2.tar.gz\nENV N=${V%.tar.gz} M=${V#*-} R=${V//./_}\n"
                 "RUN echo \"$A|$B|$C|$D|$TAB|$N|$M|$R\" > /said\n", query="tag=blanks")
    assert run(atoll, "a", "blanks", "cat /said") == "hello  world|it's hello  world|$OLD|p q|x|lib-1.2|1.2.tar.gz|lib-1_2_tar_gz\n"
    assert atoll.request("GET", "/v1/images/blanks").json()["config"]["config"]["Labels"] == {"l": "hello  world"}


def test_a_workdir_is_made_for_its_user(atoll):
    built(atoll, "FROM default\nWORKDIR /made/here\nUSER 7:8\nWORKDIR ../own\nRUN touch file\n", query="tag=dirs")
    assert run(atoll, "a", "dirs", "stat -c '%n %u %g' /made/here /made/own /made/own/file").splitlines() == [
        "/made/here 0 0", "/made/own 7 8", "/made/own/file 7 8"]


def test_variables_that_docker_gives(atoll):
    """Platforms by an ARG, proxies without one, and the ARG of a stage in a stage on it."""
    text = ("FROM --platform=$BUILDPLATFORM default AS one\nARG TARGETOS\nARG TARGETARCH\nARG X=1\n"
            "RUN echo $TARGETOS/$TARGETARCH [$TARGETPLATFORM] $HTTP_PROXY > /said\nFROM one\nRUN echo $X >> /said\n")
    built(atoll, text, query="tag=given&nocache=1&buildargs=" + quote('{"HTTP_PROXY":"http://proxy"}'))
    assert run(atoll, "a", "given", "cat /said") == "linux/amd64 [] http://proxy\n1\n"
    # A proxy is no reason to run a step again.
    found = built(atoll, text, query="tag=given&buildargs=" + quote('{"HTTP_PROXY":"http://other"}'))
    assert [e["type"] for e in found].count("cached") == 2


def test_what_an_image_says_is_what_docker_would_say(atoll):
    built(atoll, 'FROM default\nEXPOSE 80 9000-9002/UDP 80\nCMD ["a"]\nENTRYPOINT ["b"]\nSTOPSIGNAL sigquit\n'
                 "HEALTHCHECK --interval=1m30s --timeout=500ms --start-interval=2s --retries=4 CMD true\n", query="tag=says")
    shown = atoll.request("GET", "/v1/images/says").json()["config"]["config"]
    assert sorted(shown["ExposedPorts"]) == ["80/tcp", "9000/udp", "9001/udp", "9002/udp"]
    assert (shown["Entrypoint"], shown["Cmd"], shown["StopSignal"]) == (["b"], ["a"], "sigquit")
    assert shown["Healthcheck"] == {"Test": ["CMD-SHELL", "true"], "Interval": 90 * 10**9, "Timeout": 5 * 10**8, "StartInterval": 2 * 10**9, "Retries": 4}
    built(atoll, 'FROM says\nENTRYPOINT ["c"]\n', query="tag=says2")
    assert "Cmd" not in atoll.request("GET", "/v1/images/says2").json()["config"]["config"]


def test_a_directory_is_no_file_whatever_is_in_it(atoll):
    """Its only file has its name."""
    built(atoll, "FROM default AS a\nCOPY d /t\nFROM default\nCOPY d /t\nCOPY d/d /u\nCOPY d/d /v/\n"
          "COPY --from=a /t /w\nRUN find /t /u /v /w -type f > /said\n",
          files=[("d/d", b"x", {})], query="tag=samename")
    assert run(atoll, "a", "samename", "sort /said").split() == ["/t/d", "/u", "/v/d", "/w/d"]


def test_copies_keep_their_times_which_are_no_reason_to_copy_again(atoll):
    """zip refuses files from before 1980, make compares times."""
    def cached(content, mtime):
        files = [("d/g", content, {"mtime": mtime}), ("f", b"y", {"mtime": mtime})]
        found = built(atoll, "FROM default\nCOPY d /t\nCOPY f /f\n", files=files, query="tag=times")
        return [e["type"] for e in found].count("cached")

    cached(b"x", 1234567890)
    assert run(atoll, "a", "times", "stat -c '%n %Y' /t/g /f").splitlines() == ["/t/g 1234567890", "/f 1234567890"]
    assert cached(b"x", 1234567899) == 2
    assert cached(b"z", 1234567899) == 0


def test_add_unpacks_by_content(atoll):
    """An archive without its usual name is unpacked, a compressed text or a file that is only named like an archive is not."""
    packed = gzip.compress(tar_of([("in/file", b"x", {})]))
    built(atoll, "FROM default\nADD plain /a/\nADD fake.tar /c/\nADD text.gz /c/\nRUN ls /a/in /c > /said\n",
          files=[("plain", packed, {}), ("text.gz", gzip.compress(b"hello"), {}), ("fake.tar", b"not one", {})], query="tag=adds")
    assert run(atoll, "a", "adds", "cat /said").split() == ["/a/in:", "file", "/c:", "fake.tar", "text.gz"]


@pytest.mark.parametrize("text, sentence", [
    ("FROM --platform=linux/arm64 default\n", "Dockerfile:1:1: the platform 'linux/arm64' cannot be built here, only linux/amd64"),
    ("FROM --pull default\n", "Dockerfile:1:1: FROM does not know the flag '--pull'"),
    ("FROM default AS 1x\n", "Dockerfile:1:1: '1x' cannot name a stage"),
    ("FROM default\nENV A=${NONE:?say it}\n", "Dockerfile:2:1: the variable 'NONE' is needed: say it"),
    ("FROM default\nCOPY --chmod=u+x Dockerfile /f\n", "Dockerfile:2:1: --chmod needs an octal number such as 644, not 'u+x'"),
    ("FROM default\nCOPY --from=$X /a /b\n", "Dockerfile:2:1: --from takes no variables"),
    ("FROM default\nCOPY --parents Dockerfile /f\n", "Dockerfile:2:1: COPY does not know the flag '--parents'"),
    ("FROM default\nRUN --network=host true\n", "Dockerfile:2:1: --network=host is not supported"),
    ("FROM default\nRUN --security=insecure true\n", "Dockerfile:2:1: --security=insecure is not supported"),
    ("FROM default\nEXPOSE 9-8\n", "Dockerfile:2:1: '9-8' is not a port"),
    ("FROM default\nSTOPSIGNAL FOO\n", "Dockerfile:2:1: 'FOO' is not a signal"),
    ("FROM default\nHEALTHCHECK --interval=soon CMD x\n", "Dockerfile:2:1: --interval needs a duration such as 30s or 1m30s, not 'soon'"),
    ("FROM default\nHEALTHCHECK --retries=x CMD x\n", "Dockerfile:2:1: --retries needs a number"),
    ("FROM default\nHEALTHCHECK --every=1s CMD x\n", "Dockerfile:2:1: HEALTHCHECK does not know the flag '--every=1s'"),
    ("FROM default\nADD git@example.org:a/b.git /x\n", "Dockerfile:2:1: ADD of a URL is not supported")])
def test_what_has_no_meaning_is_refused(atoll, text, sentence):
    reply = build(atoll, text)
    last = reply.json() if reply.status != 200 else events(reply)[-1]
    assert sentence in last["message"], last


def context(where, ignore, names, file=".dockerignore"):
    """A directory for a build that lists what it has copied."""
    for name in names:
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text("")
    (where / file).write_text(ignore)
    (where / "Dockerfile").write_text("FROM default\nCOPY . /c\nRUN cd /c && /bin/busybox find . | /bin/busybox sort\n")


def copied(atoll, *words, **options):
    out = subprocess.run([BIN / "atoll", "build", "--no-cache", *words], env=atoll.env, capture_output=True, text=True, check=False, **options)
    assert out.returncode == 0, out
    return [line[2:] for line in out.stdout.splitlines() if line.startswith("./")]


def test_what_is_ignored_is_not_copied(atoll, tmp_path):
    """Directories that are ignored go with their content, but for what a '!' brings back; an ignored Dockerfile is still used."""
    context(tmp_path, "# all\n**/*.o\n!sub/keep.o\n/node_modules/*\n!node_modules/keep\n.git\ndocs/*.md\n!docs/README.md\n**/deep/\n"
            "./b.tx?\nDockerfile\n.dockerignore\n",
            ["a.o", "b.txt", "sub/c.o", "sub/keep.o", "sub/deep/d", "node_modules/x/y", "node_modules/keep/z", ".git/h", "docs/a.md", "docs/README.md"])
    assert copied(atoll, str(tmp_path)) == ["docs", "docs/README.md", "node_modules", "node_modules/keep", "node_modules/keep/z", "sub", "sub/keep.o"]


def test_a_dockerfile_has_an_ignore_file_of_its_own(atoll, tmp_path):
    context(tmp_path, "a\n", ["a", "b"], "Dockerfile.dockerignore")
    (tmp_path / ".dockerignore").write_text("*\n")
    assert copied(atoll, str(tmp_path)) == [".dockerignore", "Dockerfile", "Dockerfile.dockerignore", "b"]


def test_a_dockerfile_from_stdin_is_no_part_of_the_context(atoll, tmp_path):
    context(tmp_path, "Dockerfile\n.dockerignore\n", ["a"])
    text = (tmp_path / "Dockerfile").read_text() + "# from elsewhere\n"
    assert copied(atoll, "-f", "-", str(tmp_path), input=text) == ["a"]


def test_a_cancelled_build_says_where_it_was(atoll, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM default\nENV A=b\nRUN echo begun; while :; do :; done\n")
    with subprocess.Popen([BIN / "atoll", "build", "-t", "never", str(tmp_path)], env={**os.environ, **atoll.env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as cli:
        while "begun" not in cli.stdout.readline():
            assert cli.poll() is None
        cli.send_signal(signal.SIGINT)
        _, said = cli.communicate(timeout=60)
    assert (cli.returncode, said) == (130, "atoll: cancelled at step 3/3; nothing was kept but the layer cache\n")
    wait_for(lambda: no_work_left(atoll), "the build's boxes to be gone", 60)
