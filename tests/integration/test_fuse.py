"""FUSE in boxes: real FUSE programs, mounted through our fusermount3, without a capability inside."""

import os
import shutil
import threading

import fusebox
import pytest
from atoll import wait_for
from boxapi import Api

LIMIT = 64  # BOX_FUSE_MOUNTS


def mounts(api):
    return [line.split() for line in api.sh("cat /proc/self/mountinfo").splitlines() if " - fuse" in line]


def archive(api):
    api.sh("mkdir -p /tmp/src /tmp/m; echo content >/tmp/src/file; [ -f /tmp/a.sqsh ] || mksquashfs /tmp/src /tmp/a.sqsh -quiet -no-progress >/dev/null")


def test_squashfuse_mounts_and_unmounts(api):
    archive(api)
    api.sh("squashfuse /tmp/a.sqsh /tmp/m")
    assert api.sh("cat /tmp/m/file") == "content\n"
    (line,) = mounts(api)
    assert {"nosuid", "nodev"} <= set(line[5].split(","))
    api.sh("fusermount3 -u /tmp/m")
    assert mounts(api) == [] and api.sh("ls /tmp/m") == ""


def test_both_names_of_fusermount_are_there(api):
    archive(api)
    for name in ("fusermount", "fusermount3"):
        assert "Atoll" in api.sh(f"{name} -V")
        api.sh(f"squashfuse /tmp/a.sqsh /tmp/m && {name} -uz /tmp/m")
    assert mounts(api) == []


def test_a_program_that_ends_takes_its_mount_along(api):
    """As root libfuse calls umount2 itself; it reaches the mount without a capability."""
    archive(api)
    api.sh("squashfuse -f /tmp/a.sqsh /tmp/m & while ! mountpoint -q /tmp/m; do sleep 0.01; done; kill $!; wait $! || true")
    assert mounts(api) == []
    api.sh("squashfuse /tmp/a.sqsh /tmp/m; cd /tmp; umount m")
    assert mounts(api) == []


def test_umount_takes_nothing_else(api):
    archive(api)
    api.sh("squashfuse /tmp/a.sqsh /tmp/m")  # with a FUSE mount there the call goes all the way
    for path in ("/proc", "/proc/kcore", "/dev", "/dev/shm", "/dev/pts", "/", "/tmp"):
        assert api.run(f"umount {path}")["exitCode"] != 0
        assert "failed to unmount" in api.run(f"fusermount3 -uz {path}")["stderr"]
    assert len(mounts(api)) == 1


def test_fuse_overlayfs(api):
    api.sh("mkdir -p /tmp/low /tmp/up /tmp/work /tmp/o; echo low >/tmp/low/f; "
           "fuse-overlayfs -o lowerdir=/tmp/low,upperdir=/tmp/up,workdir=/tmp/work /tmp/o 2>/dev/null")
    api.sh("echo new >/tmp/o/g; rm /tmp/o/f")
    assert api.sh("ls /tmp/o; cat /tmp/up/g; ls /tmp/low") == "g\nnew\nf\n"
    api.sh("fusermount3 -u /tmp/o")


def bring(api, program, to):
    found = shutil.which(program) or (program if os.path.exists(program) else None)
    if not found:
        pytest.skip(f"{program} is not installed on this machine")
    with open(found, "rb") as f:
        assert api.put(to, f.read()).status in (200, 201)
    api.sh(f"chmod 755 {to}")


def test_rclone(api):
    bring(api, "rclone", "/usr/local/bin/rclone")
    api.sh("mkdir -p /tmp/src /tmp/m; echo one >/tmp/src/f; rclone --config /dev/null mount /tmp/src /tmp/m --daemon --vfs-cache-mode writes")
    assert api.sh("cat /tmp/m/f") == "one\n"
    api.sh("fusermount -u /tmp/m")
    assert mounts(api) == []


def test_sshfs(api):
    bring(api, "sshfs", "/usr/local/bin/sshfs")
    bring(api, "/usr/lib/openssh/sftp-server", "/usr/local/bin/sftp-server")
    if "not found" in api.run("ldd /usr/local/bin/sshfs")["stdout"]:
        for library in ("/lib/x86_64-linux-gnu/libglib-2.0.so.0",):
            bring(api, library, "/usr/local/lib/" + os.path.basename(library))
        api.sh("ldconfig")
    # A connection over pipes in the place of ssh.
    api.sh("printf '#!/bin/sh\\nexec /usr/local/bin/sftp-server\\n' >/tmp/ssh; chmod 755 /tmp/ssh; mkdir -p /tmp/src /tmp/m; echo far >/tmp/src/f")
    api.sh("sshfs -o ssh_command=/tmp/ssh host:/tmp/src /tmp/m")
    assert api.sh("cat /tmp/m/f; echo near >/tmp/m/g; cat /tmp/src/g") == "far\nnear\n"
    (line,) = mounts(api)
    assert "fuse.sshfs" in line
    api.sh("fusermount3 -u /tmp/m")


def test_sshfs_through_sshd(api):
    """A real connection: sshd of a user of the box, ssh, keys."""
    for program, place in (("sshfs", "/usr/local/bin/sshfs"), ("/usr/sbin/sshd", "/usr/local/sbin/sshd"),
                           ("/usr/lib/openssh/sftp-server", "/usr/local/bin/sftp-server")):
        bring(api, program, place)
    for library in api.run("ldd /usr/local/sbin/sshd /usr/local/bin/sshfs | sed -n 's/^\\t\\(\\S*\\) => not found.*/\\1/p' | sort -u")["stdout"].split():
        bring(api, f"/lib/x86_64-linux-gnu/{library}", f"/usr/local/lib/{library}")
    api.sh("ldconfig; rm -rf /home/far; useradd -m far; install -d -o far /home/far/.ssh /home/far/src; echo far > /home/far/src/f; "
           "su far -c 'ssh-keygen -q -t ed25519 -N \"\" -f ~/.ssh/id_ed25519; ssh-keygen -q -t ed25519 -N \"\" -f ~/host; "
           "cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys'")
    api.ok("/api/process/start", command="exec su far -c 'exec /usr/local/sbin/sshd -D -p 2222 -h /home/far/host -f /dev/null "
           "-o ListenAddress=127.0.0.1 -o UsePAM=no -o PidFile=none -o Subsystem=\"sftp /usr/local/bin/sftp-server\"'")
    api.sh("for i in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/2222) 2>/dev/null && break; sleep 0.1; done; install -d -o far /tmp/m; "
           "su far -c 'sshfs -p 2222 -o StrictHostKeyChecking=no,IdentityFile=/home/far/.ssh/id_ed25519 far@127.0.0.1:/home/far/src /tmp/m'")
    said = api.sh("su far -c 'cat /tmp/m/f; echo near >/tmp/m/g; seq 100000 >/tmp/m/n; cat ~/src/g; sha256sum <~/src/n; sha256sum </tmp/m/n'").split()
    assert said[:2] == ["far", "near"] and said[2] == said[4], said
    (line,) = mounts(api)
    assert "fuse.sshfs" in line and "user_id=0" not in line
    api.sh("su far -c 'fusermount3 -u /tmp/m'")
    assert mounts(api) == []


def test_the_device_alone_mounts_nothing(api):
    got = api.sh("""ls -l /dev/fuse | cut -c1-10; python3 -c '
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fd
print(c.mount(b"x", b"/mnt", b"fuse", 0, options), os.strerror(ctypes.get_errno()))
try:
    os.read(fd, 65536)
except OSError as e:
    print(e.strerror)'""")
    assert got.splitlines() == ["crw-rw-rw-", "-1 Operation not permitted", "Operation not permitted"]


def test_mounts_are_limited(api):
    fusebox.put(api)
    last = api.run("for i in $(seq 65); do mkdir -p /tmp/n/$i; python3 /tmp/fs.py ask /tmp/n/$i >/dev/null || break; done", timeoutMs=120000)
    assert "as many FUSE mounts as are allowed" in last["stderr"]
    assert len(mounts(api)) == LIMIT
    api.sh("for i in $(seq 64); do fusermount3 -u /tmp/n/$i; done")
    assert mounts(api) == []


def test_words_of_refusals(api):
    fusebox.put(api)
    api.sh("mkdir -p /tmp/m; mkfifo /tmp/fifo")
    for path, words in (("/", "nothing can be mounted there"), ("/proc", "nothing can be mounted"), ("/proc/1", "nothing can be mounted"),
                        ("/dev/shm", "nothing can be mounted"), ("/tmp/none", "No such file"), ("/tmp/fifo", "neither a directory nor a file")):
        assert words in api.run(f"python3 /tmp/fs.py ask {path}")["stderr"], path
    assert "unknown option suid" in api.run("python3 /tmp/fs.py ask /tmp/m suid")["stderr"]
    assert "_FUSE_COMMFD" in api.run("fusermount3 /tmp/m")["stderr"]
    assert "no FUSE file system" in api.run("fusermount3 -u /tmp/m")["stderr"]
    assert mounts(api) == []


def test_a_busy_mount_is_unmounted_only_lazily(api):
    archive(api)
    api.sh("squashfuse /tmp/a.sqsh /tmp/m")
    busy = api.run("cd /tmp/m; fusermount3 -u /tmp/m")
    assert busy["exitCode"] == 1 and "Device or resource busy" in busy["stderr"]
    api.sh("cd /tmp/m; fusermount3 -uz /tmp/m")
    assert mounts(api) == []


def test_fuse_can_be_turned_off_and_on(daemon, box, api):
    assert daemon.request("PUT", f"/v1/sandboxes/{box}", {"fuse": False}).status == 201
    archive(api)
    assert daemon.request("GET", f"/v1/sandboxes/{box}").json()["fuse"] is False
    refused = api.run("squashfuse /tmp/a.sqsh /tmp/m")
    assert refused["exitCode"] != 0 and "FUSE is turned off for this sandbox" in refused["stderr"]
    assert daemon.request("PUT", f"/v1/sandboxes/{box}", {"fuse": True}).status == 200
    api.sh("squashfuse /tmp/a.sqsh /tmp/m")
    assert daemon.request("PUT", f"/v1/sandboxes/{box}", {"fuse": False}).status == 200
    assert api.sh("cat /tmp/m/file") == "content\n"  # stays
    api.sh("fusermount3 -u /tmp/m")
    for wrong in (1, "no", {}):
        error = daemon.request("PUT", f"/v1/sandboxes/{box}", {"fuse": wrong})
        assert error.status == 400 and "fuse" in error.text


def test_mounts_outlive_the_warden_and_new_ones_work(own_daemon):
    api = Api(own_daemon, "w")
    archive(api)
    api.sh("squashfuse /tmp/a.sqsh /tmp/m; mkdir -p /tmp/m2")
    os.kill(own_daemon.warden_pid, 9)
    api.sh("cat /tmp/m/file")
    api.sh("squashfuse /tmp/a.sqsh /tmp/m2; cat /tmp/m2/file")
    api.sh("fusermount3 -u /tmp/m2; fusermount3 -u /tmp/m")
    own_daemon.destroy("w")


@pytest.mark.parametrize("mode", ("hang", "knot"))
def test_a_program_that_hangs_does_not_keep_its_box(daemon, api, box, mode):
    """In a knot the server waits for itself: SIGKILL does not end it before the connection is aborted."""
    fusebox.put(api)
    fusebox.start(api, mode, "/tmp/h")
    api.ok("/api/process/start", command="ls /tmp/h")
    reply = daemon.request("DELETE", f"/v1/sandboxes/{box}")
    assert reply.status in (200, 204), reply


def test_a_mount_that_hangs_harms_no_other_mount(api):
    fusebox.put(api)
    archive(api)
    fusebox.start(api, "hang", "/tmp/h")
    inside = threading.Thread(target=lambda: api.run("mkdir /tmp/h/x; squashfuse /tmp/a.sqsh /tmp/h/x"))
    inside.start()
    wait_for(lambda: "mkdir" in api.sh("cat /proc/[0-9]*/comm"), "mkdir waits in the mount")
    api.sh("squashfuse /tmp/a.sqsh /tmp/m; cat /tmp/m/file; fusermount3 -u /tmp/m")
    api.sh("fusermount3 -uz /tmp/h; pkill -9 -f 'fs.py hang'")
    inside.join(30)
    assert not inside.is_alive()


def test_a_box_with_mounts_sleeps_and_wakes(daemon, box, api):
    archive(api)
    api.sh("squashfuse /tmp/a.sqsh /tmp/m")
    assert daemon.request("POST", f"/v1/sandboxes/{box}/sleep").status == 200
    assert api.sh("cat /tmp/m/file") == "content\n"


def test_a_sleep_that_a_mount_prevents_is_undone_and_reported(daemon, box, api):
    """The client waits for its server, without a signal that could end the wait: a frozen server never answers it."""
    fusebox.put(api)
    fusebox.start(api, "hang", "/tmp/h")
    api.ok("/api/process/start", command="exec ls /tmp/h")
    wait_for(lambda: api.run("cat /proc/$(pgrep -x ls)/wchan")["stdout"] == "request_wait_answer", "ls waits in the mount")
    reply = daemon.request("POST", f"/v1/sandboxes/{box}/sleep")
    assert reply.status == 409 and reply.json()["code"] == "INVALID_STATE" and "200 ms" in reply.text, reply
    assert api.sh("echo awake") == "awake\n"
