"""Watches: event streams of changes, and questions whether anything has changed."""

import contextlib
import os
import re
import signal

import fusebox
import pytest
from atoll import seed, wait_for
from boxapi import ISO, NO_SESSION, Api, memory_kb

W = "/workspace"
# `: > f` creates; touch would also set its times, which is an attrib.


class Watch:
    """A stream of changes that is being read. `after` makes changes and waits until all of them have been reported."""

    def __init__(self, api, path=W, **options):
        self.api, self.n = api, 0
        self.stream = api.stream("/api/watch", path=path, **options)
        self.root = path
        self.first = next(iter(self.stream))
        assert self.first["type"] == "watching" and self.first["path"] == "/" + os.path.join(W, path).strip("/")
        assert re.match(r"^watch-\d+-\d+$", self.first["watchId"])

    def after(self, command, *awaited):
        """(kind, path below the root) of everything until each of `awaited` has come, in whichever order."""
        self.api.sh(f"cd {self.root} && {command}")
        left = set(awaited)

        def enough(event):
            if event["type"] == "event":
                left.discard((event["eventType"], self.below(event)))
            return event["type"] != "event" or not left

        seen = self.stream.until(enough)
        assert all(e["type"] == "event" and ISO.match(e["timestamp"]) for e in seen), seen
        self.last = seen
        return [(e["eventType"], self.below(e)) for e in seen]

    def below(self, event):
        assert event["path"].startswith(self.root.rstrip("/") + "/"), event
        return event["path"][len(self.root.rstrip("/")) + 1:]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stream.close()


def test_every_kind_of_change(api):
    with Watch(api) as w:
        assert w.after("mkdir d", ("create", "d")) == [("create", "d")]
        assert w.last[0]["isDirectory"] is True
        seen = w.after("echo 1 > f", ("modify", "f"))
        assert seen == [("create", "f"), ("modify", "f")] and w.last[0]["isDirectory"] is False
        assert w.after("chmod 600 f", ("attrib", "f")) == [("attrib", "f")]
        assert w.after("mv f d/g", ("move_to", "d/g")) == [("move_from", "f"), ("move_to", "d/g")]
        assert w.after("rm d/g", ("delete", "d/g")) == [("delete", "d/g")]
        assert w.after("rmdir d", ("delete", "d")) == [("delete", "d")]
        assert w.last[0]["isDirectory"] is True


def test_writes_of_the_api_are_no_renames(api):
    with Watch(api) as w:
        api.ok("/api/write", path=f"{W}/f", content="1")
        assert w.after("true", ("create", "f")) == [("create", "f")]
        api.put(f"{W}/f", b"2" * 200_000)
        assert w.after("true", ("modify", "f")) == [("modify", "f")]
        api.sh("mkdir -p /dev/shm/t/u && touch /dev/shm/t/u/x")
        api.ok("/api/move", sourcePath="/dev/shm/t", destinationPath=f"{W}/t")
        assert w.after("true", ("create", "t/u/x")) == [("create", "t"), ("create", "t/u"), ("create", "t/u/x")]


def test_a_burst_is_reported_once(api):
    with Watch(api) as w:
        seen = w.after("for i in $(seq 200); do echo $i >> f; done; : > end", ("create", "end"))
        assert seen.count(("create", "f")) == 1 and seen.count(("modify", "f")) < 50


def test_new_directories_are_picked_up_with_what_is_in_them(api):
    with Watch(api) as w:
        names = ("a", "a/b", "a/b/c", "a/b/c/deep", "a/top", "a/b/c/later")
        seen = w.after("mkdir -p a/b/c && touch a/b/c/deep a/top && sleep 0.1 && touch a/b/c/later", *(("create", n) for n in names))
        # The first directory is made in a watched one. Those below it may be told twice: found in it, and by the kernel.
        assert seen[0] == ("create", "a") and seen.count(("create", "a")) == 1, seen
        assert all(seen.count(("create", n)) <= 2 for n in names), seen
        assert {name for _, name in seen} == set(names), seen


def test_a_directory_that_moves_keeps_its_watches(api):
    api.sh(f"mkdir -p {W}/a/sub {W}/b && : > {W}/a/sub/old")
    with Watch(api) as w:
        assert w.after("mv a b/moved", ("move_to", "b/moved")) == [("move_from", "a"), ("move_to", "b/moved")]
        assert w.after(": > b/moved/sub/new", ("create", "b/moved/sub/new")) == [("create", "b/moved/sub/new")]
        # Out of the tree, and its name again: what happens outside is nobody's business.
        seen = w.after("mv b/moved /tmp/gone && mkdir b/moved && : > /tmp/gone/sub/silent && : > b/moved/f", ("create", "b/moved/f"))
        assert seen == [("move_from", "b/moved"), ("create", "b/moved"), ("create", "b/moved/f")]
        # (What is found in a new directory may be told once more when the kernel tells of it.)
        seen = w.after("echo > /tmp/gone/sub/silent; echo > b/moved/f", ("modify", "b/moved/f"))
        assert set(seen) <= {("create", "b/moved/f"), ("modify", "b/moved/f")}
        # In from outside: it and what it holds are new here.
        w.after("mv /tmp/gone back && : > back/sub/y", ("move_to", "back"), ("create", "back/sub/old"), ("create", "back/sub/y"))


def test_a_directory_that_moves_to_an_excluded_name(api):
    api.sh(f"mkdir -p {W}/a/sub {W}/node_modules/in")
    with Watch(api) as w:
        assert w.after("mv a .git; : > .git/sub/silent; : > f", ("create", "f")) == [("move_from", "a"), ("create", "f")]
        seen = w.after("mv node_modules/in b; : > b/f", ("create", "b/f"))
        assert seen == [("move_to", "b"), ("create", "b/f")]


def test_a_directory_is_excluded_by_what_it_comes_to_lie_in(api):
    api.sh(f"mkdir -p {W}/a/out/x")
    with Watch(api, events=["create"], exclude=["keep/out"]) as w:
        assert w.after(": > a/out/x/1", ("create", "a/out/x/1"))
        assert w.after("mv a keep; : > keep/out/x/2; : > keep/3", ("create", "keep/3")) == [("create", "keep/3")]
        seen = w.after("mv keep b; : > b/out/x/4", ("create", "b/out/x/4"))
        assert set(seen) <= {("create", f"b/out/{f}") for f in ("x", "x/1", "x/2", "x/4")}


def test_not_recursive(api):
    api.sh(f"mkdir {W}/d")
    with Watch(api, recursive=False) as w:
        assert w.after(": > d/hidden; sleep 0.1; : > f", ("create", "f")) == [("create", "f")]
        assert w.after("mkdir e; : > e/hidden; sleep 0.1; : > g", ("create", "g")) == [("create", "e"), ("create", "g")]


def test_exclude_has_a_default(api):
    api.sh(f"mkdir -p {W}/.git {W}/src/node_modules/p")
    with Watch(api) as w:
        seen = w.after("touch .git/x src/node_modules/p/x .DS_Store src/.DS_Store src/ok", ("create", "src/ok"))
        assert {p for _, p in seen} == {"src/ok"}
    with Watch(api, exclude=[]) as w:
        w.after("touch .git/y src/ok2", ("create", ".git/y"), ("create", "src/ok2"))


@pytest.mark.parametrize("options, expected", [
    ({"exclude": ["*.log", "build"]}, {"a.txt", "d/b.txt", "d/e/c.py", "d/builder"}),
    ({"exclude": ["d/**"]}, {"a.txt", "a.log", "build/x"}),
    ({"exclude": ["d/*.txt", "build/?"]}, {"a.txt", "a.log", "d/e/c.py", "d/builder", "d/x.log"}),
    ({"include": ["*.py"]}, {"d/e/c.py"}),
    ({"include": ["d/**/*.py", "a.???"]}, {"a.txt", "a.log", "d/e/c.py"}),
    ({"include": ["d/e"]}, {"d/e/c.py"}),
    ({"include": ["e/*.py", "/workspace/bu*/**"]}, {"d/e/c.py", "build/x"}),
    ({"exclude": ["d/e", "/workspace/build", "/d/b.txt"]}, {"a.txt", "a.log", "d/b.txt", "d/x.log", "d/builder"}),
])
def test_patterns(api, options, expected):
    names = ["a.txt", "a.log", "d/b.txt", "d/x.log", "d/e/c.py", "d/builder", "build/x"]
    api.sh(f"cd {W} && mkdir -p d/e build")
    with Watch(api, events=["create"], **options) as w:
        last = sorted(expected)[-1]
        order = [n for n in names if n != last] + [last]
        seen = w.after("; ".join(f"touch {n}" for n in order), ("create", last))
        assert {p for _, p in seen} == expected


def test_only_some_kinds(api):
    with Watch(api, events=["delete", "move_to"]) as w:
        assert w.after("echo > f; chmod 600 f; mv f g; rm g", ("delete", "g")) == [("move_to", "g"), ("delete", "g")]


def test_one_file(api):
    api.put(f"{W}/f", b"1")
    api.put(f"{W}/other", b"1")
    stream = api.stream("/api/watch", path=f"{W}/f")
    with stream:
        events = iter(stream)
        assert next(events)["path"] == f"{W}/f"
        api.put(f"{W}/other", b"2")
        api.put(f"{W}/f", b"2")
        event = next(events)
        assert (event["eventType"], event["path"]) == ("modify", f"{W}/f")
        api.sh(f"rm {W}/other {W}/f")
        assert next(events)["path"] == f"{W}/f"


def test_links_are_not_followed_and_names_are_the_clients(api):
    api.sh(f"mkdir -p {W}/real/d /dev/shm/out && cd {W} && ln -s real link && ln -s .. real/loop && ln -s /dev/shm/out real/out")
    with Watch(api, path=f"{W}/link/") as w:
        assert w.after(": > /dev/shm/out/silent; : > d/f", ("create", "d/f")) == [("create", "d/f")]
    with Watch(api, path="real", sessionId=NO_SESSION) as w:
        w.root = f"{W}/real"
        assert w.after(": > g", ("create", "g")) == [("create", "g")]


@pytest.mark.parametrize("name", ["sp ace", "qu'o\"te", "new\nline", "ünï☃", "-dash", "x" * 255, "back\\slash"], ids=range(7))
def test_odd_names(api, name):
    with Watch(api) as w:
        api.ok("/api/mkdir", path=f"{W}/{name}")
        api.ok("/api/write", path=f"{W}/{name}/{name}", content="")
        assert set(w.after("true", ("create", f"{name}/{name}"))) == {("create", name), ("create", f"{name}/{name}")}


def test_directories_renamed_faster_than_events_are_read(api):
    api.sh("mkdir -p /stage && cd /stage && for i in $(seq 0 199); do mkdir -p p$i/s; done")
    with Watch(api, events=["create"]) as w:
        with at_once(api):
            root = f"/proc/{api.agent_pid()}/root"
            for i in range(200):
                os.rename(f"{root}/stage/p{i}", f"{root}{W}/x")
                os.rename(f"{root}{W}/x", f"{root}{W}/z{i}")
        names = [f"z{i}/{f}" for i in range(200) for f in ("f", "s/f")]
        w.after(" && ".join(f": > {n}" for n in names), *(("create", n) for n in names))


def test_directories_renamed_while_events_are_read(api):
    storm = "import os\nfor i in range(150): os.mkdir('x'); os.mkdir('x/s'); os.rename('x', f'y{i}')"
    with Watch(api, events=["create"]) as w:
        api.sh(f'cd {W} && python3 -c "$STORM"', env={"STORM": storm})
        names = [f"y{i}/{f}" for i in range(150) for f in ("f", "s/f")]
        w.after(" && ".join(f": > {n}" for n in names), *(("create", n) for n in names))


# Makes, renames, exchanges, removes, takes out and brings in directories, whatever may come of it.
DISORDER = """
import ctypes, os, random, sys
r = random.Random(int(sys.argv[1]))
os.chdir("/workspace/t")
exchange = lambda a, b: ctypes.CDLL(None).renameat2(-100, a.encode(), -100, b.encode(), 2)
for i in range(150):
    dirs = ["."] + [os.path.join(d, n) for d, names, _ in os.walk(".") for n in names]
    a, b, out = r.choice(dirs), os.path.join(r.choice(dirs), r.choice("abcdefgh")), f"/workspace/out/{r.randrange(8)}"
    step = r.choice([os.mkdir] * 5 + [os.rename] * 4 + [exchange, "out", "in", os.rmdir])
    try:
        if step in (os.mkdir, os.rmdir): step(b if step is os.mkdir else a)
        elif step == "out": os.rename(a, out)
        elif step == "in": os.rename(out, b)
        else: step(a, b)
    except OSError:
        pass
"""


@pytest.mark.parametrize("seeds", [[1], [2, 3], [4, 5, 6]], ids=len)
def test_after_any_disorder_each_directory_is_watched_by_its_name(api, seeds):
    first = seed(0)
    api.sh(f"mkdir {W}/t {W}/out")
    api.put("/tmp/disorder.py", DISORDER.encode())
    with Watch(api, path=f"{W}/t", events=["create"]) as w:
        api.sh(" & ".join(f"python3 /tmp/disorder.py {first + n}" for n in seeds) + f" & wait; mkdir -p {W}/t/last/one")
        dirs = api.sh(f"cd {W}/t && find . -mindepth 1 -type d -printf '%P\\n'").split()
        assert "last/one" in dirs
        seen = w.after(" && ".join(f": > {d}/probe" for d in dirs), *(("create", f"{d}/probe") for d in dirs))
        assert {p for _, p in seen if p.endswith("/probe")} == {f"{d}/probe" for d in dirs}


def test_two_directories_that_change_places(api):
    api.sh(f"mkdir -p {W}/a/in {W}/b/other")
    swap = "import ctypes; exit(ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2) != 0)"
    with Watch(api, events=["create"]) as w:
        seen = w.after(f'python3 -c "{swap}" && : > a/other/1 && : > b/in/2', ("create", "b/in/2"))
        assert seen == [("create", "a/other/1"), ("create", "b/in/2")]


def test_what_is_too_deep_is_said(api):
    deep = "import os\nfor i in range(1100): os.mkdir('d'); os.chdir('d')"
    api.sh(f"mkdir {W}/deep && cd {W}/deep && python3 -c \"$DEEP\"", env={"DEEP": deep})
    with Watch(api) as w:
        assert w.stream.until(lambda e: e["type"] == "error")[-1]["error"]
        assert w.after(": > deep/f", ("create", "deep/f"))


def test_the_end_of_what_is_watched(api):
    for command in ("rm -rf d", "mv d e", "mv up moved"):
        api.sh(f"mkdir -p {W}/d {W}/up/d && rm -rf {W}/e")
        with Watch(api, path=f"{W}/up/d" if "up" in command else f"{W}/d") as w:
            api.sh(f"cd {W} && {command}")
            events = list(w.stream)
            assert events[-1]["type"] == "stopped" and events[-1]["reason"]


@pytest.fixture
def many(api):
    """1100 names in the workspace, quickly: of one file."""
    api.sh(f"cd {W} && : > {'x' * 200} && python3 -c 'import os; [os.link(\"x\" * 200, \"x\" * 200 + str(i)) for i in range(1100)]'")
    return [f"{W}/{'x' * 200}{i}" for i in range(1100)]


@contextlib.contextmanager
def at_once(api):
    """Its agent sees nothing of what happens inside until the end. Yields a function that changes a file from outside."""
    agent = api.agent_pid()

    def change(path):
        fd = os.open(f"/proc/{agent}/root{path}", os.O_WRONLY)
        os.write(fd, b"x")
        os.close(fd)

    os.kill(agent, signal.SIGSTOP)
    try:
        yield change
    finally:
        os.kill(agent, signal.SIGCONT)


def test_too_much_at_once_is_said(api, many):
    with Watch(api) as w:
        with at_once(api) as change:
            for path in many:
                change(path)
        seen = w.stream.until(lambda e: e["type"] == "error")
        assert "lost" in seen[-1]["error"] and len(seen) == 1001
        # And it goes on.
        api.sh(f"mkdir -p {W}/n/m && : > {W}/n/m/f")
        w.stream.until(lambda e: e.get("path") == f"{W}/n/m/f")


def test_the_kernels_queue_overflows(api):
    limit = int(api.sh("cat /proc/sys/fs/inotify/max_queued_events"))
    api.sh(f"cd {W} && : > a && : > b && mkdir old moved")
    with Watch(api) as w:
        with at_once(api) as change:
            for _ in range(limit // 2 + 50):  # the same change twice in a row would be one event
                change(f"{W}/a")
                change(f"{W}/b")
            root = f"/proc/{api.agent}/root{W}"
            os.rename(f"{root}/moved", f"{root}/old/moved")  # unseen
        w.stream.until(lambda e: e["type"] == "error" and "lost" in e["error"])
        assert w.after(": > old/moved/f; : > old/f", ("create", "old/f")) == [("create", "old/moved/f"), ("create", "old/f")]


def test_a_fuse_server_below_that_does_not_answer(api):
    """After an overflow the tree is searched again: by the agent, since the watch began before the mount."""
    limit = int(api.sh("cat /proc/sys/fs/inotify/max_queued_events"))
    api.sh(f"cd {W} && : > a && : > b && mkdir hung")
    fusebox.put(api)
    with Watch(api) as w:
        server = fusebox.start(api, "hang", f"{W}/hung")
        with at_once(api) as change:
            for _ in range(limit // 2 + 50):
                change(f"{W}/a")
                change(f"{W}/b")
        w.stream.until(lambda e: e["type"] == "error" and "lost" in e["error"])
        assert w.after(": > c", ("create", "c")) == [("create", "c")]
    api.call(f"/api/process/{server}?signal=SIGKILL", method="DELETE")


def test_a_client_that_does_not_read(api, many):
    with Watch(api, events=["modify", "attrib"]) as w:
        for _ in range(8):
            with at_once(api) as change:
                for path in many[:900]:
                    change(path)
            api.sh("sleep 0.1")  # one round is one burst of events
        # By now they wait in the agent, each change of a path once: more paths are more than may wait.
        with at_once(api) as change:
            for path in many:
                change(path)
                os.chmod(f"/proc/{api.agent}/root{path}", 0o600)
        api.sh("sleep 0.1")
        assert memory_kb(api.agent) < 4096
        seen = w.stream.until(lambda e: e["type"] == "error")
        assert "lost" in seen[-1]["error"] and 2000 < len(seen) < 8 * 900
        api.sh(f"echo > {W}/after")
        w.stream.until(lambda e: e.get("path") == f"{W}/after")


def test_thousands_of_directories(api):
    api.sh("mkdir -p /workspace/t && cd /workspace/t && for i in $(seq 30); do mkdir -p $(seq -f $i/%g 100); done")
    with Watch(api) as w:
        assert memory_kb(api.agent_pid()) < 4096
        assert w.after(": > t/30/100/f", ("create", "t/30/100/f")) == [("create", "t/30/100/f")]
        w.after("mv t u", ("move_to", "u"))
        assert w.after(": > u/30/99/f", ("create", "u/30/99/f"))[-1] == ("create", "u/30/99/f")
    assert int(api.sh("ls /proc/1/fd | wc -l")) < 40


def test_where_it_is_refused(api):
    api.sh(f"ln -s /etc {W}/etc; ln -s nowhere {W}/dangling; mkdir {W}sibling; mkfifo {W}/p")
    for path in ("/", "/etc", "/etc/passwd", f"{W}/..", f"{W}/etc", f"{W}sibling", "/nowhere"):
        error = api.fails("/api/watch", "PERMISSION_DENIED", 403, path=path)
        assert error["context"]["path"] == path
        api.fails("/api/watch/check", "PERMISSION_DENIED", 403, path=path)
    for path in (f"{W}/none", f"{W}/dangling"):
        api.fails("/api/watch", "FILE_NOT_FOUND", 404, path=path)
        api.fails("/api/watch/check", "FILE_NOT_FOUND", 404, path=path)


@pytest.mark.parametrize("route", ["/api/watch", "/api/watch/check"])
def test_fields_that_are_wrong(api, route):
    for field, body in (("path", {"path": ""}), ("path", {"path": 7}), ("path", {"path": None}),
                        ("recursive", {"recursive": "yes"}), ("include", {"include": "*.py"}),
                        ("include", {"include": [7]}), ("include", {"include": [""]}), ("include", {"include": ["[a]"]}),
                        ("include", {"include": ["x" * 257]}), ("exclude", {"exclude": ["*"] * 65}),
                        ("include", {"include": ["a"], "exclude": ["b"]}), ("events", {"events": ["open"]}),
                        ("events", {"events": "create"}), ("sessionId", {"sessionId": {}})):
        api.invalid(route, field, **{"path": W, **body})
    if route.endswith("check"):
        api.invalid(route, "since", path=W, since=7)


def test_patterns_at_their_limits(api):
    with Watch(api, exclude=["*" * 255 + "x"] * 64, events=["create"]) as w:
        assert w.after(": > yx; : > xy", ("create", "xy")) == [("create", "xy")]


def test_too_many_watches(api):
    watches = [Watch(api) for _ in range(64)]
    api.fails("/api/watch", "WATCH_START_ERROR", 500, path=W)
    api.fails("/api/watch/check", "WATCH_START_ERROR", 500, path=W)
    for w in watches[:2]:
        w.stream.close()
    wait_for(lambda: api.call("/api/watch/check", {"path": W}).status == 200, "a watch can start again")
    # What is only kept for a question gives way to what is watched.
    more = [Watch(api), Watch(api)]
    assert watches[9].after("touch f", ("create", "f"))
    for w in watches[2:] + more:
        w.stream.close()


def test_clients_that_go_away_leave_nothing(api):
    before = api.sh("ls /proc/1/fd | wc -l")
    for _ in range(100):
        with Watch(api):
            pass
    wait_for(lambda: int(api.sh("ls /proc/1/fd | wc -l")) <= int(before) + 8, "descriptors are closed")


# ---- questions


def check(api, path=W, **options):
    return api.ok("/api/watch/check", path=path, **options)


def test_has_anything_changed(api):
    first = check(api)
    assert first["status"] == "unchanged" and re.match(r"^watch-\d+-\d+:0$", first["version"]) and "reason" not in first
    assert check(api, since=first["version"])["status"] == "unchanged"
    api.sh(f"mkdir {W}/d && touch {W}/d/f")
    second = check(api, since=first["version"])
    assert second["status"] == "changed" and second["version"] != first["version"]
    assert check(api, since=second["version"])["status"] == "unchanged"
    assert check(api, since=first["version"])["status"] == "changed"
    api.sh(f"touch {W}/.git; mkdir -p {W}/node_modules/x")
    assert check(api, since=second["version"])["status"] == "unchanged"


def test_each_question_is_its_own(api):
    api.sh(f"mkdir {W}/a {W}/b && touch {W}/file")
    by_path, by_filter, one = check(api, f"{W}/a"), check(api, W, include=["*.py"]), check(api, f"{W}/file")
    api.sh(f"touch {W}/b/x")
    assert check(api, f"{W}/a", since=by_path["version"])["status"] == "unchanged"
    assert check(api, W, include=["*.py"], since=by_filter["version"])["status"] == "unchanged"
    assert check(api, f"{W}/file", since=one["version"])["status"] == "unchanged"
    api.sh(f"touch {W}/a/x.py; echo > {W}/file")
    assert check(api, f"{W}/a", since=by_path["version"])["status"] == "changed"
    assert check(api, W, include=["*.py"], since=by_filter["version"])["status"] == "changed"
    assert check(api, f"{W}/file", since=one["version"])["status"] == "changed"


def test_versions_that_are_not_known(api):
    other = check(api, include=["*.x"])
    now = check(api)
    for since, reason in (("watch-99-1:5", "restarted"), ("x:1", "restarted"), (other["version"], "expired"),
                          (now["version"].split(":")[0] + ":7", "expired")):
        answer = check(api, since=since)
        assert (answer["status"], answer["reason"], answer["version"]) == ("resync", reason, now["version"]), since


@pytest.mark.parametrize("since", ["nonsense", ":", ":1", "watch-1-1", "watch-1-1:", "watch-1-1:x", "watch-1-1:-1", "watch-1-1:18446744073709551616"])
def test_versions_that_are_none(api, since):
    api.invalid("/api/watch/check", "since", path=W, since=since)


def test_a_directory_that_is_gone_and_back(api):
    api.sh(f"mkdir {W}/d")
    first = check(api, f"{W}/d")
    api.sh(f"rmdir {W}/d")
    api.fails("/api/watch/check", "FILE_NOT_FOUND", 404, path=f"{W}/d", since=first["version"])
    api.sh(f"mkdir {W}/d")
    answer = check(api, f"{W}/d", since=first["version"])
    assert answer["status"] in ("changed", "resync")
    again = check(api, f"{W}/d", since=answer["version"])
    assert again["status"] in ("unchanged", "resync")
    api.sh(f"touch {W}/d/f")
    assert check(api, f"{W}/d", since=again["version"])["status"] == "changed"


def test_overflow_counts_as_change(api, many):
    first = check(api)
    with at_once(api) as change:
        for path in many:
            change(path)
    assert check(api, since=first["version"])["status"] == "changed"


def test_the_restart_of_the_daemon_changes_nothing(own_daemon, own_box):
    api = Api(own_daemon, own_box)
    first = check(api)
    own_daemon.kill_daemon()
    assert check(api, since=first["version"])["status"] == "unchanged"
