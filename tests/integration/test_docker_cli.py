"""atoll-docker as wrangler calls it, and the images that it builds, pulls and names."""

import json
import os
import signal
import subprocess
import urllib.parse

import imagelib
import leaks
import pytest
from atoll import BIN, DEADLINE, alive, wait_for
from dockersock import SIDECAR, TAG, execute, read
from registry import registry


def test_the_commands_of_wrangler(docker):
    context = json.loads(docker.cli("context", "ls", "--format", "json").stdout)
    assert context["Current"] is True and context["DockerEndpoint"] == f"unix://{docker.path}"
    assert docker.cli("info").returncode == 0
    assert docker.cli("--host", f"unix://{docker.path}", "info", "--format", "{{json .SecurityOptions}}").stdout == b"[]\n"
    assert docker.build().returncode == 0
    assert docker.cli("pull", SIDECAR).returncode == 0
    assert docker.cli("pull", "docker.io/cloudflare/sandbox:0.12.10", "--platform", "linux/amd64").returncode == 0
    assert docker.cli("tag", "docker.io/cloudflare/sandbox:0.12.10", "other:1").returncode == 0
    assert docker.cli("image", "inspect", TAG, "--format", "{{ len .Config.ExposedPorts }}").stdout.strip() not in (b"", b"0")
    assert docker.cli("image", "inspect", TAG, "--format", "{{ range .RepoTags }}{{ . }}\n{{ end }}").stdout.strip() == TAG.encode()
    docker.run("c")
    ids = docker.cli("ps", "-a", "--filter", f"ancestor={TAG}", "--format", "{{.ID}}").stdout.split()
    assert len(ids) == 1 and docker.cli("ps", "-a", "--filter", "ancestor=none", "--format", "{{.ID}}").stdout == b""
    assert docker.cli("rm", "--force", *(i.decode() for i in ids)).returncode == 0
    assert docker.state("c") is None and docker.state("c-proxy") is None
    assert docker.cli("rmi", TAG).returncode == 0
    assert docker.cli("rmi", TAG).returncode == 1


@pytest.mark.parametrize("dockerfile, words", [
    (b"FROM cloudflare/sandbox:0.12.10\n\nRUN exit 3\n", b"Dockerfile:3"),
    (b"FROM cloudflare/sandbox:0.12.10\nENV A=1 \\\n # c\n B=2\nCOPY none-such b\n", b"Dockerfile:5"),
    (b"FROM none-such:1\n", b"Dockerfile:1"), (b"", b"Dockerfile"), (b"ENV A=1\n", b"Dockerfile:1"),
    (b"FROM cloudflare/sandbox:1\nNOTHING\n", b"Dockerfile:2"), (b"FROM cloudflare/sandbox:1\nENV A=\"1\n", b"Dockerfile:2"),
])
def test_a_dockerfile_that_cannot_be_built_is_refused_with_its_line(docker, tmp_path, dockerfile, words):
    r = docker.build(TAG, dockerfile, context=tmp_path)
    assert r.returncode == 1 and words in r.stderr, r
    assert docker.ask("GET", "/images/" + urllib.parse.quote(TAG, safe="") + "/json")[0] == 404


def test_files_commands_and_stages(docker, tmp_path):
    """What the image service builds, as wrangler calls it: the Dockerfile on stdin beside the directory."""
    (tmp_path / "own.txt").write_text("mine\n", encoding="utf-8")
    (tmp_path / "left.txt").write_text("not sent\n", encoding="utf-8")
    (tmp_path / ".dockerignore").write_text("left.txt\n", encoding="utf-8")
    text = b"FROM cloudflare/sandbox:0.12.10 AS one\nRUN echo made >/made\nFROM cloudflare/sandbox:0.12.10\nCOPY --from=one /made /opt/made\nCOPY . /opt/here\n"
    for other in (True, False):  # stdin's is not, and is, the directory's
        (tmp_path / "Dockerfile").write_bytes(b"FROM scratch\n" if other else text)
        assert docker.build(TAG, text, context=tmp_path).returncode == 0
        port = docker.run("c", sidecar=other)
        said = execute(port, "cat /opt/made /opt/here/own.txt; ls /opt/here")["stdout"]
        assert said == "made\nmine\nDockerfile\nown.txt\n", said
        assert docker.ask("POST", "/containers/c/kill?signal=SIGTERM")[0] == 204


def test_arguments_a_user_a_directory_and_a_command(docker):
    text = b"ARG V=0.12.10\nFROM cloudflare/sandbox:${V}\nARG WHO=you\nENV GREETING=\"hi $WHO\" E='$WHO' D=${NONE:-d}\nWORKDIR /tmp\nUSER nobody\nLABEL a=b\n" \
           b"CMD echo $GREETING $(pwd) $(id -un) >/tmp/said\n"
    assert docker.build(TAG, text, "--build-arg", "WHO=me").returncode == 0
    port = docker.run("c")
    wait_for(lambda: execute(port, "cat /tmp/said")["stdout"] == "hi me /tmp nobody\n", "the command ran")
    assert execute(port, "echo \"$E $D\" $(id -un)")["stdout"] == "$WHO d nobody\n"


def test_a_command_of_the_caller(docker):
    assert docker.build(TAG, b"FROM cloudflare/sandbox:1\nCMD echo image >/tmp/said\n").returncode == 0
    docker.run("c")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "Cmd": ["sh", "-c", "echo 'the caller' >/tmp/said"]})[0] == 201
    assert docker.ask("POST", "/containers/c/start")[0] == 204
    wait_for(lambda: execute(docker.port("c"), "cat /tmp/said")["stdout"] == "the caller\n", "the command ran")


def test_a_commit_is_an_image(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    execute(port, "echo kept >/workspace/f")
    repo = f"workerd-container-snap-{os.getpid()}"
    status, image = docker.ask("POST", f"/commit?container=c&pause=true&repo={repo}")
    assert status == 201 and image["Id"].startswith("sha256:"), image
    about = docker.ask("GET", f"/images/{repo}/json")[1]
    name = f"docker-{os.getuid()}/{repo}"
    size = next(i["size"] for i in docker.daemon.request("GET", "/v1/images").json()["images"] if i["name"].startswith(name))
    assert about["Id"] == image["Id"] and about["Size"] == size > 1 << 20, about
    assert docker.ask("POST", "/containers/create?name=d", {"Image": repo})[0] == 201
    assert docker.ask("POST", "/containers/create?name=d-proxy", {"Image": SIDECAR})[0] == 201
    for name in ("d-proxy", "d"):
        assert docker.ask("POST", f"/containers/{name}/start")[0] == 204
    assert execute(docker.port("d"), "cat /workspace/f; echo $FROM_IMAGE")["stdout"] == "kept\nyes\n"
    assert docker.ask("POST", "/commit?container=none&repo=x")[0] == 404
    assert docker.ask("POST", "/commit?container=c&repo=")[0] == 400
    assert docker.ask("POST", "/containers/c/kill?signal=SIGKILL")[0] == 204
    assert docker.ask("POST", "/commit?container=c&repo=x")[0] == 409


def test_an_image_of_a_registry(daemon, docker, tmp_path):
    """What wrangler does with a reference: pull, then tag."""
    r = docker.cli("pull", "127.0.0.1:1/x:1", "--platform", "linux/amd64")
    assert r.returncode == 1 and b"127.0.0.1:1/x:1" in r.stderr and docker.tags() == [], r
    (tmp_path / "own.txt").write_text("mine\n", encoding="utf-8")
    with registry(tmp_path / "registry") as there:
        ref = f"127.0.0.1:{there.port}/team/app:1"
        assert docker.build(TAG, b"FROM scratch\nCOPY own.txt /own.txt\n", context=tmp_path).returncode == 0
        assert daemon.cli("push", f"docker-{os.getuid()}/{TAG}", ref).returncode == 0
        docker.remove_all()
        r = docker.cli("pull", ref, "--platform", "linux/amd64")
        assert r.returncode == 0 and docker.tags() == [ref], r
        assert docker.cli("pull", ref).returncode == 0  # it is here
    assert docker.cli("tag", ref, "other:1").returncode == 0
    assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR})[0] == 201
    assert docker.ask("POST", "/containers/create?name=c", {"Image": "other:1"})[0] == 201
    for name in ("c-proxy", "c"):
        assert docker.ask("POST", f"/containers/{name}/start")[0] == 204
    assert read(docker.port("c"), "/own.txt") == "mine\n"
    docker.remove_all()
    assert daemon.request("DELETE", "/v1/images/" + urllib.parse.quote(ref, safe="")).status == 200


def test_old_tags_of_wrangler_go(daemon, docker):
    """Newer wranglers remove none; eight stay, and those of containers."""
    first, names = f"cloudflare-dev/a-{os.getpid()}", []
    for n in range(10):
        names.append(f"{first}:{n}")
        assert docker.build(names[-1]).returncode == 0
        if n == 0:
            assert docker.ask("POST", "/containers/create?name=c", {"Image": names[0]})[0] == 201
    assert set(docker.tags()) == {names[0], *names[2:]}
    mine = [f"docker-{os.getuid()}/{name}" for name in names]
    wait_for(lambda: mine[1] not in [i["name"] for i in daemon.request("GET", "/v1/images").json()["images"]], "the image has gone too")
    assert docker.ask("DELETE", "/images/" + urllib.parse.quote(names[9], safe=""))[0] == 200
    assert mine[9] not in [i["name"] for i in daemon.request("GET", "/v1/images").json()["images"]]


def test_help(docker):
    """Of the whole and of each command, also where no daemon runs."""
    r = docker.cli("--help", ATOLL_RUN="/nowhere")
    assert r.returncode == 0 and b"image inspect IMAGE" in r.stdout and not r.stderr, r
    for command in ("build", "pull", "tag", "ps", "rm", "rmi", "info", "context ls", "image inspect", "volume ls", "volume rm"):
        assert f"  {command} ".encode() in r.stdout, command
        for flag in ("--help", "-h"):
            one = docker.cli(*command.split(), flag, ATOLL_RUN="/nowhere")
            assert one.returncode == 0 and one.stdout.startswith(f"usage: atoll-docker {command}".encode()) and not one.stderr, one
    assert docker.cli().returncode == 2 and b"--help" in docker.cli().stderr


def test_the_names_that_make_it_docker(tmp_path):
    """A link to atoll-docker under any name, relative or through PATH; a link to `atoll` is `atoll`."""
    (tmp_path / "far").mkdir()
    for link, to in (("docker", BIN / "atoll-docker"), ("mine", BIN / "atoll-docker"), ("again", "mine"), ("far/over", "../again"), ("a", BIN / "atoll"),
                     ("atoll-docker", BIN / "atoll")):
        (tmp_path / link).symlink_to(to)

    def version(*command, **options):
        return subprocess.run([*command, "--version"], capture_output=True, check=True, cwd=tmp_path, timeout=DEADLINE, **options).stdout

    for name in ("docker", "mine", "again", "far/over", "atoll-docker"):
        assert version(tmp_path / name).endswith(b" (atoll-docker)\n") and version(f"./{name}").endswith(b" (atoll-docker)\n"), name
    assert version("sh", "-c", '"$@"', "sh", "mine", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}).endswith(b" (atoll-docker)\n")
    assert version("other", executable=BIN / "atoll-docker").endswith(b" (atoll-docker)\n")
    for command, executable in (("a", None), ("atoll", BIN / "atoll-docker")):
        assert version(tmp_path / command, executable=executable).startswith(b"atoll ")


@pytest.mark.parametrize("arguments, words", [
    (["rm"], "missing"), (["rmi"], "missing"), (["rm", "-f"], "missing"), (["tag", "a"], "missing"), (["tag", "a", "b", "c"], "too many"),
    (["pull"], "missing"), (["pull", "a", "b"], "too many"), (["image", "inspect"], "missing"), (["image", "inspect", "a", "b"], "too many"),
    (["image"], "unknown command 'image'"), (["image", "prune"], "unknown command 'image prune'"), (["context", "use", "x"], "unknown command 'context use'"),
    (["ps", "x"], "too many"), (["info", "x"], "too many"), (["build", "-t", "a"], "missing"), (["build", "-t", "a", ".", "x"], "too many"),
    (["build", "."], "-t TAG"),
    (["build", "--networks", "host", "-t", "a", "."], "'--networks'"), (["build", "--platformx=1", "-t", "a", "."], "'--platformx=1'"),
    (["build", "--labels", "x", "-t", "a", "."], "'--labels'"), (["build", "-t", "a", "--target"], "'--target'"), (["ps", "-az"], "'-az'"),
    (["ps", "--filter"], "'--filter'"), (["ps", "--filter", "nothing=x"], "unknown filter 'nothing=x'"),
    (["ps", "--filter", "label"], "unknown filter 'label'"),
    (["ps", "--format", "{{json .}}"], "unknown format"), (["image", "inspect", "x", "--format", "{{.Size}}"], "unknown format"),
    (["info", "--format", "{{.ID}}"], "unknown format"), (["--host"], "--host"), (["--host", "tcp://127.0.0.1:1", "info"], "tcp://127.0.0.1:1"),
    (["--host=x", "info"], "'x'"), (["volume", "prune"], "unknown command 'volume prune'"), (["rm", "x"] + ["y"] * 300, "too many words"),
    (["build", "-t", "x" * 300, "."], "too long"),
])
def test_wrong_words_are_named(docker, arguments, words):
    r = docker.cli(*arguments)
    assert r.returncode in (1, 2) and words in r.stderr.decode() and not r.stdout, (arguments, r)


def test_the_lines_that_miniflare_tells_its_user(docker):
    """What to call when its own clean-up failed."""
    assert docker.build().returncode == 0
    for name, session in (("one", "1"), ("two", "2")):
        labels = {"dev.workerd.session": session}
        assert docker.ask("POST", f"/containers/create?name={name}", {"Image": TAG, "Labels": labels})[0] == 201
        assert docker.ask("POST", "/volumes/create", {"Name": name, "Labels": labels})[0] == 201
    of = ["--filter", "label=dev.workerd.session=1"]
    ids = docker.cli("ps", "--all", "--quiet", *of).stdout.decode().split()
    assert len(ids) == 1 and docker.cli("ps", "-aq", *of).stdout.decode().split() == ids
    assert docker.cli("ps", *of).stdout.decode().split("\n")[1:] == [""]  # none runs
    assert docker.cli("rm", "--force", *ids).returncode == 0
    assert docker.cli("volume", "ls", "--quiet", *of).stdout == b"one\n"
    assert docker.cli("volume", "rm", "one").stdout == b"one\n"
    assert docker.cli("ps", "-a", "--format={{.Names}}").stdout == b"two\n" and docker.cli("volume", "ls", "-q").stdout == b"two\n"
    assert docker.cli("volume", "rm", "two", "none").returncode == 1
    assert docker.cli("volume", "ls").stdout == b"VOLUME NAME\n"


def test_the_other_forms_of_flags(docker, tmp_path):
    (tmp_path / "File").write_bytes(b"FROM cloudflare/sandbox:1\nARG A\nENV B=$A\n")
    r = docker.cli(f"--host=unix://{docker.path}", "build", f"--file={tmp_path}/File", "--build-arg=A=1=2", f"--tag={TAG}", "--", str(tmp_path))
    assert r.returncode == 0 and docker.tags() == [TAG], r
    assert docker.cli("image", "inspect", "--format", "{{ len .Config.ExposedPorts }}", TAG).stdout == b"1\n"
    assert execute(docker.run("c"), "echo $B")["stdout"] == "1=2\n"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_ends_with_its_command(docker, tmp_path, sent):
    """Also when the signal comes to it alone, as from `kill`; wrangler signals its group."""
    tag, step = f"{TAG}-{sent}", f"sleep 1{os.getpid():08}"
    build = subprocess.Popen([BIN / "atoll-docker", "build", "-t", tag, "-f", "-", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env={"ATOLL_RUN": str(docker.daemon.run), "PATH": os.environ["PATH"]})
    build.stdin.write(f"FROM cloudflare/sandbox:1\nRUN {step}\n".encode())
    build.stdin.close()
    child = wait_for(lambda: leaks.children(build.pid), "the builder runs")[0]
    wait_for(lambda: subprocess.run(["pgrep", "-f", f"^{step}"], stdout=subprocess.DEVNULL, check=False).returncode == 0, "the step runs")
    build.send_signal(sent)
    assert build.wait(DEADLINE) != 0
    wait_for(lambda: not alive(child), "the builder has ended, too")
    wait_for(lambda: not imagelib.work_boxes(docker.daemon), "the step's box has gone")
    assert tag not in docker.tags()


def test_bad_calls(docker):
    for arguments, words in ((["nothing"], b"unknown command 'nothing'"), (["build", "--squash", "-t", "a", "."], b"unknown flag '--squash'"),
                             (["ps", "--filter", "since=x"], b"unknown filter"), (["login"], b"registries")):
        r = docker.cli(*arguments)
        assert r.returncode != 0 and words in r.stderr, r
    assert b"atoll up" in docker.cli("info", ATOLL_RUN="/nowhere").stderr
    status, error = docker.ask("POST", "/containers/create?name=c", {"Image": "none"})
    assert status == 404 and "No such image" in error["message"]
    for name in ("-x", "a/b", "x" * 256):
        assert docker.ask("POST", f"/containers/create?name={urllib.parse.quote(name, safe='')}", {"Image": SIDECAR})[0] == 400
