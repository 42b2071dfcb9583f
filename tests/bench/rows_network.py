"""Rows of `make bench`: the network of a box. The servers, the gate, its peers and the boxes live in network namespaces that the bench makes
(tests/lib/gatelib.py). A client in a box goes through the gate; the same client in the gate's namespace goes through nginx as a `stream` proxy, or asks
dnsmasq; `direct` is the same client without either."""

import base64
import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

import atoll
import gatelib
import npmdir
from common import ROOT, have

ROWS = ["network_start", "network_connect", "network_bulk", "network_dns", "network_idle", "network_flood", "network_https", "network_tools"]
SERVER, PORT, PROXY, HALF_CLOSE = gatelib.OTHER, 7100, 7101, 7102

# One port answers a byte with a byte; "B<n>\n" with n bytes.
SERVE = """
import socket, threading
def one(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = bytes(1 << 20)
    with c:
        while True:
            q = c.recv(64)
            if not q: return
            if q[:1] != b'B': c.sendall(q[:1]); continue
            left = int(q[1:].split()[0])
            while left:
                c.sendall(data[:min(left, len(data))]); left -= min(left, len(data))
            return
s = socket.create_server(('%s', %d), backlog=4096)
print('up', flush=True)
while True:
    threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
"""
# Samples in µs of one connection with a byte each way; connections a second; MB/s of one download.
CLIENT = """
import json, socket, sys, time
to, n, size = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4])
samples = []
for i in range(n):
    t = time.perf_counter(); s = socket.create_connection(to); s.sendall(b'x'); s.recv(1); samples.append((time.perf_counter() - t) * 1e6); s.close()
t = time.perf_counter()
for i in range(n):
    s = socket.create_connection(to); s.sendall(b'x'); s.recv(1); s.close()
rate = n / (time.perf_counter() - t)
s = socket.create_connection(to); s.sendall(b'B%d\\n' % size); buffer = bytearray(1 << 20); got = 0; t = time.perf_counter()
while got < size: got += s.recv_into(buffer)
print(json.dumps([samples, rate, got / 1e6 / (time.perf_counter() - t)]))
"""
QUESTIONS = """
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((sys.argv[1], 53)); s.settimeout(5); n, window = int(sys.argv[2]), 32
q = struct.pack('>6H', 1, 256, 1, 0, 0, 0) + b'\\x03web\\x07example\\0\\0\\1\\0\\1'
s.send(q); s.recv(999); t = time.perf_counter()
for i in range(window): s.send(q)
for i in range(n): s.recv(999); s.send(q)
print(n / (time.perf_counter() - t))
"""


class Gate(gatelib.Gate):
    """Reads the log and keeps nothing of it: parsing in Python would take more of the machine than atolld does, and its peers have no log."""

    def read(self, reader):
        with contextlib.suppress(OSError, ValueError):
            for line in reader:
                if not line.startswith('{"op":"log"'):
                    with self.changed:
                        self.records.append(json.loads(line))
                        self.changed.notify_all()


@contextlib.contextmanager
def world():
    w = gatelib.World()
    gate = Gate(w)
    try:
        yield w, gate
    finally:
        gate.close()
        w.close()


def in_space(w, space, *argv):
    return subprocess.run(space.argv(*argv, binds=((w.resolv, "/etc/resolv.conf"),)), capture_output=True, text=True, check=True, timeout=300).stdout


def start_server(w):
    server = w.start(w.servers, "/usr/bin/python3", "-c", SERVE % (SERVER, PORT), stdout=subprocess.PIPE)
    server.stdout.readline()


def start_nginx(w):
    conf = w.file("stream.conf", f"""
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off; worker_processes 1; pid {w.tmp}/stream.pid; error_log stderr crit; events {{ worker_connections 8192; }}
stream {{ tcp_nodelay on; server {{ listen 127.0.0.1:{PROXY}; proxy_pass {SERVER}:{PORT}; }}
  server {{ listen 127.0.0.1:{HALF_CLOSE}; proxy_pass {SERVER}:{PORT}; proxy_half_close on; }} }}
""")
    if not have("nginx") or not Path("/usr/lib/nginx/modules/ngx_stream_module.so").exists():
        print("skipped peer: nginx with its stream module is not installed")
        return False
    w.start(w.gate_space, "nginx", "-g", "master_process off;", "-c", conf, stderr=subprocess.DEVNULL)
    w.wait(lambda: subprocess.run(w.gate_space.argv("/usr/bin/python3", "-c", f"import socket; socket.create_connection(('127.0.0.1',{PROXY}))"),
                                  capture_output=True).returncode == 0, "nginx")
    return True


def forget_closed(space):
    """Tens of thousands of connections to one server leave no free port, and every connect() then searches for one."""
    subprocess.run(space.argv("sh", "-c", "echo 64 >/proc/sys/net/ipv4/tcp_max_tw_buckets"), check=True)


def compared(bench, size):
    """Rounds in turns: {who: [(samples, connections a second, MB/s)]}. nginx closes both sides when one has ended; with half-close it passes the end of one
    side on, as the gate does."""
    with world() as (w, gate):
        start_server(w)
        forget_closed(w.gate_space)
        box = gate.box(policy={})
        forget_closed(box.space)
        who = {"atoll": lambda n: box.run("/usr/bin/python3", "-c", CLIENT, SERVER, str(PORT), str(n), str(size), timeout=300).stdout}
        if start_nginx(w):
            for name, port in (("nginx", PROXY), ("nginx, half-close", HALF_CLOSE)):
                who[name] = lambda n, port=port: in_space(w, w.gate_space, "/usr/bin/python3", "-c", CLIENT, "127.0.0.1", port, n, size)
        who["direct"] = lambda n: in_space(w, w.gate_space, "/usr/bin/python3", "-c", CLIENT, SERVER, PORT, n, size)
        found = {name: [] for name in who}
        for _ in range(5 if bench.quick else 9):
            for name, run in who.items():
                found[name].append(json.loads(run(300 if bench.quick else 1000)))
        return found


def network_connect(bench, d):
    found = compared(bench, 1)
    best = {name: min((r[0] for r in rounds), key=lambda s: sorted(s)[len(s) // 2]) for name, rounds in found.items()}
    for name, samples in best.items():
        bench.note("connect and 1 byte each way", name, samples, best.get("nginx") if name == "atoll" else None, "<= 1.0 x nginx" if name == "atoll" else "")
    report(bench, "new connections a second", {n: max(r[1] for r in rounds) for n, rounds in found.items()}, "per s", ">= 0.9 x nginx", "nginx")


def report(bench, row, values, unit, target, peer):
    for name, value in values.items():
        ratio = f"{value / values[peer]:.2f} x  " if peer in values else ""
        bench.value(row, name, value, unit, ratio + target if name == "atoll" else "")


def network_bulk(bench, d):
    found = compared(bench, 200_000_000 if bench.quick else 1_000_000_000)
    report(bench, "one connection", {n: max(r[2] for r in rounds) for n, rounds in found.items()}, "MB/s", ">= 0.9 x nginx", "nginx")


def network_dns(bench, d):
    n = 20000 if bench.quick else 100000
    with world() as (w, gate):
        # A dnsmasq without a log of its questions, as the peer has to be.
        conf = w.file("peer.conf", f"no-resolv\nno-hosts\nkeep-in-foreground\nuser=root\nlisten-address=198.51.100.1\nbind-interfaces\n"
                                   f"host-record=web.example,{gatelib.WEB}\ncache-size=10000\n")
        w.start(w.gate_space, "dnsmasq", "-C", conf, stderr=subprocess.DEVNULL)
        box = gate.box(policy={})
        w.wait(lambda: gatelib.WEB in in_space(w, w.gate_space, "dig", "+short", "+time=1", "+tries=1", "@198.51.100.1", "web.example"), "dnsmasq")
        values = {"atoll": 0.0, "dnsmasq": 0.0}
        for _ in range(3):
            values["atoll"] = max(values["atoll"], float(box.run("/usr/bin/python3", "-c", QUESTIONS, "192.0.0.1", str(n), timeout=120).stdout))
            values["dnsmasq"] = max(values["dnsmasq"], float(in_space(w, w.gate_space, "/usr/bin/python3", "-c", QUESTIONS, "198.51.100.1", n)))
        report(bench, "cached DNS answers", values, "per s", ">= 0.8 x dnsmasq", "dnsmasq")


def resident_kb(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1))


def network_idle(bench, d):
    hold = ("import socket,sys\nall=[]\n"
            "def some(n):\n for i in range(n):\n  s=socket.create_connection((sys.argv[1],int(sys.argv[2]))); s.sendall(b'x'); s.recv(1); all.append(s)\n"
            "some(20); print('a',flush=True); input(); some(1000); print('b',flush=True); input()")
    with world() as (w, gate):
        start_server(w)
        box = gate.box(policy={"maxConnections": 2000})
        p = box.start("/usr/bin/python3", "-c", hold, SERVER, str(PORT), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        p.stdout.readline()
        before = resident_kb(gate.pid)
        p.stdin.write("\n")
        p.stdin.flush()
        p.stdout.readline()
        bench.value("memory of an idle connection, over 1,000", "atoll", (resident_kb(gate.pid) - before) / 1000, "KB", "<= 16 KB")
        p.kill()
        p.wait()


def network_flood(bench, d):
    """Another box's connections while one opens 10,000 and says nothing."""
    flood = ("import resource,socket\nresource.setrlimit(resource.RLIMIT_NOFILE,(20000,20000))\nall=[]\n"
             "for i in range(10000):\n s=socket.socket(); s.setblocking(False); s.connect_ex(('198.51.100.10',443)); all.append(s)\n"
             "print('open',flush=True); input()")
    with world() as (w, gate):
        start_server(w)
        quiet, noisy = gate.box(policy={}), gate.box(policy={"mode": "list", "allow": ["web.example"]})

        def samples():
            return json.loads(quiet.run("/usr/bin/python3", "-c", CLIENT, SERVER, str(PORT), "500", "1", timeout=300).stdout)[0]
        before = min((samples() for _ in range(3)), key=lambda s: sorted(s)[len(s) // 2])
        p = noisy.start("/usr/bin/python3", "-c", flood, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        p.stdout.readline()
        during = min((samples() for _ in range(3)), key=lambda s: sorted(s)[len(s) // 2])
        bench.note("connect and 1 byte, alone", "atoll", before)
        bench.note("the same beside 10,000 half-open ones", "atoll", during, before, "<= 2 x")
        p.kill()
        p.wait()


# Samples in µs of requests on one kept connection.
HTTPS = """
import http.client, json, ssl, sys, time
c = http.client.HTTPSConnection('web.example', context=ssl.create_default_context(cafile=sys.argv[1])); samples = []
for i in range(int(sys.argv[2])):
    t = time.perf_counter(); c.request('GET', '/', headers={'X-Key': sys.argv[3]}); r = c.getresponse(); r.read()
    samples.append((time.perf_counter() - t) * 1e6)
    assert r.status == 200, r.status
print(json.dumps(samples))
"""
PLACEHOLDER = "atoll_" + "0123456789abcdef" * 2


def start_mitmproxy(w):
    """The same server behind a TLS proxy that replaces a header."""
    if not have("mitmdump"):
        print("skipped peer: mitmproxy is not installed")
        return False
    w.start(w.gate_space, "mitmdump", "-q", "--mode", f"reverse:https://{gatelib.WEB}:443", "-p", "8443", "--ssl-insecure", "--set", f"confdir={w.tmp}/mitm",
            "--set", "modify_headers=/~q/X-Key/value", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    w.wait(lambda: w.connects(w.gate_space, "127.0.0.1", 8443), "mitmproxy", 60)
    return True


def requests_a_second(out):
    return float(re.search(r"Requests/sec:\s+([0-9.]+)", out).group(1))


def network_https(bench, d):
    """Requests over TLS that the gate intercepts, with a secret in the head; `direct` is the same client without the gate."""
    n, load = (300 if bench.quick else 2000), ["wrk", "-t1", "-c8", "-d2s" if bench.quick else "-d5s", "-H", f"X-Key: {PLACEHOLDER}"]
    with world() as (w, gate):
        box = gate.box(policy={})
        gate.say(op="secrets", id=box.id, secrets=[{"name": "key", "placeholder": PLACEHOLDER, "value": "value", "hosts": ["web.example"]}])
        found = {"atoll": [], "direct": []}
        for _ in range(3):
            found["atoll"].append(json.loads(box.run("/usr/bin/python3", "-c", HTTPS, str(gate.ca), str(n), PLACEHOLDER, timeout=300).stdout))
            found["direct"].append(json.loads(in_space(w, w.gate_space, "/usr/bin/python3", "-c", HTTPS, w.tmp / "cert.pem", n, "value")))
        best = {who: min(rounds, key=lambda s: sorted(s)[len(s) // 2]) for who, rounds in found.items()}
        for who, samples in best.items():
            bench.note("HTTPS request, intercepted, with a secret", who, samples, best["direct"] if who == "atoll" else None,
                       "<= 1 ms more" if who == "atoll" else "")
        if not have("wrk"):
            print("skipped: wrk is not installed")
            return
        values = {"atoll": requests_a_second(box.run(*load, "https://web.example/", timeout=60).stdout)}
        if start_mitmproxy(w):
            values["mitmproxy"] = requests_a_second(in_space(w, w.gate_space, *load, "-H", "Host: web.example", "https://127.0.0.1:8443/"))
        values["direct"] = requests_a_second(in_space(w, w.gate_space, *load, "https://web.example/"))
        report(bench, "intercepted HTTPS requests, 8 connections", values, "per s", ">= 5 x mitmproxy", "mitmproxy")


def network_start(bench, d):
    """A new box with a network and its first command, beside one in mode off."""
    samples = {"open": [], "off": []}
    for i in range(bench.n):
        # In turns: neither is always the first after the other's end.
        for mode, found in list(samples.items())[::1 if i % 2 else -1]:
            box = f"bench-net-{mode}-{i}"
            time.sleep(0.02)  # the next slot is being prepared
            start = time.perf_counter()
            d.request("PUT", atoll.box_path(box), {"network": {"mode": mode}})
            d.request("POST", atoll.box_path(box) + "/api/execute", {"command": "true"})
            found.append((time.perf_counter() - start) * 1e6)
            d.destroy(box)
    bench.note("new box and its first command, mode off", "atoll", samples["off"])
    bench.note("new box and its first command, mode open", "atoll", samples["open"], samples["off"])
    # Neighbours in time have the same load: their differences show what the medians of a busy host hide.
    more = sorted(a - b for a, b in zip(samples["open"], samples["off"]))
    bench.value("… more with a network, median of pairs", "atoll", more[len(more) // 2] / 1000, "ms", "within 0.1 ms")


def make_wheels(root, n):
    for i in range(n):
        name, info = f"bench{i}", f"bench{i}-1.0.dist-info"
        where = root / "simple" / name
        where.mkdir(parents=True)
        wheel = where / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as z:
            for k in range(20):
                z.writestr(f"{name}/m{k}.py", f"x = {k}\n" * 2000)
            z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr(f"{info}/RECORD", "")
        (where / "index.html").write_text(f'<a href="{wheel.name}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}">{wheel.name}</a>')


def make_repository(root):
    source = root / "source"
    source.mkdir()
    for i in range(5000):
        (source / f"d{i % 50}").mkdir(exist_ok=True)
        (source / f"d{i % 50}" / f"f{i}").write_text(f"{i}\n" * 40)
    git = ["git", "-C", str(source), "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(source), str(root / "repo.git")], check=True)
    subprocess.run(["git", "-C", str(root / "repo.git"), "update-server-info"], check=True)


def pack(module, about, root):
    """The tarball of a package that is installed, and its entry in a registry's document."""
    name = f"{about['name'].replace('/', '-')}-{about['version']}.tgz"

    def inside(member):
        member.name = "package" + member.name[len("x"):]
        return None if "/node_modules" in member.name else member
    with tarfile.open(root / "tarballs" / name, "w:gz", compresslevel=1) as tar:
        tar.add(module, "x", filter=inside)
    digest = hashlib.sha512((root / "tarballs" / name).read_bytes()).digest()
    kept = {key: about[key] for key in ("name", "version", "dependencies", "optionalDependencies", "bin", "engines", "os", "cpu") if key in about}
    return {**kept, "dist": {"tarball": f"http://two.example:8000/npm/tarballs/{name}", "integrity": "sha512-" + base64.b64encode(digest).decode()}}


def make_registry(root, modules):
    """A static registry of all packages that a project has installed: a document for each name, and the tarballs."""
    (root / "tarballs").mkdir(parents=True)
    documents = {}
    for path in sorted(modules.rglob("package.json")):
        about = json.loads(path.read_text())
        inner = path.parent.parent
        if inner.name != "node_modules" and inner.parent.name != "node_modules" or "version" not in about or "name" not in about:
            continue
        versions = documents.setdefault(about["name"], {})
        if about["version"] not in versions and str(path.parent).endswith("node_modules/" + about["name"]):
            versions[about["version"]] = pack(path.parent, about, root)
    for name, versions in documents.items():
        (root / name).parent.mkdir(exist_ok=True)
        if versions:
            (root / name).write_text(json.dumps({"name": name, "dist-tags": {"latest": max(versions)}, "versions": versions}))
    return sum(map(len, documents.values()))


def make_project(w, root, scratch):
    """A real project, the registry of the tests, with a lock file for the registry here. None without npm."""
    source = ROOT / "tests/integration/registry"
    if not npmdir.installed(source):
        print("skipped: npm is not installed")
        return None
    count = make_registry(root, source / "node_modules")
    project = Path(scratch) / "n"
    project.mkdir()
    shutil.copy(source / "package.json", project)
    npm = ["npm", "--prefix", str(project), "--cache", f"{scratch}/cache", "--registry", "http://two.example:8000/npm/", "--ignore-scripts", "--no-audit",
           "--no-fund", "--loglevel=error", "--update-notifier=false"]
    in_space(w, w.gate_space, *npm, "install", "--package-lock-only")
    return count, [*npm, "ci"]


def network_tools(bench, d):
    """The host's own tools, through the gate and without it, from servers in the bench."""
    with world() as (w, gate), tempfile.TemporaryDirectory() as scratch:
        root = w.tmp / "files"
        root.mkdir()
        make_wheels(root, 20)
        make_repository(root)
        # Not "git daemon", whose child would outlive the bench.
        programs = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
        daemon = [f"{programs}/git-daemon", "--reuseaddr", "--export-all", f"--base-path={root}", f"--listen={gatelib.WEB2}"]
        w.start(w.servers, *daemon, stderr=subprocess.DEVNULL)
        server = w.start(w.servers, "/usr/bin/python3", "-u", "-m", "http.server", "8000", "--bind", gatelib.WEB2, "--directory", root,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        server.stdout.readline()
        box = gate.box(policy={})
        names = [f"bench{i}" for i in range(20)]
        jobs = {"pip install of 20 wheels": ["/usr/bin/python3", "-m", "pip", "install", "-q", "--no-cache-dir", "--no-compile", "--index-url",
                                             "http://two.example:8000/simple", "--trusted-host", "two.example", "--target", f"{scratch}/p", *names],
                "git clone of 5,000 files": ["git", "clone", "-q", f"git://{gatelib.WEB2}/repo.git", f"{scratch}/g"]}
        project = make_project(w, root / "npm", scratch)
        if project:
            jobs[f"npm ci of {project[0]} packages"] = project[1]
        for row, command in jobs.items():
            best = {}
            for _ in range(2 if bench.quick else 4):
                for name, run in (("atoll", box.run), ("direct", lambda *a, **k: in_space(w, w.gate_space, *a))):
                    for made in ("p", "g", "cache", "n/node_modules"):
                        shutil.rmtree(f"{scratch}/{made}", ignore_errors=True)
                    start = time.perf_counter()
                    done = run(*command, timeout=300)
                    assert getattr(done, "returncode", 0) == 0, done.stderr
                    best[name] = min(best.get(name, 1e9), time.perf_counter() - start)
            report(bench, row, {n: v * 1000 for n, v in best.items()}, "ms", "<= 1.1 x direct", "direct")
