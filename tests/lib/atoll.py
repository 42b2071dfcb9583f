"""A private Atoll for tests: its own directories and port, started with `atoll up`, cleaned up whatever happens.

    with Instance() as atoll:
        atoll.request("PUT", "/v1/sandboxes/a")
        atoll.execute("a", "echo hi")["stdout"]

Standard library only. Programs come from $ATOLL_BIN (default: build/ of this checkout), images from $ATOLL_IMAGES.
"""

import atexit
import contextlib
import ctypes
import http.client
import inspect
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import leaks
from wsclient import WebSocket

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("ATOLL_BIN", ROOT / "build")).resolve()
IMAGES = Path(os.environ.get("ATOLL_IMAGES", os.environ.get("ATOLL_DATA", "/var/lib/atoll") + "/images"))
SANITIZED = bool(os.environ.get("ATOLL_SANITIZED"))  # tools/asan: programs are neither static nor small
DEADLINE = 60  # seconds; for things that take milliseconds when they work
POOL_ROOM = 3  # GiB: a pool takes 2 from its beginning on
LONG_WAIT = 2.0  # seconds; a wait that takes longer is written down

NOT_OURS = 'other files share this daemon: a file that stops or kills it says OWN_DAEMON = "why"'

_running = set()


def wait_for(condition, what=None, seconds=DEADLINE):
    """Asks again until the answer is true, for state that has no event to wait for. Returns the answer. Without `what` a
    failure shows the source of the condition."""
    began = time.monotonic()
    while True:
        answer = condition()
        waited = time.monotonic() - began
        if answer:
            _note_wait(waited, what)
            return answer
        if waited > seconds:
            raise AssertionError(f"not within {seconds} s: {what or inspect.getsource(condition).strip()}")
        time.sleep(0.01)


def _note_wait(seconds, what):
    """tests/run writes long waits into build/durations.json: an event that takes milliseconds when it works may take DEADLINE and pass."""
    if seconds < LONG_WAIT or "ATOLL_WAITS" not in os.environ:
        return
    if not what:
        caller = sys._getframe(2)  # pylint: disable=protected-access
        what = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
    line = {"seconds": round(seconds, 1), "test": _current_test(), "what": what}
    with open(os.environ["ATOLL_WAITS"], "a", encoding="utf-8") as waits:
        waits.write(json.dumps(line) + "\n")


def room(directory):
    """The GiB that are free."""
    return shutil.disk_usage(directory).free / (1 << 30)


def still(look, what, seconds=DEADLINE):
    """Returns the value of look() after it has stayed the same for a while. Use it for writers that wait for a reader: no event
    reports that state. On a slow machine the value may be too small, never too large."""
    seen = []

    def stands_still():
        seen.append(look())
        time.sleep(0.1)
        return len(seen) > 4 and len(set(seen[-5:])) == 1 and seen[-1]

    return wait_for(stands_still, f"{what} stands still", seconds)


def seed(default):
    """The seed of a test with random steps: $ATOLL_SEED, else the default. A failure prints it."""
    number = int(os.environ.get("ATOLL_SEED", default))
    print(f"ATOLL_SEED={number} repeats this")
    return number


def _state(stat):
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def alive(pid):
    """Whether any thread of the process runs. Its descriptors stay open until the last thread has ended."""
    try:
        return any(_state(task / "stat") not in "ZX" for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False


def open_files(pid):
    """What the process has open, by name. A descriptor that is closed meanwhile is left out."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(fd))
    return found


def _current_test():
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]


def _count_start():
    """tests/run says how many daemons a run has started, and for which files."""
    if "ATOLL_STARTS" in os.environ:
        with open(os.environ["ATOLL_STARTS"], "a", encoding="utf-8") as starts:
            starts.write((_current_test().split("::")[0] or "shared") + "\n")


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def run_as_stranger(program, *arguments, **options):
    """Runs a program as a user of no group. It starts from a descriptor: the user may not be able to walk to it."""
    with open(program, "rb") as f:
        return subprocess.run([program, *arguments], executable=f"/proc/self/fd/{f.fileno()}", pass_fds=[f.fileno()], user=65534, group=65534,
                              extra_groups=[], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DEADLINE, **options)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def box_path(box, rest=""):
    return "/v1/sandboxes/" + urllib.parse.quote(box, safe="") + rest


class Instance:
    def __init__(self, extra_env=None, prefix=(), programs=BIN):
        """`prefix`: a command that executes `atoll up`, in other namespaces for instance. `programs`: their directory."""
        self.bin = programs
        self.prefix = [str(word) for word in prefix]
        self.base = Path(tempfile.mkdtemp(prefix="at-", dir="/tmp"))
        self.base.chmod(0o755)  # the daemon's user walks through it
        self.run, self.data = self.base / "r", self.base / "d"
        self.log_path, self.log_from = self.base / "log", 0
        self.ours = True
        self.up = None
        self.cgroup = None
        self.address = None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ATOLL_", "LISTEN_"))}
        self.env.update(ATOLL_RUN=str(self.run), ATOLL_DATA=str(self.data), ATOLL_IMAGES=str(IMAGES),
                        ATOLL_LISTEN="127.0.0.1:0", ATOLL_POOL_SIZE="6G", ATOLL_BACKUP_EVERY_MIN="1s", NO_COLOR="1")
        self.env.update(extra_env or {})
        _running.add(self)

    # ---- an instance that another process started (shared.py)

    def note(self):
        """What another process needs to use this instance."""
        return {"base": str(self.base), "address": self.address, "socket": self.socket, "token": self.token, "cgroup": self.cgroup, "env": self.env}

    @classmethod
    def attached(cls, note):
        """An instance by its note. It cannot be stopped or killed here."""
        self = cls.__new__(cls)
        self.bin, self.prefix, self.base, self.up = BIN, [], Path(note["base"]), None
        self.run, self.data, self.log_path = self.base / "r", self.base / "d", self.base / "log"
        self.cgroup, self.address, self.socket, self.token = note["cgroup"], note["address"], note["socket"], note["token"]
        self.env, self.ours = note["env"], False
        self.log_from = self.log_path.stat().st_size
        return self

    # ---- life

    def start(self):
        """Starts `atoll up` and waits until it says that it serves."""
        assert self.ours, NOT_OURS
        assert self.env.get("ATOLL_POOL") == "plain" or room(self.base) >= POOL_ROOM, \
            f"a pool needs {POOL_ROOM} GiB in {self.base.parent} for a moment, {room(self.base):.1f} are free"
        if self.address:  # the address stays the same over a restart of everything
            self.env["ATOLL_LISTEN"] = self.address
        _count_start()
        with open(self.log_path, "ab") as log:
            self.up = subprocess.Popen([*self.prefix, self.bin / "atoll", "up", "--json"], env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                                       preexec_fn=_die_with_parent)
        if not select.select([self.up.stdout], [], [], DEADLINE)[0]:
            self.kill_up()
            raise AssertionError("atoll up is not ready:\n" + self.log())
        line = self.up.stdout.readline()
        if not line:
            self.up.wait()
            raise AssertionError(f"atoll up ended with {self.up.returncode}:\n" + self.log())
        ready = json.loads(line)
        self.address = ready["url"].split("://")[1]
        self.socket = ready["socket"]
        self.token = Path(ready["tokenFile"]).read_text().strip()
        self.cgroup = self.cgroup or wait_for(lambda: leaks.cgroup_name(ready["wardenPid"]), "a box that is kept ready")
        return self

    def interrupt(self, signo=signal.SIGINT):
        """Stops `atoll up` as Ctrl-C does and returns its exit code."""
        assert self.ours, NOT_OURS
        self.up.send_signal(signo)
        return self.up.wait(DEADLINE)

    def kill_up(self):
        self.up.kill()
        self.up.wait()

    def close(self):
        """Ends everything and returns the remains on the host, as a list of sentences."""
        if self not in _running:
            return []
        _running.discard(self)
        left = []
        try:
            left += self._destroy_boxes()
            if self.up and self.up.poll() is None and self.interrupt() != 0:
                left.append(f"atoll up ended with {self.up.returncode}")
        except Exception as e:  # pylint: disable=broad-except
            left.append(f"stop: {e!r}")
        finally:
            if self.up and self.up.poll() is None:
                self.kill_up()
        left += self._await_nothing_left()
        self._sweep()
        return left

    def _destroy_boxes(self):
        if not self.up:
            return []
        if self.up.poll() is not None:
            self.start()  # boxes outlive it: only a new one can destroy them
        self.await_warden()
        for box in self.boxes():
            reply = self.request("DELETE", box_path(box))
            if reply.status >= 300:
                return [f"destroying {box}: {reply}"]
        return []

    def _await_nothing_left(self):
        end = time.monotonic() + DEADLINE
        left = leaks.find(self.cgroup, self.base)
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = leaks.find(self.cgroup, self.base)
        return left

    def _sweep(self):
        """The last resort, after a failure has been noted: by force."""
        for pid, _ in leaks.processes(self.cgroup) if self.cgroup else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            dirs = leaks.cgroups(self.cgroup) if self.cgroup else []
            for d in reversed(dirs):
                with contextlib.suppress(OSError):
                    d.rmdir()
            if not dirs:
                break
            time.sleep(0.02)
        for line in leaks.mounts(self.base):
            subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        left = self.close()
        if not exc[0]:
            assert not left, "left behind:\n" + "\n".join(left)

    def log(self):
        """The end of it."""
        return self._log()[-6000:]

    def _log(self):
        """What was logged since this object has the instance."""
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            log.seek(self.log_from)
            return log.read()

    def logged(self, text):
        """How often it says this, since this object has the instance."""
        return self._log().count(text)

    def zygotes_started(self):
        """From the beginning on, also of an instance that others had before."""
        return self.log_path.read_text(encoding="utf-8", errors="replace").count('msg="zygote ready"')

    def await_zygote(self, after=0):
        """Until contexts come from a zygote, another one than the first `after`."""
        wait_for(lambda: self.zygotes_started() > after, "a zygote", 2 * DEADLINE)

    # ---- processes

    def _pids(self):
        words = (self.run / "up.lock").read_text().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    @property
    def daemon_pid(self):
        return self._pids()["atolld"]

    @property
    def warden_pid(self):
        return self._pids()["warden"]

    @property
    def layers(self):
        """The directory of the boxes' files: in the pool, which the warden alone has mounted, or plain."""
        pool = Path(f"/proc/{self.warden_pid}/root/pool/boxes")
        return pool if pool.is_dir() else self.data / "boxes"

    def _kill_and_await(self, name):
        assert self.ours, NOT_OURS
        old = self._pids()[name]
        os.kill(old, signal.SIGKILL)
        return wait_for(lambda: self._pids().get(name) not in (0, old, None) and self._pids()[name],
                        f"a new {name} after {old}")

    def kill_daemon(self):
        """kill -9; returns when its successor runs. A request sent then waits until it serves."""
        return self._kill_and_await("atolld")

    def kill_warden(self):
        return self._kill_and_await("warden")

    def kill_gate(self):
        return self._kill_and_await("gate")

    def await_warden(self):
        """Until the daemon has its warden, as after a kill of either."""
        wait_for(lambda: self.request("GET", "/v1/health").json()["warden"], "the daemon has found its warden")

    # ---- talking to it

    def connect(self, unix=False, timeout=DEADLINE):
        """A raw connection, for bytes that no client would send."""
        if unix:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(self.socket)
            return s
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout)

    def raw(self, data, unix=False, timeout=DEADLINE):
        """Sends bytes, shuts down nothing, returns everything until the peer closes."""
        with self.connect(unix, timeout) as s:
            s.sendall(data)
            out = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := s.recv(65536):
                    out += chunk
            return out

    def request(self, method, path, body=None, headers=None, unix=True, token=True, timeout=DEADLINE):
        """One request on a connection of its own. A dict or list as body is sent as JSON. `unix` may be the path of another socket."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if token and not unix:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if unix:
            c = _UnixConnection(self.socket if unix is True else unix, timeout)
        else:
            c = http.client.HTTPConnection(*self.address.rsplit(":", 1), timeout=timeout)
        with contextlib.closing(c):
            c.request(method, path, body, headers)
            r = c.getresponse()
            return Reply(r.status, r.headers, r.read())

    def execute(self, box, command, **fields):
        """POST /api/execute; the box is made when it is not there. Returns the result object."""
        r = self.request("POST", box_path(box, "/api/execute"), {"command": command, **fields})
        assert r.status == 200, r
        return r.json()

    def execute_alone(self, box, command, **fields):
        """The same outside of any session: it neither waits for other commands nor ends anything with `exit`."""
        return self.execute(box, command, sessionId="__DISABLE_SESSION__", **fields)

    def boxes(self):
        r = self.request("GET", "/v1/sandboxes")
        assert r.status == 200, r
        return [b["id"] for b in r.json()["sandboxes"]]

    def inspect(self, box):
        r = self.request("GET", box_path(box))
        return r.json() if r.status == 200 else None

    def destroy(self, box):
        return self.request("DELETE", box_path(box))

    def websocket(self, path, unix=True, headers=None):
        headers = dict(headers or {})
        if not unix:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        return WebSocket(self.connect(unix), path, headers)

    # ---- the command line

    def cli(self, *args, input=b"", env=None, timeout=60):
        """Runs `atoll args`; stdout and stderr are bytes."""
        return subprocess.run([self.bin / "atoll", *args], input=input, capture_output=True, env={**self.env, **(env or {})},
                              timeout=timeout, check=False)

    def cli_start(self, *args, env=None, **options):
        """The same, running: a Popen with pipes unless told otherwise."""
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen([self.bin / "atoll", *args], env={**self.env, **(env or {})}, **options)


@atexit.register
def close_all(owner=os.getpid()):
    if os.getpid() != owner:  # a fork of ours that could not become another program
        return
    for instance in list(_running):
        instance.close()
