"""sdk/python and the world: WebSockets of outbound handlers, approvals, and buckets of a real S3 server (s3rver) with TLS. For the last two the whole
of Atoll runs in a network namespace of its own (gatelib)."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import netfix
import package as typescript
import pytest
import s3server
from gatelib import WEB, WEB2
from outbound_parts import CLIENT, SERVER, SHOWN, WSCLIENT

ROOT = Path(__file__).resolve().parents[2]
MISSING = [name for name in ("httpx", "websockets") if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"tools/deps test installs what is missing: {', '.join(MISSING)}")

PORT = 8444
ENDPOINT = f"https://two.example:{PORT}"


def run(program, *arguments, env):
    r = subprocess.run(["/usr/bin/python3", "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=300,
                       env={**env, "PYTHONPATH": str(ROOT / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1"})
    assert r.returncode == 0, f"{r.stdout}\n{r.stderr}"
    return r.stdout


# ---- Outbound handlers


OUTBOUND = {
    "blocking": """
import sys, httpx
from atoll_sandbox import Sandbox, WebSocket
box, port = sys.argv[1:]
def answer(request):
    if request.headers.get("upgrade") == "websocket":
        return WebSocket.forward(request, f"http://127.0.0.1:{port}{request.url.path}")
    if request.url.path == "/echo":
        return httpx.Response(200, content=request.stream)
    return httpx.Response(203, text=f"{request.url.scheme}: {request.url.host} {request.method}\\n")
with Sandbox(box) as sandbox:
    sandbox.set_outbound_handler(answer)
    for command in ('curl -sS -w "%{http_code}\\\\n" http://one.example/ https://two.example/x', "python3 /workspace/client.py"):
        result = sandbox.exec(command, timeout=120)
        print(result.stdout + result.stderr, end="")
    sandbox.set_outbound_handler(None)
""",
    "asyncio": """
import asyncio, sys, httpx
from atoll_sandbox import AsyncSandbox, AsyncWebSocket
box, port = sys.argv[1:]
async def answer(request):
    if request.headers.get("upgrade") == "websocket":
        return await AsyncWebSocket.forward(request, f"http://127.0.0.1:{port}{request.url.path}")
    if request.url.path == "/echo":
        return httpx.Response(200, content=request.stream)
    return httpx.Response(203, text=f"{request.url.scheme}: {request.url.host} {request.method}\\n")
async def main():
    async with AsyncSandbox(box) as sandbox:
        await sandbox.set_outbound_handler(answer)
        for command in ('curl -sS -w "%{http_code}\\\\n" http://one.example/ https://two.example/x', "python3 /workspace/client.py"):
            result = await sandbox.exec(command, timeout=120)
            print(result.stdout + result.stderr, end="")
        await sandbox.set_outbound_handler(None)
asyncio.run(main())
""",
}


@pytest.fixture
def server():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.mark.parametrize("kind", OUTBOUND)
def test_outbound(daemon, box, server, kind):
    """The same program in the box, and the same answers, as for the TypeScript SDK."""
    for name, content in (("wsclient.py", WSCLIENT.read_text()), ("client.py", CLIENT)):
        reply = daemon.request("POST", f"/v1/sandboxes/{box}/api/write", {"path": f"/workspace/{name}", "content": content})
        assert reply.status == 200, reply
    assert run(OUTBOUND[kind], box, server, env=typescript.reaching(daemon)) == SHOWN


# ---- A network namespace with servers


@pytest.fixture(scope="module")
def world(world):
    world.tmp.chmod(0o755)
    return world


@pytest.fixture(scope="module")
def net(world):
    with netfix.running(world, {"SSL_CERT_FILE": str(world.tmp / "cert.pem")}) as instance:
        yield instance


def inside(net):
    """The daemon's address is in its namespace, its socket is here."""
    here = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
    return {**here, "ATOLL_URL": f"unix:{net.socket}"}


APPROVALS = {
    "blocking": """
import threading
from atoll_sandbox import Sandbox
with Sandbox("py-ask", destroy_on_exit=True, network={"mode": "list", "ask": True}) as sandbox:
    with sandbox.follow_approvals() as events:
        out = []
        command = threading.Thread(target=lambda: out.append(sandbox.exec("curl -sS http://web.example/; curl -sS http://two.example/", timeout=60)))
        command.start()
        for event in events:
            print(event.type, event.host, event.port, event.end)
            if event.type == "approval":
                sandbox.approve(event, "allow" if event.host == "web.example" else "deny")
            elif event.host == "two.example":
                break
        command.join()
        print(out[0].stdout, end="")
""",
    "asyncio": """
import asyncio
from atoll_sandbox import AsyncSandbox
async def main():
    async with AsyncSandbox("py-ask", destroy_on_exit=True, network={"mode": "list", "ask": True}) as sandbox:
        async with sandbox.follow_approvals() as events:
            command = asyncio.ensure_future(sandbox.exec("curl -sS http://web.example/; curl -sS http://two.example/", timeout=60))
            async for event in events:
                print(event.type, event.host, event.port, event.end)
                if event.type == "approval":
                    await sandbox.approve(event, "allow" if event.host == "web.example" else "deny")
                elif event.host == "two.example":
                    break
            print((await command).stdout, end="")
asyncio.run(main())
""",
}


@pytest.mark.parametrize("kind", APPROVALS)
def test_approvals_are_followed_and_answered(net, kind):
    shown = run(APPROVALS[kind], env=inside(net))
    assert shown.startswith("approval web.example 80 None\nended web.example 80 allow\napproval two.example 80 None\nended two.example 80 deny\n"
                            f"http {WEB} web.example\n"), shown


BUCKETS = {
    "blocking": """
import sys
from atoll_sandbox import BucketMountError, Sandbox, SandboxError, Secrets
endpoint, key_id, key_secret = sys.argv[1:]
aws = {"accessKeyId": key_id, "region": "us-east-1", "service": "s3"}
host = endpoint.partition("//")[2]
with Secrets() as secrets, Sandbox("py-bucket", destroy_on_exit=True) as sandbox:
    secrets.put("py-s3", key_secret, hosts=[host], aws=aws)
    sandbox.mount_bucket("data", "/mnt/data", endpoint=endpoint, secret="py-s3", prefix="/py")
    sandbox.write_file("/mnt/data/f", "through the bucket")
    mount = sandbox.mounts()[0]
    print(mount.bucket, mount.path, mount.prefix, mount.read_only, mount.secret)
    sandbox.mount_bucket("data", "/mnt/again", endpoint=endpoint, secret="py-s3", prefix="/py", read_only=True)
    print(sandbox.read_file("/mnt/again/f"))
    try:
        sandbox.write_file("/mnt/again/g", "x")
    except SandboxError as error:
        print(error.code)
    sandbox.stop()
    print(sandbox.read_file("/mnt/data/f"))  # every start mounts it again
    print(key_secret in sandbox.exec("env; cat /proc/*/environ /proc/*/cmdline | tr '\\\\0' ' '").stdout)
    try:
        sandbox.mount_bucket("no-such-bucket", "/mnt/wrong", endpoint=endpoint, secret="py-s3")
    except BucketMountError as error:
        print(type(error).__name__, error.code, bool(error.suggestion))
    sandbox.unmount_bucket("/mnt/again")
    sandbox.unmount_bucket("/mnt/data")
    print(sandbox.mounts(), sandbox.readdir("/mnt/data"))
    secrets.delete("py-s3")
""",
}
BUCKETS["asyncio"] = "import asyncio\nasync def main():\n" + "".join(f"    {line}\n" for line in (
    BUCKETS["blocking"].replace("Sandbox, SandboxError, Secrets", "AsyncSandbox, AsyncSecrets, SandboxError")
    .replace("with Secrets() as secrets, Sandbox(", "async with AsyncSecrets() as secrets, AsyncSandbox(")
    .replace("    secrets.", "    await secrets.").replace("    sandbox.", "    await sandbox.").replace("print(sandbox.r", "print(await sandbox.r")
    .replace("= sandbox.mounts()[0]", "= (await sandbox.mounts())[0]")
    .replace("in sandbox.exec(", "in (await sandbox.exec(").replace("' '\").stdout", "' '\")).stdout")
    .replace("print(sandbox.mounts(), sandbox", "print(await sandbox.mounts(), await sandbox")).splitlines()) + "asyncio.run(main())\n"

IN_THE_BUCKET = """data /mnt/data /py False py-s3
through the bucket
READ_ONLY
through the bucket
False
BucketMountError BUCKET_MOUNT_FAILED True
[] []
"""


@pytest.fixture(scope="module")
def s3(world):
    pair = world.tmp / "cert.pem", world.tmp / "key.pem"
    return s3server.Server(world.tmp / "buckets", lambda argv, **kw: world.start(world.servers, *argv, **kw), WEB2, PORT, pair)


@pytest.mark.parametrize("kind", BUCKETS)
def test_buckets_with_keys_that_the_sandbox_never_sees(net, s3, kind):
    assert run(BUCKETS[kind], ENDPOINT, s3.key_id, s3.secret, env=inside(net)) == IN_THE_BUCKET
    stored = [path for path in s3.directory.rglob("*") if path.is_file() and b"through the bucket" in path.read_bytes()]
    assert stored, "nothing reached the server"
