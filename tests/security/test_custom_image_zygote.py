"""The shared zygote holds a capability of the host. Code of a custom image never runs there: not its sitecustomize, not its .pth files."""
import os
from pathlib import Path

import pytest
from atoll import box_path
from boxapi import Api
from codeapi import Context
from imagelib import built
from zygotes import host_pid, zygotes

SITE = "/usr/lib/python3/dist-packages"
ZYGOTE = True  # of the daemon
HOOK = b"import os\nopen('/tmp/hooked', 'a').write('%d\\n' % os.getpid())\n"


@pytest.fixture(name="image")
def fixture_image(daemon):
    name = f"hooked-{os.getpid()}"
    built(daemon, f"FROM default\nCOPY hook.pth hook.py {SITE}/\nCOPY hook.py /etc/python3.11/sitecustomize.py\n",
          [("hook.pth", b"import hook\n", {}), ("hook.py", HOOK, {})], f"tag={name}")
    yield name
    daemon.request("DELETE", f"/v1/images/{name}")
    daemon.request("POST", "/v1/images/prune")


def test_a_custom_images_code_runs_in_its_boxes_only(daemon, box, image):
    before = host_pid(daemon)
    assert daemon.request("PUT", box_path(box), {"image": image}).status == 201
    api = Api(daemon, box)
    for _ in range(3):
        assert Context(api)("print(1)").stdout == "1\n"
    # It has run in the box, and the only zygote outside is the one of Atoll's own image, where it has not.
    assert daemon.execute_alone(box, "cat /tmp/hooked")["stdout"]
    assert zygotes(daemon) == [before]
    assert not Path(f"/proc/{before}/root/tmp/hooked").exists() and not Path(f"/proc/{before}/root{SITE}/hook.py").exists()
