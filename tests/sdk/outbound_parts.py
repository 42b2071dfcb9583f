"""What the tests of outbound handlers share, whatever SDK has the handler: a WebSocket server of the host, the program in the box, what it prints."""

from pathlib import Path

WSCLIENT = Path(__file__).resolve().parents[1] / "lib/wsclient.py"

SERVER = """
import asyncio, websockets
async def serve(ws, path="/"):
    async for message in ws:
        if message == "close":
            await ws.close(4001, "as you wish")
        else:
            await ws.send(message[::-1])
async def main():
    async with websockets.serve(serve, "127.0.0.1", 0, subprotocols=["sea"], max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()
asyncio.run(main())
"""

# In the box. Each piece of the body is sent only after the one before has come back.
CLIENT = """
import socket, ssl, sys
sys.path.insert(0, "/workspace")
from wsclient import BINARY, TEXT, Closed, WebSocket
s = socket.create_connection(("stream.example", 80))
s.sendall(b"POST /echo HTTP/1.1\\r\\nHost: stream.example\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
f = s.makefile("rb")
seen = b""
for piece in (b"first", b"second"):
    s.sendall(b"%x\\r\\n%s\\r\\n" % (len(piece), piece))
    while piece not in seen:
        seen += f.readline()
s.sendall(b"0\\r\\n\\r\\n")
print(seen.split()[1].decode(), "both ways")
for secure in (False, True):
    c = socket.create_connection(("ws.example", 443 if secure else 80))
    c = ssl.create_default_context().wrap_socket(c, server_hostname="ws.example") if secure else c
    ws = WebSocket(c, "/chat", {"Sec-WebSocket-Protocol": "sea"}, host="ws.example")
    ws.send_frame(TEXT, "grüße".encode())
    print(ws.receive())
    big = bytes(range(256)) * 4000
    for i in range(4):
        ws.send_frame(BINARY, big)
        assert ws.receive() == big[::-1]
    ws.send_frame(TEXT, b"close")
    try:
        ws.receive()
    except Closed as end:
        print(end.code, end.reason)
"""

SHOWN = """http: one.example GET
203
https: two.example GET
203
200 both ways
eßürg
4001 as you wish
eßürg
4001 as you wish
"""
