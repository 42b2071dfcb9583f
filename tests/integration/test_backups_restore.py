"""The progress of a restore from a backup (?follow=1, `atoll restore --backup`), and its end when the client leaves."""

import contextlib
import json
import os
import signal
from pathlib import Path

from atoll import box_path, wait_for
from test_backups import MIB, backup, delete, listed, objects, pool, pool_names, processes, restore, run, tree  # noqa: F401

SIZE = 40  # MiB: several lines of progress in each phase


def follow(daemon, box, made):
    r = daemon.request("POST", box_path(box, "/restore?follow=1"), {"backup": made["id"]})
    return r, [json.loads(line[6:]) for line in r.body.decode().split("\n") if line.startswith("data: ")]


def make(daemon, box):
    """A backup, the tree in it, and a sandbox that has changed since."""
    run(daemon, box, f"dd if=/dev/urandom of=/root/big bs=1M count={SIZE} status=none; echo then > /root/f")
    then, made = tree(daemon, box), backup(daemon, box)
    run(daemon, box, "rm /root/big; echo now > /root/f")
    return made, then


def clean(daemon, box, made):
    """No rest of a restore, and nothing that holds the backup."""
    wait_for(lambda: pool_names(daemon, "making") == [] and not processes(daemon, "atoll-backup"), "the restore has ended")
    delete(daemon, made)
    daemon.destroy(box)
    wait_for(lambda: listed(daemon) == [] and pool_names(daemon, "snapshots") == [], "nothing is left")


@contextlib.contextmanager
def held(daemon):
    """Stops the process that reads the backup, as soon as there is one."""
    found = []

    def hold():
        for pid in processes(daemon, "atoll-backup"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                found.append(pid)
        return found
    try:
        yield hold
    finally:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_progress_of_both_phases_and_the_end(daemon, box):
    made, then = make(daemon, box)
    r, events = follow(daemon, box, made)
    assert r.status == 200 and r.headers["content-type"] == "text/event-stream", r
    assert events[-1] == {"type": "done"}
    for phase, total in (("checking", made["size"]), ("restoring", made["bytes"])):
        steps = [e for e in events if e.get("phase") == phase]
        assert len(steps) >= 3 and all(e["type"] == "progress" and e["total"] == total for e in steps), events
        assert [e["bytes"] for e in steps] == sorted({e["bytes"] for e in steps}) and steps[-1]["bytes"] <= total
    assert [e["phase"] for e in events[:-1]] == sorted(e["phase"] for e in events[:-1])
    assert tree(daemon, box) == then
    clean(daemon, box, made)


def test_the_total_is_that_of_the_chain(daemon, box):
    first, _ = make(daemon, box)
    run(daemon, box, f"dd if=/dev/urandom of=/root/more bs=1M count={SIZE // 2} status=none")
    then, second = tree(daemon, box), backup(daemon, box)
    assert second["parent"] == first["id"]
    _, events = follow(daemon, box, second)
    assert {e["total"] for e in events if e.get("phase") == "checking"} == {first["size"] + second["size"]}
    assert events[-1] == {"type": "done"} and tree(daemon, box) == then
    delete(daemon, second)
    clean(daemon, box, first)


def test_errors_before_the_stream_are_statuses_and_in_it_events(daemon, box):
    made, _ = make(daemon, box)
    assert follow(daemon, box, {"id": "bak-0000000000000000"})[0].status == 404
    r = daemon.request("POST", box_path(f"{box}-none", "/restore?follow=1"), {"backup": made["id"]})
    assert r.status == 404, r
    path = Path(objects(daemon)) / f"{made['id']}.zst"
    with path.open("r+b") as f:
        f.seek(SIZE * MIB // 2)
        byte = f.read(1)
        f.seek(SIZE * MIB // 2)
        f.write(bytes([byte[0] ^ 1]))
    r, events = follow(daemon, box, made)
    assert r.status == 200 and events[-1]["type"] == "error" and events[-1]["code"] == "BACKUP_RESTORE_FAILED", events
    assert "checksum" in events[-1]["message"] and not [e for e in events if e.get("phase") == "restoring"]
    assert run(daemon, box, "cat /root/f; ls /root/big 2>/dev/null || true") == "now\n"
    clean(daemon, box, made)


def test_a_client_that_leaves_has_changed_nothing(daemon, box):
    made, then = make(daemon, box)
    body = json.dumps({"backup": made["id"]}).encode()
    with held(daemon) as hold, daemon.connect(unix=True) as s:
        s.sendall(f"POST {box_path(box, '/restore?follow=1')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
        wait_for(hold, "the backup is read")
        s.close()
        wait_for(lambda: not processes(daemon, "atoll-backup"), "the reader was ended")
    assert run(daemon, box, "cat /root/f; ls /root/big 2>/dev/null || true") == "now\n"
    restore(daemon, box, made)
    assert tree(daemon, box) == then
    clean(daemon, box, made)


def test_one_that_waits_for_another_is_cancelled_as_well(daemon, box):
    """The jobs of one moment are bounded; the rest wait, and one that is cancelled while it waits never begins."""
    made, _ = make(daemon, box)
    body = json.dumps({"backup": made["id"]}).encode()
    head = (f"POST {box_path(box, '/restore?follow=1')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    with held(daemon) as hold, contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(daemon.connect(unix=True)) for _ in range(6)]
        for s in sockets:
            s.sendall(head + body)
        for s in sockets:
            assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
        wait_for(hold, "a backup is read")
        for s in reversed(sockets):
            s.close()
        wait_for(lambda: hold() and not processes(daemon, "atoll-backup"), "all have ended")
    assert run(daemon, box, "cat /root/f") == "now\n"
    clean(daemon, box, made)


def test_the_command_line_shows_json_and_ends_on_a_signal(daemon, box):
    made, then = make(daemon, box)
    with held(daemon) as hold:
        cli = daemon.cli_start("restore", box, "--backup", made["id"])
        wait_for(hold, "the backup is read")
        cli.send_signal(signal.SIGINT)
        out, err = cli.communicate(timeout=60)
        assert (cli.returncode, out) == (130, b"") and b"cancelled" in err, err
        wait_for(lambda: not processes(daemon, "atoll-backup"), "the reader was ended")
    assert run(daemon, box, "cat /root/f") == "now\n"
    r = daemon.cli("restore", "--json", box, "--backup", made["id"])
    assert r.returncode == 0 and json.loads(r.stdout.splitlines()[-1]) == {"type": "done"}, r
    assert tree(daemon, box) == then
    r = daemon.cli("restore", box, "--backup", made["id"])
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b""), r
    clean(daemon, box, made)
