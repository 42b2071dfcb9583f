"""`atoll up`: what it makes, what it says, how it stops, and that its programs never linger."""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import atoll as lib
import leaks
import pytest
from atoll import DEADLINE, alive, box_path, wait_for

OWN_DAEMON = "it looks at the process of `atoll up`"

ATOLL = lib.BIN / "atoll"


def up(env, **options):
    """`atoll up` that is expected to end by itself."""
    return subprocess.run([ATOLL, "up"], env=env, capture_output=True, text=True, timeout=DEADLINE, check=False,
                          stdin=subprocess.DEVNULL, **options)


@pytest.fixture
def place():
    """Directories and environment for an `atoll up` that will refuse to start."""
    base = Path(tempfile.mkdtemp(prefix="at-", dir="/tmp"))
    base.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
    yield base, {**clean, "ATOLL_RUN": f"{base}/r", "ATOLL_DATA": f"{base}/d", "ATOLL_IMAGES": str(lib.IMAGES),
                 "ATOLL_LISTEN": "127.0.0.1:0"}
    shutil.rmtree(base)


# ---- what it makes

def test_owners_and_modes(daemon):
    user = pwd.getpwnam("atoll")

    def look(path):
        st = os.lstat(path)
        return st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)
    assert look(daemon.run) == (0, 0, 0o711)
    assert look(daemon.data) == (0, 0, 0o711)
    assert look(daemon.data / "token") == (user.pw_uid, user.pw_gid, 0o600)
    assert look(daemon.data / "daemon") == (user.pw_uid, user.pw_gid, 0o700)
    assert look(daemon.run / "atoll.sock") == (0, user.pw_gid, 0o660)
    assert look(daemon.run / "listen") == (0, 0, 0o644)
    assert (daemon.run / "listen").read_text() == daemon.address + "\n"
    assert len(daemon.token) == 64 and int(daemon.token, 16)


def test_the_daemon_has_no_privileges(daemon):
    status = Path(f"/proc/{daemon.daemon_pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    uid = str(pwd.getpwnam("atoll").pw_uid)
    assert fields["Uid"].split() == [uid] * 4
    assert all(int(fields[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    assert fields["NoNewPrivs"] == "1"


def as_stranger(daemon, *args, **env):
    return lib.run_as_stranger(ATOLL, *args, env={**daemon.env, **env})


def test_a_stranger_cannot_use_the_socket_or_the_token(daemon):
    r = as_stranger(daemon, "list", ATOLL_URL=f"unix:{daemon.socket}")
    assert r.returncode == 1 and r.stdout == "" and "may not use unix:" in r.stderr and "ATOLL_TOKEN" in r.stderr
    r = as_stranger(daemon, "list", ATOLL_URL=f"http://{daemon.address}")
    assert r.returncode == 1 and r.stdout == "" and "ATOLL_TOKEN" in r.stderr


def test_a_stranger_with_the_token_finds_the_daemon(daemon):
    r = as_stranger(daemon, "list", "--json", ATOLL_TOKEN=daemon.token)
    assert r.returncode == 0 and json.loads(r.stdout) == {"sandboxes": []}


def test_the_ready_text_has_a_command_that_works(own_daemon):
    own_daemon.interrupt()
    with open(own_daemon.base / "log2", "wb") as log:
        p = subprocess.Popen([ATOLL, "up"], env=own_daemon.env, stdout=subprocess.PIPE, stderr=log, text=True,
                             cwd=lib.BIN.parent, start_new_session=True)
    try:
        lines = {}
        while "stop" not in lines:
            line = p.stdout.readline()
            assert line, "ended early"
            lines.setdefault(line.split()[0], line.strip())
        assert "http://127.0.0.1:" in lines["address"] and str(own_daemon.data / "token") in lines["token"]
        command = lines["try"].removeprefix("try").strip()
        env = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
        r = subprocess.run(["sh", "-c", command], cwd=lib.BIN.parent, env=env, capture_output=True, text=True, check=False)
        assert (r.returncode, r.stdout, r.stderr) == (0, "hi\n", "")
        assert own_daemon.cli("rm", "hello").returncode == 0
    finally:
        p.send_signal(signal.SIGINT)
        assert p.wait(DEADLINE) == 0


def test_token_and_boxes_stay_over_a_restart(own_daemon, own_box):
    token = own_daemon.token
    pid = own_daemon.execute_alone(own_box, "sleep 600 >/dev/null 2>&1 & echo $!")["stdout"].strip()
    assert own_daemon.interrupt() == 0
    own_daemon.start()
    assert own_daemon.token == token
    assert own_daemon.execute_alone(own_box, f"cat /proc/{pid}/comm")["stdout"] == "sleep\n"


# ---- how it refuses

def test_not_root_is_one_sentence(place):
    _, env = place
    r = lib.run_as_stranger(ATOLL, "up", env=env)
    assert r.returncode == 1 and "root is needed" in r.stderr and "sudo" in r.stderr and r.stdout == ""


def test_no_image_says_make_image(place):
    base, env = place
    r = up({**env, "ATOLL_IMAGES": f"{base}/none"})
    assert r.returncode == 1 and f"no image in {base}/none" in r.stderr and "make image" in r.stderr
    assert not (base / "r").exists()


def test_half_an_image_is_none(place):
    base, env = place
    (base / "images/default/rootfs").mkdir(parents=True)
    r = up({**env, "ATOLL_IMAGES": f"{base}/images"})
    assert r.returncode == 1 and f"no image in {base}/images" in r.stderr


def test_a_program_that_gives_up_at_the_start_is_the_last_word(place):
    base, env = place
    r = up({**env, "ATOLL_TLS_CERT": f"{base}/none.pem", "ATOLL_TLS_KEY": f"{base}/none.pem"})
    assert r.returncode == 1 and r.stdout == "" and f"{base}/none.pem: No such file" in r.stderr
    assert "atoll up: atolld could not start: exit code 78\n" in r.stderr and "restarting it" not in r.stderr
    assert not {"atoll.sock", "listen", "warden.sock"} & {p.name for p in (base / "r").iterdir()}
    assert leaks.mounts(base) == []


def test_a_second_one_is_refused(daemon, place):
    base, env = place
    r = up({**env, "ATOLL_RUN": str(daemon.run)})
    assert r.returncode == 1 and f"pid {daemon.up.pid}" in r.stderr and str(daemon.run) in r.stderr
    r = up({**env, "ATOLL_DATA": str(daemon.data)})
    assert r.returncode == 1 and f"pid {daemon.up.pid}" in r.stderr and str(daemon.data) in r.stderr
    assert daemon.request("GET", "/v1/health").status == 200
    assert leaks.mounts(base) == []


def test_a_taken_port_is_named_and_nothing_starts(place):
    base, env = place
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        address = "127.0.0.1:%d" % s.getsockname()[1]
        r = up({**env, "ATOLL_LISTEN": address})
    assert r.returncode == 1 and f"port {address} is taken" in r.stderr and "ATOLL_LISTEN" in r.stderr
    assert not (base / "r" / "warden.sock").exists()
    assert not list((base / "d").glob("pool.img*")), "a pool was made before the port was tried"


def test_settings_that_are_refused_late_leave_no_sockets(place):
    base, env = place
    r = up({**env, "ATOLL_POOL": "zfs"})
    assert r.returncode == 1 and "ATOLL_POOL can be" in r.stderr
    assert [p.name for p in (base / "r").iterdir()] == ["up.lock"]


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:99999", ":", "1.2.3.4.5:80"])
def test_a_bad_address_is_named(place, address):
    r = up({**place[1], "ATOLL_LISTEN": address})
    assert r.returncode == 1 and "ATOLL_LISTEN" in r.stderr


def test_the_daemon_never_runs_as_root(place):
    r = up({**place[1], "ATOLL_USER": "root"})
    assert r.returncode == 1 and "must not run as 'root'" in r.stderr


def test_a_user_that_was_named_is_not_made(place):
    base, env = place
    r = up({**env, "ATOLL_USER": "atol"})
    assert r.returncode == 1 and "there is no user 'atol'" in r.stderr and "useradd" in r.stderr and "unset ATOLL_USER" in r.stderr
    with pytest.raises(KeyError):
        pwd.getpwnam("atol")
    assert not (base / "r").exists()


def test_an_address_that_this_machine_does_not_have(place):
    r = up({**place[1], "ATOLL_LISTEN": "192.0.2.1:0"})
    assert r.returncode == 1 and "192.0.2.1:0" in r.stderr and "does not have the address" in r.stderr and "Stop the program" not in r.stderr


@pytest.mark.parametrize("name, variable", [("r", "ATOLL_RUN"), ("d", "ATOLL_DATA")])
def test_directories_that_cannot_be_used_say_which_setting_to_change(place, name, variable):
    base, env = place
    (base / name).write_text("a file")
    r = up(env)
    assert r.returncode == 1 and f"{base}/{name}" in r.stderr and f"Set {variable} to" in r.stderr
    assert (base / name).read_text() == "a file"


def test_a_run_directory_too_long_for_sockets(place):
    base, env = place
    r = up({**env, "ATOLL_RUN": f"{base}/{'x' * 100}"})
    assert r.returncode == 1 and "too long" in r.stderr


@pytest.mark.parametrize("content", ["", "short\n"])
def test_a_token_that_guards_nothing_is_refused(place, content):
    base, env = place
    (base / "d").mkdir()
    (base / "d" / "token").write_text(content)
    r = up(env)
    assert r.returncode == 1 and "too short" in r.stderr and str(base / "d" / "token") in r.stderr


@pytest.mark.parametrize("name", ["r", "d"])
def test_directories_of_somebody_else_are_refused(place, name):
    base, env = place
    (base / name).mkdir()
    os.chown(base / name, 65534, 65534)
    r = up(env)
    assert r.returncode == 1 and "belongs to another user (uid 65534)" in r.stderr
    assert os.stat(base / name).st_uid == 65534


def test_directories_that_are_links_are_refused(place):
    base, env = place
    (base / "elsewhere").mkdir()
    (base / "d").symlink_to("elsewhere")
    r = up(env)
    assert r.returncode == 1 and f"{base}/d" in r.stderr


# ---- what it says

def test_its_lines_have_a_console_link_that_works_once(own_daemon):
    assert own_daemon.interrupt() == 0
    env = {**own_daemon.env, "ATOLL_LISTEN": own_daemon.address}
    with open(own_daemon.log_path, "ab") as log, \
            subprocess.Popen([ATOLL, "up"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True) as child:
        try:
            lines = dict(re.findall(r"^  (\w+) +(.+)$", "".join(iter(child.stdout.readline, "  stop     Ctrl-C; boxes stay alive\n")), re.M))
            link = re.fullmatch(r"(http://\S+)/#login=(\w+) \(works once, for five minutes\)", lines["console"])
            assert link and link[1].endswith(own_daemon.address.rsplit(":", 1)[1]), lines
            answers = [own_daemon.request("POST", "/v1/console/session", {"code": link[2]}, headers={"X-Atoll-Console": "1"},
                                          unix=False, token=False).status for _ in range(2)]
            assert answers == [200, 401]
        finally:
            child.send_signal(signal.SIGINT)
            assert child.wait(DEADLINE) == 0


# ---- how it ends

@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_both_and_boxes_live_on(own_daemon, own_box, signo):
    own_daemon.execute_alone(own_box, "sleep 600 >/dev/null 2>&1 &")
    pids = own_daemon.daemon_pid, own_daemon.warden_pid
    left = wait_for(lambda: [p for p, comm in leaks.processes(own_daemon.cgroup) if comm == "sleep"], "the sleep's exec")
    assert own_daemon.interrupt(signo) == 0
    assert not any(alive(p) for p in pids)
    assert "boxes stay alive" in own_daemon.log()
    assert all(alive(p) for p in left)
    assert not (own_daemon.run / "atoll.sock").exists()
    own_daemon.start()
    assert own_daemon.boxes() == [own_box]


def test_a_second_ctrl_c_ends_it_at_once(own_daemon, own_box):
    # A request that takes forever keeps the daemon from stopping gracefully.
    path = box_path(own_box, "/api/execute")
    body = json.dumps({"command": "echo begun >/tmp/b; sleep 600", "sessionId": "__DISABLE_SESSION__"}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with own_daemon.connect(unix=True) as s:
        s.sendall(head.encode() + body)
        wait_for(lambda: own_daemon.execute_alone(own_box, "cat /tmp/b")["stdout"] == "begun\n", "the command runs")
        pids = own_daemon.daemon_pid, own_daemon.warden_pid
        own_daemon.up.send_signal(signal.SIGINT)
        wait_for(lambda: own_daemon.logged("boxes stay alive"), "the stop is under way")
        time.sleep(0.2)  # two signals within a tenth of a second count as one
        own_daemon.up.send_signal(signal.SIGINT)
        own_daemon.up.wait(DEADLINE)
        assert own_daemon.logged("stopping now")
    assert not any(alive(p) for p in pids)


def test_killed_with_9_nothing_lingers_but_the_boxes(own_daemon, own_box):
    own_daemon.execute_alone(own_box, "sleep 600 >/dev/null 2>&1 &")
    pids = own_daemon.daemon_pid, own_daemon.warden_pid
    own_daemon.kill_up()
    wait_for(lambda: not any(alive(p) for p in pids), "daemon and warden die with their supervisor")
    assert "sleep" in [comm for _, comm in leaks.processes(own_daemon.cgroup)]
    own_daemon.start()
    assert own_daemon.boxes() == [own_box]
    assert own_daemon.execute_alone(own_box, "pgrep -x sleep | wc -l")["stdout"] == "1\n"


def test_a_program_that_dies_is_started_again_and_logged(own_daemon):
    for kill, name in ((own_daemon.kill_daemon, "atolld"), (own_daemon.kill_warden, "atoll-warden")):
        kill()
        assert own_daemon.request("GET", "/v1/health").status == 200
        assert own_daemon.logged(f"restarting it\" program={name}")


def groups_of(pid):
    """What comes after the instance's directory, in the hierarchies of memory and of processor time."""
    groups = leaks.groups(pid)
    paths = [next((path for names, path in groups.items() if kind in names.split(",")), groups.get("")) for kind in ("memory", "cpu")]
    return {re.sub(r".*/atoll-[0-9a-f]+/", "", path) for path in paths}


@pytest.mark.parametrize("name, group, comm", [("gate", "gate", "atoll-gate"), ("atolld", "daemon", "atolld")])
def test_gate_and_daemon_are_in_groups_of_their_own(own_daemon, name, group, comm):
    """Also those that follow a kill, and while the warden, who made the groups, does nothing."""
    def pid():
        text = (own_daemon.run / "up.lock").read_text().split()
        return int(text[text.index(name) + 1])

    def next_one():
        old = pid()
        os.kill(old, signal.SIGKILL)
        new = wait_for(lambda: pid() not in (0, old) and pid(), "it is started again")
        wait_for(lambda: Path(f"/proc/{new}/comm").read_text() == f"{comm}\n", "it has become its program")
        return new

    assert groups_of(pid()) == {group}
    assert group not in groups_of(own_daemon.warden_pid)
    assert groups_of(next_one()) == {group}
    warden = own_daemon.warden_pid
    os.kill(warden, signal.SIGSTOP)
    try:
        assert groups_of(next_one()) == {group}
    finally:
        os.kill(warden, signal.SIGCONT)
    own_daemon.kill_warden()
    assert groups_of(next_one()) == {group}
    assert own_daemon.execute("groups", "echo well")["stdout"] == "well\n"
    own_daemon.destroy("groups")


def test_the_address_survives_a_dying_daemon(own_daemon):
    """Clients that come while there is no daemon wait; they are not refused."""
    before = own_daemon.address
    for _ in range(5):
        os.kill(own_daemon.daemon_pid, signal.SIGKILL)
        assert own_daemon.request("GET", "/v1/health", unix=False).status == 200
    assert (own_daemon.run / "listen").read_text() == before + "\n"


def test_a_service_manager_is_told(own_daemon):
    own_daemon.interrupt()
    path = str(own_daemon.base / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(DEADLINE)
        own_daemon.env["NOTIFY_SOCKET"] = path
        own_daemon.start()
        assert s.recv(100) == b"READY=1"
