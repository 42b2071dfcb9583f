"""Atoll on Debian 12 with systemd and cgroup v2 alone, under Debian's kernels. The tests of a kernel share one machine and run in
this order: one command of `guest` is many of the machine, because the emulation is slow."""
import os
import subprocess
import sys

import atoll as lib
import guest as machines
import pytest

pytestmark = pytest.mark.limit(1800)  # the first one may have to make the machines

NIGHTLY = os.environ.get("ATOLL_NIGHTLY") == "1"
SERVER = "10.77.0.1"  # an address of the guest that is not loopback
QUOTA = "(Disk quota exceeded|No space left on device)"
WAITING = """
import select, socket
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(4096)
clients, poll = [socket.socket() for _ in range(600)], select.poll()
for client in clients:
    client.setblocking(False)
    client.connect_ex(server.getsockname())
    poll.register(client, select.POLLOUT)
while found := poll.poll(1000):
    for fd, events in found:
        poll.unregister(fd)
# Of the listening socket: the connections in its queue. A client may count half-made ones too.
port, rows = "%04X" % server.getsockname()[1], [line.split() for line in open("/proc/self/net/tcp")]
print(*[int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(":" + port) and row[3] == "0A"])
"""
# Fills the buffers of sockets that no program reads, until the kernel refuses or ends it.
UDP = """
import socket
held = []
for _ in range(400):
    held.append((reader := socket.socket(type=socket.SOCK_DGRAM), writer := socket.socket(type=socket.SOCK_DGRAM)))
    reader.bind(("127.0.0.1", 0))
    writer.setblocking(False)
    try:
        for _ in range(20):
            writer.sendto(bytes(60000), reader.getsockname())
    except OSError:
        pass
"""
# Prints what is left of subvolumes that were deleted: numbers of groups.
STALE = """
    stale() {
        pool=/proc/$(pgrep -o -x atoll-warden)/root/pool
        comm -23 <(ls /sys/fs/btrfs/*-*/qgroups | sed -n 's/^0_//p' | grep -vx 5 | sort) <(btrfs subvolume list $pool | cut -d' ' -f2 | sort)
    }
"""
# The first process of the box's list that runs.
PID = """
    pid() { atoll ps hello --json | jq -r '.processes[] | select(.status == "running" or .running) | .pid'; }
    before=$(pid); [ -n "$before" ]
"""


def test_qemu_ends_with_the_run_that_started_it(made, tmp_path):
    """Also when that is killed without a word."""
    code = "import sys, guest; m = guest.Machine(sys.argv[1]); m.boot(sys.argv[2]); print(m.pid(), flush=True); input()"
    runner = subprocess.Popen([sys.executable, "-c", code, tmp_path / "state", machines.KERNELS[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              cwd=machines.HERE)
    with runner:
        qemu = int(runner.stdout.readline())
        assert lib.alive(qemu)
        runner.kill()
    lib.wait_for(lambda: not lib.alive(qemu), "QEMU ends")


def test_systemd_starts_the_unit(guest):
    out = guest.sh("systemctl daemon-reload; systemctl start atoll; systemctl is-active atoll; stat -fc %T /sys/fs/cgroup; cat /proc/1/comm; uname -r")
    *words, release = out.split()
    assert words == ["active", "cgroup2fs", "systemd"] and release.startswith(guest.version + ".")


def test_doctor_finds_nothing_missing(guest):
    report = guest.json("atoll doctor --json")
    assert report["ready"] and not [c for c in report["checks"] if c["state"] in ("missing", "unknown")], report
    states = {c["name"]: c["state"] for c in report["checks"]}
    assert states["steering"] == "ok"
    quotas = next(c["detail"] for c in report["checks"] if c["name"] == "disk quotas")
    assert quotas.startswith("full" if guest.version == "6.1" else "simple"), "the kind that the pool has"


def test_the_warden_keeps_net_admin_only_where_the_kernel_asks_for_it(guest):
    effective = int(guest.sh("sed -n 's/^CapEff:\t//p' /proc/$(pgrep -o -x atoll-warden)/status"), 16)
    assert bool(effective >> 12 & 1) == (guest.version == "6.1")


def test_gate_and_daemon_have_groups_that_are_slowed_down_before_the_machine_is_full(guest):
    out = guest.sh("""
        for program in atoll-gate atolld; do
            group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/$(pgrep -o -x $program)/cgroup)
            echo ${group##*/} $(cat $group/cpu.weight) $(($(getconf _PHYS_PAGES) * 4096 / $(cat $group/memory.high)))
        done""")
    assert out.split() == ["gate", "10000", "4", "daemon", "10000", "4"]


def test_all_connections_of_boxes_fit(guest):
    """By the unit's LimitNOFILE=: the gate says it, and doctor about the gate, whatever a shell may open."""
    out = guest.sh("""
        journalctl -u atoll -o cat | grep -o 'connections_max=[0-9]*' | tail -n 1
        ulimit -n 2000; atoll doctor --json | jq -r '.checks[] | select(.name == "process limits") | .state, .detail'""")
    said, state, detail = out.splitlines()
    assert (said, state) == ("connections_max=32768", "ok")
    assert " 1048576 open files for the gate that runs: 32768 connections of boxes fit at once" in detail


def test_exec(guest):
    out = guest.sh("atoll exec hello -- echo hi; echo data | atoll exec hello -- tr a-z A-Z; atoll exec hello -- sh -c 'exit 3' || echo $?")
    assert out.split() == ["hi", "DATA", "3"]


def test_a_time_limit(guest):
    out = guest.sh("""
        (atoll exec hello --timeout 2s --json -- sleep 1000 || true) | jq -r .outcome
        atoll exec hello --timeout 2s -- sleep 1000 2>/dev/null || echo $?""")
    assert out.split() == ["timeout", "124"]


def test_python_keeps_its_variables(guest):
    assert guest.sh("atoll code hello -c 'x = 6' -c 'print(x * 7)'").split() == ["42"]


def test_the_network_leads_through_the_gate(guest):
    out = guest.sh(f"""
        ip address add {SERVER}/32 dev lo
        mkdir -p /srv/www && echo 'from the server' > /srv/www/index.html
        systemd-run -q --unit=www python3 -m http.server --bind {SERVER} --directory /srv/www 8080
        timeout 300 sh -c 'until curl -sf http://{SERVER}:8080/ >/dev/null; do sleep 0.2; done'
        atoll exec hello -- curl -s -o /dev/null -w '%{{http_code}}\\n' --max-time 200 http://{SERVER}:8080/ || echo refused
        atoll net hello allow {SERVER}/32:8080 >/dev/null
        atoll exec hello -- curl -s --max-time 200 http://{SERVER}:8080/""")
    lines = out.splitlines()
    assert "refused" in lines[:-1] and lines[-1] == "from the server"


def test_selftest_skips_nothing(guest):
    """It would notice if these three did not work here, and a kernel that cannot do them would not count as one that need not."""
    report = guest.json("atoll selftest --json || test $? = 1")
    bad = [c for c in report["checks"] if c["result"] != "ok"]
    assert report["failed"] == 0 and not bad, bad
    assert {"a box reaches a server that its policy names", "a disk limit holds after a snapshot",
            "a box starts on an image with layers"} <= {c["name"] for c in report["checks"]}


def test_an_image_of_two_layers(guest):
    out = guest.sh("""
        printf 'FROM default\\nRUN echo one > /one\\nRUN echo two > /two && rm /one && echo again > /three\\n' | atoll build -t layers -
        atoll create layered --image layers
        atoll exec layered -- sh -c 'cat /two /three; test ! -e /one && echo gone; cat /proc/mounts' """)
    assert "two\nagain\ngone\n" in out


def test_a_disk_limit_holds_after_a_snapshot_and_in_a_fork(guest):
    """What a box, its snapshots and what it has deleted take together stays below its limit."""
    out = guest.sh(f"""
        write() {{
            if out=$(atoll exec $1 -- sh -c "head -c $2 /dev/urandom > /workspace/$3 && sync" 2>&1); then echo written; else grep -oE '{QUOTA}' <<< "$out"; fi
        }}
        atoll create disk --disk 64m >/dev/null
        write disk 10m one
        atoll snapshot disk first
        write disk 100m two
        atoll exec disk -- rm -f /workspace/one /workspace/two
        write disk 60m three
        atoll exec disk -- rm -f /workspace/three; atoll exec disk -- sync
        atoll fork disk disk-fork
        write disk-fork 100m two
        atoll exec disk-fork -- rm -f /workspace/two
        write disk-fork 20m small""")
    first, snapshot, *rest = out.splitlines()
    full = [line for line in rest if line != "disk-fork"]
    assert first == "written" and snapshot.startswith("snap-")
    assert [line == "written" for line in full] == [False, False, False, True], out


def test_quotas_stay_consistent(guest):
    """Linux counts nothing any more after it has marked them inconsistent: no box would have a limit."""
    assert set(guest.sh("cat /sys/fs/btrfs/*-*/qgroups/inconsistent").split()) == {"0"}


def test_a_command_that_takes_too_much_memory(guest):
    """The agent survives it: the box is the same one afterwards. On cgroup v2 the buffers of sockets are memory too."""
    out = guest.sh(f"""
        started() {{ atoll inspect small --json | jq -r .startedAt; }}
        atoll create small --memory 64m; before=$(started)
        atoll exec small -- tail /dev/zero 2>&1 || echo $?
        atoll exec small -- python3 -c '{UDP}' >/dev/null 2>&1 || echo ended
        atoll exec small -- echo alive; [ "$before" = "$(started)" ] && echo same""")
    words = out.split()
    assert "memory" in out and "137" in words and words[-2:] == ["alive", "same"], out


def test_waiting_connections_are_bounded(guest):
    """At most 256 wait for one accept, whoever listens: also where the kernel has no somaxconn for a box."""
    guest.sh(f"cat > /root/waiting.py <<'END'\n{WAITING}\nEND\natoll cp /root/waiting.py hello:/tmp/waiting.py")
    out = guest.sh("""
        atoll exec hello -- python3 /tmp/waiting.py
        atoll exec hello -- setpriv --reuid=1234 --regid=1234 --clear-groups python3 /tmp/waiting.py
        cat > /root/given-up.py <<< 'import os; os.setresgid(1234, 1234, 1234); os.setresuid(1234, 1234, 1234); exec(open("/tmp/waiting.py").read())'
        atoll cp /root/given-up.py hello:/tmp/given-up.py
        atoll exec hello -- python3 /tmp/given-up.py""")
    root, user, given_up = map(int, out.split())
    assert 2 <= root <= 257 and 2 <= user <= 257
    # The files of a process that gave up root without an exec are closed to the agent: 6.1 lets it have the kernel's own bound.
    assert 2 <= given_up <= (4097 if guest.version == "6.1" else 257)


def test_sleep_and_wake(guest):
    out = guest.sh("""
        atoll exec hello -d --name count -- sh -c 'while :; do echo x >> /tmp/count; sleep 0.05; done'
        atoll sleep hello; atoll inspect hello --json | jq -r .state
        atoll wake hello; atoll inspect hello --json | jq -r .state
        atoll exec hello -- sh -c 'a=$(wc -c < /tmp/count); while [ $(wc -c < /tmp/count) = $a ]; do sleep 0.1; done; echo counts' """)
    words = out.split()
    assert words[-4:] == ["asleep", "hello", "running", "counts"], out


def test_boxes_outlive_a_restart_of_the_unit(guest):
    out = guest.sh(PID + """
        systemctl restart atoll; systemctl is-active atoll; [ "$before" = "$(pid)" ] && echo same; atoll exec hello -- echo after""")
    assert out.split() == ["active", "same", "after"]


def test_groups_of_deleted_boxes_go_when_the_warden_starts(guest):
    """Kernels before 6.10 keep the quota group of a deleted subvolume. The tests above have destroyed boxes."""
    out = guest.sh(STALE + """
        btrfs subvolume sync /proc/$(pgrep -o -x atoll-warden)/root/pool >/dev/null
        stale > /root/stale; wc -l < /root/stale
        systemctl restart atoll
        timeout 300 sh -c 'until ! ls /sys/fs/btrfs/*-*/qgroups | sed -n s/^0_//p | grep -qxFf /root/stale; do sleep 0.5; done'
        cat /sys/fs/btrfs/*-*/qgroups/inconsistent""")
    stale, inconsistent = map(int, out.split())
    assert inconsistent == 0 and (stale > 0 or guest.version != "6.1"), out


@pytest.mark.parametrize("program", ["atolld", "atoll-warden", "atoll-gate"])
def test_boxes_outlive_a_kill(guest, program):
    out = guest.sh(PID + f"""
        old=$(pgrep -o -x {program}); kill -9 $old
        timeout 300 sh -c 'until new=$(pgrep -o -x {program}) && [ "$new" != '$old' ]; do sleep 0.2; done'
        timeout 300 sh -c 'until atoll exec hello -- true 2>/dev/null; do sleep 0.5; done'
        [ "$before" = "$(pid)" ] && echo same; systemctl is-active atoll""")
    assert out.split() == ["same", "active"]


def test_boxes_outlive_a_reboot(guest):
    if guest.version != machines.KERNELS[-1] and not NIGHTLY:
        pytest.skip("an orderly reboot in one kernel is enough for a day: ATOLL_NIGHTLY=1 does it in all")
    guest.sh(PID + "atoll exec hello -- sh -c 'echo orderly > /workspace/orderly'; systemctl -q enable atoll")
    guest.reboot(600)
    out = guest.sh("""
        timeout 300 sh -c 'until systemctl -q is-active atoll; do sleep 0.5; done'
        atoll inspect hello --json | jq -r .state
        atoll exec hello -- cat /workspace/orderly""")
    assert out.split() == ["stopped", "orderly"]


def test_boxes_outlive_a_loss_of_power(guest):
    """`late` and `late-fork` are made a moment before: their files are on the disk, so their rows must be there too."""
    guest.sh("""
        atoll exec hello -- sh -c 'echo kept > /workspace/kept'
        systemctl -q enable atoll; sync
        atoll create late --label age=young --pids 100
        atoll exec late -- dd if=/dev/zero of=/workspace/late bs=1k count=1 conv=fsync status=none
        atoll fork hello late-fork >/dev/null; atoll snapshot hello late-snap >/dev/null
        atoll exec late-fork -- dd if=/dev/zero of=/workspace/late bs=1k count=2 conv=fsync status=none""")
    guest.reboot(600, hard=True)
    out = guest.sh("""
        timeout 300 sh -c 'until systemctl -q is-active atoll; do sleep 0.5; done'
        atoll exec hello -- cat /workspace/kept
        atoll exec late -- sh -c 'wc -c < /workspace/late'
        atoll inspect late --json | jq -r '.labels.age, .limits.pids'
        atoll exec late-fork -- sh -c 'cat /workspace/kept; wc -c < /workspace/late'
        atoll snapshots hello --json | jq -r '.snapshots[].name'
        atoll exec layered -- cat /two
        atoll exec disk-fork -- sh -c 'wc -c < /workspace/small'""")
    assert out.split() == ["kept", "1024", "young", "100", "kept", "2048", "late-snap", "two", str(20 << 20)]


@pytest.mark.skipif(not NIGHTLY, reason="ATOLL_NIGHTLY=1 starts interpreters ahead: minutes of the emulated processor")
def test_interpreters_that_wait(guest):
    out = guest.sh("""
        rm /etc/atoll.env; systemctl restart atoll
        timeout 1200 sh -c 'until journalctl -u atoll -b -o cat --no-pager | grep -q "msg=\"zygote ready\""; do sleep 1; done'
        atoll code hello -c 'import numpy; print(int(numpy.arange(5).sum()))'
        atoll code hello -l js -c 'console.log(6 * 7)'""")
    assert out.split() == ["10", "42"]


@pytest.mark.skipif(not NIGHTLY, reason="ATOLL_NIGHTLY=1 runs the whole escape suite in both guests: an hour")
@pytest.mark.limit(7200)
def test_no_check_of_the_escape_suite_gets_out(guest):
    report = guest.json("atoll selftest --escape --json || test $? = 1", timeout=6600)
    bad = [c for c in report["checks"] if c["result"] == "FAIL"]
    assert report["passed"] and not bad, "\n".join(f"{c['name']}: {c['verdict']}: {c['how']}; expected: {c['expected']}" for c in bad)
