"""Previews below a domain of one's own. The ASGI server is played here: its messages are the whole interface."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

import pytest

from atoll_sandbox import AsyncSandbox, Sandbox
from atoll_sandbox.asgi import PreviewProxy, preview_route, proxy_terminal

from .test_ports import SERVER


@pytest.fixture
def served(box_id: str) -> Any:
    with Sandbox(box_id) as sandbox:
        sandbox.write_file("/tmp/server.py", SERVER)
        sandbox.start_process("python3 /tmp/server.py").wait_for_port(8080)
        sandbox.expose_port(8080, token="demo")
        yield sandbox


def scope_of(kind: str, host: str, path: str = "/", **more: Any) -> dict[str, Any]:
    headers = [(b"host", host.encode()), *more.pop("headers", [])]
    scheme = "https" if kind == "http" else "wss"
    return {"type": kind, "scheme": scheme, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, **more}


async def asked(app: Any, scope: dict[str, Any], *bodies: bytes) -> tuple[int, dict[str, str], bytes]:
    waiting = list(bodies) or [b""]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {key.decode().lower(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message["body"] for message in sent[1:])


def run(work: Callable[[PreviewProxy], Any]) -> Any:
    async def own(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the app's own"})

    async def main() -> Any:
        proxy = PreviewProxy(own)
        try:
            return await asyncio.wait_for(work(proxy), 60)
        finally:
            await proxy.aclose()

    return asyncio.run(main())


def test_requests(served: Any) -> None:
    host = f"8080-{served.id}-demo.boxes.example.org"

    async def work(proxy: PreviewProxy) -> None:
        assert (await asked(proxy, scope_of("http", "www.example.org")))[2] == b"the app's own"
        status, _, body = await asked(proxy, scope_of("http", host, "/a%20b", query_string=b"c=d"))
        assert (status, body) == (200, b"GET /a%20b?c=d None ")
        headers = [(b"authorization", b"Basic own"), (b"content-length", b"4"), (b"x-atoll-token", b"forged")]
        status, _, body = await asked(proxy, scope_of("http", host, "/", method="POST", headers=headers), b"bo", b"dy")
        assert (status, body) == (200, b"POST / Basic own body")
        assert (await asked(proxy, scope_of("http", host, "/teapot")))[0] == 418
        headers = [(b"x-forwarded-for", b"10.0.0.1"), (b"forwarded", b"for=10.0.0.1"), (b"x-show", b"1")]
        shown = (await asked(proxy, scope_of("http", host, "/show", headers=headers, client=("192.0.2.7", 1))))[2].decode()
        assert f"host: {host}\n" in shown.lower() and "x-forwarded-proto: https\n" in shown.lower(), shown
        assert "192.0.2.7" in shown and "10.0.0.1" not in shown
        for path in ("/../../api/ping", "/%2e%2e/%2E./api/ping", "/../../../../x/../api/ping"):
            assert (await asked(proxy, scope_of("http", host, path)))[2] == b"GET /api/ping None ", path

    run(work)


def test_refusals(served: Any) -> None:
    served.expose_port(9999, token="empty")

    async def work(proxy: PreviewProxy) -> None:
        for host, status, word in (
            (f"8080-{served.id}-wrong.example.org", 404, b"INVALID_TOKEN"),
            (f"8080-{served.id}x-demo.example.org", 404, b"INVALID_TOKEN"),
            (f"9999-{served.id}-empty.example.org", 502, b""),
        ):
            answer = await asked(proxy, scope_of("http", host))
            assert (answer[0], word in answer[2]) == (status, True), answer

    run(work)
    with Sandbox(f"{served.id}x") as other:
        assert other.info() is None, "a request makes no sandbox"


def test_websockets(served: Any) -> None:
    async def work(proxy: PreviewProxy) -> None:
        to_app: asyncio.Queue[Any] = asyncio.Queue()
        from_app: asyncio.Queue[Any] = asyncio.Queue()
        scope = scope_of("websocket", f"8080-{served.id}-demo.example.org", "/echo", subprotocols=[])
        task = asyncio.create_task(proxy(scope, to_app.get, from_app.put))
        await to_app.put({"type": "websocket.connect"})
        assert (await from_app.get())["type"] == "websocket.accept"
        await to_app.put({"type": "websocket.receive", "text": "hello"})
        assert await from_app.get() == {"type": "websocket.send", "text": "hello"}
        await to_app.put({"type": "websocket.receive", "bytes": b"\x00"})
        assert await from_app.get() == {"type": "websocket.send", "bytes": b"\x00"}
        await to_app.put({"type": "websocket.disconnect"})
        await task
        refused = scope_of("websocket", f"8080-{served.id}-wrong.example.org")
        await proxy(refused, to_app.get, from_app.put)
        assert (await from_app.get())["type"] == "websocket.close"

    run(work)


def test_terminals(box_id: str) -> None:
    async def main() -> None:
        to_app: asyncio.Queue[Any] = asyncio.Queue()
        from_app: asyncio.Queue[Any] = asyncio.Queue()
        async with AsyncSandbox(box_id) as sandbox:
            task = asyncio.create_task(proxy_terminal(sandbox, to_app.get, from_app.put, cols=100, rows=30))
            await to_app.put({"type": "websocket.connect"})
            await to_app.put({"type": "websocket.receive", "bytes": b"stty size; exit 3\r"})
            seen: list[Any] = []
            while not seen or seen[-1]["type"] != "websocket.close":
                seen.append(await from_app.get())
            await task
        shown = b"".join(message.get("bytes", b"") for message in seen)
        assert b"30 100" in shown
        assert any('"exit"' in message.get("text", "") and "3" in message["text"] for message in seen)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_routes() -> None:
    assert preview_route("8080-user-123-tok_1.example.com") == (8080, "user-123", "tok_1")
    assert preview_route("8080-A-b.localhost:8700") == (8080, "a", "b")
    for host in ("example.com", "8080-a.example.com", "80-a-b.x", "99999-a-b.x", "8080-www-b.x", "8080--b.x", "", "8080-a-b"):
        assert preview_route(host) is None, host
