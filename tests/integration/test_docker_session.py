"""Labels and filters: miniflare removes all that a filtered list of the Docker socket holds when its session ends."""

import json
import urllib.parse

import pytest
from dockersock import SIDECAR, TAG

POOL = "snapshots come from it"

LABEL = "dev.workerd.session"
LABELS_MAX = 16 << 10  # DOCKER_LABELS_MAX


def filtered(path, filters):
    text = filters if isinstance(filters, str) else json.dumps(filters)
    return f"{path}{'&' if '?' in path else '?'}filters={urllib.parse.quote(text)}"


def names(docker, filters, all_of_them="?all=1"):
    status, found = docker.ask("GET", filtered("/containers/json" + all_of_them, filters))
    assert status == 200, found
    return {c["Names"][0][1:] for c in found}


def volumes(docker, filters):
    status, found = docker.ask("GET", filtered("/volumes", filters))
    assert status == 200, found
    return {v["Name"] for v in found["Volumes"]}


def make_session(docker, session, name):
    labels = {LABEL: session, "of": "both"}
    for made, image, network in ((f"{name}-proxy", SIDECAR, "bridge"), (name, TAG, f"container:{name}-proxy")):
        fields = {"Image": image, "Labels": labels, "HostConfig": {"NetworkMode": network}}
        assert docker.ask("POST", f"/containers/create?name={made}", fields)[0] == 201
    assert docker.ask("POST", "/volumes/create", {"Name": f"workerd-snap-clone-{name}", "Labels": labels})[0] == 201


@pytest.fixture
def sessions(own_docker):
    docker = own_docker
    assert docker.build().returncode == 0
    for name in ("one", "two"):
        make_session(docker, name, name)
    assert docker.ask("POST", "/volumes/create", {"Name": "workerd-snap-kept"})[0] == 201
    yield docker
    docker.remove_all()
    for name in volumes(docker, {}):
        assert docker.ask("DELETE", f"/volumes/{name}")[0] == 204


def test_the_end_of_a_session_leaves_all_others(sessions, own_daemon):
    """The requests of miniflare 5.20261110, in its order, also after the daemon was killed."""
    docker, of = sessions, {"label": [f"{LABEL}=one"]}
    own_daemon.kill_daemon()
    own_daemon.await_warden()
    status, found = docker.ask("GET", filtered("/containers/json?all=1", of))
    assert status == 200 and {c["Names"][0]: (c["Labels"][LABEL], c["HostConfig"]["NetworkMode"]) for c in found} == {
        "/one": ("one", "container:one-proxy"), "/one-proxy": ("one", "bridge")}
    assert volumes(docker, of) == {"workerd-snap-clone-one"}
    for c in sorted(found, key=lambda c: c["Names"][0]):
        assert docker.ask("DELETE", f"/containers/{c['Id']}?force=1")[0] == 204
    assert docker.ask("DELETE", "/volumes/workerd-snap-clone-one")[0] == 204
    assert names(docker, of) == volumes(docker, of) == set()
    assert names(docker, {}) == {"two", "two-proxy"} and volumes(docker, {}) == {"workerd-snap-clone-two", "workerd-snap-kept"}


def test_what_the_filters_mean(sessions):
    docker, one, everything = sessions, {"one", "one-proxy"}, {"one", "one-proxy", "two", "two-proxy"}
    assert docker.ask("POST", "/containers/one-proxy/start")[0] == 204
    for filters, want in (({"label": {f"{LABEL}=one": True}}, one), ({"label": [LABEL]}, everything), ({"label": [f"{LABEL}=one", "of=both"]}, one),
                          ({"label": [f"{LABEL}=one", "of=none"]}, set()), ({"label": [f"{LABEL}="]}, set()), ({"label": ["", f"{LABEL}=one"]}, set()),
                          ({"label": []}, everything), ({"ancestor": [TAG]}, {"one", "two"}), ({"ancestor": [TAG], "label": [f"{LABEL}=two"]}, {"two"}),
                          ({"name": ["one"]}, one), ({"name": ["one-", "two-"]}, {"one-proxy", "two-proxy"}), ({"status": ["running"]}, {"one-proxy"}),
                          ({"id": [docker.ask("GET", "/containers/two/json")[1]["Id"][:12]]}, {"two"})):
        assert names(docker, filters) == want, filters
    assert names(docker, {"label": [LABEL]}, "") == {"one-proxy"} and names(docker, {"status": ["created"]}, "") == {"one", "two", "two-proxy"}
    about = docker.ask("GET", "/containers/one/json")[1]
    assert about["Config"]["Labels"] == {LABEL: "one", "of": "both"} and about["HostConfig"]["NetworkMode"] == "container:one-proxy"


@pytest.mark.parametrize("filters", ["{", "[]", "7", '{"nothing":["x"]}', '{"label":7}', '{"label":"x=y"}', '{"label":[7]}', '{"until":{"1h":true}}'])
def test_a_filter_that_is_not_understood_is_refused(sessions, filters):
    """Ignoring it would list, and remove, everything."""
    for path in ("/containers/json?all=1", "/volumes", "/images/json"):
        status, error = sessions.ask("GET", filtered(path, filters))
        assert status == 400 and set(error) == {"message"}, (path, status, error)


def test_labels_have_a_limit(own_docker):
    docker, around = own_docker, len('{"k":""}')
    for size, status in ((LABELS_MAX, 201), (LABELS_MAX + 1, 400)):
        labels = {"k": "x" * (size - around)}
        assert docker.ask("POST", f"/containers/create?name=c{size}", {"Image": SIDECAR, "Labels": labels})[0] == status
        assert docker.ask("POST", "/volumes/create", {"Name": f"v{size}", "Labels": labels})[0] == status
    for labels in ([], "x", {"k": 1}, {"k": None}):
        assert docker.ask("POST", "/containers/create?name=c", {"Image": SIDECAR, "Labels": labels})[0] == 400
        assert docker.ask("POST", "/volumes/create", {"Name": "v", "Labels": labels})[0] == 400
    assert docker.ask("DELETE", f"/volumes/v{LABELS_MAX}")[0] == 204
