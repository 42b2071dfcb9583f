"""Archives, builds and an instance with an image directory of its own, whose default image is busybox."""
import io
import json
import os
import shutil
import tarfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from atoll import Instance, box_path, wait_for

BUSYBOX = Path("/bin/busybox")


def tar_of(entries, fmt=tarfile.GNU_FORMAT):
    """entries: (name, content or None for a directory, fields of TarInfo)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as tar:
        for name, content, fields in entries:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.mode = 0o755
            info.size = len(content or b"")
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content or b"") if info.type == tarfile.REGTYPE else None)
    return out.getvalue()


def shell_tree():
    """A root file system with busybox and nothing else: no bash, no /etc/passwd, no /tmp, another C library than the host's."""
    links = [(f"bin/{name}", b"", {"type": tarfile.SYMTYPE, "linkname": "busybox"})
             for name in ("sh", "cat", "ls", "echo", "id", "mkdir", "rm", "stat", "test", "env", "pwd", "sleep", "chmod", "touch")]
    return [("bin", None, {}), ("bin/busybox", BUSYBOX.read_bytes(), {}), *links]


@contextmanager
def image_instance(images, env=None):
    """A daemon with the image directory `images`; its default image has busybox."""
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is not installed")
    root = images / "tiny" / "rootfs"
    if not root.exists():
        root.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(tar_of(shell_tree()))) as tar:
            tar.extractall(root)
        for name in ("dev", "proc", "tmp"):
            (root / name).mkdir()
        (images / "tiny" / "image.json").write_text("{}")
        (images / "default").symlink_to("tiny")
        os.chmod(images, 0o700)
        for above in list(images.parents)[:-2]:
            os.chmod(above, os.stat(above).st_mode | 0o011)
    with Instance({"ATOLL_IMAGES": str(images), "ATOLL_ZYGOTE": "off", **(env or {})}) as instance:
        instance.images = images
        yield instance
    shutil.rmtree(images, ignore_errors=True)


def events(reply):
    assert reply.status == 200, reply
    return [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")]


def import_image(atoll, name, archive):
    found = events(atoll.request("POST", f"/v1/images/import?name={name}", archive))
    assert found[-1]["type"] == "done", found[-1]
    return found[-1]["id"]


def import_error(atoll, archive):
    """The sentence with which an archive is refused. Nothing of it may remain."""
    before = names(atoll)
    reply = atoll.request("POST", "/v1/images/import?name=refused", archive)
    last = reply.json() if reply.status == 400 else events(reply)[-1]
    assert reply.status == 400 or last["type"] == "error", last
    assert names(atoll) == before
    wait_for(lambda: no_work_left(atoll), "the work of the import to be removed")
    return last["message"]


def names(atoll):
    return sorted(i["name"] for i in atoll.request("GET", "/v1/images").json()["images"])


def build(atoll, dockerfile, files=(), query=""):
    context = tar_of([("Dockerfile", dockerfile.encode(), {}), *files])
    return atoll.request("POST", f"/v1/images/build?{query}", context, timeout=120)


def built(atoll, dockerfile, files=(), query="tag=built"):
    found = events(build(atoll, dockerfile, files, query))
    assert found[-1]["type"] == "done", found[-1]
    return found


ENDLESS = "FROM default\nRUN echo begun; while :; do :; done\n"


def begin_build(atoll, dockerfile):
    """A build, named endless, that has begun a step which says so: its connection."""
    context = tar_of([("Dockerfile", dockerfile.encode(), {})])
    s = atoll.connect(unix=True)
    s.sendall(b"POST /v1/images/build?tag=endless HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(context) + context)
    seen = b""
    while b"begun\\n" not in seen:
        piece = s.recv(65536)
        assert piece, seen
        seen += piece
    return s


def run(atoll, box, image, command):
    """The output of a shell command in a new box of this image."""
    atoll.request("DELETE", box_path(box))
    reply = atoll.request("PUT", box_path(box), {"image": image})
    assert reply.status == 201, reply
    result = atoll.execute_alone(box, command)
    atoll.request("DELETE", box_path(box))
    return result["stdout"] + result["stderr"]


def own(atoll, method, path, body=None):
    """A request with the reach of the image service: over the socket of the daemon's own questions."""
    return atoll.request(method, path, body, unix=str(atoll.run / "own.sock"))


def work_boxes(atoll):
    """Boxes of the image service, which no client sees."""
    return [b["id"] for b in own(atoll, "GET", "/v1/sandboxes").json()["sandboxes"] if b["id"].startswith("image-")]


def step_box(atoll):
    """The box in which a step runs."""
    return next(b for b in work_boxes(atoll) if not b.endswith("-context"))


def no_work_left(atoll):
    return not work_boxes(atoll) and not os.listdir(atoll.images / "making") and not staged(atoll)


def staged(atoll):
    """Layers that are being unpacked, of all daemons that share the image directory."""
    return [str(p) for p in (atoll.images / "staging").glob("*/boxes/*")]
