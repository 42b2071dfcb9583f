"""Images: archives in and out, builds, names, collection. The image directory is the test's own; its default image is busybox."""
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import tarfile

import pytest
from atoll import BIN, box_path, wait_for
from boxapi import check_error
from imagelib import (BUSYBOX, ENDLESS, begin_build, build, built, events, image_instance, import_error, import_image, names, no_work_left, run,
                      shell_tree, step_box, tar_of)


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


# ---- archives

def test_a_root_file_system_becomes_an_image(atoll):
    key = import_image(atoll, "shell", gzip.compress(tar_of(shell_tree() + [("etc", None, {}), ("etc/motd", b"hello\n", {})])))
    assert run(atoll, "a", "shell", "cat /etc/motd") == "hello\n"
    assert run(atoll, "a", "shell:latest", "echo $((6 * 7)) | cat") == "42\n"
    assert run(atoll, "a", key.replace("-", ":")[:40], "cat /etc/motd") == "hello\n"
    atoll.request("PUT", box_path("a"), {"image": "shell"})
    shown = atoll.request("GET", box_path("a")).json()
    assert (shown["image"], shown["imageId"]) == ("shell", key)
    atoll.request("DELETE", box_path("a"))


def test_owners_links_sparse_files_and_attributes_arrive(atoll):
    tree = shell_tree() + [
        ("data", None, {"uid": 1000, "gid": 1001, "mode": 0o750}),
        ("data/one", b"x", {"uid": 7, "mode": 0o640}),
        ("data/two", b"", {"type": tarfile.LNKTYPE, "linkname": "data/one"}),
        ("data/far", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/../../outside"}),
        ("data/pipe", b"", {"type": tarfile.FIFOTYPE}),
        ("data/marked", b"y", {"pax_headers": {"SCHILY.xattr.user.note": "kept"}})]
    import_image(atoll, "owners", tar_of(tree, tarfile.PAX_FORMAT))
    said = run(atoll, "a", "owners", "stat -c '%n %u %g %a %h' /data /data/one /data/two; ls -l /data")
    assert "/data 1000 1001 750" in said and "/data/one 7 0 640 2" in said and "/data/two 7 0 640 2" in said
    assert "/etc/../../outside" in said and "pipe" in said


def test_devices_setuid_and_capabilities_are_taken_off(atoll):
    tree = shell_tree() + [("disk", b"", {"type": tarfile.BLKTYPE, "devmajor": 8}),
                           ("zero", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}),
                           ("su", b"x", {"mode": 0o6755, "pax_headers": {"SCHILY.xattr.security.capability": "x"}})]
    import_image(atoll, "stripped", tar_of(tree, tarfile.PAX_FORMAT))
    assert run(atoll, "a", "stripped", "ls /; stat -c %a /su").split()[-1] == "755"
    assert "disk" not in run(atoll, "a", "stripped", "ls /")


@pytest.mark.parametrize("entries, sentence", [
    ([("../evil", b"x", {})], "'..'"),
    ([("a/../../evil", b"x", {})], "'..'"),
    ([("/etc/evil", b"x", {})], "absolute"),
    ([("a" * 300, b"x", {})], "longer than 255"),
    (([("d/" * 300 + "x", b"", {})]), "deeper than 256"),
    ([("link", b"", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"})], "'..'"),
    ([("link", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})], "absolute"),
    ([("d", None, {}), ("d", b"", {"type": tarfile.SYMTYPE, "linkname": "/"})], "twice"),
    ([("d/f", b"", {}), ("d", None, {}), ("d", b"x", {})], "twice"),
])
def test_hostile_names_are_refused(atoll, entries, sentence):
    assert sentence in import_error(atoll, tar_of(entries))


def test_what_is_no_archive_is_refused(atoll):
    assert "no tar archive" in import_error(atoll, b"garbage" * 1000)
    assert "empty" in import_error(atoll, b"")
    whole = gzip.compress(tar_of(shell_tree()))
    assert "damaged" in import_error(atoll, whole[:len(whole) // 2])


def test_an_archive_that_inflates_without_end_is_refused(atoll):
    bomb = gzip.compress(gzip.compress(bytes(400 << 20), 9), 9)
    assert import_error(atoll, bomb)
    entry = tarfile.TarInfo("zeros")
    entry.size = 200 << 20
    packed = subprocess.run(["zstd", "-19", "-c"], input=entry.tobuf() + bytes(entry.size), capture_output=True, check=True).stdout
    assert "inflates" in import_error(atoll, packed)


# ---- OCI

def blob(files, content):
    digest = hashlib.sha256(content).hexdigest()
    files.append((f"blobs/sha256/{digest}", content, {}))
    return {"digest": f"sha256:{digest}", "size": len(content)}


def layout(layers, config=None, spoil=None):
    """An OCI layout as a tar; `spoil` changes the manifest before it is written."""
    files = [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}', {})]
    diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "config": config or {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}}
    manifest = {"schemaVersion": 2, "layers": [blob(files, gzip.compress(layer)) for layer in layers],
                "config": blob(files, json.dumps(config).encode())}
    if spoil:
        spoil(manifest, files)
    one = blob(files, json.dumps(manifest).encode())
    other = {"digest": "sha256:" + "0" * 64, "size": 3, "platform": {"architecture": "s390x", "os": "linux"}}
    index = {"schemaVersion": 2, "manifests": [other, dict(one, platform={"architecture": "amd64", "os": "linux"})]}
    files.append(("index.json", json.dumps(index).encode(), {}))
    return tar_of(files)


def test_layers_with_whiteouts_and_opaque_directories(atoll):
    one = tar_of(shell_tree() + [("d", None, {}), ("d/a", b"a", {}), ("d/b", b"b", {}), ("o", None, {}), ("o/old", b"", {})])
    two = tar_of([("d/.wh.a", b"", {}), ("o/new", b"", {}), ("o/.wh..wh..opq", b"", {}), ("d/.wh.never", b"", {})])
    archive = layout([one, two], {"Env": ["WHO=world", "PATH=/bin"], "WorkingDir": "/d", "ExposedPorts": {"80/tcp": {}}})
    import_image(atoll, "layers", archive)
    assert run(atoll, "a", "layers", "ls /d /o; pwd; echo $WHO").split() == ["/d:", "b", "/o:", "new", "/d", "world"]
    shown = atoll.request("GET", "/v1/images/layers").json()
    assert shown["layers"] == 2 and shown["config"]["config"]["ExposedPorts"] == {"80/tcp": {}}
    # The same lower layer is stored once.
    before = set(os.listdir(atoll.images / "layers"))
    import_image(atoll, "sibling", layout([one, tar_of([("x", b"", {})])]))
    assert len(set(os.listdir(atoll.images / "layers")) - before) == 1


def test_blobs_are_what_their_digests_say(atoll):
    tree = tar_of(shell_tree())

    def other_bytes(manifest, files):
        at = next(i for i, f in enumerate(files) if f[0].endswith(manifest["layers"][0]["digest"][7:]))
        files[at] = (files[at][0], files[at][1][:-1] + b"x", {})

    def other_size(manifest, _):
        manifest["layers"][0]["size"] += 1

    def no_blob(manifest, _):
        manifest["layers"][0]["digest"] = "sha256:" + "1" * 64

    assert "another digest" in import_error(atoll, layout([tree], spoil=other_bytes))
    assert "bytes, the image says" in import_error(atoll, layout([tree], spoil=other_size))
    assert "no blob" in import_error(atoll, layout([tree], spoil=no_blob))


def test_an_exported_image_is_the_same_image(atoll):
    built(atoll, "FROM default\nENV A=b\nRUN echo x > /made; rm /bin/pwd\n", query="tag=out")
    plain = atoll.request("GET", "/v1/images/out?export=rootfs").body
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        files = tar.getnames()
    assert "made" in files and "bin/pwd" not in files and not [f for f in files if "atoll" in f]
    import_image(atoll, "back", atoll.request("GET", "/v1/images/out?export=oci").body)
    assert run(atoll, "a", "back", "cat /made; echo $A") == "x\nb\n"


# ---- boxes of unusual images

def test_the_box_that_packs_an_image_is_no_part_of_it(atoll):
    """A box writes its own name to /etc/hosts, and names its resolver. Neither that nor its time is in what is exported."""
    built(atoll, "FROM default\nRUN mkdir -p /etc && echo 10.0.0.1 other > /etc/hosts && touch -d '2001-02-03 04:05:06' /etc/hosts /etc\n",
          query="tag=named")
    first, second = (atoll.request("GET", "/v1/images/named?export=rootfs").body for _ in range(2))
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        assert tar.extractfile("etc/hosts").read() == b"10.0.0.1 other\n127.0.0.1\tlocalhost\n::1\tlocalhost\n"
        assert {tar.getmember(name).mtime for name in ("etc", "etc/hosts")} == {981173106}
    assert first == second
    # A box of an image that was made of another box knows its own name alone.
    built(atoll, "FROM named\nRUN cat /etc/hosts\n", query="tag=renamed")
    hosts = run(atoll, "renamed", "renamed", "cat /etc/hosts")
    assert [line.split()[1] for line in hosts.splitlines()] == ["other", "localhost", "localhost", "renamed"]


def test_scratch_with_one_static_program(atoll):
    built(atoll, "FROM scratch\nCOPY busybox /busybox\n", [("busybox", BUSYBOX.read_bytes(), {})], "tag=one")
    atoll.request("PUT", box_path("s"), {"image": "one"})
    out = subprocess.run([BIN / "atoll", "exec", "s", "--", "/busybox", "echo", "hi"], env=atoll.env, capture_output=True, check=False)
    assert out.stdout == b"hi\n", out
    atoll.request("DELETE", box_path("s"))


def test_sessions_without_bash_keep_directory_and_variables(atoll):
    import_image(atoll, "ash", tar_of(shell_tree() + [("tmp", None, {"mode": 0o1777})]))
    atoll.request("PUT", box_path("ash"), {"image": "ash"})

    def say(command, **fields):
        result = atoll.execute("ash", command, **fields)
        return result["stdout"] + result["stderr"], result["exitCode"]
    assert say("echo a | cat; exit 3") == ("a\n", 3)
    assert say("cd /tmp && export A='it''s \"x\"' && B=lost") == ("", 0)
    assert say('echo "$A|$B"; pwd') == ("its \"x\"|\n/tmp\n", 0)
    assert say("pwd") == ("/tmp\n", 0)
    assert say("pwd; cd /", cwd="/bin") == ("/bin\n", 0)
    assert say("pwd | cat") == ("/tmp\n", 0)
    assert say("nosuchprogram x | cat")[0].strip().endswith("not found")
    atoll.request("DELETE", box_path("ash"))


def test_an_unknown_image_is_not_found_and_near_names_are_told(atoll):
    import_image(atoll, "company/base:1", tar_of(shell_tree()))
    for wrong, near in (("company/bas", "company/base:1"), ("defautl", "default")):
        error = check_error(atoll.request("PUT", box_path("n"), {"image": wrong}), "IMAGE_NOT_FOUND", 404)
        assert f"Did you mean '{near}'" in error["message"]
        atoll.request("DELETE", box_path("n"))
    check_error(atoll.request("PUT", box_path("n"), {"image": "../x"}), "VALIDATION_FAILED", 400)


# ---- builds

def test_a_dockerfile_with_everything(atoll):
    archive = gzip.compress(tar_of([("inside", b"unpacked\n", {})]))
    found = built(atoll, r"""# syntax=docker/dockerfile:1
ARG BASE=default
FROM ${BASE} AS first
ARG WHO=world
ENV GREETING="hello $WHO" PATH=/bin
WORKDIR /app
RUN echo "$GREETING" > greeting && \
    # a comment
    id -u
COPY --chown=5:6 --chmod=600 one.txt named.txt
COPY dir/ one.txt many/
ADD files.tar.gz /unpacked/
RUN <<END
echo from a document > /document
rm -r /app/many/deep
END
COPY <<END /conf/file
who=$WHO
END
FROM first
COPY --from=first /app/greeting /copied
USER 1000:1000
RUN id -u && id -g
EXPOSE 8080 53/udp
LABEL a=b "c d"=e
VOLUME /data
STOPSIGNAL SIGINT
HEALTHCHECK --interval=5s CMD true
SHELL ["/bin/sh", "-ec"]
ENTRYPOINT ["/bin/sh"]
CMD ["-c", "echo started"]
""", [("one.txt", b"one\n", {}), ("dir", None, {}), ("dir/in", b"in\n", {}), ("dir/deep", None, {}), ("dir/deep/x", b"", {}),
      ("files.tar.gz", archive, {})], "tag=whole&tag=ignored&buildargs=%7B%22WHO%22%3A%22you%22%7D")
    output = "".join(e["text"] for e in found if e["type"] == "output")
    assert output == "0\n1000\n1000\n"
    said = run(atoll, "a", "whole", "cat /app/greeting /copied /document /conf/file /unpacked/inside /app/many/in; ls /app/many;"
               "stat -c '%u %g %a' /app/named.txt; pwd")
    assert said == "hello you\nhello you\nfrom a document\nwho=you\nunpacked\nin\nin\none.txt\n5 6 600\n/app\n"
    config = atoll.request("GET", "/v1/images/whole").json()["config"]["config"]
    assert config["ExposedPorts"] == {"8080/tcp": {}, "53/udp": {}} and config["User"] == "1000:1000"
    assert config["Entrypoint"] == ["/bin/sh"] and config["Cmd"] == ["-c", "echo started"]
    assert config["Labels"] == {"a": "b", "c d": "e"} and config["StopSignal"] == "SIGINT"
    assert no_work_left(atoll)


@pytest.mark.parametrize("text, place", [
    ("FROM nowhere\n", "Dockerfile:1:1: there is no image 'nowhere'"),
    ("FROM default\n\n  COPY --from=nowhere /a /b\n", "Dockerfile:3:3: there is no image 'nowhere'"),
    ("FROM default\nRUN echo > /f\nCOPY Dockerfile /f/\n", "Dockerfile:3:1: '/f/' cannot be entered"),
    ("FROM default\nCOPY <<a Dockerfile /d/\n1\na\n", "Dockerfile:2:1: COPY takes here-documents or files, not both"),
    ("FROM default\nRUN echo " + "x" * 200000 + "\n", "Dockerfile:2:1: run /.atoll-mover: Argument list too long")])
def test_steps_that_fail_name_the_place(atoll, text, place):
    last = events(build(atoll, text))[-1]
    assert last["type"] == "error" and last["message"].startswith(place), last


def test_odd_spellings_of_dockerfiles(atoll):
    built(atoll, "\ufeff# escape=`\r\nARG BASE=nowhere\r\nFROM ${BASE:-default} as one\r\nRUN echo a `\r\n# a comment\r\n\r\n && echo b > /b\r\n"
          "copy <<one <<\"two\" /docs/\r\n${BASE}$HOME`$x\r\none\r\n$HOME\r\ntwo\r\nFROM default\r\nCOPY --from=0 /b /docs /all/\r\n",
          query="tag=odd&buildargs=%7B%22BASE%22:%22default%22%7D")
    assert run(atoll, "a", "odd", "ls /all; cat /all/b /all/two") == "b\none\ntwo\nb\n$HOME\n"


def test_steps_come_from_the_cache_until_their_inputs_change(atoll):
    text = "FROM default\nCOPY f /f\nRUN cat /f /proc/sys/kernel/random/uuid > /g\n"

    def cached(content, query="tag=cached"):
        found = built(atoll, text, [("f", content, {"mtime": len(content)})], query)
        return len([e for e in found if e["type"] == "cached"]), found[-1]["id"]

    assert cached(b"1")[0] == 0
    again, first = cached(b"1")
    assert again == 2
    assert cached(b"2")[0] == 0
    assert cached(b"1", "tag=cached&nocache=1")[0] == 0
    assert cached(b"1")[1] != first


def test_a_target_builds_only_the_stages_it_needs(atoll):
    text = "FROM default AS a\nRUN echo a > /a\nFROM default AS b\nRUN false\nFROM a AS c\nRUN echo c > /c\n"
    assert [e["text"] for e in built(atoll, text, query="tag=c&target=c") if e["type"] == "step"] == [
        "FROM default AS a", "RUN echo a > /a", "FROM a AS c", "RUN echo c > /c"]
    check_error(build(atoll, text, query="target=nothing"), "VALIDATION_FAILED", 400)


@pytest.mark.parametrize("text, sentence", [
    ("FROM default\n  RNU x\n", "Dockerfile:2:3: unknown instruction 'RNU'; did you mean RUN?"),
    ("RUN x\n", "Dockerfile:1:1: RUN before the first FROM"),
    ("FROM default\nRUN exit 7\n", "Dockerfile:2:1: the command ended with code 7"),
    ("FROM default\nCOPY nothing /x\n", "Dockerfile:2:1: COPY finds no file 'nothing'"),
    ("FROM nosuch\n", "there is no image 'nosuch'"),
    ("FROM default\nADD https://example.org/x /x\n", "ADD of a URL"),
    ("FROM default\nUSER nobodyatall\nRUN id\n", "Dockerfile:3:1"),
    ("FROM default\nEXPOSE 99999\n", "'99999' is not a port"),
])
def test_broken_dockerfiles_name_the_place(atoll, text, sentence):
    reply = build(atoll, text, query="tag=broken")
    said = reply.json()["message"] if reply.status != 200 else events(reply)[-1]["message"]
    assert sentence in said
    assert "broken:latest" not in names(atoll) and no_work_left(atoll)


def test_upstreams_images_are_the_default_image(atoll):
    built(atoll, "FROM docker.io/cloudflare/sandbox:0.12.10\nRUN echo x > /x\n", query="tag=up")
    assert run(atoll, "a", "up", "cat /x") == "x\n"


def test_a_client_that_goes_away_ends_its_build(atoll):
    begin_build(atoll, ENDLESS).close()
    wait_for(lambda: no_work_left(atoll))
    assert "endless:latest" not in names(atoll)


def test_a_killed_build_leaves_nothing(atoll):
    connection = begin_build(atoll, ENDLESS)
    box = step_box(atoll)
    os.kill(int(box.split("-")[1]), signal.SIGKILL)
    wait_for(lambda: no_work_left(atoll))
    connection.close()
    assert "endless:latest" not in names(atoll)


# ---- names and collection

def test_names_move_and_images_are_collected(atoll):
    built(atoll, "FROM default\nRUN echo kept > /kept\n", query="tag=old")
    assert atoll.request("POST", "/v1/images/tag", {"source": "old", "target": "team/new:2"}).status == 200
    atoll.request("PUT", box_path("user"), {"image": "team/new:2"})
    assert atoll.request("DELETE", "/v1/images/old").status == 200
    assert atoll.request("DELETE", "/v1/images/team%2Fnew:2").status == 200
    check_error(atoll.request("DELETE", "/v1/images/old"), "IMAGE_NOT_FOUND", 404)
    check_error(atoll.request("DELETE", "/v1/images/default"), "PERMISSION_DENIED", 403)
    # A sandbox uses it, so that it stays, also when nothing names it.
    key = atoll.request("GET", box_path("user")).json()["imageId"]
    atoll.request("POST", "/v1/images/prune")
    assert (atoll.images / "meta" / f"{key}.layers").exists()
    assert atoll.execute_alone("user", "cat /kept")["stdout"] == "kept\n"
    atoll.request("DELETE", box_path("user"))

    def gone():
        atoll.request("POST", "/v1/images/prune")
        return not (atoll.images / "meta" / f"{key}.layers").exists()
    wait_for(gone)


def usage(atoll):
    return atoll.request("GET", "/v1/images?usage=true").json()


def disk(atoll):
    """The disk that all layers take, as du counts it."""
    layers = [p for p in (atoll.images / "layers").iterdir() if not p.name.startswith("e3b0c44298")]
    out = subprocess.run(["du", "-s", "--block-size=1", "/dev/null", *layers], capture_output=True, text=True, check=True)
    return sum(int(line.split()[0]) for line in out.stdout.splitlines())


def test_onbuild(atoll):
    built(atoll, 'FROM default\nONBUILD COPY given /given\nONBUILD RUN cat /given > /seen\nONBUILD ENV LATE=yes\nRUN test ! -e /seen\n', query="tag=trigger")
    shown = atoll.request("GET", "/v1/images/trigger").json()["config"]["config"]
    assert shown["OnBuild"] == ["COPY given /given", "RUN cat /given > /seen", "ENV LATE=yes"]
    found = built(atoll, "FROM trigger\nRUN cat /seen > /last\n", files=[("given", b"gift\n", {})], query="tag=child")
    assert [(e["n"], e["of"]) for e in found if e["type"] == "step"][-1] == (5, 5)
    assert run(atoll, "a", "child", "cat /seen /last; echo $LATE") == "gift\ngift\nyes\n"
    # They run once: not for an image on the child.
    assert "OnBuild" not in atoll.request("GET", "/v1/images/child").json()["config"]["config"]
    failed = events(build(atoll, "FROM trigger\n"))[-1]
    assert failed["type"] == "error" and "Dockerfile:1:1" in failed["message"] and "ONBUILD of the base image" in failed["message"], failed


def test_sizes_are_those_of_the_disk(atoll):
    big = [("a", os.urandom(3 << 20), {}), ("b", os.urandom(1 << 20), {})]
    built(atoll, "FROM default\nCOPY a b /big/\nRUN rm /big/b; ln /big/a /big/again\n", files=big, query="tag=big")
    shown = {i["name"]: i["size"] for i in usage(atoll)["images"]}
    assert shown["default"] > BUSYBOX.stat().st_size
    assert 4 << 20 <= shown["big:latest"] - shown["default"] < 9 << 20, shown
    found = usage(atoll)["usage"]
    assert found["bytes"] == disk(atoll)
    # What a prune would free is what it frees; what it says is what the disk has more afterwards.
    # Small layers of other tests may have become old enough.
    assert atoll.request("DELETE", "/v1/images/big").json()["bytes"] < 1 << 20, "the cached steps still need the layers"

    # Layers that were made in the last seconds are left alone: both are old enough when all of it counts.
    wait_for(lambda: usage(atoll)["usage"]["reclaimableBytes"] >= 7 << 20, "the layers to be old enough")
    would, before = usage(atoll)["usage"], disk(atoll)
    did = atoll.request("POST", "/v1/images/prune").json()
    assert (would["reclaimableBytes"], would["reclaimableLayers"]) == (did["bytes"], did["layers"])
    assert did["bytes"] == before - disk(atoll)
    assert not [i for i in usage(atoll)["images"] if i["name"] == "big:latest"]


def test_everything_unused_is_collected(atoll):
    for name in names(atoll):
        if name != "default":
            atoll.request("DELETE", "/v1/images/" + name.replace("/", "%2F"))

    def only_the_empty_layer():
        atoll.request("POST", "/v1/images/prune")
        return len(os.listdir(atoll.images / "layers")) == 1 and not os.listdir(atoll.images / "trash")
    wait_for(only_the_empty_layer)


def test_the_command_line(atoll, tmp_path):
    def cli(*words, **options):
        return subprocess.run([BIN / "atoll", *words], env=atoll.env, capture_output=True, text=True, check=False, **options)

    (tmp_path / "Dockerfile").write_text("FROM default\nCOPY . /all\nRUN ls /all\n")
    (tmp_path / "keep").write_text("")
    (tmp_path / "drop.o").write_text("")
    (tmp_path / ".dockerignore").write_text("*.o\n")
    out = cli("build", "-t", "mine:1", str(tmp_path))
    assert out.returncode == 0 and "[3/3] RUN ls /all" in out.stdout and "keep" in out.stdout and "drop.o" not in out.stdout, out
    assert cli("build", "-q", "-t", "mine:2", "-", input="FROM mine:1\nRUN rm /all/keep\n").stdout.startswith("sha256-")
    assert "mine:2" in cli("images").stdout
    assert cli("image", "tag", "mine:1", "yours").returncode == 0
    assert json.loads(cli("image", "inspect", "yours").stdout)["name"] == "yours:latest"
    assert cli("export", "--oci", "-o", str(tmp_path / "out.tar"), "yours").returncode == 0
    assert cli("import", str(tmp_path / "out.tar"), "again").stdout == "again:latest\n"
    wrong = cli("image", "rm", "yuors")
    assert wrong.returncode == 1 and "Did you mean 'yours:latest'" in wrong.stderr
    assert cli("image", "rm", "yours", "again", "mine:1", "mine:2").returncode == 0
