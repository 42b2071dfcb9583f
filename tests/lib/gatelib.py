"""A world for tests of the gate alone: servers in a network namespace of their own, a gate in another, boxes in others still.
The test plays atolld; the helper gate-box plays the warden. Nothing of it is seen on the host's network.

    servers (198.51.100.0/24, 2001:db8:1::/64)  ── veth ──  gate (198.51.100.1)        box: no interface but lo
"""

import fcntl
import itertools
import json
import os
import pathlib
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("ATOLL_BUILD", "build")
WEB, WEB2, OTHER, DNS = "198.51.100.10", "198.51.100.20", "198.51.100.30", "198.51.100.53"
GATE = "198.51.100.1"
_numbers = itertools.count(1)


def run(*argv, **kw):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **kw)


def memory_of(pid):
    """All readable memory of a process."""
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, mode = line.split()[:2]
            start, end = (int(n, 16) for n in span.split("-"))
            if mode[0] != "r" or "[v" in line:
                continue
            try:
                mem.seek(start)
                pieces.append(mem.read(end - start))
            except (OSError, ValueError, OverflowError):
                pass
    return b"".join(pieces)


def helper(name):
    for variant in ("static", "host", "asan/host"):
        path = BUILD / variant / "tests/helpers" / name
        if path.exists():
            return str(path)
    raise FileNotFoundError(name)


class Namespace:
    def __init__(self, name):
        self.name = f"atg{os.getpid()}{name}"
        run("ip", "netns", "add", self.name)
        self.path = f"/run/netns/{self.name}"

    def ip(self, *argv):
        run("ip", "-n", self.name, *argv)

    def argv(self, *argv, binds=()):
        """A command in here, with files of its own in the place of others."""
        mounts = "".join(f"mount --bind {shlex.quote(str(a))} {b} && " for a, b in binds)
        return ["nsenter", f"--net={self.path}", "unshare", "-m", "sh", "-c", mounts + 'exec "$@"', "-", *map(str, argv)]

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


class World:
    """Servers: nginx with TLS and without, dnsmasq, and whatever a test adds."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="atoll-gate-")
        self.tmp = pathlib.Path(self.dir.name)
        self.processes = []
        self.spaces = []
        self.servers, self.gate_space = self.space("w"), self.space("g")
        self.wire()
        self.resolv = self.file("resolv.conf", f"nameserver {DNS}\noptions timeout:15 attempts:2\n")
        self.box_resolv = self.file("box-resolv.conf", "nameserver 192.0.0.1\noptions timeout:30\n")
        self.hosts = self.file("hosts", "127.0.0.1 localhost\n198.51.100.10 from-hosts.example\n")
        self.nsswitch = self.file("nsswitch.conf", "hosts: files dns\n")
        self.bpf = self.tmp / "bpf"
        self.bpf.mkdir()
        run("mount", "-t", "bpf", "bpf", str(self.bpf))
        self.start_dns()
        self.start_web()

    def space(self, name):
        space = Namespace(name)
        self.spaces.append(space)
        return space

    def file(self, name, text):
        path = self.tmp / name
        path.write_text(text)
        return path

    def wire(self):
        w, g = self.servers, self.gate_space
        run("ip", "link", "add", "s0", "netns", w.name, "type", "veth", "peer", "name", "g0", "netns", g.name)
        for space, link, address, six in ((w, "s0", "198.51.100.2/24", "2001:db8:1::2/64"), (g, "g0", GATE + "/24", "2001:db8:1::1/64")):
            space.ip("link", "set", "lo", "up")
            space.ip("addr", "add", address, "dev", link)
            space.ip("-6", "addr", "add", six, "dev", link, "nodad")
            space.ip("link", "set", link, "up")
        for address in (WEB, WEB2, OTHER, DNS):
            w.ip("addr", "add", address + "/24", "dev", "s0")
        w.ip("-6", "addr", "add", "2001:db8:1::10/64", "dev", "s0", "nodad")
        g.ip("route", "add", "default", "via", "198.51.100.2")
        g.ip("-6", "route", "add", "default", "via", "2001:db8:1::2")

    def start(self, space, *argv, binds=(), **kw):
        process = subprocess.Popen(space.argv(*argv, binds=binds), **kw)
        self.processes.append(process)
        return process

    def start_dns(self):
        records = {"web.example": WEB, "www.web.example": WEB, "two.example": WEB2, "other.example": OTHER, "inside.example": "10.0.0.7",
                   "gate.example": GATE, "meta.example": "169.254.169.254", "dead.example": "198.51.100.99"}
        conf = "no-resolv\nlocal=/example/\nno-hosts\nkeep-in-foreground\nlog-queries\nlog-facility=-\nuser=root\nlisten-address=" + DNS + "\nbind-interfaces\n"
        conf += "".join(f"host-record={n},{a}\n" for n, a in records.items())
        conf += "host-record=six.example,198.51.100.99,2001:db8:1::10\ncname=alias.example,web.example\n"
        conf += "".join('txt-record=big.example,"%03d%s"\n' % (i, "x" * 240) for i in range(40))  # 10 KB
        conf += 'txt-record=text.example,"hello there"\nmx-host=web.example,mail.web.example,10\nsrv-host=_x._tcp.web.example,web.example,80\n'
        conf += "ptr-record=10.100.51.198.in-addr.arpa,web.example\n"
        self.dns_log = self.tmp / "dns.log"
        self.dns = self.start(self.servers, "dnsmasq", "-C", self.file("dnsmasq.conf", conf),
                              stdout=self.dns_log.open("w"), stderr=subprocess.STDOUT)
        self.wait(lambda: self.ask_dns("web.example") == WEB, "dnsmasq")

    def ask_dns(self, name):
        out = subprocess.run(self.servers.argv("dig", "+short", "+time=1", "+tries=1", f"@{DNS}", name), capture_output=True, text=True)
        return out.stdout.strip()

    def start_web(self):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=web.example", "-addext", "subjectAltName=DNS:web.example,DNS:www.web.example,DNS:two.example,DNS:six.example",
            "-keyout", str(self.tmp / "key.pem"), "-out", str(self.tmp / "cert.pem"))
        site = self.tmp / "site"
        site.mkdir()
        (site / "big").write_bytes(os.urandom(8 << 20))
        conf = f"""
daemon off; master_process off; pid {self.tmp}/nginx.pid; error_log {self.tmp}/nginx.err; events {{ worker_connections 4096; }}
http {{ access_log {self.tmp}/nginx.log; client_max_body_size 0; client_body_temp_path {self.tmp}/body; keepalive_requests 100000;
  proxy_temp_path {self.tmp}/p; fastcgi_temp_path {self.tmp}/f; uwsgi_temp_path {self.tmp}/u; scgi_temp_path {self.tmp}/s;
  server {{ listen 80; listen [::]:80; listen 8080; listen 443 ssl; listen [::]:443 ssl; server_name _;
    ssl_certificate {self.tmp}/cert.pem; ssl_certificate_key {self.tmp}/key.pem;
    location / {{ default_type text/plain; return 200 "$scheme $server_addr $host\\n"; }}
    location /big {{ root {site}; }} }} }}"""
        self.web = self.start(self.servers, "nginx", "-c", self.file("nginx.conf", conf), stderr=subprocess.DEVNULL)
        self.wait(lambda: self.connects(self.servers, WEB, 443), "nginx")

    def connects(self, space, address, port):
        return subprocess.run(space.argv("bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"), capture_output=True).returncode == 0

    def wait(self, what, name, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, f"{name} did not start"
            time.sleep(0.02)

    def serve(self, script, port, address=OTHER):
        """A Python server in the servers' namespace; `script` gets a connected socket `s`."""
        code = ("import socket,sys,threading\nl=socket.create_server(('%s',%d))\nprint('up',flush=True)\n"
                "def one(s):\n%s\nwhile True:\n  s,_=l.accept()\n  threading.Thread(target=one,args=(s,),daemon=True).start()\n"
                % (address, port, "".join("  " + line + "\n" for line in script.strip().split("\n"))))
        process = self.start(self.servers, "/usr/bin/python3", "-c", code, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "up\n"

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        for space in self.spaces:
            space.close()
        subprocess.run(["umount", str(self.bpf)], check=False)
        self.dir.cleanup()


class Warden:
    """One connection to the gate, over which the sockets of all boxes are passed on. Boxes are asked again when the gate is new."""

    def __init__(self, gate):
        self.gate, self.path = gate, gate.world.tmp / f"boxes{gate.number}.sock"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen(64)
        self.boxes, self.out = [], None
        threading.Thread(target=self.take, daemon=True).start()

    def connect(self):
        if self.out:
            self.out.close()
        self.out = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.out.connect(str(self.gate.warden_path))
        boxes, self.boxes = self.boxes, []
        for box in boxes:
            box.close()

    def take(self):
        while True:
            try:
                box, _ = self.listener.accept()
            except OSError:
                return
            self.boxes.append(box)
            for _ in range(2):  # the ring of refused connections, and the box
                record, fds, _, _ = socket.recv_fds(box, 4096, 5)
                socket.send_fds(self.out, [record], fds)
                for fd in fds:
                    os.close(fd)
            box.send(b"ok")

    def close(self):
        # Closing alone would leave the thread in accept(), on a number that another listener gets.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.out.close()


class Gate:
    """The program, with its two sockets, and the daemon's end of one."""

    def __init__(self, world, files=None, env=None):
        """`files`: how many descriptors it may have."""
        self.world, self.files, self.env = world, files, env or {}
        self.number = next(_numbers)
        self.warden_path, self.daemon_path = world.tmp / f"gate-w{self.number}.sock", world.tmp / f"gate{self.number}.sock"
        self.listeners = []
        for path, kind in ((self.warden_path, socket.SOCK_SEQPACKET), (self.daemon_path, socket.SOCK_STREAM)):
            listener = socket.socket(socket.AF_UNIX, kind)
            listener.bind(str(path))
            listener.listen(16)
            self.listeners.append(listener)
        self.records, self.lines, self.changed = [], [], threading.Condition()
        self.log_path = world.tmp / f"gate{self.number}.log"
        self.data = world.tmp / f"data{self.number}"
        (self.data / "gate").mkdir(parents=True)
        world.tmp.chmod(0o711)
        os.chown(self.data / "gate", 65534, 65534)
        self.boxes = []
        self.process = None
        self.warden = Warden(self)
        self.start()

    def start(self):
        # The copies are above the numbers that they become: a dup2 must not close what the next one copies.
        copies = [fcntl.fcntl(listener, fcntl.F_DUPFD_CLOEXEC, 5) for listener in self.listeners]

        def before():
            for number, copy in enumerate(copies, 3):
                os.dup2(copy, number)
        # From a descriptor, because its user may not be able to walk to it.
        with open(BUILD / "atoll-gate", "rb") as f:
            program = fcntl.fcntl(f.fileno(), fcntl.F_DUPFD, 5)
        argv = self.world.gate_space.argv(
            *(["prlimit", f"--nofile={self.files}"] if self.files else []),
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", f"/proc/self/fd/{program}",
            binds=((self.world.resolv, "/etc/resolv.conf"), (self.world.hosts, "/etc/hosts")))
        env = {**os.environ, "ATOLL_USER": "0", "ATOLL_LOG_LEVEL": "debug", "ATOLL_DATA": str(self.data), "ATOLL_RUN": str(self.data),
               "SSL_CERT_FILE": str(self.world.tmp / "cert.pem"), **self.env}
        self.process = subprocess.Popen(argv, close_fds=False, preexec_fn=before, stderr=self.log_path.open("a"), env=env)
        for copy in (*copies, program):
            os.close(copy)
        self.connect()
        self.warden.connect()

    def connect(self):
        self.daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.daemon.settimeout(60)
        self.daemon.connect(str(self.daemon_path))
        self.await_word()
        self.reader = self.daemon.makefile("r")
        hello = json.loads(self.reader.readline())
        while hello["op"] != "hello":
            self.records.append(hello)
            hello = json.loads(self.reader.readline())
        self.pid = hello["pid"]
        self.ca = self.world.file(f"ca{self.number}.pem", hello["ca"])
        self.daemon.settimeout(None)
        threading.Thread(target=self.read, args=(self.reader,), daemon=True).start()

    def await_word(self):
        """The listening socket is the test's: a gate that cannot start closes nothing, but it says why."""
        end = time.monotonic() + 60
        while not select.select([self.daemon], [], [], 0.2)[0]:
            left = self.process.poll()
            where = "" if left is not None else pathlib.Path(f"/proc/{self.process.pid}/stack").read_text(encoding="ascii")
            assert left is None and time.monotonic() < end, f"the gate says nothing; it ended with {left}\n{self.log()}{where}"

    def read(self, reader):
        try:
            for line in reader:
                with self.changed:
                    self.records.append(json.loads(line))
                    self.changed.notify_all()
        except (OSError, ValueError):
            pass

    def say(self, **line):
        self.daemon.sendall(json.dumps(line).encode() + b"\n")

    def tell(self, **line):
        """Says a line and waits until the gate has acted on it."""
        number = next(_numbers)
        self.say(seq=number, **line)
        self.record(op="done", seq=number)

    def policy(self, box, **network):
        self.tell(op="policy", id=box if isinstance(box, str) else box.id, **network)

    def record(self, seconds=60, **want):
        """The first log record that has these members; taken out of the list."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                for record in self.records:
                    if all(record.get(k) == v for k, v in want.items()):
                        self.records.remove(record)
                        return record
                assert self.changed.wait(end - time.monotonic()) or time.monotonic() < end, f"no record {want} in {self.records}\n{self.log()}"

    def log(self):
        return self.log_path.read_text()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def box(self, *flags, policy=None, name=None):
        box = Box(self, flags, name)
        self.boxes.append(box)
        if policy is not None:
            self.policy(box, **policy)
        return box

    def close(self):
        for box in self.boxes:
            box.close()
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        status = self.process.wait(60)
        self.daemon.close()
        self.warden.close()
        for listener in self.listeners:
            listener.close()
        assert status == 0, f"the gate ended with {status}:\n{self.log()}"


class Box:
    """A network namespace that is steered, and commands in it."""

    def __init__(self, gate, flags, name=None):
        self.gate, self.world = gate, gate.world
        self.number = next(_numbers)
        self.id = name or f"box-{self.number}"
        self.space = Namespace(f"b{self.number}")
        # nsenter and a second unshare would hide the bpffs' mount: plain `ip netns exec` keeps none of it.
        self.warden = subprocess.Popen(
            ["nsenter", f"--net={self.space.path}", helper("gate-box"), str(gate.warden.path), str(self.world.bpf), str(self.number), self.id, *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.warden.stdout.readline() == "ready\n"

    def run(self, *argv, timeout=120, **kw):
        binds = ((self.world.box_resolv, "/etc/resolv.conf"), (self.world.nsswitch, "/etc/nsswitch.conf"),
                 (self.world.file("h", "127.0.0.1 localhost\n"), "/etc/hosts"))
        return subprocess.run(self.space.argv(*argv, binds=binds), capture_output=True, text=True, timeout=timeout, **kw)

    def start(self, *argv, **kw):
        binds = ((self.world.box_resolv, "/etc/resolv.conf"), (self.world.nsswitch, "/etc/nsswitch.conf"))
        return subprocess.Popen(self.space.argv(*argv, binds=binds), text=True, **kw)

    def curl(self, url, *more):
        """(status or curl's exit code as a negative number, body)"""
        out = self.run("curl", "-sS", "--max-time", "60", "--cacert", str(self.world.tmp / "cert.pem"), "-w", "\n%{http_code}", *more, url)
        body, _, status = out.stdout.rpartition("\n")
        return (int(status) if out.returncode == 0 else -out.returncode), (body if out.returncode == 0 else out.stderr)

    def python(self, code, timeout=120):
        out = self.run("/usr/bin/python3", "-c", code, timeout=timeout)
        assert out.returncode == 0, out.stderr
        return out.stdout

    def dig(self, name, *more):
        return self.run("dig", "+time=20", "+tries=1", *more, name).stdout

    def close(self):
        self.warden.stdin.close()
        self.warden.wait(60)
        self.space.close()
