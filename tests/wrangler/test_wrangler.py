"""A plain `wrangler dev` on Atoll's Docker socket: the project of the guides, unchanged, with the newest wrangler, and some of it (matrix.py)
with the others of package.json and with Cloudflare's plugin for Vite."""

import re
import urllib.parse

import matrix
import npmdir
import pytest
from dev import HERE, Dev, containers, remove_all

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]
VERSIONS = ["4.160", "4.86", "4.102", "vite"]

SERVER = """
import asyncio, base64, hashlib
async def serve(r, w):
    head = await r.readuntil(b"\\r\\n\\r\\n")
    key = [l.split(b": ")[1] for l in head.split(b"\\r\\n") if l.lower().startswith(b"sec-websocket-key")]
    if not key:
        body = b"hello from " + head.split()[1]
        w.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n%s" % (len(body), body))
    else:
        accept = base64.b64encode(hashlib.sha1(key[0] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        w.write(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: %s\\r\\n\\r\\n" % accept)
        h = await r.readexactly(2)
        mask, text = await r.readexactly(4), await r.readexactly(h[1] & 127)
        text = b"heard " + bytes(c ^ mask[i % 4] for i, c in enumerate(text))
        w.write(bytes([0x81, len(text)]) + text)
    await w.drain()
    if key:
        await r.read()
    w.close()
async def main():
    async with await asyncio.start_server(serve, "0.0.0.0", 8080) as s:
        await s.serve_forever()
asyncio.run(main())
"""


def pytest_generate_tests(metafunc):
    matrix.for_tests(metafunc, "dev", VERSIONS, indirect=True, scope="module")


@pytest.fixture(scope="module")
def dev(request, daemon, tmp_path_factory):
    """One running server for the tests that leave it as it is."""
    with Dev(daemon, tmp_path_factory.mktemp("project"), request.param) as d:
        yield d
    remove_all(daemon)


# ---- what a Worker asks for


def test_a_command_and_files(dev):
    assert dev.run("files", "echo $FROM_IMAGE; cat /opt/built; grep name /opt/package.json") == 'yes\nbuilt\n  "name": "my-sandbox",\n'
    dev.ask("files/write?path=/workspace/a.txt", "one\ntwo\n")
    assert dev.run("files", "wc -l </workspace/a.txt") == "2\n"
    assert dev.ask("files/read?path=/workspace/a.txt")["content"] == "one\ntwo\n"
    assert dev.ask("files/exec", "(exit 3)")["exitCode"] == 3
    status, text = dev.send("files/read?path=/none")
    assert status == 500 and "FileNotFound" in text, text


def test_two_sandboxes_are_two_boxes(dev):
    dev.run("left", "echo left >/workspace/who")
    assert dev.ask("right/exec", "cat /workspace/who")["exitCode"] == 1
    assert dev.run("left", "cat /workspace/who") == "left\n"


def serve_in(dev, name):
    dev.ask(f"{name}/write?path=/workspace/server.py", SERVER)
    dev.ask(f"{name}/start", "python3 /workspace/server.py")
    dev.run(name, "until curl -so /dev/null localhost:8080; do sleep 0.1; done")


def test_a_preview_and_its_websocket(dev):
    serve_in(dev, "preview")
    url = urllib.parse.urlsplit(dev.ask("preview/expose?port=8080")["url"])
    assert url.netloc.startswith("8080-preview-") and url.port == dev.port
    assert dev.send("some/page", host=url.netloc) == (200, "hello from /some/page")
    ws = dev.websocket("/", host=url.netloc)
    ws.send("me")
    assert ws.receive() == "heard me"
    ws.sock.close()


def test_a_websocket_into_a_port(dev):
    serve_in(dev, "sockets")
    ws = dev.websocket("/sockets/connect?port=8080")
    ws.send("you")
    assert ws.receive() == "heard you"
    ws.sock.close()


def test_a_terminal(dev):
    dev.run("terminal", "true")
    ws, seen = dev.websocket("/terminal/terminal"), ""
    ws.send(b"echo $((6*7))-$(stty size)\n")
    while not re.search(r"42-24 80", seen):
        message = ws.receive()
        seen += message.decode(errors="replace") if isinstance(message, bytes) else ""
    ws.sock.close()


# ---- ends


def test_a_stop_ends_the_box_and_the_next_call_makes_one(dev, daemon):
    dev.run("stopped", "touch /workspace/f")
    assert set(containers(daemon).values()) == {"running"}
    dev.ask("stopped/stop")
    assert dev.ask("stopped/exec", "ls /workspace/f")["exitCode"] == 2
    for _ in range(3):
        dev.ask("stopped/stop")
        assert dev.run("stopped", "echo here") == "here\n"


def test_a_destroy_takes_the_box(dev):
    dev.run("destroyed", "touch /workspace/f")
    dev.ask("destroyed/destroy")
    assert dev.ask("destroyed/exec", "ls /workspace/f")["exitCode"] == 2
