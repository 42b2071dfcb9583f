"""A proxy before an S3 server that lets through only what is signed as AWS describes version 4, in the header or in the query. It is an
implementation of its own: it knows no other of this project, and none of upstream's.

    python3 s3verify.py ADDRESS PORT BACKEND-PORT [CERT KEY]

The key pair is in the variables KEY_ID and KEY_SECRET; with S3_HOST requests to BUCKET.S3_HOST are for that bucket. Prints the port when
it listens, and then one line for each request: "ok" or "refused", how it was signed, method and path, and why it was refused.
"""

import datetime
import hashlib
import hmac
import http.client
import http.server
import os
import ssl
import sys
import threading
import urllib.parse

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = datetime.timedelta(minutes=15)


class Refused(Exception):
    pass


def quoted(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def canonical_query(pairs):
    return "&".join(f"{k}={v}" for k, v in sorted((quoted(k), quoted(v)) for k, v in pairs))


def signature(secret, scope, text):
    key = ("AWS4" + secret).encode()
    for word in scope:
        key = hmac.digest(key, word.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


class Request:
    """One request and what its signature says about it."""

    def __init__(self, method, target, headers, body):
        path, _, query = target.partition("?")
        self.method, self.path, self.body = method, path, body
        self.headers = {}
        for name, value in headers:
            self.headers.setdefault(name.lower(), []).append(" ".join(value.split()))
        # A plus is a plus here: the query is no form.
        self.pairs = [tuple(map(urllib.parse.unquote, pair.partition("=")[::2])) for pair in query.split("&") if pair]

    def fields(self):
        """(how, credential, signed headers, signature, date, seconds that it holds)"""
        query = dict(self.pairs)
        if "X-Amz-Signature" in query:
            if query.get("X-Amz-Algorithm") != ALGORITHM:
                raise Refused("another algorithm")
            return ("query", query["X-Amz-Credential"], query["X-Amz-SignedHeaders"], query["X-Amz-Signature"], query["X-Amz-Date"],
                    int(query.get("X-Amz-Expires", 86400)))
        words, _, rest = self.headers.get("authorization", [""])[0].partition(" ")
        if words != ALGORITHM:
            raise Refused("it is not signed")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        return "header", parts["Credential"], parts["SignedHeaders"], parts["Signature"], self.headers["x-amz-date"][0], 0

    def hash_of_body(self, how):
        said = self.headers.get("x-amz-content-sha256", ["UNSIGNED-PAYLOAD" if how == "query" else None])[0]
        if said is None:
            raise Refused("no x-amz-content-sha256")
        if said != "UNSIGNED-PAYLOAD" and said != hashlib.sha256(self.body).hexdigest():
            raise Refused("the body is not what was signed")
        return said

    def canonical(self, how, signed):
        lines = [self.method, quoted(urllib.parse.unquote(self.path), "/"),
                 canonical_query((k, v) for k, v in self.pairs if k != "X-Amz-Signature")]
        for name in signed:
            if name not in self.headers:
                raise Refused(f"the header {name} was signed and is not there")
            lines.append(f"{name}:{','.join(self.headers[name])}")
        return "\n".join([*lines, "", ";".join(signed), self.hash_of_body(how)])

    def verify(self, key_id, secret):
        """Raises Refused; returns how it was signed."""
        how, credential, names, given, date, lasts = self.fields()
        who, *scope = credential.split("/")
        signed = names.split(";")
        if who != key_id:
            raise Refused("an unknown key id")
        if len(scope) != 4 or scope[0] != date[:8] or scope[2:] != ["s3", "aws4_request"]:
            raise Refused(f"a wrong scope {scope}")
        if signed != sorted(signed) or "host" not in signed:
            raise Refused("the list of signed headers is not sorted, or has no host")
        loose = [h for h in self.headers if h.startswith("x-amz-") and h not in signed]
        if how == "header" and loose:
            raise Refused(f"not signed: {loose}")
        self.check_time(date, lasts)
        text = "\n".join([ALGORITHM, date, "/".join(scope), hashlib.sha256(self.canonical(how, signed).encode()).hexdigest()])
        if not hmac.compare_digest(given, signature(secret, scope, text)):
            raise Refused("a wrong signature")
        return how

    @staticmethod
    def check_time(date, lasts):
        then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        age = datetime.datetime.now(datetime.UTC) - then
        if age < -SKEW or age > (datetime.timedelta(seconds=lasts) if lasts else SKEW):
            raise Refused("too old or too new")


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    backend, key_id, secret, host = 0, "", "", ""
    printing = threading.Lock()

    def log_message(self, *_):
        pass

    def say(self, *words):
        with self.printing:
            print(*words, flush=True)

    def refuse(self, why):
        self.say("refused", "-", self.command, self.path.partition("?")[0], why)
        code = "InvalidAccessKeyId" if "key id" in why else "SignatureDoesNotMatch"
        text = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{why}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            how = Request(self.command, self.path, self.headers.items(), body).verify(self.key_id, self.secret)
        except Refused as e:
            return self.refuse(str(e))
        except (KeyError, ValueError) as e:
            return self.refuse(f"cannot be read: {e!r}")
        self.say("ok", how, self.command, self.path.partition("?")[0])
        return self.ask(body)

    def bucket(self):
        """The bucket that the host's name begins with: the server knows paths only."""
        bucket, _, rest = self.headers.get("Host", "").partition(".")
        return f"/{bucket}" if self.host and rest.rpartition(":")[0] == self.host else ""

    def ask(self, body):
        c = http.client.HTTPConnection("127.0.0.1", self.backend, timeout=60)
        try:
            c.putrequest(self.command, self.bucket() + self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                c.putheader(name, value)
            c.endheaders(body)
            r = c.getresponse()
            self.answer(r, r.read())
        finally:
            c.close()

    def answer(self, r, data):
        self.send_response(r.status)
        length = len(data)
        for name, value in r.getheaders():
            if self.command == "HEAD" and name.lower() == "content-length":
                length = int(value)
            elif name.lower() not in ("transfer-encoding", "connection", "content-length", "keep-alive"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward


def main():
    address, port, Proxy.backend, *pair = sys.argv[1:]
    Proxy.key_id, Proxy.secret, Proxy.host = os.environ["KEY_ID"], os.environ["KEY_SECRET"], os.environ.get("S3_HOST", "")
    server = http.server.ThreadingHTTPServer((address, int(port)), Proxy)
    if pair:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
