"""Python contexts in boxes of custom images: the first starts plainly, later ones are forks of a zygote inside the box."""
import os

import pytest
from atoll import box_path, wait_for
from boxapi import Api
from codeapi import Context
from imagelib import built

SITE = "/usr/lib/python3/dist-packages"


@pytest.fixture(scope="module", name="image")
def fixture_image(daemon):
    name = f"nursery-{os.getpid()}"
    built(daemon, "FROM default\nENV WHO=image\n", query=f"tag={name}")
    yield name
    daemon.request("DELETE", f"/v1/images/{name}")


@pytest.fixture(name="api")
def fixture_api(daemon, box, image):
    assert daemon.request("PUT", box_path(box), {"image": image, "limits": {"memory": 1 << 30}}).status == 201
    return Api(daemon, box)


def is_fork(context):
    """Whether the worker came from the nursery: it has its modules without having imported them."""
    return "True" in context("import sys; print('sqlite3' in sys.modules and 'csv' in sys.modules)").stdout


def forked_context(api, **options):
    """Contexts are made and ended until one of them is a fork: the nursery needs a moment for its imports."""
    def one():
        context = Context(api, **options)
        if is_fork(context):
            return context
        context.delete()
        return None
    return wait_for(one, "a context from the nursery", seconds=120)


def test_later_contexts_are_forks_of_a_nursery_in_the_box(api):
    first = Context(api)
    assert not is_fork(first)
    assert first("import os; print(os.environ['WHO'], os.getcwd())").stdout == "image /workspace\n"
    second = forked_context(api, cwd="/tmp")
    assert second("import os; print(os.environ['WHO'], os.getcwd(), os.getuid())").stdout == "image /tmp 0\n"
    # They share nothing.
    second("x = 1")
    third = forked_context(api)
    third.fails("x", "NameError")
    numbers = {c("import random, numpy; print(random.random(), numpy.random.rand())").stdout for c in (second, third)}
    assert len(numbers) == 2
    # A worker of a nursery can be interrupted, and its end is told.
    assert third.run("while True: pass", timeout_ms=200).error
    assert second("print(x)").stdout == "1\n"


def test_a_package_that_is_installed_later_is_seen(daemon, box, api):
    Context(api)
    forked_context(api)
    daemon.execute_alone(box, f"mkdir -p {SITE}/newpackage && echo 'word = 42' > {SITE}/newpackage/__init__.py")
    assert Context(api)("import newpackage; print(newpackage.word)").stdout == "42\n"
    assert forked_context(api)("import newpackage; print(newpackage.word)").stdout == "42\n"


def test_a_nursery_that_is_killed_is_replaced(daemon, box, api):
    Context(api)
    forked_context(api)
    daemon.execute_alone(box, "kill -9 $(pgrep -f atoll_worker.nursery)")
    assert Context(api)("print(6 * 7)").stdout == "42\n"
    assert forked_context(api)("print(6 * 7)").stdout == "42\n"


def test_the_nursery_is_the_boxs_user(daemon, box, image):
    assert daemon.request("PUT", box_path(box), {"image": image, "user": "nobody", "env": {"HOME": "/tmp"}, "limits": {"memory": 1 << 30}}).status == 201
    api = Api(daemon, box)
    Context(api)
    context = forked_context(api)
    assert context("import os; print(os.getuid(), os.getgroups(), open('/proc/self/status').read().split('CapEff:')[1].split()[0])").stdout == \
        "65534 [] 0000000000000000\n"
