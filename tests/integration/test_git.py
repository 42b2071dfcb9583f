"""Git checkout: real git over HTTP (git http-backend) and the git protocol (git daemon), inside the test's own box."""

import json
from pathlib import Path

import pytest
from atoll import wait_for
from boxapi import Api

W, HTTP, PORT = "/workspace", "http://127.0.0.1:8080", 8080
USER, PASSWORD = "us%20er", "p%40ss%3Aw%2F%C3%B6"
SECRETS = ("p@ss", "p%40ss", "w/ö", "cEBzc", "dXMgZXI")
PRIVATE = f"http://{USER}:{PASSWORD}@127.0.0.1:{PORT}/private/demo.git"
SERVER = (Path(__file__).resolve().parents[1] / "lib/githttp.py").read_bytes()

REPOSITORY = """set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
mkdir -p /srv/git && cd /srv/git && git init -q --bare -b main demo.git && git -C demo.git config uploadpack.allowFilter true
git init -q -b main /tmp/w && cd /tmp/w && git remote add origin /srv/git/demo.git
for i in 1 2 3; do echo $i > README && git add . && git commit -qm "commit $i"; done
git tag v1 && git checkout -q -b dev/x && echo 2 > DEV && git add . && git commit -qm dev
git checkout -q main && git checkout -q -b big && head -c 3M /dev/urandom > BIG && git add . && git commit -qm big
git push -q --all origin && git push -q --tags origin
git clone -q --bare /srv/git/demo.git /srv/git/broken.git
rm -f /srv/git/broken.git/objects/pack/*.pack && find /srv/git/broken.git/objects -type f -size +0 -delete
"""


@pytest.fixture(scope="module")
def api(daemon):
    """A box with repositories and servers; each test clones into directories of its own."""
    api = Api(daemon, "git")
    api.sh(REPOSITORY)
    api.put("/srv/githttp.py", SERVER)
    api.ok("/api/process/start", command=f"python3 /srv/githttp.py {PORT} /srv/git", processId="http")
    api.ok("/api/process/start", command="git daemon --base-path=/srv/git --export-all --listen=127.0.0.1 --reuseaddr", processId="git")
    for port in (PORT, PORT + 1, 9418):
        wait_for(lambda p=port: api.run(f": < /dev/tcp/127.0.0.1/{p}")["exitCode"] == 0, f"port {port}")
    yield api
    daemon.destroy("git")


def clone(api, url, target, **options):
    return api.ok("/api/git/checkout", repoUrl=url, targetDir=f"{W}/{target}", **options)


def fails(api, url, target, code, status, **options):
    error = api.fails("/api/git/checkout", code, status, repoUrl=url, targetDir=f"{W}/{target}", **options)
    assert error["operation"] == "git.clone" and error["context"]["targetDir"] == f"{W}/{target}"
    return error


# ---- success


@pytest.mark.parametrize("url", [f"{HTTP}/open/demo.git", "git://127.0.0.1/demo.git", "file:///srv/git/demo.git"], ids=["http", "git", "file"])
def test_a_clone(api, url):
    target = "plain-" + url.partition(":")[0]
    answer = clone(api, url, target)
    assert (answer["repoUrl"], answer["branch"], answer["targetDir"]) == (url, "main", f"{W}/{target}")
    assert api.sh(f"cd {W}/{target} && cat README && git log --oneline | wc -l && git status --porcelain") == "3\n3\n"


def test_where_it_goes_by_default(api):
    answer = api.ok("/api/git/checkout", repoUrl=f"{HTTP}/open/demo.git/")
    assert answer["targetDir"] == f"{W}/demo"
    assert api.sh(f"cat {W}/demo/README") == "3\n"
    api.sh(f"mkdir -p {W}/sub")
    api.daemon.execute("git", f"cd {W}/sub", sessionId="s")
    answer = api.ok("/api/git/checkout", repoUrl=f"{HTTP}/open/demo.git", targetDir="rel/x", sessionId="s")
    assert answer["targetDir"] == "rel/x" and api.sh(f"cat {W}/sub/rel/x/README") == "3\n"


def test_a_name_for_what_has_none(api):
    for url in (f"{HTTP}/", HTTP, f"{HTTP}/open/.git"):
        error = api.fails("/api/git/checkout", "GIT_REPOSITORY_NOT_FOUND", 404, repoUrl=url)
        assert error["context"]["targetDir"] == f"{W}/repository"


def test_branch_tag_and_depth(api):
    answer = clone(api, "git://127.0.0.1/demo.git", "dev", branch="dev/x", depth=1)
    assert answer["branch"] == "dev/x"
    assert api.sh(f"cd {W}/dev && cat DEV && git rev-list --count HEAD") == "2\n1\n"
    assert clone(api, f"{HTTP}/open/demo.git", "tag", branch="v1")["branch"] == "v1"
    assert api.sh(f"cd {W}/tag && cat README") == "3\n"


def test_a_repository_without_a_branch(api):
    api.sh("git init -q --bare -b first /srv/git/empty.git && git clone -q --bare /srv/git/demo.git /srv/git/detached.git && "
           "cd /srv/git/detached.git && git update-ref --no-deref HEAD v1~1")
    assert clone(api, f"{HTTP}/open/empty.git", "unborn")["branch"] == "first"
    assert clone(api, f"{HTTP}/open/detached.git", "detached")["branch"] == "unknown"


def test_into_an_empty_directory(api):
    api.sh(f"mkdir {W}/empty && chmod 711 {W}/empty")
    clone(api, f"{HTTP}/open/demo.git", "empty")
    assert api.sh(f"stat -c %a {W}/empty; ls {W}/empty") == "711\nREADME\n"


# ---- credentials


def test_credentials_open_the_door_and_leave_no_trace(api):
    api.sh("cat > /usr/local/bin/git <<'X'\n#!/bin/sh\nprintf '%s\\n' \"$@\" >> /tmp/argv\nexec /usr/bin/git \"$@\"\nX\nchmod +x /usr/local/bin/git")
    try:
        answer = clone(api, PRIVATE, "private")
    finally:
        argv = api.sh("cat /tmp/argv; rm -f /usr/local/bin/git /tmp/argv")
    assert answer["repoUrl"] == f"http://******@127.0.0.1:{PORT}/private/demo.git"
    assert api.sh(f"cd {W}/private && cat README && git config remote.origin.url") == f"3\n{HTTP}/private/demo.git\n"
    kept = api.sh(f"grep -raFl -e 'p@ss' -e 'p%40ss' -e 'cEBzc' {W}/private /root /tmp || true")
    assert kept == ""
    everything = json.dumps(answer, ensure_ascii=False) + argv + api.daemon.log()
    assert "clone" in argv and not any(s in everything for s in SECRETS)
    # A full clone: nothing has to be fetched later, when there are no credentials any more.
    assert api.sh(f"cd {W}/private && git show origin/dev/x:DEV") == "2\n"


@pytest.mark.parametrize("url", [f"http://{USER}:wrong-s3cret@127.0.0.1:{PORT}/private/demo.git",
                                 f"http://wrong-s3cret@127.0.0.1:{PORT}/private/demo.git",
                                 f"http://x:wrong-s3cret@127.0.0.1:{PORT}/forbidden/demo.git"], ids=["password", "token", "forbidden"])
def test_the_wrong_credentials(api, url):
    error = fails(api, url, "wrong", "GIT_AUTH_FAILED", 401)
    assert "s3cret" not in json.dumps(error) and "d3Jvbmct" not in json.dumps(error)
    assert error["context"]["exitCode"] == 128 and error["context"]["repository"].startswith("http://")
    assert api.ok("/api/exists", path=f"{W}/wrong")["exists"] is False
    assert "s3cret" not in api.daemon.log()


def test_no_credentials_where_some_are_needed(api):
    """Upstream's code: no server has refused any credentials."""
    error = fails(api, f"http://127.0.0.1:{PORT}/private/demo.git", "without", "GIT_CLONE_FAILED", 500)
    assert "could not read Username" in error["context"]["stderr"] and error["context"]["exitCode"] == 128
    assert api.ok("/api/exists", path=f"{W}/without")["exists"] is False


def test_credentials_do_not_follow_a_redirect(api):
    api.sh("rm -f /tmp/stolen")
    fails(api, f"http://{USER}:{PASSWORD}@127.0.0.1:{PORT}/steal/demo.git", "stolen", "GIT_CLONE_FAILED", 500)
    assert set(api.sh("cat /tmp/stolen").split("\n")) <= {"None", ""}


@pytest.mark.parametrize("url, shown", [
    (f"http://u:s3cret@127.0.0.1:{PORT}/open/none.git", f"http://******@127.0.0.1:{PORT}/open/none.git"),
    ("git://u:s3cret@127.0.0.1/none.git", "git://******@127.0.0.1/none.git"),
    ("ssh://u:s3cret@127.0.0.1:1/none.git", "ssh://******@127.0.0.1:1/none.git"),
    (f"{HTTP}/open/none.git?private_token=s3cret", f"{HTTP}/open/none.git?******"),
])
def test_no_error_shows_a_secret(api, url, shown):
    reply = api.call("/api/git/checkout", {"repoUrl": url, "targetDir": f"{W}/secret"})
    assert reply.status >= 400 and reply.json()["context"]["repository"] == shown
    assert b"s3cret" not in reply.body


@pytest.mark.parametrize("userinfo, secrets", [
    ("someone:t0p%2Fs3cret", ["t0p", "s3cret", "c29tZW9uZTp0MHAv"]),
    ("t0ken-as-the-user:x-oauth-basic", ["t0ken", "oauth", "dDBrZW4tYXMtdGhlLXVzZX"]),
    ("t0ken-alone", ["t0ken", "dDBrZW4tYWxvbmU"]),
], ids=["password", "token", "alone"])
def test_a_server_that_says_what_it_was_sent(api, userinfo, secrets):
    error = fails(api, f"http://{userinfo}@127.0.0.1:{PORT}/echo/demo.git", "echo", "GIT_AUTH_FAILED", 401)
    assert "you sent Basic ******" in error["context"]["stderr"]
    assert not [s for s in secrets if s in json.dumps(error)]


# ---- failures


def test_no_such_repository_or_branch(api):
    for url in (f"{HTTP}/open/none.git", "git://127.0.0.1/none.git", "file:///srv/git/none.git"):
        error = fails(api, url, "none", "GIT_REPOSITORY_NOT_FOUND", 404)
        assert error["context"]["repository"] == url and error["context"]["stderr"]
    for url in (f"{HTTP}/open/demo.git", "git://127.0.0.1/demo.git"):
        error = fails(api, url, "none", "GIT_BRANCH_NOT_FOUND", 404, branch="no/such")
        assert error["context"]["branch"] == "no/such" and "no/such" in error["message"]
    assert api.ok("/api/exists", path=f"{W}/none")["exists"] is False


def test_a_clone_of_its_own_target(api):
    own = f"{W}/own"
    api.sh(f"mkdir -p {own}/empty {own}/bare.git")
    for path, target in (("self", "self"), ("s%65lf/", "self"), ("empty", "empty"), ("bare", "bare.git")):
        fails(api, f"file://{own}/{path}", f"own/{target}", "GIT_REPOSITORY_NOT_FOUND", 404)
    assert api.sh(f"cd {own} && find . | sort") == ".\n./bare.git\n./empty\n"
    api.fails("/api/git/checkout", "GIT_REPOSITORY_NOT_FOUND", 404, repoUrl=f"file://{W}/no-such-place")
    assert api.ok("/api/exists", path=f"{W}/no-such-place")["exists"] is False


def test_a_file_url_without_its_suffix(api):
    assert clone(api, "file:///srv/git/demo", "unsuffixed")["branch"] == "main"


def test_no_such_host(api):
    for url in ("http://127.0.0.1:1/x.git", "git://127.0.0.1:1/x.git", "http://no-such-host.invalid/x.git"):
        fails(api, url, "unreachable", "GIT_NETWORK_ERROR", 502)


def test_a_target_that_is_taken_stays_as_it_is(api):
    api.sh(f"mkdir {W}/taken && echo mine > {W}/taken/file && echo f > {W}/afile")
    fails(api, f"{HTTP}/open/demo.git", "taken", "GIT_CLONE_FAILED", 500)
    fails(api, f"{HTTP}/open/demo.git", "afile", "GIT_CLONE_FAILED", 500)
    fails(api, f"{HTTP}/open/demo.git", "afile/below", "GIT_CLONE_FAILED", 500)
    assert api.sh(f"cat {W}/taken/* {W}/afile") == "mine\nf\n"


def test_a_failure_leaves_no_directory_on_the_way(api):
    api.sh(f"mkdir -p {W}/way/there")
    for target in ("way/there/a/b/c", "way/there/a/b/"):
        fails(api, f"{HTTP}/open/demo.git", target, "GIT_BRANCH_NOT_FOUND", 404, branch="no/such")
        assert api.sh(f"find {W}/way") == f"{W}/way\n{W}/way/there\n"


def test_a_failure_empties_what_a_link_leads_to(api):
    api.sh(f"mkdir {W}/real && ln -s real {W}/alias")
    fails(api, f"{HTTP}/slow/demo.git", "alias", "GIT_CLONE_FAILED", 500, timeoutMs=400)
    assert api.sh(f"ls -A {W}/real; readlink {W}/alias") == "real\n"


def test_a_repository_that_is_broken(api):
    code = fails(api, f"{HTTP}/open/broken.git", "broken", "GIT_OPERATION_FAILED", 500)["code"]
    assert code and api.ok("/api/exists", path=f"{W}/broken")["exists"] is False


def test_a_checkout_that_fails(api):
    api.sh("git config --global filter.no.smudge false && git config --global filter.no.required true &&"
           " mkdir -p ~/.config/git && echo 'README filter=no' > ~/.config/git/attributes")
    try:
        fails(api, f"{HTTP}/open/demo.git", "filtered", "GIT_CHECKOUT_FAILED", 500)
    finally:
        api.sh("rm -f ~/.gitconfig ~/.config/git/attributes")
    assert api.ok("/api/exists", path=f"{W}/filtered")["exists"] is False


def test_a_full_disk(api):
    api.sh("fallocate -l $(($(df --output=avail -B1 /dev/shm | tail -n1) - 1048576)) /dev/shm/fill; mkdir /dev/shm/there")
    try:
        for target in ("/dev/shm/clone", "/dev/shm/there"):
            error = api.fails("/api/git/checkout", "NO_SPACE", 500, repoUrl=f"{HTTP}/open/demo.git", branch="big", targetDir=target)
            assert "No space left" in error["message"] + error["context"]["stderr"]
        assert api.sh("ls -A /dev/shm /dev/shm/there") == "/dev/shm:\nfill\nthere\n\n/dev/shm/there:\n"
    finally:
        api.sh("rm -rf /dev/shm/fill /dev/shm/there")


@pytest.mark.parametrize("there", [False, True])
def test_a_time_limit_ends_everything(api, there):
    if there:
        api.sh(f"mkdir {W}/late")
    error = fails(api, f"{HTTP}/slow/demo.git", "late", "GIT_CLONE_FAILED", 500, timeoutMs=400)
    assert "timed out after 400 ms" in error["message"] and error["context"]["exitCode"] == 124
    assert api.sh("pgrep -f [r]emote-http || true") == ""
    assert api.run(f"ls -A {W}/late")["exitCode"] == (0 if there else 2)
    api.sh(f"rm -rf {W}/late")


def test_a_client_that_goes_away_does_not_stop_it(api):
    body = json.dumps({"repoUrl": f"{HTTP}/open/demo.git", "branch": "big", "targetDir": f"{W}/alone"})
    s = api.daemon.connect(unix=True)
    s.sendall(f"POST {api.path('/api/git/checkout')} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    api.sh(f"until [ -d {W}/alone ]; do :; done", timeoutMs=60_000)
    s.close()
    api.sh(f"until [ -f {W}/alone/BIG ] && ! pgrep -f '[r]emote-http|[h]ttp.lowSpeed' >/dev/null; do :; done", timeoutMs=60_000)
    assert api.sh(f"cd {W}/alone && git status --porcelain") == ""


# ---- requests


@pytest.mark.parametrize("url", ["", " ", "nonsense", "/srv/git/demo.git", "./demo.git", "-u", "--upload-pack=touch /tmp/x", "ftp://host/x",
                                 "HTTP://host/x", "http://", "https:///x", "http://host/a b", "http://host/\n", "ext::sh", "ext::sh%20-c%20id",
                                 "fd::3", "u:s3cret@host:path", ":path", "host:", "http://u:%zz@host/x", "http://u:%0as3cret@host/x",
                                 "http://u:%00s3cret@host/x", "http://host/" + "x" * 2048, "https://u:a/s3cret@host/x",
                                 "http://host:99999/x"], ids=range(25))
def test_urls_that_are_none(api, url):
    error = api.fails("/api/git/checkout", "INVALID_GIT_URL", 400, repoUrl=url)
    assert "s3cret" not in json.dumps(error)
    assert api.run("ls /tmp/x")["exitCode"] == 2


@pytest.mark.parametrize("url", ["git@host.invalid:path/demo.git", "ssh://git@host.invalid/demo.git", "host.invalid:demo"])
def test_urls_of_other_shapes(api, url):
    reply = api.call("/api/git/checkout", {"repoUrl": url, "targetDir": f"{W}/shapes"})
    assert reply.status >= 400 and reply.json()["code"].startswith("GIT_") and reply.json()["context"]["repository"] == url


def test_fields_that_are_wrong(api):
    good = {"repoUrl": f"{HTTP}/open/demo.git", "targetDir": f"{W}/fields"}
    for field, value in (("repoUrl", None), ("repoUrl", 7), ("branch", 7), ("branch", "-x"), ("branch", "a\0b"), ("targetDir", "a\0b"),
                         ("targetDir", 7), ("targetDir", "x" * 5000), ("depth", 0), ("depth", -1), ("depth", 1.5), ("depth", "1"),
                         ("timeoutMs", 0), ("timeoutMs", "x"), ("timeoutMs", 10**12), ("sessionId", 7)):
        api.invalid("/api/git/checkout", field, **{**good, field: value})
    assert api.ok("/api/exists", path=f"{W}/fields")["exists"] is False
