"""Whether the escape suite can fail: what a box must refuse, unconfined root must not be refused.

Every check runs here as root of the host, without user namespace, filter or dropped capabilities, and must come out as
"escaped", or as an "error" that names the errno of a kernel which looked at the arguments. Mounts, network, terminals and
processes are those of throw-away namespaces; a check that would harm the host all the same is listed with its reason.
"""
import contextlib
import json
import os
import socket
import subprocess
import tempfile

import atoll as lib
import pytest

ESCAPE = str(lib.BIN / "atoll-escape")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: an unconfined attacker is root")

# What cannot be shown, and why.
NOT_SHOWN = {
    "kill-init": "no init can be killed from inside its pid namespace: a property of the kernel",
    "kill-all": "judged from outside, by the host's and the neighbour's process; unconfined it would kill the host",
    "namespace-parent": "the parent of the first namespace is refused to everybody",
    "id-map-write": "maps are written once by nature: a property of the kernel",
    "set-time": "would set the host's clock",
    "console-takeover": "would take the host's console",
    "dirty-pipe": "needs a kernel before 5.16.11",
    "rlimit-raise": "needs a root with CAP_SYS_RESOURCE and finite limits",
    "fork-bomb": "would be one; test_escape.py shows it in a box with a limit that is not the box's",
    "fd-exhaustion": "would exhaust the host's open files",
    "signal-exhaustion": "would exhaust root's queued signals; the neighbour is the judge",
    "mqueue-exhaustion": "would exhaust root's message queues; the neighbour is the judge",
    "inotify-exhaustion": "would exhaust root's inotify instances; the neighbour is the judge",
    "inotify-watches": "would exhaust root's inotify watches; the neighbour is the judge",
    "layer-links-relative": "its second phase is that of layer-links-absolute",
    "layer-links-magic": "its second phase is that of layer-links-absolute",
}

PRIVATE = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
MOUNTS_ONLY = ["unshare", "--mount", "--propagation", "private"]
OWN_DEV = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mkdir /dev/shm /dev/pts && "
JAIL = "mkdir -p $J/proc $J/var/tmp && cp $E $J/atoll-escape && mount -t proc none $J/proc && "

# A server at a port of every address of the scene's own network.
SERVER = ("import socket,sys; s=socket.create_server(('',int(sys.argv[1]))); print('up',flush=True)\n"
          "while True: c,_=s.accept(); c.recv(99); c.sendall(b'HTTP/1.1 200 OK'); c.close()")


def served(port, name):
    return (f'ip link set lo up; ip addr add 169.254.169.254/32 dev lo; mkfifo $J/ready; python3 -c "{SERVER}" {port} >$J/ready & victim=$!; '
            f"read line <$J/ready; $E run {name}; kill $victim")


# Checks that need a scene: shell text that ends in the attack. $E is the program, $J an empty directory.
SCENES = {
    "fd-leak": "exec 9</; $E run fd-leak",
    "fd-leak-processes": JAIL + "chroot $J /atoll-escape run fd-leak-processes; true",
    "proc-root": JAIL + "chroot $J /atoll-escape run proc-root; true",
    "cwd-through-fds": JAIL + "exec 9</; chroot $J /atoll-escape run cwd-through-fds; true",
    "chroot-escape": JAIL + "chroot $J /atoll-escape run chroot-escape; true",
    "environ-secrets": "export ATOLL_TOKEN=x; $E run environ-secrets; true",
    "mountinfo-host-paths": "mount --bind /var/lib/dpkg $J && $E run mountinfo-host-paths; true",
    "host-sockets": "mount -t tmpfs none /run && mkdir /run/atoll && : >/run/atoll/atoll.sock && $E run host-sockets; true",
    "interfaces": "ip link add atoll0 type veth peer name atoll1 && $E run interfaces; true",
    "address-forms": served(80, "address-forms"),
    "gate-port": served(1, "gate-port"),
    "devices-shared": OWN_DEV + "$E run devices-shared; true",
    "layer-links-absolute": OWN_DEV + "$E run layer-links-absolute phase=verify; true",
    "memory-bomb": "$E run memory-bomb mem_mib=32; true",
    "pty-exhaustion": OWN_DEV + "mount -t devpts -o newinstance,max=100,ptmxmode=666 none /dev/pts"
    " && ln -s pts/ptmx /dev/ptmx && $E run pty-exhaustion; true",
    "shm-fill": "mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && cd / && $E run shm-fill mem_mib=1; true",
    "udp-memory": "ip link set lo up && $E run udp-memory mem_mib=16; true",
    "tcp-memory": "ip link set lo up && $E run tcp-memory mem_mib=16; true",
    "accept-queue": "ip link set lo up && $E run accept-queue; true",
    "listeners": "$E run listeners; true",
    "time-wait": "$E run time-wait; true",
    "shm-inodes": "mount -t tmpfs none /dev/shm && $E run shm-inodes; true",
    "disk-bound": "$E run disk-bound disk_mib=4; true",
    "disk-inodes": "$E run disk-inodes disk_mib=1; true",
}
NEIGHBOURS = ["neighbour-abstract", "neighbour-network", "neighbour-ipc", "neighbour-files", "neighbour-processes"]


def listed():
    if not os.path.exists(ESCAPE):
        return []
    text = subprocess.run([ESCAPE, "list", "--json"], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


CHECKS = {c["name"]: c for c in listed()}
PLAIN = [n for n, c in CHECKS.items() if "demo" in c["needs"] and n not in SCENES and "host" not in c["needs"]]


def judge(output):
    result = json.loads(output.strip().splitlines()[-1])
    if result["result"] == "skipped":
        pytest.skip(result["how"])
    if result["result"] == "refused" and "EAFNOSUPPORT" in result["how"]:
        pytest.skip("this kernel does not have it: " + result["how"])
    assert result["result"] in ("escaped", "error"), result
    # An error must come from the attack, not from a scene that could not be set.
    assert result["result"] == "escaped" or "expected" in result["how"], result


def act(wrapper, script):
    # A copy outside the tree: /tmp may be covered in the scene, and the program must not write beside the build.
    with tempfile.TemporaryDirectory(prefix="atoll-can-fail-", dir="/var/tmp") as scene:
        program = os.path.join(scene, "atoll-escape")
        subprocess.run(["cp", ESCAPE, program], check=True)
        jail = os.path.join(scene, "jail")
        os.mkdir(jail)
        done = subprocess.run(wrapper + ["/bin/sh", "-c", script], env={**os.environ, "E": program, "J": jail}, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        return done.stdout


def test_every_check_is_shown_or_excused():
    assert CHECKS, f"{ESCAPE} is missing: make build"
    shown = set(PLAIN) | set(SCENES) | set(NEIGHBOURS) | {"cwd-outside", "host-loopback", "host-addresses", "host-abstract", "host-pids"}
    assert set(CHECKS) == shown | set(NOT_SHOWN)
    assert not shown & set(NOT_SHOWN)


@pytest.mark.parametrize("name", PLAIN)
def test_unconfined_root_is_not_refused(name):
    judge(act(PRIVATE, f"$E run {name}; true"))


@pytest.mark.parametrize("name", SCENES)
def test_scene_is_not_refused(name):
    judge(act(PRIVATE, SCENES[name]))


def test_cwd_outside():
    with tempfile.TemporaryDirectory(prefix="atoll-can-fail-", dir="/var/tmp") as jail:
        subprocess.run(["cp", ESCAPE, os.path.join(jail, "atoll-escape")], check=True)
        done = subprocess.run(["/atoll-escape", "run", "cwd-outside"], cwd="/", preexec_fn=lambda: os.chroot(jail), timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        judge(done.stdout)


@contextlib.contextmanager
def listener(family, address):
    with socket.socket(family) as s:
        s.bind(address)
        s.listen(8)
        yield s


def test_host_network():
    name = f"atoll-can-fail-{os.getpid()}"
    with listener(socket.AF_INET, ("127.0.0.1", 0)) as tcp, listener(socket.AF_UNIX, "\0" + name):
        port = tcp.getsockname()[1]
        judge(act(MOUNTS_ONLY, f"$E run host-loopback host_port={port} api_port={port}; true"))
        judge(act(MOUNTS_ONLY, f"$E run host-addresses host_port={port} host_ip=127.0.0.1; true"))
        judge(act(MOUNTS_ONLY, f"$E run host-abstract host_abstract={name}; true"))


def test_host_pids():
    judge(act(MOUNTS_ONLY, f"$E run host-pids host_pid={os.getpid()}; true"))


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbour_in_the_same_namespaces(name):
    script = ("mount -t tmpfs none /dev/shm; ip link set lo up; mkfifo $J/ready; $E neighbour >$J/ready & victim=$!; read line <$J/ready;"
              f" $E run {name} neighbour_pid=$victim; kill $victim; rm -f /var/tmp/atoll-escape-neighbour")
    judge(act(PRIVATE, script))


def test_every_check_stands_in_the_security_page():
    """SECURITY.md's table is `atoll-escape list`, row by row."""
    page = (lib.ROOT / "SECURITY.md").read_text()
    table = page.split("\n| check | attack | refused by |\n|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    assert table == [f"| `{c['name']}` | {c['idea']} | {c['layer']} |" for c in CHECKS.values()]
