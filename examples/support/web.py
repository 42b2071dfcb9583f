"""A small HTTP server for the examples: `serve` calls a function for each request."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from atoll_sandbox import SandboxError

BODY_MAX = 16 * 2**20


class BadRequest(Exception):
    """The client is told the text, with status 400."""


class Request:
    def __init__(self, handler):
        self.method, self.path = handler.command, handler.path
        size = int(handler.headers.get("Content-Length") or 0)
        if size > BODY_MAX:
            raise BadRequest(f"a body has at most {BODY_MAX} bytes")
        self.body = handler.rfile.read(size)

    def json(self):
        try:
            found = json.loads(self.body)
        except ValueError as error:
            raise BadRequest(f"the body is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise BadRequest("the body is no JSON object")
        return found


def serve(answer):
    """`answer(request)` returns a status with an object for JSON, with bytes, or with an iterator of bytes that is streamed."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            try:
                status, content = answer(Request(self))
            except BadRequest as error:
                status, content = 400, {"error": str(error)}
            except SandboxError as error:  # it says what to do
                status, content = error.http_status or 500, {"error": str(error), "code": error.code, "suggestion": error.suggestion}
            except Exception as error:  # pylint: disable=broad-except
                status, content = 500, {"error": f"{type(error).__name__}: {error}"}
            self.send_response(status)
            if hasattr(content, "__next__"):
                self.stream(content)
            else:
                self.send(content if isinstance(content, bytes) else json.dumps(content).encode())

        do_POST = do_PUT = do_DELETE = do_GET

        def send(self, body):
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def stream(self, pieces):
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                pass  # the client has gone
            finally:
                pieces.close()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Handler)
    print(f"serving on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
