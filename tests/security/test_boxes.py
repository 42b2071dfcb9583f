"""Boxes seen from the host while they misbehave, and next to each other."""
import os
import re
import signal
import socket
import stat
import subprocess
import threading

import atoll as lib
import escape
import leaks
import pytest


@pytest.fixture
def neighbour(daemon, box):
    name = box + "-n"
    escape.load(daemon, name)
    yield name
    daemon.destroy(name)


def ranges(daemon, box):
    maps = [escape.execute(daemon, box, f"cat /proc/self/{kind}_map")["stdout"].split() for kind in ("uid", "gid")]
    return [range(int(m[1]), int(m[1]) + int(m[2])) for m in maps]


def test_id_ranges_of_boxes_are_distinct(daemon, box, neighbour):
    third = box + "-3"
    try:
        seen = [ranges(daemon, b) for b in (box, neighbour, third)]
    finally:
        daemon.destroy(third)
    for kind in (0, 1):
        spans = sorted((r[kind].start, r[kind].stop) for r in seen)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), spans
        assert spans[0][0] >= 65536


def test_id_range_holds_no_user_of_the_host(daemon, box):
    users = [int(line.split(":")[2]) for line in lib.Path("/etc/passwd").read_text().splitlines()]
    subs = []
    if os.path.exists("/etc/subuid"):
        subs = [range(int(line.split(":")[1]), int(line.split(":")[1]) + int(line.split(":")[2]))
                for line in lib.Path("/etc/subuid").read_text().splitlines() if line.count(":") == 2]
    uids = ranges(daemon, box)[0]
    assert not [u for u in users if u in uids]
    assert not [s for s in subs if s.start < uids.stop and uids.start < s.stop]


def test_no_process_of_a_box_is_root_outside(daemon, box):
    escape.load(daemon, box)
    escape.execute(daemon, box, "setsid sleep 300 >/dev/null 2>&1 </dev/null & setsid sleep 300 >/dev/null 2>&1 </dev/null &")
    init = escape.init_of(daemon, box)
    own = cgroups_of(daemon, init)
    members = [int(p.name) for p in lib.Path("/proc").iterdir() if p.name.isdigit() and cgroups_of(daemon, p.name) == own]
    assert own and len(members) >= 3
    known = escape.processes(daemon, box)
    assert set(members) <= set(known), "a process in the box's cgroup has an id outside its range"


def cgroups_of(daemon, pid):
    """Those of the daemon's own: other lines come and go, as when another Atoll mounts or unmounts a hierarchy."""
    try:
        lines = (lib.Path("/proc") / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return []
    return leaks.group_of("\n".join(line for line in lines if daemon.cgroup in line))


def test_filter_and_no_new_privs_seen_from_outside(daemon, box):
    escape.execute(daemon, box, "true")
    status = (lib.Path("/proc") / str(escape.init_of(daemon, box)) / "status").read_text()
    assert "\nNoNewPrivs:\t1\n" in status
    assert "\nSeccomp:\t2\n" in status


def test_init_holds_no_descriptor_of_the_host(daemon, box):
    """What PID 1 has open: sockets, pipes, the pipe to the warden, its box's own files, the read-only counter of its own
    kills, and the files that take a process in among its own commands."""
    escape.execute(daemon, box, "true")
    init = escape.init_of(daemon, box)
    for fd in (lib.Path("/proc") / str(init) / "fd").iterdir():
        target = os.readlink(fd)
        flags = int((fd.parent.parent / "fdinfo" / fd.name).read_text().split("flags:\t")[1].split()[0], 8)
        if target.startswith(("socket:", "pipe:", "anon_inode:", "/dev/null", "/memfd:")):
            continue
        if re.fullmatch(r"/run/s/\d+\.ask", target):
            assert flags & os.O_ACCMODE == os.O_WRONLY, "its pipe to the warden"
            continue
        if re.fullmatch(r"/\d+/commands/cgroup\.procs", target):
            own = (lib.Path("/proc") / str(init) / "cgroup").read_text()
            assert f"/{daemon.cgroup}/{target.split('/')[1]}" in own and flags & os.O_ACCMODE == os.O_WRONLY, target
            continue
        assert target.endswith(("memory.oom_control", "memory.events", "memory.events.local")), target
        assert flags & os.O_ACCMODE == os.O_RDONLY, target


def test_working_directory_through_leaked_descriptors(daemon, box):
    """CVE-2024-21626 as it was: the client chooses the working directory, and chooses a descriptor of whoever starts it."""
    escape.load(daemon, box)
    refused = 0
    for n in range(0, 96):
        reply = daemon.request("POST", lib.box_path(box, "/api/execute"),
                               {"command": f"{escape.PROGRAM} run cwd-outside", "cwd": f"/proc/self/fd/{n}",
                                "sessionId": escape.SESSIONLESS})
        if reply.status != 200 or not reply.json()["stdout"]:
            refused += 1
            continue
        assert '"result":"refused"' in reply.json()["stdout"], (n, reply)
    assert refused > 90


@pytest.mark.parametrize("name,arguments", [("memory-bomb", {"mem_mib": 32}), ("fork-bomb", {"pids": 16}), ("shm-fill", {"mem_mib": 1}),
                                            ("udp-memory", {"mem_mib": 16}), ("tcp-memory", {"mem_mib": 16})])
def test_bombs_are_seen_past_a_lower_limit(daemon, box, name, arguments):
    """These checks can fail: told a limit that is not the box's, they say that it was passed."""
    escape.load(daemon, box)
    assert escape.run(daemon, box, name, **arguments)["result"] == "escaped"


def test_out_of_memory_is_reported_and_stays_in_the_box(daemon, box, neighbour):
    escape.load(daemon, box)
    done = escape.execute(daemon, box, "tail /dev/zero")
    assert done["outcome"] == "oom", done
    assert daemon.inspect(box)["usage"]["oomKills"] >= 1
    escape.pong(daemon, box)
    escape.pong(daemon, neighbour)


def test_kill_all_spares_host_and_neighbour(daemon, box, neighbour):
    escape.load(daemon, box)
    victim = escape.init_of(daemon, neighbour)
    result = escape.run(daemon, box, "kill-all")
    assert result["result"] == "refused", result
    assert lib.alive(victim)
    escape.pong(daemon, neighbour)
    escape.pong(daemon, box)


@pytest.mark.parametrize("name", ["signal-exhaustion", "mqueue-exhaustion", "inotify-exhaustion", "inotify-watches"])
def test_budgets_that_the_kernel_counts_per_user(daemon, box, neighbour, name):
    """Two boxes take all they can get at once; a third, and the host's root, still get their own."""
    escape.load(daemon, box)
    second = box + "-2"
    escape.load(daemon, second)
    taken = []
    threads = [threading.Thread(target=lambda b=b: taken.append(escape.run(daemon, b, name))) for b in (box, second)]
    try:
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            escape.pong(daemon, neighbour)
            assert subprocess.run([escape.SOURCE, "pong"], capture_output=True, check=False).stdout == b"pong\n"
    finally:
        for t in threads:
            t.join()
        daemon.destroy(second)
    assert [t["result"] for t in taken] == ["refused", "refused"], taken


def test_all_boxes_together_leave_processes_for_the_host(daemon, box):
    escape.execute(daemon, box, "true")
    share = int(lib.Path("/proc/sys/kernel/pid_max").read_text()) * 75 // 100
    limits = [(d / "pids.max").read_text().strip() for d in leaks.cgroups(daemon.cgroup)
              if d.name == daemon.cgroup and (d / "pids.max").exists()]
    assert limits == [str(share)]


def test_stopped_agent_is_told_honestly(daemon, box, neighbour):
    """An agent that does not answer any more: its box fails in bounded time, others notice nothing, it can be destroyed."""
    escape.execute(daemon, box, "true")
    init = escape.init_of(daemon, box)
    os.kill(init, signal.SIGSTOP)
    try:
        with pytest.raises((TimeoutError, socket.timeout)):
            daemon.request("POST", lib.box_path(box, "/api/execute"), {"command": "true", "sessionId": escape.SESSIONLESS}, timeout=2)
        escape.pong(daemon, neighbour)
        assert daemon.inspect(box)["state"] == "running"
        assert daemon.destroy(box).status < 300
    finally:
        if lib.alive(init):
            os.kill(init, signal.SIGCONT)
    assert daemon.inspect(box) is None


def test_killed_init_is_told_honestly(daemon, box, neighbour):
    escape.load(daemon, box)
    init = escape.init_of(daemon, box)
    os.kill(init, signal.SIGKILL)
    lib.wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "the box is stopped")
    assert daemon.inspect(box)["reason"]
    escape.pong(daemon, neighbour)
    escape.pong(daemon, box)  # starts again, with its files


def test_agent_without_descriptors(daemon, box, neighbour):
    """Root in a box may limit its own PID 1, which is its own loss: the daemon says so, the neighbour does not notice."""
    escape.load(daemon, box)
    script = "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (4, 4))"
    escape.execute(daemon, box, f"python3 -c '{script}'")
    reply = daemon.request("POST", lib.box_path(box, "/api/execute"), {"command": "true", "sessionId": escape.SESSIONLESS}, timeout=60)
    assert reply.status == 200 and reply.json()["exitCode"] == 0 or reply.status >= 400, reply
    escape.pong(daemon, neighbour)
    assert daemon.destroy(box).status < 300


def test_files_of_a_box_are_out_of_reach_for_users_of_the_host(daemon, box):
    """On disk root of a box is root: a set-user-id program of the box must not be found by a user of the host."""
    escape.load(daemon, box)
    escape.execute(daemon, box, f"cp {escape.PROGRAM} /var/tmp/suid && chmod 6755 /var/tmp/suid")
    found = daemon.layers / box / "upper/var/tmp/suid"
    assert found.stat().st_mode & stat.S_ISUID
    assert found.stat().st_uid == 0, "ids on disk start at 0: the directory above is what keeps others out"
    assert can_be_reached(daemon.data, 65534)
    assert not can_be_reached(found, 65534)


def can_be_reached(path, uid):
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        try:
            os.stat(path)
            os._exit(0)
        except PermissionError:
            os._exit(1)
        except BaseException:  # pylint: disable=broad-except
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1)
    return code == 0


def test_host_keeps_its_name(daemon, box):
    before = socket.gethostname()
    escape.execute(daemon, box, "hostname atoll-escaped; python3 -c 'import socket; socket.sethostname(\"atoll-escaped\")'")
    assert socket.gethostname() == before
    assert escape.execute(daemon, box, "hostname")["stdout"].strip() in (box, "atoll-escaped")


def socket_limit(daemon, box):
    """The file that limits the box's socket buffers, where the memory controller is on cgroup v1."""
    lines = lib.Path(f"/proc/{escape.init_of(daemon, box)}/cgroup").read_text().splitlines()
    at = [line.split(":", 2)[2] for line in lines if "memory" in line.split(":")[1].split(",")]
    mounts = [line.split() for line in lib.Path("/proc/mounts").read_text().splitlines()]
    root = [m[1] for m in mounts if m[2] == "cgroup" and "memory" in m[3].split(",")]
    if not at or not root:
        pytest.skip("cgroup v2 counts socket buffers as memory")
    return lib.Path(root[0] + at[0]) / "commands/memory.kmem.tcp.limit_in_bytes"


def test_socket_buffers_follow_the_memory_limit(daemon, box):
    """An eighth of the memory, between 4 and 64 MiB, also for a box that runs."""
    escape.execute(daemon, box, "true")
    limit = socket_limit(daemon, box)
    for memory, sockets in ((512, 64), (128, 16), (24, 4), (2048, 64)):
        reply = daemon.request("PUT", lib.box_path(box), {"limits": {"memory": memory << 20}})
        assert reply.status == 200, reply
        assert int(limit.read_text()) == sockets << 20
