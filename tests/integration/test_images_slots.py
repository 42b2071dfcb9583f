"""Slots made ahead for the images that were used lately, and for no others. The warden's log says whether a box took one of its image."""
import os
import re

import pytest
from atoll import box_path, still, wait_for
from imagelib import built, image_instance, import_image, run, shell_tree, tar_of


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images"), {"ATOLL_LOG_LEVEL": "debug"}) as instance:
        yield instance


def made_ahead(atoll, image, numbers=iter(range(10000))):
    """Whether a new box of this image took a layer that was made ahead."""
    box = f"slot-{next(numbers)}"
    assert atoll.request("PUT", box_path(box), {"image": image}).status == 201
    found = wait_for(lambda: re.search(rf'msg="box created" id="{box}" .*ahead=(\d)', atoll.log_path.read_text()))
    atoll.destroy(box)
    return found.group(1) == "1"


def test_every_image_that_was_used_lately_has_slots(atoll):
    images = ["default"]
    for name in ("one", "two", "three"):
        built(atoll, f"FROM default\nRUN echo {name} > /name\n", query=f"tag={name}")
        images.append(name)
        assert run(atoll, "first", name, "cat /name") == name + "\n"
    for image in images * 3:
        wait_for(lambda image=image: made_ahead(atoll, image), f"a slot for {image}")
    assert run(atoll, "last", "two", "cat /name") == "two\n"


def test_a_new_name_has_slots_before_its_first_box(atoll):
    steps = "".join(f"RUN echo {i} > /step{i}\n" for i in range(8))
    key = built(atoll, f"FROM default\n{steps}", query="tag=fresh")[-1]["id"]
    wait_for(lambda: atoll.logged(f' image="{key}"'), "a slot for the new image")
    assert made_ahead(atoll, "fresh")


def test_the_pool_comes_to_rest_with_two_names_of_one_image(atoll):
    for image in ("default", os.readlink(atoll.images / "default")) * 2:
        made_ahead(atoll, image)
    still(lambda: atoll.logged('msg="slot ready"'), "the number of slots that were made")
    assert made_ahead(atoll, "default") and made_ahead(atoll, os.readlink(atoll.images / "default"))


def test_an_image_that_comes_back_has_its_files(atoll):
    """The same bytes are the same key, and a file system uses inodes again: slots of the removed image must not serve the new one."""
    archive = tar_of(shell_tree() + [("mark", b"here\n", {})])
    for _ in range(3):
        key = import_image(atoll, "comes", archive)
        wait_for(lambda: made_ahead(atoll, "comes"), "a slot for the image")

        def gone(key=key):
            atoll.request("DELETE", "/v1/images/comes")
            atoll.request("POST", "/v1/images/prune")
            return not (atoll.images / "meta" / f"{key}.layers").exists() and key
        wait_for(gone)
        assert import_image(atoll, "comes", archive) == key
        assert run(atoll, "again", "comes", "cat /mark") == "here\n"
