"""A Debian 12 machine under QEMU, without a screen: boots what make-guest made, and runs commands in it through guestd.

Where /dev/kvm cannot be used the emulation is 10 to 20 times slower than the machine. The disk is a copy on write that QEMU
keeps in an unlinked file: it outlives reboots of the guest and ends with QEMU. QEMU ends with the process that started it,
unless `detach` is set."""
import ctypes
import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("ATOLL_GUEST") or "/var/cache/atoll/guest")
KERNELS = ["6.1", "6.12"]
NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
CHUNK = 32768
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None)


class Failure(Exception):
    """A message for the user."""


def what_is_missing():
    """A sentence, or None."""
    if os.uname().machine != "x86_64":
        return "the guests are machines of type x86_64"
    if os.geteuid() != 0:
        return "root is needed to make the disks of the guests"
    packages = sorted(package for program, package in NEEDED.items() if not shutil.which(program))
    return f"not installed: {' '.join(packages)}" if packages else None


def make(image):
    """Makes the disk and the kernels, where they are missing or older than what they are made of."""
    subprocess.run([HERE / "make-guest", "--image", image], check=True, env={**os.environ, "ATOLL_GUEST": str(CACHE)})


def remove_rests():
    """State of machines whose tests were killed: QEMU has ended with them."""
    for state in CACHE.glob("run-*"):
        pid = state.name.rpartition("-")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(state, ignore_errors=True)


class Machine:
    def __init__(self, state):
        self.state = Path(state)
        self.control = self.state / "control"
        self.monitor = self.state / "monitor"
        self.console = self.state / "console.log"
        self.pid_file = self.state / "pid"
        self.process = None

    def pid(self):
        """Of its QEMU, 0 when there is none."""
        try:
            pid = int(self.pid_file.read_text(encoding="ascii"))
            return pid if str(self.control).encode() in Path(f"/proc/{pid}/cmdline").read_bytes() else 0
        except (OSError, ValueError):
            return 0

    def command(self, kernel, options):
        # mitigations=off: under emulation they only cost time.
        line = "root=/dev/vda rw console=ttyS0 panic=-1 mitigations=off"
        command = ["qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi",
                   "-smp", "2", "-m", "3072", "-nodefaults", "-no-user-config", "-display", "none",
                   "-kernel", CACHE / f"vmlinuz-{kernel}", "-initrd", CACHE / f"initrd-{kernel}", "-append", line,
                   "-drive", f"file={CACHE}/root.img,format=raw,if=none,id=disk,cache=unsafe,snapshot=on",
                   "-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
                   "-chardev", f"socket,id=control,path={self.control},server=on,wait=off",
                   "-device", "virtserialport,chardev=control,name=atoll.guest",
                   "-qmp", f"unix:{self.monitor},server=on,wait=off", "-serial", f"file:{self.console}"]
        return [str(word) for word in [*command, *options]]

    def boot(self, kernel, options=(), detach=False):
        if not (CACHE / "made").exists():
            raise Failure(f"there is no machine in {CACHE}: make it with make-guest")
        if self.pid():
            raise Failure(f"it runs already ({self.state}); stop it first")
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "qemu.log").open("wb") as log:
            self.process = process = subprocess.Popen(
                self.command(kernel, options), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.state)},
                preexec_fn=None if detach else lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.pid_file.write_text(str(process.pid), encoding="ascii")
        while process.poll() is None and not self.pid():
            time.sleep(0.05)  # the kernel shows the command line a moment after exec

    def monitor_do(self, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(str(self.monitor))
            with s.makefile("rw", encoding="utf-8") as f:
                for one in ("qmp_capabilities", command):
                    f.write(json.dumps({"execute": one}) + "\n")
                    f.flush()
                    while not {"return", "error"} & json.loads(f.readline() or '{"error": 0}').keys():
                        pass

    def kill(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
            if self.process:
                self.process.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.state, ignore_errors=True)

    def wait(self, limit, other_than=""):
        """Waits until it answers, with another boot id than the given one. Returns the boot id."""
        end = time.monotonic() + limit
        while True:
            if not self.pid():
                raise Failure(f"QEMU ended: {(self.state / 'qemu.log').read_text(errors='replace')}")
            try:
                status, boot_id, _ = self.run(["cat", "/proc/sys/kernel/random/boot_id"], timeout=60, patience=5)
                if status == 0 and boot_id != other_than:
                    return boot_id
            except (OSError, EOFError):
                pass
            if time.monotonic() > end:
                raise Failure(f"it did not answer within {limit} s; its console ends in:\n{self.last_words()}")
            time.sleep(0.3)

    def last_words(self):
        return self.console.read_text(errors="replace")[-2000:] if self.console.exists() else ""

    def run(self, argv, timeout=120, stream=None, patience=60):
        """Runs a command. Its status (124: the time limit), standard output and standard error."""
        out, err = io.BytesIO(), io.BytesIO()
        with Channel(self, patience) as c:
            status = c.execute(argv, timeout, out, err, stream)
        return status, out.getvalue().decode(errors="replace"), err.getvalue().decode(errors="replace")

    def push(self, files, to, timeout=300):
        command = ["tar", "-c", "--owner=0", "--group=0", "--numeric-owner", "-h"]
        for path in (Path(f).absolute() for f in files):
            command += ["-C", str(path.parent), path.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
            status, _, err = self.run(["sh", "-c", 'mkdir -p "$1" && tar -x -C "$1"', "sh", str(to)], timeout, tar.stdout)
        if status or tar.returncode:
            raise Failure(f"could not copy to {to}: {err}")

    def ask_to(self, verb):
        """Asks systemd to end the system, a moment after the answer: guestd is among the first that it stops."""
        self.run(["sh", "-c", f"(sleep 0.3; exec systemctl {verb}) >/dev/null 2>&1 &"])

    def reboot(self, limit, hard=False):
        before = self.wait(limit)
        if hard:
            self.monitor_do("system_reset")
        else:
            self.ask_to("reboot")
        self.wait(limit, before)


class Channel:
    """The control channel of a machine, see guestd."""

    def __init__(self, machine, limit):
        if not machine.pid():
            raise Failure("it does not run: start it first")
        self.socket = socket.socket(socket.AF_UNIX)
        self.rest = b""
        try:
            self.socket.connect(str(machine.control))
            self.sync(b"\nSYNC " + os.urandom(8).hex().encode() + b"\n", time.monotonic() + limit)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def sync(self, line, end):
        """Says the line until it comes back; what comes before it is for an earlier client. An answer that comes twice
        would be in the way later, so each try has time enough."""
        self.socket.settimeout(5)
        self.socket.sendall(line)
        while line not in self.rest:
            try:
                self.more()
            except TimeoutError:
                if time.monotonic() > end:
                    raise
                self.socket.sendall(line)
        self.rest = self.rest.rpartition(line)[2]

    def more(self):
        data = self.socket.recv(CHUNK)
        if not data:
            raise EOFError("the machine went away")
        self.rest += data

    def take(self, n):
        while len(self.rest) < n:
            self.more()
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def send(self, kind, payload=b""):
        self.socket.sendall(kind + struct.pack(">I", len(payload)) + payload)

    def feed(self, stream):
        try:
            while stream and (data := stream.read(CHUNK)):
                self.send(b"I", data)
            self.send(b"E")
        except OSError:
            pass  # the command has ended, or the machine

    def execute(self, argv, timeout, out, err, stream=None):
        """Runs a command. Returns its status: a number over 128 for a signal, 124 for the time limit."""
        self.socket.settimeout(timeout + 60)
        self.send(b"X", json.dumps({"argv": argv, "timeout": timeout}).encode())
        threading.Thread(target=self.feed, args=(stream,), daemon=True).start()
        while True:
            kind, n = struct.unpack(">cI", self.take(5))
            data = self.take(n)
            if kind == b"R":
                result = json.loads(data)
                status = result["status"]
                return 124 if result["timed_out"] else status if status >= 0 else 128 - status
            to = out if kind == b"O" else err
            to.write(data)
            to.flush()
