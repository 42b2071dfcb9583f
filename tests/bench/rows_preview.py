"""Rows of `make bench`: the way to a server inside a box, beside nginx as a reverse proxy to the same server. Both listen
outside and connect inside the box's network: nginx gets its listening socket from outside and runs in the box's network
namespace, with kept-alive connections to the server."""

import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import atoll
import boxapi
import boxapp
import leaks
from common import PROGRAMS, have

ROWS = ["preview", "preview_download", "preview_sockets"]
PORT = 8080

NGINX = """
daemon off; user root; worker_processes 1; pid {dir}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 100000000; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
    fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    upstream app {{ server 127.0.0.1:{port}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen {listen};
        location / {{
            proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto http; proxy_set_header X-Forwarded-Host $http_host;
            proxy_set_header Forwarded "for=$remote_addr";
        }}
    }}
}}
"""


@contextlib.contextmanager
def app(d, box="bench-preview"):
    """The server, in a box with a CPU of its own."""
    d.request("PUT", atoll.box_path(box), {"limits": {"cpu": 2}})
    api = boxapi.Api(d, box)
    api.put("/tmp/app", (PROGRAMS / "bench_app").read_bytes())
    api.sh("chmod 755 /tmp/app")
    yield boxapp.App(api, PORT).start(f"exec /tmp/app {PORT}", boxapp.listens(PORT))
    d.destroy(box)


@contextlib.contextmanager
def nginx(app_):
    """Its address and its worker's pid; None when it is not installed."""
    if not have("nginx"):
        print("skipped peer: nginx is not installed")
        yield None, None
        return
    with tempfile.TemporaryDirectory() as where, socket.create_server(("127.0.0.1", 0)) as s:
        listen = "127.0.0.1:%d" % s.getsockname()[1]
        config = Path(where, "nginx.conf")
        config.write_text(NGINX.format(dir=where, port=PORT, listen=listen))
        os.set_inheritable(s.fileno(), True)
        process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{app_.api.agent_pid()}/ns/net", "nginx", "-e", "stderr", "-p", where, "-c", str(config)],
            env={**os.environ, "NGINX": f"{s.fileno()};"}, pass_fds=[s.fileno()])
        try:
            atoll.wait_for(lambda: leaks.children(process.pid), "a worker of nginx")
            yield listen, leaks.children(process.pid)[0]
        finally:
            process.terminate()
            process.wait()


def wrk(url, connections, seconds, token=None):
    """(requests a second, p50 µs, p99 µs, requests)"""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url]
    if token:
        command += ["-H", f"Authorization: Bearer {token}"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if bad := re.search(r"Non-2xx or 3xx responses: \d+|Socket errors:.*", out):
        raise SystemExit(f"bench: {url}: {bad.group(0)}")

    def micros(percent):
        value, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\n", out).groups()
        return float(value) * {"us": 1, "ms": 1000, "s": 1e6}[unit]

    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))
    return rate, micros(50), micros(99), int(re.search(r"(\d+) requests in", out).group(1))


def cpu_us(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1000


def measure(url, token, pid, connections, seconds):
    """(requests a second, p50 µs, p99 µs, µs of CPU a request)"""
    before = cpu_us(pid)
    rate, p50, p99, n = wrk(url, connections, seconds, token)
    return rate, p50, p99, (cpu_us(pid) - before) / n


def best(samples):
    """Of runs that take turns: others on the machine only ever make them slower."""
    return max(s[0] for s in samples), *(min(s[i] for s in samples) for i in (1, 2, 3))


def preview(bench, d):
    if not have("wrk"):
        print("skipped row: wrk is not installed")
        return
    rounds = 3 if bench.quick else 10
    with app(d) as a, nginx(a) as (rival, worker):
        for path, what in (("/", ""), ("/close", ", new each")):
            who = {"atoll": (f"http://{d.address}{a.path(path)}", d.token, d.daemon_pid)}
            if rival:
                who["nginx"] = (f"http://{rival}{path}", None, worker)
            for connections in (64, 1):
                samples = {name: [] for name in who}
                for _ in range(rounds):
                    for name, args in who.items():
                        samples[name].append(measure(*args, connections, 1))
                row = f"100 bytes from a box, {connections} client{'s' if connections > 1 else ''}{what}"
                report(bench, row, {name: best(s) for name, s in samples.items()})


def report(bench, row, results):
    def line(label, name, i, unit, target):
        ratio = f"{results[name][i] / results['nginx'][i]:.2f} x" if "nginx" in results else ""
        bench.value(label, name, results[name][i], unit, f"{ratio}  {target}" if name == "atoll" else "")

    for name in results:
        line(row, name, 0, "per s", ">= 0.9 x nginx")
        line("  p50", name, 1, "us", "")
        line("  p99", name, 2, "us", "<= 1.2 x nginx")
        line("  CPU of the proxy", name, 3, "us", "")


def download(address, path, token, size):
    """MB/s of one connection."""
    host, port = address.rsplit(":", 1)
    buffer = bytearray(1 << 20)
    with socket.create_connection((host, int(port))) as s:
        start = time.perf_counter()
        auth = f"Authorization: Bearer {token}\r\n" if token else ""
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n{auth}Connection: close\r\n\r\n".encode())
        got = 0
        while n := s.recv_into(buffer):
            got += n
        if got < size:
            raise SystemExit(f"bench: {path} ended after {got} bytes")
        return got / 1e6 / (time.perf_counter() - start)


def preview_download(bench, d):
    size = 200_000_000 if bench.quick else 1_000_000_000
    with app(d) as a, nginx(a) as (rival, _):
        who = {"atoll": (d.address, a.path(f"/bytes/{size}"), d.token)}
        if rival:
            who["nginx"] = (rival, f"/bytes/{size}", None)
        samples = {name: [] for name in who}
        for _ in range(2 if bench.quick else 3):
            for name, args in who.items():
                samples[name].append(download(*args, size))
        base = max(samples.get("nginx", [0]))
        for name, s in samples.items():
            ratio = f"{max(s) / base:.2f} x" if base else ""
            bench.value(f"{size // 1_000_000} MB from a box", name, max(s), "MB/s",
                        f"{ratio}  >= 0.9 x nginx" if name == "atoll" else "")


def rss_kb(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1))


def preview_sockets(bench, d):
    n = 200 if bench.quick else 2000
    with app(d) as a, contextlib.ExitStack() as stack:
        upgrade = (f"GET {a.path('/ws')} HTTP/1.1\r\nHost: {d.address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                   f"Authorization: Bearer {d.token}\r\n\r\n").encode()

        def open_some(count):
            for _ in range(count):
                s = stack.enter_context(d.connect())
                s.sendall(upgrade)
                if b" 101 " not in s.recv(4096):
                    raise SystemExit("bench: no WebSocket")
                s.sendall(b"x" * 4096)  # it has been used before it is idle
                got = 0
                while got < 4096:
                    got += len(s.recv(8192))

        open_some(20)
        before = rss_kb(d.daemon_pid)
        open_some(n)
        bench.value(f"memory of an idle WebSocket, over {n}", "atoll", (rss_kb(d.daemon_pid) - before) / n, "KB", "<= 10 KB")
