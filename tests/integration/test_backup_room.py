"""What backups and uploads may take: the disk's reserve, the bytes of one sandbox, the clock."""

import pwd
import re
import time
from datetime import datetime

import pytest
from atoll import Instance, box_path, wait_for
from test_backups import MIB, ask, backup, delete, listed, run

OWN_DAEMON = "settings of its own, and small file systems below its data"


def with_small_disk(directory, size):
    """Starts `atoll up` in mounts of its own, where this directory of its data is a file system of so many bytes."""
    user = pwd.getpwnam("atoll")
    script = (f'd="$ATOLL_DATA/{directory}"; mkdir -p "$d" && chmod 755 "$ATOLL_DATA" && '
              f'mount -t tmpfs -o size={size},mode=700,uid={user.pw_uid},gid={user.pw_gid} none "$d" && exec "$@"')
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def need_pool(daemon):
    kind = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if kind["kind"] == "plain":
        pytest.skip(f"no pool on this host: {kind['reason']}")


def fill(daemon, box, mib, name="f"):
    run(daemon, box, f"head -c {int(mib * MIB)} /dev/urandom > /root/{name}")


def refused(daemon, box, status, code):
    r = daemon.request("POST", box_path(box, "/backups"), {})
    assert r.status == status and r.json()["code"] == code, r
    return r.json()["message"]


def test_a_backup_leaves_the_reserve_of_its_disk():
    with Instance(prefix=with_small_disk("backups", 64 * MIB)) as daemon:
        need_pool(daemon)
        fill(daemon, "a", 62)  # the disk has 64 MiB, and 3.2 of them stay free
        assert "besides its reserve" in refused(daemon, "a", 500, "NO_SPACE")
        fill(daemon, "a", 40)
        made = backup(daemon, "a")
        fill(daemon, "a", 30)
        assert "besides its reserve" in refused(daemon, "a", 500, "NO_SPACE")
        assert made in listed(daemon, "a")
        delete(daemon, made)
        backup(daemon, "a")


def test_an_upload_of_an_image_leaves_the_reserve_of_its_disk():
    with Instance(prefix=with_small_disk("daemon", 64 * MIB)) as daemon:
        r = daemon.request("POST", "/v1/images/import?name=big", b"\0" * (62 * MIB), {"Content-Type": "application/x-tar"})
        assert "NO_SPACE" in r.text and "besides its reserve" in r.text, r


def test_bytes_of_one_sandbox_count_the_hidden_ones():
    with Instance({"ATOLL_BACKUP_BYTES": "6M"}) as daemon:
        need_pool(daemon)
        fill(daemon, "a", 2)
        first = backup(daemon, "a")
        fill(daemon, "a", 2, "g")
        second = backup(daemon, "a")
        assert second["parent"] == first["id"]
        delete(daemon, first)
        r = ask(daemon, "GET", box_path("a", "/backups"))
        assert [b["id"] for b in r["backups"]] == [second["id"]]
        assert r["usage"] == {"bytes": first["size"] + second["size"], "hidden": 1, "hiddenBytes": first["size"], "allowed": 6 * MIB}
        shown = daemon.cli("backups", "a").stdout.decode().splitlines()
        assert len(shown) == 3 and re.fullmatch(r"1 hidden, 2\.[01] MiB; 4\.[0-2] MiB of 6\.0 MiB", shown[-1]), shown
        shown = daemon.cli("backups").stdout.decode().splitlines()
        assert re.fullmatch(r"1 hidden, 2\.[01] MiB; 4\.[0-2] MiB", shown[-1]), shown
        everything = ask(daemon, "GET", "/v1/backups")["usage"]
        assert everything == {k: v for k, v in r["usage"].items() if k != "allowed"}
        # One that would pass the limit ends, whatever it would take; another sandbox has a limit of its own.
        fill(daemon, "a", 3)
        assert "hidden ones counted" in refused(daemon, "a", 429, "LIMIT_REACHED")
        assert ask(daemon, "GET", box_path("a", "/backups"))["usage"] == r["usage"]
        fill(daemon, "b", 3)
        backup(daemon, "b")
        delete(daemon, second)
        wait_for(lambda: ask(daemon, "GET", box_path("a", "/backups"))["usage"]["bytes"] == 0, "the hidden one has gone, too")
        assert backup(daemon, "a")["state"] == "ready"


def test_a_schedule_has_a_shortest_time():
    with Instance({"ATOLL_BACKUP_EVERY_MIN": "1m"}) as daemon:
        need_pool(daemon)
        r = daemon.request("PUT", box_path("a"), {"backup": {"every": "59s"}})
        assert r.status == 400 and "at least 60 s" in r.json()["message"] and "ATOLL_BACKUP_EVERY_MIN" in r.json()["message"], r
        assert ask(daemon, "PUT", box_path("a"), {"backup": {"every": "1m"}}, (201,))["backup"]["every"] == "1m"


def test_a_schedule_that_was_shorter_keeps_to_the_shortest_time():
    """It was set when a second was allowed. After a restart with an hour, its next backup is an hour after the last one."""
    with Instance({"ATOLL_BACKUP_EVERY_MIN": "1s"}) as daemon:
        need_pool(daemon)
        ask(daemon, "PUT", box_path("often"), {"backup": {"every": "1s", "keep": 2}}, (201,))
        wait_for(lambda: any(b["state"] == "ready" for b in listed(daemon, "often")), "a backup of the schedule")
        assert daemon.interrupt() == 0
        daemon.env["ATOLL_BACKUP_EVERY_MIN"] = "1h"
        stopped = time.time()
        daemon.start()
        # Schedules are looked at together: when the new one has its first backup, the other would have another one.
        ask(daemon, "PUT", box_path("new"), {"backup": {"every": "1h"}}, (201,))
        wait_for(lambda: any(b["state"] == "ready" for b in listed(daemon, "new")), "the first backup of the new schedule")
        made = [datetime.fromisoformat(b["createdAt"]).timestamp() for b in listed(daemon, "often")]
        assert made and max(made) < stopped
        assert ask(daemon, "GET", box_path("often"))["backup"]["every"] == "1s"
        for box in ("often", "new"):
            for one in listed(daemon, box):
                delete(daemon, one)
