"""What the daemon keeps: through restarts, with a damaged file, on a full disk; and how it refuses to start."""

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import atoll
import leaks
import pytest
from atoll import BIN, DEADLINE, box_path, wait_for
from boxapi import check_error

POOL = "programs are killed while they use it"

MIB = 1024 * 1024


def without_usage(sandbox):
    for live in ("usage", "disk"):
        sandbox.pop(live, None)
    return sandbox


@contextlib.contextmanager
def syncs_of(pid, path):
    """Counts how often a process waits for the disk: the function that is given returns the count so far."""
    with subprocess.Popen(["strace", "-f", "-p", str(pid), "-e", "trace=fsync,fdatasync", "-o", path], stderr=subprocess.PIPE) as tracer:
        try:
            assert b"attached" in tracer.stderr.readline()
            yield lambda: Path(path).read_text(encoding="ascii", errors="replace").count("sync(")
        finally:
            tracer.terminate()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_settings_are_on_the_disk_before_the_answer(own_daemon, tmp_path):
    """After a loss of power a sandbox whose row is lost gets the default settings: rows that say something else must not be lost."""
    with syncs_of(own_daemon.daemon_pid, tmp_path / "trace") as syncs:
        assert own_daemon.execute("usual", "true")["exitCode"] == 0
        assert syncs() == 0, "a sandbox without settings need not wait for the disk"
        for n, settings in enumerate(({"labels": {"a": "b"}}, {"limits": {"pids": 100}}, {"network": {"mode": "off"}})):
            before = syncs()
            assert own_daemon.request("PUT", box_path(f"special-{n}"), settings).status == 201
            assert syncs() > before, settings
        before = syncs()
        assert own_daemon.request("PUT", box_path("usual"), {"labels": {"c": "d"}}).status == 200
        assert syncs() > before


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_forks_and_snapshots_are_on_the_disk_before_the_answer(own_daemon, tmp_path):
    """Rows that say "is being made" after a loss of power are deleted with their files."""
    with syncs_of(own_daemon.daemon_pid, tmp_path / "trace") as syncs:
        assert own_daemon.execute("usual", "true")["exitCode"] == 0
        assert syncs() == 0
        made = own_daemon.request("POST", box_path("usual", "/snapshots"), {"name": "first"})
        assert made.status == 201 and syncs() > 0
        before = syncs()
        assert own_daemon.request("POST", box_path("usual", "/fork"), {"ids": ["copy"]}).status == 201
        assert syncs() > before
        before = syncs()
        assert own_daemon.request("PUT", box_path("again"), {"from": {"snapshot": made.json()["id"]}}).status == 201
        assert syncs() > before


def test_a_sandbox_that_was_stopped_at_once_survives(own_daemon):
    for i in range(5):
        box = f"stopped-{i}"
        assert own_daemon.execute(box, "echo kept >/workspace/f")["exitCode"] == 0
        assert own_daemon.request("POST", box_path(box, "/stop")).status == 200
        own_daemon.kill_daemon()
        own_daemon.await_warden()
        assert own_daemon.inspect(box)["state"] == "stopped"
        assert own_daemon.execute(box, "cat /workspace/f")["stdout"] == "kept\n"


def say_creating(instance, boxes, *, filling=False):
    """Ends everything, and makes the rows say what they do in the first moments of a sandbox."""
    assert instance.interrupt() == 0
    with contextlib.closing(sqlite3.connect(instance.data / "daemon/state.db")) as db, db:
        for box in boxes:
            db.execute("UPDATE sandboxes SET state = 'creating', reason = '', filling = ? WHERE id = ?", (filling, box))
    instance.start()
    instance.await_warden()


def test_files_stay_when_a_kill_comes_before_the_state_is_written(own_daemon):
    for box in ("ended", "asked"):
        assert own_daemon.execute(box, "echo kept >/workspace/f")["exitCode"] == 0
        assert own_daemon.request("POST", box_path(box, "/stop")).status == 200
    say_creating(own_daemon, ("ended", "asked"))
    assert own_daemon.execute("asked", "cat /workspace/f")["stdout"] == "kept\n"
    assert own_daemon.inspect("ended")["state"] == "stopped"
    assert own_daemon.execute("ended", "cat /workspace/f")["stdout"] == "kept\n"


def test_a_fork_survives_a_kill_right_after_its_answer(own_daemon):
    assert own_daemon.execute("parent", "echo kept >/workspace/f")["exitCode"] == 0
    for i in range(3):
        r = own_daemon.request("POST", box_path("parent", "/fork"), {"ids": [f"fork-{i}"]})
        assert r.status in (200, 201), r
        own_daemon.kill_daemon()
        own_daemon.await_warden()
        assert own_daemon.execute(f"fork-{i}", "cat /workspace/f")["stdout"] == "kept\n"


def test_a_fork_that_was_under_way_leaves_nothing(own_daemon):
    assert own_daemon.execute("half", "true")["exitCode"] == 0
    assert own_daemon.request("POST", box_path("half", "/stop")).status == 200
    say_creating(own_daemon, ("half",), filling=True)
    assert own_daemon.boxes() == []
    wait_for(lambda: not list(own_daemon.layers.iterdir()), "its files are gone")


def test_each_life_of_a_sandbox_has_its_time(own_daemon):
    def started():
        """Right after a kill its row may still say `creating`."""
        return wait_for(lambda: own_daemon.inspect("lives").get("startedAt"), "it is found again")

    first = own_daemon.request("PUT", box_path("lives"), {}).json()["startedAt"]
    own_daemon.kill_daemon()
    own_daemon.await_warden()
    assert started() == first
    own_daemon.kill_warden()
    own_daemon.await_warden()
    assert started() == first
    assert own_daemon.request("POST", box_path("lives", "/sleep")).json()["startedAt"] == first
    assert "startedAt" not in own_daemon.request("POST", box_path("lives", "/stop")).json()
    assert own_daemon.request("POST", box_path("lives", "/wake")).json()["startedAt"] > first


def test_everything_asked_for_survives(own_daemon):
    own_daemon.request("PUT", box_path("one"), {"limits": {"memory": 96 * MIB, "cpu": 0.25, "pids": 50},
                                                "labels": {"a": "ü\n\""}, "env": {"X": "1"}, "sleepAfter": "1h"})
    own_daemon.execute("two", "true")
    own_daemon.request("PUT", box_path("two"), {"labels": {"b": "c"}})
    before = [without_usage(own_daemon.inspect(b)) for b in ("one", "two")]
    own_daemon.kill_daemon()
    assert [without_usage(own_daemon.inspect(b)) for b in ("one", "two")] == before
    own_daemon.interrupt()
    own_daemon.start()
    assert [without_usage(own_daemon.inspect(b)) for b in ("one", "two")] == before
    own_daemon.destroy("two")
    own_daemon.kill_daemon()
    assert own_daemon.boxes() == ["one"]


def test_boxes_without_a_row_are_adopted(own_daemon):
    """The file is lost, the boxes live."""
    own_daemon.request("PUT", box_path("one"), {"limits": {"memory": 96 * MIB}})
    own_daemon.execute("one", "echo kept >/tmp/f")
    own_daemon.interrupt()
    shutil.rmtree(own_daemon.data / "daemon")
    own_daemon.start()
    assert own_daemon.inspect("one")["limits"]["memory"] == 96 * MIB
    assert own_daemon.execute("one", "cat /tmp/f")["stdout"] == "kept\n"
    assert own_daemon.request("PUT", box_path("one"), {"labels": {"found": "again"}}).status == 200
    own_daemon.kill_daemon()
    assert own_daemon.inspect("one")["labels"] == {"found": "again"}


def network(daemon, box):
    return daemon.request("GET", box_path(box) + "/network").json()


def test_a_box_without_a_row_has_no_network_until_it_starts_again(own_daemon):
    """Its policy was in the row: the default of the daemon may allow more."""
    for box in ("one", "two"):
        own_daemon.request("PUT", box_path(box), {"network": {"mode": "list", "allow": ["example.org"]}})
    own_daemon.interrupt()
    shutil.rmtree(own_daemon.data / "daemon")
    own_daemon.start()
    for _ in range(2):
        found = network(own_daemon, "one")
        assert found["mode"] == "off" and "its record was lost" in found["reason"] and found["own"] == {}, found
        assert own_daemon.request("PUT", box_path("one"), {"labels": {"found": "again"}}).status == 200
        own_daemon.kill_daemon()  # it has a row now, and stays off
    assert own_daemon.request("POST", box_path("one") + "/stop").status == 200
    own_daemon.execute("one", "true")
    found = network(own_daemon, "one")
    assert found["mode"] == "open" and "reason" not in found, found
    own_daemon.interrupt()
    own_daemon.start()
    assert network(own_daemon, "one")["mode"] == "open"
    # Or until somebody says what it may reach. A rule alone would be added to a policy that nobody knows.
    reply = own_daemon.request("PATCH", box_path("two") + "/network", {"allow": ["example.org"]})
    assert reply.status == 400 and "field 'mode' is needed" in reply.json()["message"], reply
    assert "its record was lost" in network(own_daemon, "two")["reason"]
    for change, own in (({"mode": "list"}, {"mode": "list"}), ({"allow": ["example.org"]}, {"mode": "list", "allow": ["example.org"]})):
        assert own_daemon.request("PATCH", box_path("two") + "/network", change).status == 200
        found = network(own_daemon, "two")
        assert found["mode"] == "list" and "reason" not in found and found["own"] == own, found


def test_a_sleeping_box_sleeps_on_and_wakes_later(own_daemon, own_box):
    own_daemon.request("PUT", box_path(own_box), {"sleepAfter": "1s"})
    pid = own_daemon.execute(own_box, "sleep 1000 >/dev/null 2>&1 & echo $!")["stdout"].strip()
    wait_for(lambda: own_daemon.inspect(own_box)["state"] == "asleep", "it sleeps")
    own_daemon.kill_daemon()
    assert own_daemon.inspect(own_box)["state"] == "asleep"
    own_daemon.kill_warden()
    wait_for(lambda: own_daemon.request("GET", "/v1/health").json()["warden"], "the warden is found")
    assert own_daemon.inspect(own_box)["state"] == "asleep"
    assert own_daemon.execute(own_box, f"kill -0 {pid}")["exitCode"] == 0


def agents(daemon):
    """The inits of boxes in use: those that are only prepared still have the warden's name."""
    name = daemon.cgroup or leaks.cgroup_name(daemon.warden_pid)
    return [pid for pid, comm in leaks.processes(name) if "agent" in comm or comm.startswith("memfd:")]


@pytest.fixture
def small_disk():
    """An Atoll whose daemon has a file system of 1 MiB for its state."""
    import fixtures
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    instance = atoll.Instance()
    state = instance.data / "daemon"
    state.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "atoll-test", state], check=True)
    try:
        yield instance.start()
    finally:
        with contextlib.suppress(FileNotFoundError):
            (state / "filler").unlink()
        log = instance.log()
        if instance.up and instance.up.poll() is None:
            for box in instance.boxes():
                instance.destroy(box)
            instance.interrupt()
        subprocess.run(["umount", "-l", state], check=True)
        left = instance.close()
        assert not left, "left behind:\n" + "\n".join(left) + "\nlog:\n" + log


def fill(daemon):
    with contextlib.suppress(OSError), open(daemon.data / "daemon" / "filler", "wb", buffering=0) as f:
        while True:
            f.write(b"x" * 4096)


def test_a_full_disk_fails_creates_and_leaves_nothing_half_made(small_disk):
    small_disk.execute("old", "true")
    # The journal keeps some room of its own: use it up with rows as large as they may be.
    fill(small_disk)
    labels = {f"l{i}": "x" * 1000 for i in range(7)}
    made, failed = ["old"], None
    for i in range(100):
        r = small_disk.request("PUT", box_path(f"b{i}"), {"labels": labels})
        if r.status != 201:
            failed, last = r, f"b{i}"
            break
        made.append(f"b{i}")
    assert failed and failed.json()["code"] == "NO_SPACE", failed
    assert "no space left for" in failed.json()["message"]
    assert small_disk.inspect(last)["state"] == "failed" and sorted(small_disk.boxes()) == sorted([*made, last])
    wait_for(lambda: len(agents(small_disk)) == len(made), "no box without a row lives")
    assert small_disk.execute("old", "echo served")["stdout"] == "served\n"
    # A change that cannot be kept is not made either.
    r = small_disk.request("PUT", box_path("old"), {"limits": {"pids": 99}, "labels": labels})
    assert r.json()["code"] == "NO_SPACE" and small_disk.inspect("old")["limits"]["pids"] == 256
    # Destroying is what frees a disk: it works all the same.
    assert small_disk.destroy(made[-1]).status == 204 and made[-1] not in small_disk.boxes()
    (small_disk.data / "daemon" / "filler").unlink()
    wait_for(lambda: small_disk.logged("row deleted at last"), "its row follows when there is room")
    assert small_disk.request("PUT", box_path("new")).status == 201
    small_disk.kill_daemon()
    assert sorted(small_disk.boxes()) == sorted(set(made[:-1]) | {"new"})


# ---- starts that fail


class Place:
    """Directories for an atolld of its own, run by hand without warden."""

    def __init__(self):
        self.base = Path(tempfile.mkdtemp(prefix="at-", dir="/tmp"))
        self.base.chmod(0o755)
        self.run, self.data = self.base / "r", self.base / "d"
        self.user = pwd.getpwnam("nobody")
        for d in (self.run, self.data, self.data / "daemon"):
            d.mkdir()
        os.chown(self.data, self.user.pw_uid, self.user.pw_gid)
        os.chown(self.data / "daemon", self.user.pw_uid, self.user.pw_gid)
        self.started = []

    def start(self, *args, wait_ready=False, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ATOLL_", "LISTEN_"))}
        p = subprocess.Popen([BIN / "atolld", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True,
                             env={**clean, "ATOLL_RUN": str(self.run), "ATOLL_DATA": str(self.data),
                                  "ATOLL_LISTEN": "127.0.0.1:0", "ATOLL_USER": "nobody", **env})
        self.started.append(p)
        while wait_ready and '"serving"' not in (line := p.stderr.readline()):
            assert line, "it ended"
        return p

    def fails(self, *args, **env):
        """One sentence on stderr and the exit code that says "do not try again"; returns the sentence."""
        p = self.start(*args, **env)
        out, err = p.communicate(timeout=DEADLINE)
        assert (p.returncode, out) == (78, ""), err
        assert err.startswith("atolld: ") and err.count("\n") == 1, err
        return err

    def close(self):
        for p in self.started:
            p.kill()
            p.communicate()
        shutil.rmtree(self.base)


@pytest.fixture
def place():
    if os.geteuid() != 0:
        pytest.skip("root is needed to start a daemon that gives root up")
    p = Place()
    yield p
    p.close()


def test_help_and_version(place):
    assert "ATOLL_LISTEN" in place.start("--help").communicate()[0]
    assert place.start("--version").communicate()[0].startswith("atolld ")
    p = place.start("--frobnicate")
    assert "--help" in p.communicate()[1] and p.returncode == 64


@pytest.mark.parametrize("env, words", [
    ({"ATOLL_LISTEN": "nonsense"}, "ATOLL_LISTEN 'nonsense'"), ({"ATOLL_LISTEN": "127.0.0.1:99999"}, "ATOLL_LISTEN"),
    ({"ATOLL_LISTEN": "192.0.2.1:0"}, "192.0.2.1"), ({"ATOLL_USER": "no-such-user"}, "useradd"),
    ({"ATOLL_USER": "root"}, "unprivileged"), ({"ATOLL_RUN": "relative"}, "ATOLL_RUN must be an absolute path"),
    ({"ATOLL_RUN": "/" + "x" * 100}, "ATOLL_RUN must be shorter"), ({"ATOLL_RUN": "/nonexistent"}, "/nonexistent"),
    ({"ATOLL_DATA": "/nonexistent"}, "/nonexistent"), ({"ATOLL_PREVIEW_DOMAIN": "a b"}, "ATOLL_PREVIEW_DOMAIN")])
def test_a_bad_environment_is_one_sentence(place, env, words):
    assert words in place.fails(**env)


def test_a_start_waits_for_the_end_of_the_daemon_before(place):
    """`atoll up` was killed: its daemon ends with it, but not at the same moment."""
    lock = place.data / "daemon/lock"
    with open(lock, "w", encoding="utf-8") as before:
        os.chown(lock, place.user.pw_uid, place.user.pw_gid)
        fcntl.flock(before, fcntl.LOCK_EX)
        p = place.start()
        fds = Path(f"/proc/{p.pid}/fd")
        wait_for(lambda: p.poll() is not None or any(os.path.realpath(f) == str(lock) for f in fds.iterdir()), "it wants the lock")
    assert any('"serving"' in line for line in p.stderr), "it ended"
    p.send_signal(signal.SIGTERM)
    assert p.wait(DEADLINE) == 0


def test_a_taken_port_and_a_taken_place(place):
    first = place.start(wait_ready=True)
    address = (place.run / "listen").read_text().strip()
    assert "another atolld listens" in place.fails()
    second = Place()
    try:
        assert address in second.fails(ATOLL_LISTEN=address)
    finally:
        second.close()
    other_run = place.base / "r2"
    other_run.mkdir()
    assert "another atolld uses" in place.fails(ATOLL_RUN=str(other_run))
    first.send_signal(signal.SIGTERM)
    assert first.wait(DEADLINE) == 0


def test_a_token_that_others_can_read_is_refused(place):
    token = place.data / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    os.chown(token, place.user.pw_uid, place.user.pw_gid)
    token.chmod(0o644)
    assert "0600" in place.fails()


def test_the_token_is_made_at_the_first_start_and_kept(place):
    first = place.start(wait_ready=True)
    token = (place.data / "token").read_text()
    assert (place.data / "token").stat().st_mode & 0o777 == 0o600
    first.send_signal(signal.SIGINT)
    assert first.wait(DEADLINE) == 0
    place.start(wait_ready=True)
    assert (place.data / "token").read_text() == token


def test_a_damaged_state_is_refused_with_a_way_out(place):
    place.start(wait_ready=True).send_signal(signal.SIGTERM)
    place.started[-1].wait(DEADLINE)
    db = place.data / "daemon" / "state.db"
    whole = db.read_bytes()
    db.write_bytes(os.urandom(len(whole)))
    assert "move it away" in place.fails()
    db.write_bytes(whole)
    con = sqlite3.connect(db)
    con.execute("UPDATE meta SET value='99' WHERE key='schema'")
    con.commit()
    con.close()
    assert "newer atolld" in place.fails()
    for f in (place.data / "daemon").glob("state.db*"):
        f.unlink()
    place.start(wait_ready=True)


def test_inherited_sockets_must_be_listening_ones(place):
    def fails_with(fd):
        clean = {**os.environ, "ATOLL_RUN": str(place.run), "ATOLL_DATA": str(place.data), "ATOLL_USER": "nobody"}
        code = f"import os; os.dup2({fd}, 3); os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); " \
               f"os.execv({str(BIN / 'atolld')!r}, ['atolld'])"
        return subprocess.run(["/usr/bin/python3", "-c", code], env=clean, pass_fds=[fd], capture_output=True, text=True,
                              check=False, timeout=DEADLINE)

    with socket.socket() as not_listening, open("/dev/null", "rb") as no_socket:
        for f in (not_listening, no_socket):
            r = fails_with(f.fileno())
            assert r.returncode == 78 and "not a listening stream socket" in r.stderr


def test_it_gives_root_up(place):
    p = place.start(wait_ready=True)
    field = dict(line.split(":\t", 1) for line in Path(f"/proc/{p.pid}/status").read_text().splitlines() if ":\t" in line)
    assert set(field["Uid"].split()) == {str(place.user.pw_uid)} and set(field["Gid"].split()) == {str(place.user.pw_gid)}
    assert field["Groups"].split() == [str(place.user.pw_gid)]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(field[name], 16) == 0, name
    assert field["NoNewPrivs"] == "1"
    st = (place.run / "atoll.sock").stat()
    assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (0, place.user.pw_gid, 0o660)


@pytest.mark.parametrize("image", ["no-such-image", "no-such-image:1"])
def test_a_failed_sandbox_stays_failed_over_a_restart(own_daemon, image):
    d = own_daemon
    check_error(d.request("PUT", box_path("f"), {"image": image}), "IMAGE_NOT_FOUND", 404)
    d.kill_daemon()
    assert d.inspect("f")["state"] == "failed"
    check_error(d.request("POST", box_path("f", "/api/execute"), {"command": "true"}), "IMAGE_NOT_FOUND", 404)
    assert d.request("PUT", box_path("f"), {"image": "default"}).status == 201
    assert d.execute("f", "echo hi")["stdout"] == "hi\n"
