"""Two daemons with one image directory: what one of them uses, the other never collects. And a directory that is full."""
import json
import os
import shutil
import subprocess
import time

import pytest
from atoll import Instance, box_path, wait_for
from boxapi import check_error
from imagelib import build, built, events, image_instance, names, no_work_left, run, shell_tree, tar_of


@pytest.fixture(name="pair")
def fixture_pair(tmp_path_factory):
    images = tmp_path_factory.mktemp("images")
    with image_instance(images) as one, image_instance(images, {"ATOLL_IMAGE": "ours"}) as two:
        yield one, two


def key_of(atoll, box):
    return atoll.request("GET", box_path(box)).json()["imageId"]


def layers(atoll):
    return sorted(os.listdir(atoll.images / "layers"))


def test_an_image_of_one_daemon_is_the_others_too(pair):
    one, two = pair
    built(one, "FROM default\nRUN echo hello > /hello\n", query="tag=ours")
    assert "ours:latest" in names(two)
    assert run(two, "a", "ours", "cat /hello") == "hello\n"


def test_what_the_other_uses_is_never_collected(pair):
    one, two = pair
    built(one, "FROM default\nRUN echo hello > /hello\n", query="tag=ours")
    assert two.request("PUT", box_path("user"), {"image": "ours"}).status == 201
    key = key_of(two, "user")
    kept = layers(one)
    # The first daemon takes the name away and prunes again and again: the second one runs a box of it.
    assert one.request("DELETE", "/v1/images/ours").status == 200
    for _ in range(3):
        assert one.request("POST", "/v1/images/prune").status == 200
    assert (one.images / "meta" / f"{key}.layers").exists() and layers(one) == kept
    assert two.execute_alone("user", "cat /hello")["stdout"] == "hello\n"
    # Also while the box is stopped, and after the second daemon was killed and is back.
    assert two.request("POST", box_path("user", "/stop")).status == 200
    # Answered when it is on disk, and with it every change before.
    assert two.request("PUT", box_path("user"), {"labels": {"a": "b"}}).status == 200
    two.kill_daemon()
    two.kill_warden()
    assert one.request("POST", "/v1/images/prune").status == 200
    two.await_warden()
    assert one.request("POST", "/v1/images/prune").status == 200
    assert two.execute_alone("user", "cat /hello")["stdout"] == "hello\n"
    assert key_of(two, "user") == key
    # It goes when the second daemon's last sandbox of it is gone, whoever prunes then.
    assert two.request("DELETE", box_path("user")).status in (200, 204)

    def gone():
        two.request("POST", "/v1/images/prune")
        one.request("POST", "/v1/images/prune")
        return not (one.images / "meta" / f"{key}.layers").exists() and len(layers(one)) == 1
    wait_for(gone, "the image is collected", seconds=60)


def test_the_default_image_is_a_setting(pair):
    one, two = pair
    error = check_error(two.request("POST", box_path("a", "/api/execute"), {"command": "true"}), "IMAGE_NOT_FOUND", 404)
    assert "there is no image 'ours'" in error["message"]
    built(one, "FROM default\nENV WHO=ours\n", query="tag=ours")
    assert two.execute_alone("a", "echo $WHO")["stdout"] == "ours\n"
    assert two.request("GET", box_path("a")).json()["image"] == "ours"
    # The other daemon has Atoll's own, and both give it to those who ask for it, also by upstream's name.
    assert one.execute_alone("a", "echo $WHO")["stdout"] == "\n"
    for name in ("default", "docker.io/cloudflare/sandbox:0.12.10-python", "cloudflare/sandbox"):
        assert run(two, "b", name, "echo $WHO") == "\n"


def test_builds_of_both_at_once_share_nothing_but_the_directory(pair):
    for daemon, word in zip(pair, ("first", "second")):
        built(daemon, f"FROM default\nRUN echo {word} > /word\n", query=f"tag={word}")
    one, two = pair
    assert run(one, "a", "second", "cat /word") == "second\n"
    assert run(two, "a", "first", "cat /word") == "first\n"


def test_a_full_image_directory_says_so_and_keeps_nothing(tmp_path):
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", where], check=True)
    try:
        with image_instance(where) as small:
            noise = ("noise", os.urandom(20 << 20), {})
            for found in (events(small.request("POST", "/v1/images/import?name=big", tar_of(shell_tree() + [noise]))),
                          events(build(small, "FROM default\nCOPY noise /\n", [noise]))):
                assert found[-1]["code"] == "NO_SPACE" and "No space left on device" in found[-1]["message"], found[-1]
                assert no_work_left(small) and len(os.listdir(where / "layers")) == 1 and names(small) == ["default"]
            built(small, "FROM default\nRUN echo fits > /fits\n")
    finally:
        subprocess.run(["umount", where], check=True)


def test_notes_of_a_daemon_that_has_ended_go(tmp_path_factory):
    """Its images stayed for ever. A daemon that is only stopped keeps its notes, however long it rests."""
    images = tmp_path_factory.mktemp("images")
    with image_instance(images) as one:
        def start_another():
            """The directory in which another daemon notes its images, and its data directory, which is gone."""
            with Instance({"ATOLL_IMAGES": str(images), "ATOLL_ZYGOTE": "off"}) as other:
                built(one, "FROM default\nRUN echo hello > /hello\n", query="tag=ours&nocache=1")
                before = set(os.listdir(images / "users"))
                assert other.request("PUT", box_path("user"), {"image": "ours"}).status == 201
                notes = next(d for d in map((images / "users").joinpath, before) if (d / ".data").read_text() == str(other.data))
                assert [n for n in os.listdir(notes) if n != ".data"] == [key_of(other, "user")]
                assert other.request("DELETE", box_path("user")).status == 204
                other.await_warden()
                (notes / ("sha256-" + "0" * 56)).touch()
            assert not other.base.exists()
            return notes, other.data

        def age(notes, days):
            then = time.time() - days * 86400
            os.utime(notes, (then, then))

        def restart():
            one.kill_warden()
            one.await_warden()
        notes, data = start_another()
        restart()
        assert notes.exists(), "young notes may be of a disk that is not mounted"
        age(notes, 8)
        data.mkdir(parents=True)
        restart()
        assert notes.exists(), "its data is there"
        shutil.rmtree(data.parent)

        def told():
            report = json.loads(one.cli("doctor", "--json").stdout)
            return next(c for c in report["checks"] if c["name"] == "image notes")
        # Doctor names what the next start removes, and what no start does.
        (notes / ".data").rename(notes / ".put-aside")
        for days, state in ((29, "ok"), (31, "note")):
            age(notes, days)
            assert told()["state"] == state, told()
        assert f"rm -r {images}/users/{notes.name}" in told()["advice"]
        restart()
        assert notes.exists(), "it may have sandboxes"
        (notes / ".put-aside").rename(notes / ".data")
        for days, state in ((6, "ok"), (8, "note")):
            age(notes, days)
            assert told()["state"] == state, told()
        restart()
        assert not notes.exists() and told()["state"] == "ok"
        assert (images / "users").exists() and len(os.listdir(images / "users")) == 1
