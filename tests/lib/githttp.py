"""git http-backend behind a small server with basic authentication, to run inside a box: githttp.py PORT ROOT

    /open/…       anybody            /private/…  user "us er", password "p@ss:w/ö"
    /forbidden/…  403 for everybody  /slow/…     never answers
    /echo/…       says what it was sent, as text, with a 401 or 403
    /steal/…      redirects to another port of this host, PORT + 1, which asks for a password and notes what it gets
"""

import base64
import http.server
import os
import subprocess
import sys
import threading

PORT, ROOT = int(sys.argv[1]), sys.argv[2]
GOOD = "Basic " + base64.b64encode("us er:p@ss:w/ö".encode()).decode()


class Backend(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        out = b""
        while n := int(self.rfile.readline(), 16):
            out += self.rfile.read(n)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def do_GET(self):
        path, _, query = self.path.partition("?")
        kind, _, rest = path[1:].partition("/")
        body = self.body()
        if kind == "slow":
            threading.Event().wait()
        if kind == "echo":
            sent = self.headers.get("Authorization", "")
            plain = base64.b64decode(sent.removeprefix("Basic ")).decode()
            return self.answer(403 if sent else 401, {"WWW-Authenticate": 'Basic realm="git"', "Content-Type": "text/plain"},
                               f"you sent {sent}, which is {plain}, for {self.path}\n".encode())
        if kind == "forbidden":
            return self.answer(403, {})
        if kind == "steal":
            return self.answer(302, {"Location": f"http://127.0.0.1:{PORT + 1}/open/{rest}?{query}"})
        if kind == "private" and self.headers.get("Authorization") != GOOD:
            return self.answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, f"you sent {self.headers.get('Authorization')}".encode())
        return self.cgi("/" + rest, query, body)

    do_POST = do_GET

    def cgi(self, path, query, body):
        env = {**os.environ, "GIT_PROJECT_ROOT": ROOT, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
               "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "CONTENT_LENGTH": str(len(body)),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        out = subprocess.run(["/usr/lib/git-core/git-http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        self.answer(status, headers, content)


class Thief(Backend):
    def do_GET(self):
        with open("/tmp/stolen", "a", encoding="utf-8") as f:
            f.write(f"{self.headers.get('Authorization')}\n")
        self.answer(401, {"WWW-Authenticate": 'Basic realm="git"'})

    do_POST = do_GET


if __name__ == "__main__":
    thief = http.server.ThreadingHTTPServer(("127.0.0.1", PORT + 1), Thief)
    threading.Thread(target=thief.serve_forever, daemon=True).start()
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Backend).serve_forever()
