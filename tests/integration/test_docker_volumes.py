"""Volumes of the Docker socket: made, listed, mounted, filled by helpers as workerd does it for snapshots of directories, removed."""

import json

from dockersock import SIDECAR, TAG, execute, put_archive, tar

POOL = "volumes are in it"

SNAP = "workerd-snap-2f6f2a55-5e1c-4f54-8d6a-97b6f1f4a001"


def volumes(docker, part=""):
    query = "?filters=" + json.dumps({"name": [part]}).replace(" ", "").replace('"', "%22") if part else ""
    return {v["Name"] for v in docker.ask("GET", "/volumes" + query)[1]["Volumes"]}


def make(docker, name, **more):
    status, v = docker.ask("POST", "/volumes/create", {"Name": name, **more})
    assert status == 201 and v["Name"] == name, v
    return v


def remove(docker, *names):
    for name in names:
        assert docker.ask("DELETE", f"/volumes/{name}")[0] == 204


def test_made_listed_and_removed(own_daemon, own_docker):
    docker = own_docker
    assert volumes(docker) == set()
    make(docker, SNAP, Labels={"dev.workerd.snapshot-created-at": "1"})
    make(docker, "Other_One")
    assert make(docker, SNAP)["Labels"] == {"dev.workerd.snapshot-created-at": "1"}  # it was there
    assert volumes(docker) == {SNAP, "Other_One"} and volumes(docker, "workerd-snap-") == {SNAP}
    own_daemon.kill_daemon()
    own_daemon.await_warden()
    assert docker.ask("GET", f"/volumes/{SNAP}")[1]["Labels"] == {"dev.workerd.snapshot-created-at": "1"}
    unnamed = docker.ask("POST", "/volumes/create", {})[1]["Name"]
    remove(docker, SNAP, "Other_One", unnamed)
    assert volumes(docker) == set() and own_daemon.request("GET", "/v1/volumes").json()["volumes"] == []
    for method in ("GET", "DELETE"):
        assert docker.ask(method, f"/volumes/{SNAP}")[0] == 404
    for body in ([], {"Name": "a/b"}, {"Name": 1}, {"Name": "x" * 256}, {"Name": "a", "Driver": "nfs"}):
        status, error = docker.ask("POST", "/volumes/create", body)
        assert status == 400 and set(error) == {"message"}, (body, error)


def test_mounted_in_a_container(docker):
    assert docker.build().returncode == 0
    make(docker, "data")
    for mount in ({"Binds": ["data:/srv/data"]}, {"Mounts": [{"Type": "volume", "Source": "data", "Target": "/srv/data", "VolumeOptions": {"NoCopy": True}}]}):
        assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR})[0] in (201, 409)
        docker.ask("POST", "/containers/c-proxy/start")
        assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "HostConfig": mount})[0] == 201
        assert docker.ask("POST", "/containers/c/start")[0] == 204
        execute(docker.port("c"), "echo more >>/srv/data/f")
        assert docker.ask("DELETE", "/volumes/data")[0] == 409
        lines = execute(docker.port("c"), "cat /srv/data/f")["stdout"]
        assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert lines == "more\nmore\n"
    for mount, status in (({"Binds": ["/etc:/x"]}, 400), ({"Binds": ["none:/x"]}, 404), ({"Binds": [1]}, 400),
                          ({"Mounts": [{"Type": "bind", "Source": "/etc", "Target": "/x"}]}, 400)):
        assert docker.ask("POST", "/containers/create?name=d", {"Image": TAG, "HostConfig": mount})[0] == status, mount
    remove(docker, "data")


def test_a_snapshot_of_a_directory(docker):
    """As workerd makes and restores one: a tar into a volume, a copy of the volume, and a container with the copy."""
    assert docker.build().returncode == 0
    docker.run("c")
    clone = SNAP.replace("snap-", "snap-clone-")
    make(docker, SNAP)
    make(docker, clone)
    status, helper = docker.ask("POST", "/containers/create", {"Image": SIDECAR, "HostConfig": {"Binds": [f"{SNAP}:/mnt"]}})
    assert status == 201, helper
    assert put_archive(docker, helper["Id"], "/mnt", tar("sub/f", b"kept\n"))[0] == 200
    assert docker.ask("DELETE", f"/containers/{helper['Id']}?force=true")[0] == 204
    for command, code in ((["/bin/cp", "-a /none/. /dst/"], 1), (["/bin/cp", "-a", "/src/. /dst/"], 1), (["/bin/cp", "-a", "/src/.", "/dst/"], 0)):
        status, helper = docker.ask("POST", "/containers/create", {"Image": SIDECAR, "Entrypoint": command[:1], "Cmd": command[1:],
                                                                   "HostConfig": {"Binds": [f"{SNAP}:/src:ro", f"{clone}:/dst"]}})
        assert status == 201, helper
        assert docker.ask("POST", f"/containers/{helper['Id']}/start")[0] == 204
        assert docker.ask("POST", f"/containers/{helper['Id']}/wait?condition=not-running") == (200, {"StatusCode": code})
        assert docker.ask("DELETE", f"/containers/{helper['Id']}?force=true")[0] == 204
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    mount = {"Type": "volume", "Source": clone, "Target": "/workspace/kept", "VolumeOptions": {"NoCopy": True}}
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "HostConfig": {"Mounts": [mount]}})[0] == 201
    assert docker.ask("POST", "/containers/c/start")[0] == 204
    assert execute(docker.port("c"), "cat /workspace/kept/sub/f")["stdout"] == "kept\n"
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    remove(docker, SNAP, clone)
