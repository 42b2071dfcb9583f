"""Atoll on Debian 12 with systemd and cgroup v2 alone, under Debian's kernels. The tests of a kernel share one machine and run in
this order: one command of `guest` is many of the machine, because the emulation is slow."""
import os
import subprocess
import sys

import atoll as lib
import guest as machines
import pytest

pytestmark = pytest.mark.limit(1800)  # the first one may have to make the machines

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
    out = guest.sh("atoll create small --memory 64m; atoll exec small -- tail /dev/zero 2>&1 || echo $?; atoll exec small -- echo alive")
    assert "memory" in out and out.split()[-2:] == ["137", "alive"], out


def test_waiting_connections_are_bounded(guest):
    """At most 256 wait for one accept, whoever listens: also where the kernel has no somaxconn for a box."""
    guest.sh(f"cat > /root/waiting.py <<'END'\n{WAITING}\nEND\natoll cp /root/waiting.py hello:/tmp/waiting.py")
    out = guest.sh("atoll exec hello -- python3 /tmp/waiting.py; atoll exec hello -- setpriv --reuid=1234 --regid=1234 --clear-groups python3 /tmp/waiting.py")
    root, user = map(int, out.split())
    assert 2 <= root <= 257 and 2 <= user <= 257


def test_sleep_and_wake(guest):
    out = guest.sh("""
        atoll exec hello -d --name count -- sh -c 'while :; do echo x >> /tmp/count; sleep 0.05; done'
        atoll sleep hello; atoll inspect hello --json | jq -r .state
        atoll wake hello; atoll inspect hello --json | jq -r .state
        atoll exec hello -- sh -c 'a=$(wc -c < /tmp/count); while [ $(wc -c < /tmp/count) = $a ]; do sleep 0.1; done; echo counts' """)
    words = out.split()
    assert words[-4:] == ["asleep", "hello", "running", "counts"], out


def test_boxes_outlive_a_restart_of_the_unit(guest):
    out = guest.sh("""
        pid() { atoll ps hello --json | jq -r '.processes[] | select(.status == "running" or .running) | .pid'; }
        before=$(pid); systemctl restart atoll; systemctl is-active atoll; [ "$before" = "$(pid)" ] && echo same; atoll exec hello -- echo after""")
    assert out.split() == ["active", "same", "after"]


@pytest.mark.parametrize("program", ["atolld", "atoll-warden", "atoll-gate"])
def test_boxes_outlive_a_kill(guest, program):
    out = guest.sh(f"""
        pid() {{ atoll ps hello --json | jq -r '.processes[] | select(.status == "running" or .running) | .pid'; }}
        before=$(pid); old=$(pgrep -o -x {program}); kill -9 $old
        timeout 300 sh -c 'until new=$(pgrep -o -x {program}) && [ "$new" != '$old' ]; do sleep 0.2; done'
        timeout 300 sh -c 'until atoll exec hello -- true 2>/dev/null; do sleep 0.5; done'
        [ "$before" = "$(pid)" ] && echo same; systemctl is-active atoll""")
    assert out.split() == ["same", "active"]


def test_boxes_outlive_a_loss_of_power(guest):
    """`late` is made a moment before: its file is on the disk, so its settings must be there too."""
    guest.sh("""
        atoll exec hello -- sh -c 'echo kept > /workspace/kept'
        systemctl -q enable atoll; sync
        atoll create late --label age=young --pids 100
        atoll exec late -- dd if=/dev/zero of=/workspace/late bs=1k count=1 conv=fsync status=none""")
    guest.reboot(600, hard=True)
    out = guest.sh("""
        timeout 300 sh -c 'until systemctl -q is-active atoll; do sleep 0.5; done'
        atoll exec hello -- cat /workspace/kept
        atoll exec late -- sh -c 'wc -c < /workspace/late'
        atoll inspect late --json | jq -r '.labels.age, .limits.pids'
        atoll exec layered -- cat /two
        atoll exec disk-fork -- sh -c 'wc -c < /workspace/small'""")
    assert out.split() == ["kept", "1024", "young", "100", "two", str(20 << 20)]


@pytest.mark.skipif(os.environ.get("ATOLL_NIGHTLY") != "1", reason="ATOLL_NIGHTLY=1 runs the whole escape suite in both guests: an hour")
@pytest.mark.limit(7200)
def test_no_check_of_the_escape_suite_gets_out(guest):
    report = guest.json("atoll selftest --escape --json || test $? = 1", timeout=6600)
    bad = [c for c in report["checks"] if c["result"] == "FAIL"]
    assert report["passed"] and not bad, "\n".join(f"{c['name']}: {c['verdict']}: {c['how']}; expected: {c['expected']}" for c in bad)
