"""An HTTPS server that tells what it was sent: python3 echoserver.py ADDRESS PORT CERT KEY [plain]. Its own program, for a namespace.

    /…            JSON: method, target, headers, bytes and SHA-256 of the body
    /sse          an event every time a byte of the request's body comes
    /shown        answers with all that it was sent in its own head: reason, headers, 103, trailer
    /redirect     302 to the X-To header
    /ws           101 with the target and X-Key in its head; echoes bytes
    /slow         reads the body only after the client has got 100-continue
"""
import hashlib
import http.server
import json
import ssl
import sys
import threading


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def body(self):
        digest, n = hashlib.sha256(), 0
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                piece = self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    break
                digest.update(piece)
                n += size
        else:
            left = int(self.headers.get("Content-Length", 0))
            while left:
                piece = self.rfile.read1(min(left, 65536))
                if not piece:
                    break
                digest.update(piece)
                left -= len(piece)
                n += len(piece)
        return n, digest.hexdigest()

    def upgrade(self):
        self.send_response(101)
        self.send_header("Connection", "upgrade")
        self.send_header("Upgrade", self.headers.get("Upgrade", "echo"))
        self.send_header("X-Target", self.path)
        if "X-Key" in self.headers:
            self.send_header("X-Shown", self.headers["X-Key"])
            self.send_header("X-Length", str(len(self.headers["X-Key"])))
        self.end_headers()
        while piece := self.connection.recv(65536):
            self.connection.sendall(piece)
        self.close_connection = True

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(int(self.headers.get("Content-Length", 0))):
            byte = self.rfile.read(1)
            event = b"data: %d %s\n\n" % (i, byte)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def show(self):
        self.body()
        sent = [f"{name}: {value}" for name, value in self.headers.items()]
        key = self.headers.get("X-Key") or self.headers["Authorization"].split()[-1]
        head = ["HTTP/1.1 103 Early Hints", f"Link: <{key}>", "X-Early: yes", "", f"HTTP/1.1 200 {key}", "Transfer-Encoding: chunked",
                "Trailer: X-Last", f"X-Target: {self.path}", f"X-Credentials: {self.headers['Authorization']}"]
        head += [f"{key}: 1"] if "/" not in key else []
        head += [f"X-Sent-{i}: {line}" for i, line in enumerate(sent)]
        self.wfile.write("\r\n".join([*head, "", "2", "ok", "0", f"X-Last: {key}", "", ""]).encode())

    def answer(self):
        if self.path.startswith("/ws"):
            return self.upgrade()
        if self.path.startswith("/sse"):
            return self.events()
        if self.path.startswith("/shown"):
            return self.show()
        if self.path.startswith("/redirect"):
            self.send_response(302)
            self.send_header("Location", self.headers["X-To"])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        n, digest = self.body()
        out = json.dumps({"method": self.command, "target": self.path, "headers": [[k, v] for k, v in self.headers.items()],
                          "bytes": n, "sha256": digest}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(out)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_TRACE = answer

    def log_message(self, *_):
        pass


def main():
    address, port, cert, key = sys.argv[1:5]
    server = http.server.ThreadingHTTPServer((address, int(port)), Echo)
    server.daemon_threads = True
    if sys.argv[5:] != ["plain"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print("up", flush=True)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
