"""An internet for boxes, made of servers on loopback: a daemon with `ATOLL_EGRESS_PROXY=httph://…` asks the proxy here for every name.

    with Internet({"git.test": handler, …}) as net: Instance({"ATOLL_EGRESS_PROXY": net.proxy})

A name that no server has is refused.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import re
import socket
import subprocess
import tarfile
import threading
import zipfile


class Web(http.server.BaseHTTPRequestHandler):
    """Base of the servers: `answer(status, body, **headers)`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        out = b""
        while n := int(self.rfile.readline(), 16):
            out += self.rfile.read(n)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)


def started(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Internet:
    def __init__(self, handlers, others=()):
        """`others`: names, and ports of this machine that answer for them."""
        self.servers = {name: started(handler) for name, handler in handlers.items()}
        ports = {**{name: server.server_port for name, server in self.servers.items()}, **dict(others)}

        class Proxy(Web):
            def do_CONNECT(self):
                port = ports.get(self.path.rpartition(":")[0])
                if port is None:
                    return self.answer(502)
                self.send_response(200)
                self.end_headers()
                self.close_connection = True
                with socket.create_connection(("127.0.0.1", port)) as far:
                    back = threading.Thread(target=pump, args=(far, self.connection), daemon=True)
                    back.start()
                    pump(self.connection, far)
                    back.join()

        self.servers["proxy"] = started(Proxy)
        self.proxy = f"httph://127.0.0.1:{self.servers['proxy'].server_port}"

    def url(self, name):
        """The address of a server for programs of the host."""
        return f"http://127.0.0.1:{self.servers[name].server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.shutdown()
            server.server_close()


def tarball(directory):
    """A package as npm packs it, without the packages inside it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.add(directory, "package", filter=lambda entry: None if "/node_modules" in entry.name else entry)
    return out.getvalue()


def npm_registry(modules, host):
    """A registry with the packages of a node_modules directory."""
    packages, files = {}, {}
    for manifest in modules.rglob("package.json"):
        if manifest.parent.parent.name not in ("node_modules",) and not manifest.parent.parent.name.startswith("@"):
            continue
        described = json.loads(manifest.read_text(encoding="utf-8"))
        name, version = described.get("name"), described.get("version")
        if name and version:
            packages.setdefault(name, {})[version] = manifest.parent, described

    class Registry(Web):
        def do_GET(self):
            name, _, file = self.path[1:].replace("%2f", "/").replace("%2F", "/").partition("/-/")
            if name not in packages:
                return self.answer(404, b"{}")
            if file:
                return self.answer(200, files[name, file])
            versions = {}
            for version, (directory, described) in packages[name].items():
                data = files.setdefault((name, f"{version}.tgz"), tarball(directory))
                integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
                described.pop("scripts", None)
                versions[version] = {**described, "dist": {"tarball": f"http://{host}/{name}/-/{version}.tgz", "integrity": integrity}}
            latest = max(versions, key=lambda v: [int(n) for n in re.findall(r"\d+", v)])
            return self.answer(200, json.dumps({"name": name, "dist-tags": {"latest": latest}, "versions": versions}).encode(),
                               Content_Type="application/json")

        do_POST = do_GET

    return Registry


def wheel(name, version, module):
    """A wheel with one module."""
    out = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return out.getvalue()


def python_index(wheels):
    """A package index: {"name-1.0-py3-none-any.whl": bytes}."""

    class Index(Web):
        def do_GET(self):
            if (file := self.path.rpartition("/")[2]) in wheels:
                return self.answer(200, wheels[file])
            name = self.path.strip("/").rpartition("/")[2]
            links = "".join(f'<a href="/{file}">{file}</a>' for file in wheels if file.startswith(name + "-"))
            return self.answer(200 if links else 404, links.encode(), Content_Type="text/html")

    return Index


def git_server(root, statuses):
    """Repositories below a directory, over HTTP, and the API of commit statuses, which fills `statuses`."""

    class Git(Web):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            body = self.body()
            if path.startswith("/repos/"):
                statuses.append((path, self.headers.get("Authorization"), json.loads(body)))
                return self.answer(201, b"{}")
            env = {**os.environ, "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
                   "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                   "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
            out = subprocess.run(["/usr/lib/git-core/git-http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=False).stdout
            head, _, content = out.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            status = int(headers.pop("Status", "200").split()[0])
            return self.answer(status, content, **headers)

        do_POST = do_GET

    return Git


def repository(root, name, files):
    """Makes a bare repository with one commit; returns the commit."""
    work = root / "work" / name
    for path, content in files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(content, encoding="utf-8")

    def git(*words):
        return subprocess.run(["git", "-C", work, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True, capture_output=True,
                              text=True).stdout.strip()
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("clone", "-q", "--bare", ".", root / f"{name}.git")
    return git("rev-parse", "HEAD")
