"""What an image says about its boxes: ENV, WORKDIR, USER, ENTRYPOINT, CMD, and a sandbox's own words over them."""
import json
import os
import subprocess

import pytest
from atoll import BIN, box_path, wait_for
from boxapi import check_error
from imagelib import BUSYBOX, built, image_instance, import_image, no_work_left, shell_tree, tar_of

PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1001::/home/node:/bin/sh\n"
GROUP = b"root:x:0:\nnode:x:1001:\naudio:x:29:node\n"


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        import_image(instance, "base", tar_of(shell_tree() + [
            ("tmp", None, {"mode": 0o1777}), ("etc", None, {}), ("etc/passwd", PASSWD, {}), ("etc/group", GROUP, {}),
            ("root", None, {"mode": 0o700}), ("home", None, {}), ("home/node", None, {"uid": 1000, "gid": 1001})]))
        yield instance


@pytest.fixture(name="box")
def fixture_box(atoll):
    yield "b"
    atoll.request("DELETE", box_path("b"))


def put(atoll, box, image, **fields):
    reply = atoll.request("PUT", box_path(box), {"image": image, **fields})
    assert reply.status == 201, reply
    return reply.json()


def process(atoll, box, name="entrypoint"):
    return atoll.request("GET", box_path(box, f"/api/process/{name}")).json().get("process") or {}


def log(atoll, box, name="entrypoint"):
    return atoll.request("GET", box_path(box, f"/api/process/{name}/logs")).json().get("stdout", "")


def status(atoll, box, wanted):
    return wait_for(lambda: (p := process(atoll, box)).get("status") == wanted and p, f"the entrypoint is {wanted}", seconds=60)


def test_every_program_runs_as_the_images_user(atoll, box):
    built(atoll, "FROM base\nUSER node\nWORKDIR /home/node/app\n", query="tag=user")
    put(atoll, box, "user")
    said = atoll.execute_alone(box, "id; echo $HOME; pwd")["stdout"]
    assert said == "uid=1000(node) gid=1001(node) groups=29(audio)\n/home/node\n/home/node/app\n"
    # A session keeps its state in files: they are the user's.
    assert atoll.execute(box, "cd /tmp && export A=b && id -u")["stdout"] == "1000\n"
    assert atoll.execute(box, "pwd; echo $A")["stdout"] == "/tmp\nb\n"
    # What the API writes is the user's, and what it replaces keeps its owner.
    for path in ("/home/node/new/file", "/home/node/other"):
        assert atoll.request("POST", box_path(box, "/api/write"), {"path": path, "content": "x"}).status == 200
    assert atoll.execute_alone(box, "stat -c '%u %g' /home/node/new /home/node/new/file")["stdout"] == "1000 1001\n" * 2
    assert atoll.execute_alone(box, "echo more >> /home/node/other; cat /home/node/other; rm /home/node/new/file")["stdout"] == "xmore\n"
    assert "denied" in atoll.execute_alone(box, "touch /etc/passwd2")["stderr"]
    started = atoll.request("POST", box_path(box, "/api/process/start"), {"command": "id -u; sleep 1000", "processId": "p"})
    assert started.status == 200
    wait_for(lambda: log(atoll, box, "p") == "1000\n", "the process's user", seconds=60)
    assert atoll.request("DELETE", box_path(box, "/api/process/p")).status == 200
    terminal = subprocess.run([BIN / "atoll", "exec", box, "--", "id", "-u"], env=atoll.env, capture_output=True, text=True, check=False)
    assert terminal.stdout == "1000\n"


def test_a_sandbox_may_name_another_user(atoll, box):
    built(atoll, "FROM base\nUSER node\nENV HOME=/tmp\n", query="tag=user")
    put(atoll, box, "user", user="root")
    assert atoll.execute_alone(box, "id -u; id -g; echo $HOME")["stdout"] == "0\n0\n/tmp\n"
    atoll.request("DELETE", box_path(box))
    put(atoll, box, "user", user="1234:5")
    assert atoll.execute_alone(box, "id -u; id -g")["stdout"] == "1234\n5\n"
    assert atoll.request("GET", box_path(box)).json()["user"] == "1234:5"
    atoll.request("DELETE", box_path(box))
    error = check_error(atoll.request("PUT", box_path(box), {"image": "user", "user": "nobodyatall"}), "BOX_CREATE_FAILED", 500)
    assert "the image has no user 'nobodyatall' in /etc/passwd" in error["message"]
    for wrong in (5, "x" * 256, ["root"]):
        check_error(atoll.request("PUT", box_path(box), {"image": "user", "user": wrong}), "VALIDATION_FAILED", 400)


def test_builds_and_exports_are_roots_whatever_the_images_user(atoll, box):
    built(atoll, "FROM base\nUSER node\n", query="tag=user")
    built(atoll, "FROM user\nCOPY f /root/f\nRUN id -u > /tmp/who\nUSER root\nRUN id -u >> /tmp/who\n", [("f", b"secret", {"mode": 0o600})],
          "tag=child")
    put(atoll, box, "child")
    assert atoll.execute_alone(box, "cat /tmp/who /root/f")["stdout"] == "1000\n0\nsecret"
    assert atoll.request("GET", "/v1/images/user?export=rootfs").status == 200


def test_the_entrypoint_is_a_service(atoll, box):
    built(atoll, 'FROM base\nENV WHO=me\nWORKDIR /srv\nUSER node\nENTRYPOINT ["/bin/sh", "-c"]\n'
          'CMD ["echo $WHO in $PWD as $(id -u); sleep 1000"]\n', query="tag=serve")
    put(atoll, box, "serve")
    shown = status(atoll, box, "running")
    assert shown["service"] is True
    wait_for(lambda: log(atoll, box) == "me in /srv as 1000\n", "its line", seconds=60)
    # It comes back with its box, and a client that kills it ends it until then.
    assert atoll.request("DELETE", box_path(box, "/api/process/entrypoint")).status == 200
    assert "service" not in process(atoll, box)
    assert atoll.request("POST", box_path(box, "/stop")).status == 200
    assert status(atoll, box, "running")["service"] is True
    # Its list is the image's: a service that a client adds goes beside it.
    atoll.request("POST", box_path(box, "/api/process/start"), {"command": "sleep 1000", "processId": "own", "service": True})
    kept = json.loads(atoll.execute_alone(box, "cat /var/lib/atoll-agent/services.json")["stdout"])
    assert [s["id"] for s in kept["services"]] == ["own"]


def test_an_entrypoint_that_fails_is_started_again_and_one_that_ends_well_is_not(atoll, box):
    built(atoll, 'FROM base\nCMD ["sh", "-c", "test -e /tmp/once && exit 0; touch /tmp/once; exit 3"]\n', query="tag=again")
    put(atoll, box, "again")
    shown = status(atoll, box, "completed")
    assert shown["exitCode"] == 0 and "service" not in shown


def test_an_entrypoint_that_is_not_there_says_so(atoll, box):
    built(atoll, 'FROM base\nENTRYPOINT ["nosuchprogram", "x"]\n', query="tag=nothing")
    put(atoll, box, "nothing")
    assert process(atoll, box)["status"] == "error"
    said = atoll.request("GET", box_path(box, "/api/process/entrypoint/logs")).json()["stderr"]
    assert "run nosuchprogram: No such file" in said
    assert atoll.execute_alone(box, "echo works")["stdout"] == "works\n"


def test_a_static_program_alone_is_a_service(atoll, box):
    built(atoll, 'FROM scratch\nCOPY busybox /busybox\nENTRYPOINT ["/busybox", "sleep", "1000"]\n', [("busybox", BUSYBOX.read_bytes(), {})],
          "tag=alone")
    put(atoll, box, "alone")
    assert status(atoll, box, "running")["command"] == "/busybox sleep 1000"


@pytest.mark.parametrize("server", ["/sandbox", "/container-server/sandbox"])
def test_upstreams_server_is_the_agent(atoll, box, server):
    built(atoll, f'FROM base\nENTRYPOINT ["{server}"]\n', query="tag=upstream")
    put(atoll, box, "upstream")
    assert process(atoll, box) == {}
    atoll.request("DELETE", box_path(box))
    built(atoll, f'FROM base\nENTRYPOINT ["{server}"]\nCMD ["sleep", "1000"]\n', query="tag=upstream")
    put(atoll, box, "upstream")
    assert status(atoll, box, "running")["command"] == "sleep 1000"


def test_a_sandbox_may_name_another_command(atoll, box):
    built(atoll, 'FROM base\nENTRYPOINT ["sleep"]\nCMD ["1000"]\n', query="tag=sleeper")
    put(atoll, box, "sleeper", command=[])
    assert process(atoll, box) == {}
    atoll.request("DELETE", box_path(box))
    put(atoll, box, "sleeper", command=["sleep", "2000"])
    assert status(atoll, box, "running")["command"] == "sleep 2000"
    atoll.request("DELETE", box_path(box))
    put(atoll, box, "default", command=["sleep", "3000"])
    assert status(atoll, box, "running")["command"] == "sleep 3000"
    for wrong in ("sleep 1", [1], ["a\0b"], ["x"] * 1025):
        check_error(atoll.request("PUT", box_path("wrong"), {"command": wrong}), "VALIDATION_FAILED", 400)
    assert put(atoll, "many", "default", command=["true"] * 1024)
    atoll.request("DELETE", box_path("many"))


# ---- commit

def test_a_box_becomes_an_image(atoll, box):
    built(atoll, "FROM base\nENV A=b\nUSER node\nWORKDIR /home/node\n", query="tag=before")
    put(atoll, box, "before", env={"SECRET": "never"})
    atoll.execute_alone(box, "echo one > file; rm /home/node/none 2>/dev/null; mkdir d")
    atoll.request("POST", box_path(box, "/api/process/start"), {"command": "sleep 1000", "processId": "own", "service": True})
    reply = atoll.request("POST", "/v1/images/commit", {"sandbox": box, "name": "after:1"})
    assert reply.status == 201 and reply.json()["name"] == "after:1", reply
    # The box runs on, and what it does now is no part of the image.
    assert process(atoll, box, "own")["status"] == "running"
    atoll.execute_alone(box, "echo two > file")
    put(atoll, "c", "after:1")
    assert atoll.execute_alone("c", "cat file; ls -d d; id -u; echo $A$SECRET; pwd")["stdout"] == "one\nd\n1000\nb\n/home/node\n"
    wait_for(lambda: process(atoll, "c", "own").get("status") == "running", "the service came along", seconds=60)
    # An image of an image; both have files of their own.
    atoll.execute_alone("c", "rm file; echo three > third")
    assert subprocess.run([BIN / "atoll", "commit", "c", "after:2"], env=atoll.env, capture_output=True, check=True).stdout == b"after:2\n"
    atoll.request("DELETE", box_path("c"))
    put(atoll, "c", "after:2")
    assert atoll.execute_alone("c", "ls")["stdout"] == "d\nthird\n"
    atoll.request("DELETE", box_path("c"))
    shown = atoll.request("GET", "/v1/images/after:2").json()
    assert shown["layers"] == atoll.request("GET", "/v1/images/before").json()["layers"] + 2
    assert shown["config"]["history"][-1]["created_by"] == "atoll commit c"
    assert no_work_left(atoll)


def test_a_box_of_the_default_image_becomes_an_image(atoll, box):
    put(atoll, box, "default")
    atoll.execute_alone(box, "echo kept > /kept; rm /bin/pwd")
    assert atoll.request("POST", "/v1/images/commit", {"sandbox": box, "name": "fromdefault"}).status == 201
    built(atoll, "FROM fromdefault\nRUN test ! -e /bin/pwd && cat /kept\n", query="tag=onit")


def test_what_cannot_be_committed_is_refused_and_leaves_nothing(atoll, box):
    put(atoll, box, "default")
    before = sorted(os.listdir(atoll.images / "layers"))
    check_error(atoll.request("POST", "/v1/images/commit", {"sandbox": "nosuch", "name": "x"}), "SANDBOX_NOT_FOUND", 404)
    for body in ({"sandbox": box}, {"name": "x"}, {"sandbox": box, "name": "../x"}, {"sandbox": box, "name": "sha256:" + "1" * 64},
                 {"sandbox": 5, "name": "x"}, []):
        assert atoll.request("POST", "/v1/images/commit", body).status == 400
    assert sorted(os.listdir(atoll.images / "layers")) == before
    assert no_work_left(atoll), (atoll.boxes(), os.listdir(atoll.images / 'making'))
    assert subprocess.run([BIN / "atoll", "commit", box], env=atoll.env, capture_output=True, check=False).returncode == 2
