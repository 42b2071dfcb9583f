"""The packages that an image holds, from the databases in it; and databases that lie."""
import json
import subprocess
import tarfile

import pytest
from atoll import BIN, wait_for
from imagelib import built, image_instance, import_image, no_work_left, shell_tree, tar_of


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


def packages(atoll, name):
    shown = atoll.request("GET", f"/v1/images/{name}?packages=true").json()
    assert no_work_left(atoll)
    return [(p["type"], p["name"], p["version"]) for p in shown["packages"]]


def tree(*files):
    """Directories come with their files."""
    made, entries = set(), []
    for name, content in files:
        parts = name.split("/")
        for i in range(1, len(parts)):
            above = "/".join(parts[:i])
            if above not in made:
                made.add(above)
                entries.append((above, None, {}))
        entries.append((name, content.encode(), {}))
    return tar_of(shell_tree() + entries)


DPKG = """Package: bash
Status: install ok installed
Version: 5.2.15-2+b2
Description: shell
 Package: not-this-one

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u13
"""


def test_every_database_is_read(atoll):
    import_image(atoll, "many", tree(
        ("var/lib/dpkg/status", DPKG),
        ("var/lib/dpkg/status.d/tzdata", "Package: tzdata\nVersion: 2024a\n"),
        ("lib/apk/db/installed", "C:Q1\nP:musl\nV:1.2.4-r2\n\nP:busybox\nV:1.36.1-r5\n"),
        ("usr/lib/python3/dist-packages/numpy-1.24.2.egg-info/PKG-INFO", ""),
        ("usr/local/lib/python3.11/dist-packages/typing_extensions-4.9.0.dist-info/METADATA", ""),
        ("usr/local/lib/node_modules/npm/package.json", '{"name": "npm", "version": "11.2.0"}'),
        ("usr/local/include/node/node_version.h", "#define NODE_MAJOR_VERSION 24\n#define NODE_MINOR_VERSION 21\n#define NODE_PATCH_VERSION 0\n"),
        ("usr/local/lib/node_modules/@team/tool/package.json", '{"name": "@team/tool", "version": "0.1.0"}')))
    assert packages(atoll, "many") == [
        ("deb", "bash", "5.2.15-2+b2"), ("deb", "libc6", "2.36-9+deb12u13"), ("deb", "tzdata", "2024a"), ("apk", "musl", "1.2.4-r2"),
        ("apk", "busybox", "1.36.1-r5"), ("pypi", "numpy", "1.24.2"), ("pypi", "typing_extensions", "4.9.0"), ("npm", "npm", "11.2.0"),
        ("npm", "@team/tool", "0.1.0"), ("generic", "node", "24.21.0")]
    # A build on it holds them too, and those that it adds; the command line shows them.
    built(atoll, "FROM many\nRUN echo 'P:added' > /add; echo 'V:1' >> /add; cat /add > /lib/apk/db/installed; rm /var/lib/dpkg/status\n", query="tag=more")
    found = packages(atoll, "more")
    assert ("apk", "added", "1") in found and ("deb", "bash", "5.2.15-2+b2") not in found and ("deb", "tzdata", "2024a") in found
    out = subprocess.run([BIN / "atoll", "image", "inspect", "more"], env=atoll.env, capture_output=True, text=True, check=True)
    assert {"type": "npm", "name": "npm", "version": "11.2.0"} in json.loads(out.stdout)["packages"]


def test_an_image_without_databases_has_none(atoll):
    assert packages(atoll, "default") == []
    assert "packages" not in atoll.request("GET", "/v1/images/default").json()


def test_databases_that_lie_are_left_out(atoll):
    links = [("var", None, {}), ("var/lib", None, {}), ("var/lib/dpkg", None, {}), ("lib", None, {}), ("lib/apk", None, {}), ("lib/apk/db", None, {}),
             ("var/lib/dpkg/status", b"", {"type": tarfile.FIFOTYPE}),
             ("lib/apk/db/installed", b"", {"type": tarfile.SYMTYPE, "linkname": "/dev/zero"})]
    import_image(atoll, "lies", tar_of(shell_tree() + links))
    assert packages(atoll, "lies") == []
    import_image(atoll, "odd", tree(
        ("var/lib/dpkg/status", "Package: \x01\"quoted\\\nVersion: 1\n\nPackage: " + "x" * 300 + "\nVersion: 1\n\nVersion: 2\n\nPackage: end\nVersion: 3"),
        ("usr/local/lib/node_modules/broken/package.json", "{"),
        ("usr/local/lib/node_modules/number/package.json", '{"name": 1, "version": "2"}'),
        ("usr/lib/python3/dist-packages/nothing.egg-info", "")))
    assert packages(atoll, "odd") == [("deb", '\x01"quoted\\', "1"), ("deb", "end", "3")]


def test_the_list_is_kept_with_the_image(atoll):
    """An image that gets a name has its list; the list goes with the image."""
    key = import_image(atoll, "kept", tree(("var/lib/dpkg/status", DPKG)))
    kept = json.loads((atoll.images / "meta" / f"{key}.packages").read_text())
    assert [(p["type"], p["name"]) for p in kept] == [("deb", "bash"), ("deb", "libc6")]
    found = built(atoll, "FROM kept\nRUN mkdir -p /lib/apk/db && printf 'P:musl\\nV:1\\n' > /lib/apk/db/installed\n", query="tag=more")
    assert ("apk", "musl", "1") in packages(atoll, "more")
    more = atoll.images / "meta" / f"{found[-1]['id']}.packages"
    # What is shown is what was kept.
    more.write_text('[{"type": "deb", "name": "as-it-was", "version": "7"}]')
    assert packages(atoll, "more") == [("deb", "as-it-was", "7")]
    assert atoll.request("DELETE", "/v1/images/more").status == 200
    wait_for(lambda: atoll.request("POST", "/v1/images/prune", {}).status == 200 and not more.exists(), "the list to go")
    # Without a list, as of an image from before, it is read.
    (atoll.images / "meta" / f"{key}.packages").unlink()
    assert [p[1] for p in packages(atoll, "kept")] == ["bash", "libc6"]
