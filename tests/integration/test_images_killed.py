"""Builds and imports whose daemon, warden or client ends in the middle, and boxes whose disk is full: nothing is left, and the next one works."""
import os
import signal
import subprocess

import pytest
from atoll import BIN, box_path, wait_for
from imagelib import ENDLESS, begin_build, built, events, image_instance, names, no_work_left, own, run, shell_tree, step_box, tar_of


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


def next_build_works(atoll):
    built(atoll, "FROM default\nRUN echo again > /again\n", query="tag=again&nocache=1")
    assert run(atoll, "again", "again", "cat /again") == "again\n"


def test_a_daemon_that_is_killed_amid_a_build(atoll):
    connection = begin_build(atoll, ENDLESS)
    atoll.kill_daemon()
    connection.close()
    atoll.await_warden()
    wait_for(lambda: no_work_left(atoll), "the work of the build to be removed")
    assert "endless:latest" not in names(atoll)
    next_build_works(atoll)


def test_a_warden_that_is_killed_amid_a_build(atoll):
    """Its boxes live on, and so does the step. The build then ends well, or says what it missed; nothing is left either way."""
    connection = begin_build(atoll, "FROM default\nRUN echo begun; while test ! -e /go; do sleep 0.05; done\n")
    box = step_box(atoll)
    atoll.kill_warden()
    atoll.await_warden()
    assert own(atoll, "POST", box_path(box, "/api/execute"), {"command": "touch /go", "sessionId": "__DISABLE_SESSION__"}).status == 200
    said = b""
    while piece := connection.recv(65536):
        said += piece
        if b'"type":"done"' in said or b'"type":"error"' in said:
            break
    connection.close()
    assert b'"type":"done"' in said or b'"message":"' in said, said
    wait_for(lambda: no_work_left(atoll), "the work of the build to be removed")
    assert ("endless:latest" in names(atoll)) == (b'"type":"done"' in said)
    next_build_works(atoll)


def test_ctrl_c_ends_a_build(atoll, tmp_path):
    (tmp_path / "Dockerfile").write_text(ENDLESS)
    client = subprocess.Popen([BIN / "atoll", "build", "-t", "endless", str(tmp_path)], env=atoll.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        said = ""
        while "\nbegun" not in said:
            line = client.stdout.readline()
            assert line, said
            said += line
        client.send_signal(signal.SIGINT)
        assert client.wait(timeout=60) == 128 + signal.SIGINT
    finally:
        client.kill()
        client.stdout.close()
    wait_for(lambda: no_work_left(atoll), "the work of the build to be removed")
    assert "endless:latest" not in names(atoll)


def test_an_import_whose_daemon_is_killed(atoll):
    """The archive arrives in part; then the daemon ends."""
    archive = tar_of(shell_tree() + [("noise", os.urandom(4 << 20), {})])
    s = atoll.connect(unix=True)
    s.sendall(b"POST /v1/images/import?name=half HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(archive) + archive[:1 << 20])
    atoll.kill_daemon()
    s.close()
    atoll.await_warden()
    wait_for(lambda: no_work_left(atoll), "the work of the import to be removed")
    assert "half:latest" not in names(atoll)
    assert events(atoll.request("POST", "/v1/images/import?name=half", archive))[-1]["type"] == "done"
