"""Clients and boxes that bring more work than their part: what atolld and the gate do before they answer somebody else.

A flood is measured by the processor time that the program spends between a request and its answer: that does not depend on
what else the machine does. The bounds lie a few times above what a quiet machine shows, and well below the
time without a division of the turns (docs/design/026-turns.md has both)."""

import contextlib
import json
import shlex
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boxapp
import pytest
from atoll import ROOT, Instance, box_path, wait_for
from boxapi import Api
from dockersock import TAG
from fixtures import what_is_missing

ALONE = "it keeps two processors busy, and measures how long others wait meanwhile"

LOOKS = 9
CHUNKS = """
def handle(c):
    for h in heads(c):
        c.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
        while True:
            c.sendall(b"1\\r\\nx\\r\\n" * 20000)
"""


@contextlib.contextmanager
def pound(daemon, count, head=b"", rest=b"", times=1):
    """So many connections that ask as fast as they are answered."""
    host, port = daemon.address.rsplit(":", 1)
    spec = json.dumps({"head": head.hex(), "rest": rest.hex(), "times": times})
    command = [sys.executable, str(ROOT / "tests/lib/pound.py"), host, port, str(count), spec]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as p:
        try:
            assert p.stdout.readline() == b"open\n"
            yield p
        finally:
            p.send_signal(signal.SIGKILL)


def worked(pid):
    """Seconds of processor time of the program's loop."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def before_an_answer(daemon, ask):
    """The median of the time that atolld works between a question and its answer."""
    times = []
    for _ in range(LOOKS):
        before = worked(daemon.daemon_pid)
        ask()
        times.append(worked(daemon.daemon_pid) - before)
    print("atolld works before an answer:", *(f"{t * 1000:.1f}" for t in sorted(times)), "ms")
    return sorted(times)[LOOKS // 2]


def healthy(daemon, unix=True):
    def ask():
        assert daemon.request("GET", "/v1/health", unix=unix).status == 200

    return before_an_answer(daemon, ask)


def under_way(daemon):
    """The flood has arrived."""
    before = worked(daemon.daemon_pid)
    wait_for(lambda: worked(daemon.daemon_pid) - before > 0.5, "atolld is busy")


def metric(daemon, name):
    return next(int(line.split()[-1]) for line in daemon.request("GET", "/metrics").text.splitlines() if line.startswith(name))


def test_requests_that_are_sent_ahead_without_a_token(daemon):
    """50 connections: 3 to 5 s before, each answered all that lay in its buffer."""
    request = b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with pound(daemon, 50, rest=request, times=1000):
        under_way(daemon)
        assert healthy(daemon) < 0.2


def test_public_routes_that_are_asked_without_end(daemon):
    request = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with pound(daemon, 50, rest=request, times=1000):
        under_way(daemon)
        assert healthy(daemon) < 0.2


def test_requests_that_are_sent_ahead_with_a_token(daemon):
    """Clients of the API have their parts as well: nobody keeps the loop."""
    request = f"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n\r\n".encode()
    with pound(daemon, 50, rest=request, times=1000):
        under_way(daemon)
        assert healthy(daemon) < 0.05


def test_a_new_client_does_not_wait_behind_strangers_that_have_had_answers(daemon):
    """No connection is known before its request is read. 1,000 that had been answered came first."""
    request = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with pound(daemon, 1000, rest=request, times=100):
        under_way(daemon)
        assert healthy(daemon, unix=False) < 1.8 * healthy(daemon), "2.7 times as long as a local client, before"


def test_viewers_of_chunks_of_one_byte(daemon):
    """100 of one preview: 433 ms before, each answer decoded and written a byte at a time."""
    boxapp.raw(Api(daemon, "turns-app"), 8080, CHUNKS)
    host = daemon.request("POST", box_path("turns-app", "/ports/8080"), {}).json()["url"].split("/")[2]
    try:
        with pound(daemon, 100, head=f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()):
            under_way(daemon)
            assert metric(daemon, 'atoll_connections_by_rank{rank="preview"}') == 100
            assert healthy(daemon) < 0.1
    finally:
        daemon.destroy("turns-app")


def longest_beside(daemon, *request, **how):
    """The answer to a long request, and the most that atolld worked before it answered anybody else meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(daemon.request, *request, timeout=120, **how)
        longest = 0
        while not answer.done():
            before = worked(daemon.daemon_pid)
            assert daemon.request("GET", "/v1/health").status == 200
            longest = max(longest, worked(daemon.daemon_pid) - before)
    print(f"atolld works before an answer: at most {longest * 1000:.1f} ms")
    return answer.result(), longest


def test_a_long_comparison_is_written_a_piece_at_a_time(daemon):
    """Names of 10 MiB: they were made into one text of JSON before anybody else was served."""
    if daemon.request("GET", "/v1/health").json()["host"]["pool"]["kind"] == "plain":
        pytest.skip("no pool: no snapshots")
    count, names = 40000, "import os\nfor i in range(40000): os.close(os.open(f'/workspace/{i:06}' + 'n' * 240, os.O_CREAT))"
    daemon.request("PUT", box_path("turns-diff"))
    try:
        assert daemon.request("POST", box_path("turns-diff", "/snapshots"), {"name": "before"}).status == 201
        assert daemon.execute("turns-diff", f"python3 -c {shlex.quote(names)}")["exitCode"] == 0
        reply, longest = longest_beside(daemon, "GET", box_path("turns-diff", "/diff?from=before"))
        answer = reply.json()
        added = [name for name in answer["added"] if name.startswith("/workspace/")]
        assert len(set(added)) == count and answer["deleted"] == [] and answer["truncated"] is False
        assert longest < 0.1
    finally:
        daemon.destroy("turns-diff")


def test_a_long_list_of_containers_is_written_a_piece_at_a_time(daemon, docker):
    """1,000 with labels of 16 KB: each was read for the filter and all were written before anybody else was served."""
    assert docker.build().returncode == 0
    labels = {f"label-{i:03}": "x" * 48 for i in range(240)}
    try:
        for i in range(1000):
            assert docker.ask("POST", f"/containers/create?name=long-{i}", {"Image": TAG, "Labels": labels})[0] == 201
        filters = urllib.parse.quote(json.dumps({"label": [f"label-{i:03}" for i in range(180, 240)]}))
        reply, longest = longest_beside(daemon, "GET", f"/containers/json?all=1&filters={filters}", unix=docker.path)
        assert {c["Names"][0] for c in reply.json()} == {f"/long-{i}" for i in range(1000)}
        assert all(c["Labels"] == labels for c in reply.json())
        assert longest < 0.015
    finally:
        docker.remove_all()


ASKING = """
import socket, sys
for line in sys.stdin:
    s = socket.create_connection(("web.example", 80), 60)
    s.sendall(b"GET /x HTTP/1.1\\r\\nHost: web.example\\r\\nConnection: close\\r\\n\\r\\n")
    while s.recv(65536):
        pass
    print("served", flush=True)
"""


def before_the_gate_answers(gate, loud, quiet, looks=LOOKS):
    """How long the gate works before a box has its answer, while `loud` is served as well: the shortest first. `loud` has begun."""
    asking = quiet.start(sys.executable, "-c", ASKING, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid, times = gate.process.pid, []
    try:
        assert loud.stdout.readline() == "open\n"
        before = worked(pid)
        wait_for(lambda: worked(pid) - before > 0.5, "the gate is busy")
        for _ in range(looks):
            before = worked(pid)
            asking.stdin.write("\n")
            asking.stdin.flush()
            assert asking.stdout.readline() == "served\n"
            times.append(worked(pid) - before)
    finally:
        for p in (loud, asking):
            p.kill()
            p.wait()
    print("the gate works before an answer:", *(f"{t * 1000:.1f}" for t in sorted(times)), "ms")
    return sorted(times)


def test_a_box_that_posts_chunks_of_one_byte_through_the_gate(gate, world):
    """The name decides, so the gate reads every request: 100 such posts held up the connections of other boxes."""
    world.serve("while s.recv(1 << 20): pass", 8090)
    policy = {"mode": "list", "allow": ["web.example", "other.example:8090"]}
    loud, quiet = gate.box(policy=policy), gate.box(policy=policy)
    head = b"POST / HTTP/1.1\r\nHost: other.example:8090\r\nTransfer-Encoding: chunked\r\n\r\n"
    spec = json.dumps({"head": head.hex(), "rest": b"1\r\nx\r\n".hex(), "times": 20000})
    posting = loud.start(sys.executable, str(ROOT / "tests/lib/pound.py"), "other.example", "8090", "100", spec, stdout=subprocess.PIPE)
    assert before_the_gate_answers(gate, posting, quiet)[LOOKS // 2] < 0.1


# A method without end: nothing is decided before there is a blank, and every byte wakes the gate.
DRIBBLE = """
import socket
conns = []
def begin():
    s = socket.create_connection(("other.example", 8091))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.send(b"A" * 15000)
    return s
conns = [begin() for _ in range(1000)]
print("open", flush=True)
while True:
    for i, s in enumerate(conns):
        try:
            s.send(b"A")
        except OSError:
            s.close()
            conns[i] = begin()
"""


def test_a_box_whose_first_words_come_a_byte_at_a_time(gate, world):
    """1,000 connections: each byte made the gate read all of the words again, before any other box had its turn."""
    world.serve("while s.recv(1 << 20): pass", 8091)
    policy = {"mode": "list", "allow": ["web.example", "other.example:8091"]}
    loud, quiet = gate.box(policy=policy), gate.box(policy=policy)
    dribbling = loud.start(sys.executable, "-c", DRIBBLE, stdout=subprocess.PIPE)
    # It sends in bursts: the longest counts.
    assert before_the_gate_answers(gate, dribbling, quiet, looks=40)[-1] < 0.08


def hello():
    """The first bytes of a TLS client: what makes the server sign."""
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def test_handshakes_share_the_part_of_strangers():
    """Each costs the server a signature and the client nothing: 64 of them stood before the next answer."""
    if what_is_missing():
        pytest.skip(what_is_missing())
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        drown_in_handshakes(Path(base))


def drown_in_handshakes(base):
    key, cert = base / "key.pem", base / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-keyout", key, "-out", cert, "-subj", "/CN=localhost",
                    "-days", "2"], check=True, capture_output=True)
    for file in (base, key, cert):
        file.chmod(0o755)
    env = {"ATOLL_ZYGOTE": "off", "ATOLL_POOL": "plain", "ATOLL_TLS_CERT": str(cert), "ATOLL_TLS_KEY": str(key)}
    with Instance(env) as own:
        # A second hello on the connection is a failure: it is closed, and the next one opened.
        with pound(own, 400, head=hello(), rest=b"\x17\x03\x03\x00\x05hello"):
            under_way(own)
            assert healthy(own) < 0.15


def test_a_strangers_connection_ends_after_a_refusal_and_after_many_requests(daemon):
    with daemon.connect() as s:
        s.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        answers = b"".join(iter(lambda: s.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 401 ") == 1 and answers.count(b"Connection: close\r\n") == 1
    with daemon.connect() as s:
        s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 101)
        answers = b"".join(iter(lambda: s.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 200 ") == 100 and answers.count(b"Connection: close\r\n") == 1


def test_a_client_that_sends_ahead_is_answered_in_order_and_whole(daemon):
    """Alone, it has all turns: nothing is lost where one ends."""
    paths = [f"/v1/sandboxes/none-{i}" for i in range(5000)]
    head = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n\r\n"
    requests = "".join(f"GET {p} {head}" for p in paths).encode()
    begin = time.monotonic()
    with daemon.connect(timeout=120) as s:
        answers, sent = b"", 0
        s.setblocking(False)
        while answers.count(b"HTTP/1.1 404 ") < len(paths):
            with contextlib.suppress(BlockingIOError):
                sent += s.send(requests[sent : sent + 65536]) if sent < len(requests) else 0
            with contextlib.suppress(BlockingIOError):
                got = s.recv(1 << 20)
                assert got, "the connection was closed"
                answers += got
            assert time.monotonic() - begin < 120
    at = 0
    for i in range(len(paths)):
        at = answers.index(f"'none-{i}'".encode(), at)
