"""Backups of whole sandboxes: made while they run, restored into the same or another one, and after damage."""

import contextlib
import hashlib
import hmac
import os
import signal
import subprocess
from pathlib import Path

import pytest
from atoll import box_path, wait_for
from test_restart import start_counter, still_counts, ticks

OWN_DAEMON = "it looks at the daemon's directory of backups"
POOL = "backups are made of snapshots"

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def pool(daemon):
    """Everything here needs a pool."""
    kind = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if kind["kind"] == "plain":
        pytest.skip(f"no pool on this host: {kind['reason']}")


@pytest.fixture(autouse=True)
def nothing_left(daemon):
    """After each test its backups go, and with them every object."""
    yield
    daemon.await_warden()
    for one in reversed(listed(daemon)):
        delete(daemon, one)
    wait_for(lambda: list(objects(daemon).iterdir()) == [], "no object is left")


def ask(daemon, method, path, body=None, status=(200,)):
    r = daemon.request(method, path, body)
    assert r.status in status, r
    return r.json() if r.body else None


def backup(daemon, box, **fields):
    return ask(daemon, "POST", box_path(box, "/backups"), fields, (201,))


def restore(daemon, box, made, status=(200,)):
    return ask(daemon, "POST", box_path(box, "/restore"), {"backup": made["id"]}, status)


def delete(daemon, made, status=(204,)):
    return ask(daemon, "DELETE", f"/v1/backups/{made['id']}", None, status)


def listed(daemon, box=None):
    return ask(daemon, "GET", box_path(box, "/backups") if box else "/v1/backups")["backups"]


def run(daemon, box, command):
    r = daemon.execute(box, command)
    assert r["exitCode"] == 0, r
    return r["stdout"]


# Names, types, modes, owners, times, links and contents of everything in a tree.
TREE = (r"cd %s && find . -printf '%%p %%y %%m %%U:%%G %%T@ %%n %%l\n' | sort && "
        r"find . -type f -print0 | sort -z | xargs -0 -r sha256sum && getfattr -Rd -m - . 2>/dev/null || true")


def tree(daemon, box, path="/root"):
    return run(daemon, box, TREE % path)


def objects(daemon):
    return Path(daemon.data) / "backups"


def processes(daemon, name):
    """Processes of this name below daemon and warden of this instance."""
    family, found = [daemon.daemon_pid, daemon.warden_pid], []
    while family:
        pid = family.pop()
        with contextlib.suppress(OSError):
            family += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


def pool_names(daemon, name):
    return [p.name for p in Path(f"/proc/{daemon.warden_pid}/root/pool/{name}").iterdir()]


def test_a_backup_holds_everything_and_comes_back(daemon, box):
    counter = start_counter(daemon, box)
    run(daemon, box, "cd /root && mkdir -p d/e && echo one > d/e/f && ln d/e/f hard && ln -s d/e/f soft && mkfifo pipe "
        "&& touch -d '2001-02-03 04:05:06.789' d/e/f && chmod 4751 d/e/f && chown 12:34 hard && chmod 1777 d "
        "&& dd if=/dev/urandom of=big bs=1M count=8 status=none && truncate -s 64M sparse && rm /etc/motd /etc/issue "
        "&& rm -r /usr/share/doc && mkdir /usr/share/doc && echo mine > /usr/share/doc/mine "
        "&& python3 -c \"import os; os.setxattr('/root/big', 'user.note', b'kept'); "
        "open('/root/name with space \\n and line', 'w').close()\"")
    before, ran = tree(daemon, box), ticks(daemon, box, counter)
    made = backup(daemon, box, name="first")
    still_counts(daemon, box, counter, ran)
    assert made["sandbox"] == box and made["name"] == "first" and made["state"] == "ready" and made["parent"] is None
    assert made["size"] > 8 * MIB and made["bytes"] > 8 * MIB and made["expiresAt"] is None
    assert made in listed(daemon) and listed(daemon, box) == [made]
    assert ask(daemon, "GET", f"/v1/backups/{made['id']}") == made
    run(daemon, box, "rm -r /root/d /root/big; echo two > /root/hard; echo motd > /etc/motd; touch /root/new")
    assert restore(daemon, box, made)["state"] == "stopped"
    assert tree(daemon, box) == before
    gone = daemon.execute(box, "ls /etc/motd /etc/issue")
    assert gone["exitCode"] != 0 and run(daemon, box, "ls /usr/share/doc") == "mine\n"
    assert daemon.request("GET", box_path(box, "/snapshots")).json()["snapshots"] == []
    delete(daemon, made)
    assert listed(daemon, box) == []


def test_the_second_backup_holds_the_changes_only(daemon, box):
    run(daemon, box, "dd if=/dev/urandom of=/root/big bs=1M count=16 status=none; mkdir /root/a; echo 1 > /root/a/f; echo x > /root/gone")
    first = backup(daemon, box)
    run(daemon, box, "mv /root/a /root/b; echo 2 >> /root/b/f; rm /root/gone; cp --reflink=auto /root/big /root/copy; "
        "dd if=/dev/urandom of=/root/big bs=1M seek=3 count=1 conv=notrunc status=none; truncate -s 100 /root/copy")
    then = tree(daemon, box)
    second = backup(daemon, box)
    assert second["parent"] == first["id"] and second["size"] < first["size"] / 4
    run(daemon, box, "rm -r /root/b; echo later > /root/later")
    third = backup(daemon, box)
    assert third["parent"] == second["id"]
    last = tree(daemon, box)
    restore(daemon, box, second)
    assert tree(daemon, box) == then
    restore(daemon, box, third)
    assert tree(daemon, box) == last
    # After a restore a whole one is made.
    assert backup(daemon, box)["parent"] is None


def test_a_backup_outlives_its_sandbox_and_makes_another(daemon, box):
    other = f"{box}-other"
    ask(daemon, "PUT", box_path(box), {"env": {"A": "1"}, "labels": {"team": "x"}, "limits": {"disk": 64 * MIB}}, (200, 201))
    run(daemon, box, "echo kept > /root/f")
    made = backup(daemon, box)
    daemon.destroy(box)
    assert listed(daemon, box) == [made]
    new = ask(daemon, "PUT", box_path(other), {"from": {"backup": made["id"]}, "labels": {"team": "y"}}, (201,))
    assert new["state"] == "running" and new["limits"]["disk"] == 64 * MIB and new["labels"] == {"team": "y"}
    assert run(daemon, other, "cat /root/f; echo $A") == "kept\n1\n"
    r = daemon.execute(other, "dd if=/dev/zero of=/root/z bs=1M count=100")
    assert r["exitCode"] != 0  # the limit counts
    refused = daemon.request("PUT", box_path(f"{box}-third"), {"from": {"backup": "bak-0000000000000000"}})
    assert refused.status == 404 and refused.json()["code"] == "BACKUP_NOT_FOUND"
    daemon.destroy(other)
    delete(daemon, made)


def test_deleting_one_that_others_need_hides_it(daemon, box):
    made = []
    for i in range(3):
        run(daemon, box, f"echo {i} > /root/f{i}")
        made.append(backup(daemon, box))
    delete(daemon, made[0])
    delete(daemon, made[1])
    assert listed(daemon, box) == [made[2]]
    delete(daemon, made[0], (404,))
    assert (objects(daemon) / f"{made[0]['id']}.zst").exists()
    restore(daemon, box, made[2])
    assert run(daemon, box, "cat /root/f0 /root/f1 /root/f2") == "0\n1\n2\n"
    delete(daemon, made[2])
    wait_for(lambda: not [p for p in objects(daemon).iterdir() if p.name.startswith(tuple(m["id"] for m in made))],
             "the chain is gone")


def test_one_goes_although_it_was_needed_when_it_was_deleted(daemon, box):
    """What needs it is being deleted, or made and then cancelled, at that moment."""
    for _ in range(5):
        made = []
        for i in range(4):
            run(daemon, box, f"echo {i} > /root/f{i}")
            made.append(backup(daemon, box))
        for i in (1, 2, 3, 0):  # with the fourth go the second and third, and then the first is free
            delete(daemon, made[i])
        wait_for(lambda: list(objects(daemon).iterdir()) == [], "no object is left")
    first = backup(daemon, box)
    run(daemon, box, "dd if=/dev/urandom of=/root/big bs=1M count=64 status=none")
    second = ask(daemon, "POST", box_path(box, "/backups"), {"wait": False}, (202,))
    wait_for(lambda: ask(daemon, "GET", f"/v1/backups/{second['id']}")["bytes"] > 0, "it is made")
    delete(daemon, first)
    delete(daemon, second)
    wait_for(lambda: list(objects(daemon).iterdir()) == [], "no object is left")


def test_a_backup_with_a_ttl_goes_by_itself(daemon, box):
    run(daemon, box, "true")
    made = backup(daemon, box, ttl=1)
    assert made["expiresAt"] > made["createdAt"]
    wait_for(lambda: listed(daemon, box) == [], "the backup has expired")
    wait_for(lambda: not (objects(daemon) / f"{made['id']}.zst").exists(), "its object is gone")


def test_damage_is_found_before_anything_is_restored(daemon, box):
    run(daemon, box, "dd if=/dev/urandom of=/root/big bs=1M count=2 status=none")
    made = backup(daemon, box)
    run(daemon, box, "echo now > /root/now")
    then = tree(daemon, box)
    data, manifest = (objects(daemon) / f"{made['id']}.{end}" for end in ("zst", "json"))
    good, sealed = data.read_bytes(), manifest.read_bytes()

    def refuses():
        r = restore(daemon, box, made, (500,))
        assert r["code"] == "BACKUP_RESTORE_FAILED", r
        assert tree(daemon, box) == then
        return r["message"]

    for bad in (good[:-1], good + b"\0", good[:1000] + bytes([good[1000] ^ 1]) + good[1001:], b""):
        data.write_bytes(bad)
        assert "checksum" in refuses()
    data.write_bytes(good)
    for bad in (sealed.replace(made["id"].encode(), b"bak-0123456789abcdef"), sealed[:100], sealed.replace(b'"size":', b'"size":1'),
                sealed[:20] + (b"1" if sealed[20:21] == b"0" else b"0") + sealed[21:], b"", b"\n" * 100):
        manifest.write_bytes(bad)
        assert "manifest" in refuses()
    manifest.write_bytes(sealed)
    restore(daemon, box, made)
    assert "now" not in run(daemon, box, "ls /root")


def reseal(daemon, path, change):
    """Another text for a manifest, sealed with the daemon's key."""
    key = bytes.fromhex((Path(daemon.data) / "daemon" / "backup.key").read_text().strip())
    text = change(path.read_text().split("\n", 1)[1].rstrip("\n"))
    path.write_text(f"atoll-backup 1 {hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}\n{text}\n")


def test_an_image_that_is_not_here_is_named(daemon, box):
    run(daemon, box, "true")
    made = backup(daemon, box)
    reseal(daemon, objects(daemon) / f"{made['id']}.json", lambda text: text.replace(made["image"], "sha256-" + "a" * 56))
    daemon.kill_daemon()
    daemon.await_warden()
    for method, path, body in (("PUT", box_path(f"{box}-new"), {"from": {"backup": made["id"]}}),
                               ("POST", box_path(box, "/restore"), {"backup": made["id"]})):
        r = daemon.request(method, path, body)
        assert r.status == 409 and "image 'sha256-aaa" in r.json()["message"], r
    delete(daemon, made)


def test_wishes_that_make_no_sense_are_refused(daemon, box):
    run(daemon, box, "true")
    for bad in ({"ttl": 0}, {"ttl": "x"}, {"name": "n" * 101}, {"other": 1}, {"wait": 1}, []):
        r = daemon.request("POST", box_path(box, "/backups"), bad)
        assert r.status == 400, (bad, r)
    made = backup(daemon, box, name="n" * 100)
    assert len(made["name"]) == 100
    delete(daemon, made)
    assert daemon.request("POST", box_path(f"{box}-none", "/backups"), {}).status == 404
    assert daemon.request("GET", "/v1/backups/bak-0000000000000000").status == 404
    assert restore(daemon, box, {"id": "bak-0000000000000000"}, (404,))["code"] == "BACKUP_NOT_FOUND"


def test_one_that_is_being_made_can_be_watched_and_cancelled(daemon, box):
    run(daemon, box, "dd if=/dev/urandom of=/root/big bs=1M count=64 status=none")
    made = ask(daemon, "POST", box_path(box, "/backups"), {"wait": False}, (202,))
    assert made["state"] == "making"
    delete(daemon, made)
    assert daemon.request("GET", f"/v1/backups/{made['id']}").status == 404
    wait_for(lambda: not [p for p in objects(daemon).iterdir() if made["id"] in p.name], "nothing is left")
    made = ask(daemon, "POST", box_path(box, "/backups"), {"wait": False}, (202,))
    wait_for(lambda: ask(daemon, "GET", f"/v1/backups/{made['id']}")["state"] == "ready", "it is made")
    delete(daemon, made)


def test_backups_of_many_sandboxes_at_once(daemon, box):
    names = [f"{box}-{i}" for i in range(6)]
    for name in names:
        run(daemon, name, f"echo {name} > /root/f")
    made = [ask(daemon, "POST", box_path(n, "/backups"), {"wait": False}, (202,)) for n in names * 2]
    for m in made:
        wait_for(lambda m=m: ask(daemon, "GET", f"/v1/backups/{m['id']}")["state"] == "ready", "all are made")
    for name in names:
        newest = listed(daemon, name)[-1]
        assert newest["parent"] and len(listed(daemon, name)) == 2
        restore(daemon, name, newest)
        assert run(daemon, name, "cat /root/f") == f"{name}\n"
        daemon.destroy(name)
    for m in reversed(made):
        delete(daemon, m)


def test_the_key_is_the_daemons_alone(daemon):
    key = Path(daemon.data) / "daemon" / "backup.key"
    assert key.stat().st_mode & 0o777 == 0o600 and os.stat(objects(daemon)).st_mode & 0o077 == 0


# ---- schedules

def test_a_schedule_makes_and_prunes_backups(daemon, box):
    for bad in ({}, {"every": "x"}, {"every": "0s"}, {"every": "1h", "keep": 0}, {"every": "1h", "keep": 1001}, {"every": "1h", "other": 1}, "1h"):
        r = daemon.request("PUT", box_path(box), {"backup": bad})
        assert r.status == 400 and "backup" in r.json()["message"], (bad, r)
    run(daemon, box, "echo one > /root/f")
    own = backup(daemon, box, name="own")
    shown = ask(daemon, "PUT", box_path(box), {"backup": {"every": "1s", "keep": 2}})
    assert shown["backup"] == {"every": "1s", "keep": 2}

    def scheduled():
        return [b["id"] for b in listed(daemon, box) if b["scheduled"] and b["state"] == "ready"]

    first = wait_for(scheduled, "the first is made")
    wait_for(lambda: len(scheduled()) >= 2 and first[0] not in scheduled(), "the oldest is pruned")
    daemon.kill_daemon()
    daemon.await_warden()
    before = scheduled()
    wait_for(lambda: scheduled() and scheduled()[-1] not in before, "it goes on after a restart")
    ask(daemon, "PUT", box_path(box), {"backup": None})
    wait_for(lambda: all(b["state"] != "making" for b in listed(daemon, box)), "none is being made")
    left = scheduled()
    assert own in listed(daemon, box) and len(left) <= 3
    restore(daemon, box, {"id": left[-1]})
    assert run(daemon, box, "cat /root/f") == "one\n"


# ---- the command line

def test_the_command_line(daemon, box):
    run(daemon, box, "echo one > /root/f")
    r = daemon.cli("backup", box, "first", "--ttl", "1h")
    assert r.returncode == 0, r
    made = r.stdout.decode().strip()
    assert made.startswith("bak-")
    table = daemon.cli("backups", box).stdout.decode()
    assert made in table and "first" in table and "ready" in table
    run(daemon, box, "echo two > /root/f")
    assert daemon.cli("restore", box, "--backup", made).returncode == 0
    assert run(daemon, box, "cat /root/f") == "one\n"
    assert daemon.cli("backups", "rm", made).stdout.decode().strip() == made
    assert made not in daemon.cli("backups").stdout.decode()
    assert daemon.cli("restore", box, "snap", "--backup", made).returncode == 2
    wrong = daemon.cli("restore", box, "--backup", "bak-0000000000000000")
    assert wrong.returncode == 1 and b"no backup" in wrong.stderr
    assert daemon.cli("backup", f"{box}-none").returncode == 1


def test_ctrl_c_cancels_and_leaves_nothing(daemon, box):
    run(daemon, box, "dd if=/dev/urandom of=/root/big bs=1M count=200 status=none")
    p = daemon.cli_start("backup", box, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: listed(daemon, box), "it is under way")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    # It may have been done before the signal came.
    assert ((p.returncode, out) == (130, b"") and b"cancelled" in err) or p.returncode == 0, (out, err)
    assert p.returncode == 0 or listed(daemon, box) == []
