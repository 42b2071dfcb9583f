"""A small WebSocket client (RFC 6455) for tests: blocking, whole messages, able to send broken frames on purpose."""

import base64
import json
import os
import struct

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Closed(Exception):
    """The peer ended the connection; code is None when it did so without a close frame."""

    def __init__(self, code, reason):
        super().__init__(f"closed: {code} {reason}")
        self.code, self.reason = code, reason


class Refused(Exception):
    """The handshake was answered with something other than 101."""

    def __init__(self, status, head, body):
        super().__init__(f"refused: {status} {body[:200]!r}")
        self.status, self.head, self.body = status, head, body


class WebSocket:
    def __init__(self, sock, path, headers=None, host="localhost"):
        self.sock, self.rest = sock, b""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: Upgrade", "Upgrade: websocket",
                 "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
        lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        while b"\r\n\r\n" not in self.rest:
            self._fill()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        if status != 101:
            raise Refused(status, head.decode(), self.rest)

    def _fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed(None, "end of file")
        self.rest += data

    def _take(self, n):
        while len(self.rest) < n:
            self._fill()
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def send_frame(self, opcode, payload, fin=True, masked=True, reserved=0):
        head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
        n, bit = len(payload), 0x80 if masked else 0
        if n < 126:
            head += bytes([bit | n])
        elif n < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", n)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", n)
        if masked:
            mask = os.urandom(4)
            head += mask
            long_mask = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
            payload = (int.from_bytes(payload, "big") ^ long_mask).to_bytes(n, "big")
        self.sock.sendall(head + payload)

    def send(self, message):
        """bytes go as binary, str as text, anything else as JSON text."""
        if isinstance(message, bytes):
            self.send_frame(BINARY, message)
        else:
            text = message if isinstance(message, str) else json.dumps(message)
            self.send_frame(TEXT, text.encode())

    def receive(self):
        """The next message: bytes, or str. Answers pings. Raises Closed."""
        message, kind = b"", None
        while True:
            first, second = self._take(2)
            n = second & 0x7F
            if n == 126:
                n = struct.unpack(">H", self._take(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self._take(8))[0]
            payload, opcode = self._take(n), first & 15
            if opcode == PING:
                self.send_frame(PONG, payload)
            elif opcode == CLOSE:
                code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else None
                raise Closed(code, payload[2:].decode("utf-8", "replace"))
            elif opcode != PONG:
                kind = opcode or kind
                message += payload
                if first & 0x80:
                    return message.decode() if kind == TEXT else message

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
