"""A FUSE server that does not answer: only what needs it waits. Files, commands and processes of the same box go on."""

import contextlib
import json
import threading

import fusebox
import pytest
from atoll import alive, wait_for

W = "/workspace/well"
HUNG = "/workspace/hung"


@pytest.fixture
def hung(api):
    """A box with a mount at HUNG whose server never answers."""
    fusebox.put(api)
    api.sh(f"mkdir {W}")
    api.server = fusebox.start(api, "hang", HUNG)
    yield api
    release(api)


def release(api):
    """Ends the server, and with it the mount: what waits for it gets an error."""
    api.call(f"/api/process/{api.server}?signal=SIGKILL", method="DELETE")


class Blocked:
    """A request that waits for the server."""

    def __init__(self, call):
        self.reply = None
        self.thread = threading.Thread(target=self.run, args=(call,))
        self.thread.start()

    def run(self, call):
        self.reply = call()

    def end(self):
        self.thread.join(60)
        assert not self.thread.is_alive(), "the request still waits"
        return self.reply


def helpers(api):
    """Children of the agent that are forks of it."""
    return api.sh("for p in $(cat /proc/1/task/1/children); do [ \"$(cat /proc/$p/comm)\" = \"$(cat /proc/1/comm)\" ] && echo $p; done; true").split()


REQUESTS = {
    "exists": lambda api: api.call("/api/exists", {"path": f"{HUNG}/f"}),
    "read": lambda api: api.call("/api/read", {"path": f"{HUNG}/f"}),
    "stream": lambda api: api.call("/api/read/stream", {"path": f"{HUNG}/f"}),
    "get": lambda api: api.call(f"/api/file?path={HUNG}/f", method="GET"),
    "write": lambda api: api.call("/api/write", {"path": f"{HUNG}/f", "content": "x"}),
    "long write": lambda api: api.call("/api/write", {"path": f"{HUNG}/f", "content": "x" * 3_000_000}),
    "put": lambda api: api.call(f"/api/file?path={HUNG}/f", b"x", method="PUT"),
    "mkdir": lambda api: api.call("/api/mkdir", {"path": f"{HUNG}/d", "recursive": True}),
    "delete": lambda api: api.call("/api/delete", {"path": f"{HUNG}/f"}),
    "rename": lambda api: api.call("/api/rename", {"oldPath": f"{W}/old", "newPath": f"{HUNG}/f"}),
    "move": lambda api: api.call("/api/move", {"sourcePath": f"{HUNG}/f", "destinationPath": f"{W}/new"}),
    "list": lambda api: api.call("/api/list-files", {"path": HUNG}),
    "list above": lambda api: api.call("/api/list-files", {"path": "/workspace"}),
    "list the tree": lambda api: api.call("/api/list-files", {"path": "/", "options": {"recursive": True}}),
    "watch": lambda api: api.call("/api/watch", {"path": HUNG}),
    "link": lambda api: api.call("/api/read", {"path": f"{W}/link"}),
    "clone into it": lambda api: api.call("/api/git/checkout", {"repoUrl": f"file://{W}/none", "targetDir": f"{HUNG}/d"}),
    "clone onto it": lambda api: api.call("/api/git/checkout", {"repoUrl": "https://127.0.0.1:1/hung.git"}),
    "clone from it": lambda api: api.call("/api/git/checkout", {"repoUrl": f"file://{HUNG}/r", "targetDir": f"{W}/d"}),
}


def works(api):
    """The rest of the box answers."""
    api.ok("/api/write", path=f"{W}/f", content="text")
    assert api.ok("/api/read", path=f"{W}/f")["content"] == "text"
    assert api.ok("/api/exists", path=f"{W}/f")["exists"] is True
    assert "f" in [f["name"] for f in api.ok("/api/list-files", path=W)["files"]]
    api.ok("/api/rename", oldPath=f"{W}/f", newPath=f"{W}/g")
    api.ok("/api/delete", path=f"{W}/g")
    assert api.sh("echo plain; uname") == "plain\nLinux\n"
    assert api.daemon.execute(api.box, "cd /usr; pwd", sessionId="other")["stdout"] == "/usr\n"
    assert api.ok("/api/process/start", command="true")["pid"] > 1


def status(api, process):
    return api.call(f"/api/process/{process}", method="GET").json()["process"]["status"]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_waits_alone(hung, name):
    hung.sh(f"echo old >{W}/old; ln -sfn {HUNG}/f {W}/link")
    blocked = Blocked(lambda: REQUESTS[name](hung))
    wait_for(lambda: helpers(hung), "a helper waits")
    works(hung)
    assert blocked.reply is None
    release(hung)
    reply = blocked.end()
    if name == "exists":
        assert reply.json()["exists"] is False
    elif name in ("list above", "list the tree", "stream"):
        assert reply.status == 200
    else:
        assert 400 <= reply.status <= 500 and reply.json()["code"] and reply.json()["message"], reply
    wait_for(lambda: not helpers(hung), "the helper is gone")
    works(hung)


def test_answers_from_a_mount_are_the_same_as_elsewhere(api):
    """What the helper answers passes through unchanged."""
    fusebox.put(api)
    fusebox.start(api, "empty", HUNG)
    assert api.ok("/api/list-files", path=HUNG)["files"] == []
    assert [f["name"] for f in api.ok("/api/list-files", path="/workspace", options={"recursive": True})["files"]] == ["hung"]
    error = api.call("/api/read", {"path": HUNG})
    other = api.call("/api/read", {"path": "/usr"})
    assert (error.status, error.json()["code"]) == (other.status, other.json()["code"])


def test_commands_that_begin_in_the_mount_wait_alone(hung):
    sessionless = Blocked(lambda: hung.run("echo in", cwd=HUNG))
    fresh = Blocked(lambda: hung.daemon.request("POST", hung.path("/api/execute"), {"command": "echo in", "cwd": HUNG, "sessionId": "fresh"}))
    hung.daemon.execute(hung.box, "X=1;:", sessionId="shell")
    shell = Blocked(lambda: hung.daemon.request("POST", hung.path("/api/execute"), {"command": "echo in", "cwd": HUNG, "sessionId": "shell"}))
    program = Blocked(lambda: hung.run(f"{HUNG}/program"))
    started = hung.ok("/api/process/start", command="echo in", cwd=HUNG, sessionId="__DISABLE_SESSION__")
    works(hung)
    assert [b.reply for b in (sessionless, fresh, shell, program)] == [None] * 4
    release(hung)
    for blocked in (fresh, shell):
        reply = blocked.end().json()
        assert reply["exitCode"] == 1 and f"Failed to change directory to '{HUNG}'" in reply["stderr"], reply
    assert sessionless.end()["exitCode"] == 1 and sessionless.reply["stderr"] == f"Failed to change directory to '{HUNG}'\n"
    assert program.end()["exitCode"] in (126, 127)
    wait_for(lambda: status(hung, started["processId"]) == "failed")
    works(hung)


def test_programs_that_are_searched_in_the_mount_wait_alone(hung):
    hung.sh(f"ln -s {HUNG} {W}/link")
    found = Blocked(lambda: hung.run("uname", env={"PATH": f"{HUNG}:/usr/bin:/bin"}))
    relative = [Blocked(lambda path=path: hung.run(path, cwd=W)) for path in ("link/program", "../hung/program")]
    started = hung.ok("/api/process/start", command="link/program", cwd=W, sessionId="__DISABLE_SESSION__")["processId"]
    works(hung)
    assert [b.reply for b in (found, *relative)] == [None] * 3
    assert status(hung, started) == "running"
    release(hung)
    assert found.end()["exitCode"] == 0
    assert {b.end()["exitCode"] for b in relative} <= {126, 127}
    wait_for(lambda: status(hung, started) == "failed")
    works(hung)


# Copies a program and names another loader in its header: the first name of this length that the mount has.
OTHER_LOADER = f"""python3 - <<'END'
program = open('/bin/true', 'rb').read()
at = program.index(b'/lib64/ld-')
end = program.index(b'\\0', at)
name = b'{HUNG}/'
open('{W}/dynamic', 'wb').write(program[:at] + name + b'l' * (end - at - len(name)) + program[end:])
END
chmod 755 {W}/dynamic"""


def test_programs_that_need_one_in_the_mount_wait_alone(hung):
    """The kernel opens what a `#!` line or an ELF header names before the program runs."""
    hung.sh(f"printf '#!{HUNG}/program -x\\n' >{W}/script; printf '#! {W}/script' >{W}/second; printf '#!../hung/program' >{W}/third")
    hung.sh(f"chmod 755 {W}/*; ln -s {W}/script /usr/local/bin/searched")
    hung.sh(OTHER_LOADER)
    names = [f"{W}/script", f"{W}/second", f"{W}/dynamic", "searched"]
    commands = [Blocked(lambda name=name: hung.run(name)) for name in names]
    commands.append(Blocked(lambda: hung.run("./third", cwd=W)))
    started = [hung.ok("/api/process/start", command=name, sessionId="__DISABLE_SESSION__")["processId"] for name in names]
    works(hung)
    assert [b.reply for b in commands] == [None] * 5
    assert [status(hung, p) for p in started] == ["running"] * 4
    release(hung)
    assert {b.end()["exitCode"] for b in commands} <= {126, 127}
    wait_for(lambda: [status(hung, p) for p in started] == ["failed"] * 4, "they have ended")
    works(hung)


def test_checks_for_changes_do_not_wait(hung):
    for path in (HUNG, "/workspace"):
        first = hung.ok("/api/watch/check", path=path)
        assert first["status"] == "unchanged"
        again = hung.ok("/api/watch/check", path=path, since=first["version"])
        assert (again["status"], again["reason"]) == ("resync", "expired") and again["version"] != first["version"]
    hung.invalid("/api/watch/check", "since", path=HUNG, since="x")
    first = hung.ok("/api/watch/check", path=W)
    hung.sh(f"echo >{W}/new")
    assert hung.ok("/api/watch/check", path=W, since=first["version"])["status"] == "changed"


def test_interpreters_and_archives_wait_alone(hung):
    hung.ok("/api/session/create", id="there", env={"PATH": f"{HUNG}:/usr/bin:/bin"})
    blocked = [Blocked(lambda: hung.call("/api/contexts", {"language": "python", "env_vars": {"PATH": f"{HUNG}:/usr/local/bin:/usr/bin:/bin"}})),
               Blocked(lambda: hung.call("/api/contexts", {"language": "javascript", "env_vars": {"PATH": f"{HUNG}:/usr/local/bin:/usr/bin:/bin"}})),
               Blocked(lambda: hung.call("/api/backup/create", {"dir": HUNG, "archivePath": "/var/backups/hung.sqsh"})),
               Blocked(lambda: hung.call("/api/backup/create", {"dir": W, "archivePath": "/var/backups/well.sqsh", "sessionId": "there"}))]
    works(hung)
    release(hung)
    assert [b.end().status for b in blocked] == [200, 200, 500, 200]
    works(hung)


def test_helpers_are_bounded_and_the_rest_goes_on(hung):
    requests = [Blocked(lambda: hung.call("/api/exists", {"path": f"{HUNG}/f"})) for _ in range(16)]
    wait_for(lambda: len(helpers(hung)) == 16, "as many helpers as there may be")
    error = hung.fails("/api/exists", "LIMIT_REACHED", 429, path=f"{HUNG}/f")
    assert "16 file operations wait for FUSE servers already" in error["message"]
    works(hung)
    release(hung)
    assert all(b.end().json()["exists"] is False for b in requests)
    works(hung)


def test_a_server_that_never_answers_is_given_up(hung):
    error = hung.fails("/api/read", "FILESYSTEM_ERROR", 500, path=f"{HUNG}/f")
    assert f"'{HUNG}/f' is in a FUSE mount whose server has not answered for 30 s" in error["message"]
    assert error["context"] == {"path": f"{HUNG}/f", "operation": "file.read"}
    works(hung)


def test_a_client_that_goes_away_leaves_no_request_behind(hung):
    with contextlib.closing(hung.daemon.connect(True)) as sock:
        body = b'{"path": "%s/f"}' % HUNG.encode()
        sock.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                     % (hung.path("/api/read").encode(), len(body)) + body)
        wait_for(lambda: helpers(hung), "a helper waits")
    works(hung)
    release(hung)
    wait_for(lambda: not helpers(hung), "the helper is gone")


def test_the_box_ends_at_once(daemon, hung, box):
    blocked = [Blocked(lambda name=name: REQUESTS[name](hung)) for name in ("read", "list", "write")]
    wait_for(lambda: len(helpers(hung)) == 3)
    agent = hung.agent_pid()
    assert daemon.request("DELETE", f"/v1/sandboxes/{box}").status in (200, 204)
    wait_for(lambda: not alive(agent), "the box is gone")
    for b in blocked:
        b.end()


@pytest.fixture
def merged(api):
    """A mount that works, and can be written to."""
    api.sh("mkdir -p /var/tmp/lower /var/tmp/upper /var/tmp/work /workspace/merged; echo below >/var/tmp/lower/f; "
           "fuse-overlayfs -o lowerdir=/var/tmp/lower,upperdir=/var/tmp/upper,workdir=/var/tmp/work /workspace/merged")
    assert "fuse" in api.sh("grep /workspace/merged /proc/self/mountinfo")
    return "/workspace/merged"


def test_files_in_a_mount_that_works(api, merged):
    big = bytes(range(256)) * 12_000
    assert api.ok("/api/read", path=f"{merged}/f")["content"] == "below\n"
    api.ok("/api/write", path=f"{merged}/f", content="above")
    assert api.ok("/api/read", path=f"{merged}/f")["content"] == "above" and api.sh("cat /var/tmp/upper/f") == "above"
    api.ok("/api/write", path=f"{merged}/long", content="y" * 3_000_000)
    assert api.sh(f"wc -c <{merged}/long") == "3000000\n"
    api.put(f"{merged}/big", big)
    assert api.get(f"{merged}/big") == big
    events = api.events("/api/read/stream", path=f"{merged}/big")
    assert events[0]["size"] == len(big) and events[-1]["bytesRead"] == len(big)
    api.ok("/api/mkdir", path=f"{merged}/d/e", recursive=True)
    api.ok("/api/rename", oldPath=f"{merged}/big", newPath=f"{merged}/d/e/big")
    api.ok("/api/move", sourcePath=f"{merged}/d", destinationPath="/var/tmp/moved")  # to another file system: copied
    assert api.get("/var/tmp/moved/e/big") == big
    assert sorted(f["name"] for f in api.ok("/api/list-files", path=merged)["files"]) == ["f", "long"]
    api.ok("/api/delete", path=f"{merged}/long")
    assert api.ok("/api/exists", path=f"{merged}/long")["exists"] is False
    assert api.sh(f"ls -A {merged}") == "f\n" and not helpers(api)


def test_paths_relative_to_a_session_and_misspelt_fields(api, merged):
    api.daemon.execute(api.box, f"cd {merged}; :", sessionId="inside")
    assert api.ok("/api/read", path="f", sessionId="inside")["content"] == "below\n"
    answer = api.ok("/api/read", filePath=f"{merged}/f")
    assert answer["content"] == "below\n" and len(answer["warnings"]) == 1
    error = api.fails("/api/write", "VALIDATION_FAILED", 400, path=f"{merged}/x")
    assert error["context"]["validationErrors"][0]["field"] == "content"


def test_commands_in_a_mount_that_works(api, merged):
    api.sh(f"printf '#!/bin/sh\\npwd\\n' >{merged}/program; chmod +x {merged}/program")
    for session in ("__DISABLE_SESSION__", "fresh"):
        for command in (f"{merged}/program", "./program", "pwd", "/bin/pwd"):
            assert api.daemon.execute(api.box, command, cwd=merged, sessionId=session)["stdout"] == f"{merged}\n"
    with_path = api.run("program; uname", cwd="/", env={"PATH": f"{merged}:/usr/bin:/bin"})
    assert with_path["stdout"] == "/\nLinux\n"
    gone = api.run("pwd", cwd=f"{merged}/none")
    assert (gone["exitCode"], gone["stderr"]) == (1, f"Failed to change directory to '{merged}/none'\n")
    started = api.ok("/api/process/start", command="pwd", cwd=merged)
    wait_for(lambda: api.call(f"/api/process/{started['processId']}/logs", method="GET").json()["stdout"] == f"{merged}\n")


def test_a_clone_into_a_mount_that_works(api, merged):
    api.sh("git init -q -b trunk /tmp/r; cd /tmp/r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one")
    answer = api.ok("/api/git/checkout", repoUrl="file:///tmp/r", targetDir=f"{merged}/clone")
    assert (answer["branch"], answer["targetDir"]) == ("trunk", f"{merged}/clone")
    error = api.fails("/api/git/checkout", "GIT_CLONE_FAILED", 500, repoUrl="file:///tmp/r", targetDir=f"{merged}/clone")
    assert "not an empty directory" in error["context"]["stderr"]
    api.fails("/api/git/checkout", "GIT_REPOSITORY_NOT_FOUND", 404, repoUrl="file:///tmp/none", targetDir=f"{merged}/other/deep")
    assert api.run(f"ls -d {merged}/other")["exitCode"] != 0


def test_an_interpreter_in_a_mount_that_works(api, merged):
    api.sh(f"ln -s $(command -v python3) {merged}/python3")
    path = f"{merged}:/usr/local/bin:/usr/bin:/bin"
    context = api.call("/api/contexts", {"language": "python", "cwd": merged, "env_vars": {"PATH": path}}).json()
    assert context["cwd"] == merged, context


def test_over_a_websocket(api, merged):
    ws = api.daemon.websocket(api.path("/ws"))
    ws.send({"type": "request", "id": "1", "method": "POST", "path": "/api/read", "body": {"path": f"{merged}/f"}})
    assert json.loads(ws.receive())["body"]["content"] == "below\n"
    ws.close()


def test_a_watch_of_a_mount_that_works(api, merged):
    with api.stream("/api/watch", path=merged) as watch:
        events = iter(watch)
        assert next(events)["type"] == "watching"
        api.sh(f"echo new >{merged}/new")
        assert next(e for e in events if e["type"] == "event")["path"].endswith("/new")
    wait_for(lambda: not helpers(api), "the helper ends with its client")


def test_watches_leave_room_for_others(api, merged):
    with contextlib.ExitStack() as stack:
        for _ in range(32):
            assert next(iter(stack.enter_context(api.stream("/api/watch", path=merged))))["type"] == "watching"
        error = api.fails("/api/watch", "LIMIT_REACHED", 429, path=merged)
        assert "32 watches of directories with FUSE mounts run already" in error["message"]
        assert api.ok("/api/read", path=f"{merged}/f")["content"] == "below\n"
    wait_for(lambda: not helpers(api), "the helpers end with their clients")
    with api.stream("/api/watch", path=merged) as watch:
        assert next(iter(watch))["type"] == "watching"
