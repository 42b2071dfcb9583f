"""Sandboxes: how they are found, configured, started and ended."""

from __future__ import annotations

import contextlib
from typing import Any, Literal, Mapping, Sequence

from .. import _checks as checks
from .. import _wire as wire
from .._place import locate
from ..errors import SandboxError
from ..models import Limits, SandboxInfo, made, sandbox_info
from ..models_daemon import Ticket, UsageSample
from .box import Box
from .network import AsyncNetwork
from .outbound import AsyncOutbound, Hook
from .ports import AsyncPorts
from .session import AsyncSessions
from .storage import AsyncStorage
from .transport import Transport
from .volumes import AsyncVolumes


#: Upstream's instance types.
Instance = Literal["lite", "basic", "standard-1", "standard-2", "standard-3", "standard-4"]


def _listed(value: Sequence[str] | None, name: str) -> list[str] | None:
    return None if value is None else checks.names(value, name)


def _spec(
    image: str | None = None,
    limits: Limits | Mapping[str, Any] | None = None,
    env: Mapping[str, str | None] | None = None,
    labels: Mapping[str, str] | None = None,
    sleep_after: str | int | None = None,
    keep_alive: bool | None = None,
    network: Mapping[str, Any] | None = None,
    secrets: Sequence[str] | None = None,
    volumes: Sequence[Mapping[str, Any]] | None = None,
    instance: str | None = None,
    backup: Mapping[str, Any] | None = None,
    durable: bool | None = None,
    fuse: bool | None = None,
    user: str | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The options that the daemon keeps, as PUT takes them."""
    if limits is not None and not isinstance(limits, Limits):
        limits = Limits(**limits)
    spec = {
        "image": image,
        "limits": limits and {name: value for name, value in vars(limits).items() if value is not None},
        "instance": instance,
        "envChanges": checks.variables(env) or None,
        "labels": None if labels is None else dict(labels),
        "sleepAfter": sleep_after,
        "keepAlive": keep_alive,
        "network": None if network is None else dict(network),
        "secrets": _listed(secrets, "secrets"),
        "volumes": None if volumes is None else [checks.volume(volume) for volume in volumes],
        "backup": None if backup is None else dict(backup),
        "durable": durable,
        "fuse": fuse,
        "user": user,
        "command": _listed(command, "command"),
    }
    given = {name: value for name, value in spec.items() if value is not None}
    # What is empty goes away.
    return {name: None if name in ("backup", "network") and not value else value for name, value in given.items()}


class AsyncSandbox(AsyncSessions, AsyncPorts, AsyncNetwork, AsyncOutbound, AsyncStorage, AsyncVolumes):
    """A named, isolated Linux box of an Atoll.

        async with AsyncSandbox("user-123") as sandbox:
            result = await sandbox.exec("echo hello")
            print(result.stdout)

    Nothing happens before the first call, which makes the sandbox unless it exists (with `create=False`, a sandbox that does
    not exist is an error). Leaving `async with` closes connections; with `destroy_on_exit=True` it destroys the sandbox.

    `url` and `token` say which Atoll: `http://host:8700`, `https://…`, or `unix:/run/atoll/atoll.sock`, which needs no token.
    Without them: `ATOLL_URL` and `ATOLL_TOKEN`; else the socket of this machine; else `127.0.0.1:8700` with its token file.

    These are told to the daemon before the first call; what is not given is left as it is:

    - `image`; `limits` (see `Limits`), or `instance`, one of upstream's types (`"lite"`, `"standard-1"` …)
    - `env`: everything that is started from then on has these variables; None unsets one
    - `labels`; `sleep_after` (`"10m"`, or seconds) and `keep_alive`; `user` and `command` in place of the image's
    - `network` (a policy, as `set_network` takes it), `secrets` (names, see `AsyncSecrets`)
    - `volumes` (`{"name": …, "path": …, "read_only": …}`), `backup` (a schedule: `{"every": "1h", "keep": 24}`; `{}` ends it),
      `durable` (False: fsync does not wait for the disk), `fuse` (False: no mounts of programs in the sandbox)

    With `default_session=False`, calls that name no session run outside of any. `normalize_id` turns the id into lower case,
    which preview URLs need. A sandbox that is not ready is waited for, for `ready_timeout` seconds. A request that did not
    reach Atoll is sent again for `retry_timeout` seconds; without it, for 5 s, but not at all where nothing has ever answered.
    """

    def __init__(
        self,
        id: str,
        *,
        url: str | None = None,
        token: str | None = None,
        create: bool = True,
        destroy_on_exit: bool = False,
        image: str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        env: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str] | None = None,
        sleep_after: str | int | None = None,
        keep_alive: bool | None = None,
        network: Mapping[str, Any] | None = None,
        secrets: Sequence[str] | None = None,
        volumes: Sequence[Mapping[str, Any]] | None = None,
        instance: Instance | None = None,
        backup: Mapping[str, Any] | None = None,
        durable: bool | None = None,
        fuse: bool | None = None,
        user: str | None = None,
        command: Sequence[str] | None = None,
        default_session: bool = True,
        normalize_id: bool = False,
        ready_timeout: float = wire.READY_SECONDS,
        retry_timeout: float | None = None,
    ) -> None:
        checks.milliseconds(ready_timeout, "ready_timeout")
        checks.milliseconds(retry_timeout or None, "retry_timeout")
        checked = checks.sandbox_id(id)
        named = checked.lower() if normalize_id else checked
        spec = _spec(image, limits, env, labels, sleep_after, keep_alive, network, secrets, volumes, instance, backup, durable,
                     fuse, user, command)
        self._box = Box(Transport(locate(url, token), ready_timeout, retry_timeout), named, spec, create)
        self._hook = Hook(self._box)
        self._session = f"sandbox-{named}" if default_session else wire.NO_SESSION
        self._destroy_on_exit = destroy_on_exit

    @property
    def id(self) -> str:
        return self._box.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} at {self._box.transport.place.where}>"

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            if self._destroy_on_exit:
                # An exception of the caller's own is worth more than that Atoll is gone.
                with contextlib.suppress(*((SandboxError,) if error[0] else ())):
                    await self.destroy()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections, that of outbound handlers too. The sandbox lives on."""
        await self._hook.close()
        await self._box.transport.aclose()

    async def start(self) -> None:
        """Makes and starts the sandbox now instead of with the first call."""
        await self._box.json(wire.request("GET", "/api/ping"))

    async def stop(self) -> None:
        """Ends all processes, sessions and contexts; files stay. The next call starts the sandbox again, with its services."""
        try:
            await self._move("/stop")
        except SandboxError as error:
            if error.code != "SANDBOX_NOT_FOUND":
                raise

    async def sleep(self) -> None:
        """Freezes the sandbox: nothing is lost, and the next call wakes it."""
        await self._move("/sleep")

    async def wake(self) -> None:
        """Wakes the sandbox, or starts it if it is stopped."""
        await self._move("/wake")

    async def _move(self, route: str) -> None:
        await self._box.json(wire.request("POST", route, repeatable=True))

    async def destroy(self) -> None:
        """Ends the sandbox with its processes and files. A sandbox that does not exist is no error."""
        await self._hook.forget()
        self._box.lives += 1
        self._box.ready = False
        try:
            await self._box.json(wire.request("DELETE", "", repeatable=True), now=True)
        except SandboxError as error:
            if error.code != "SANDBOX_NOT_FOUND":
                raise

    async def info(self) -> SandboxInfo | None:
        """The sandbox as the daemon sees it, with its limits and usage; None when there is none. Makes nothing."""
        wire_info = await self._box.info()
        return None if wire_info is None else sandbox_info(wire_info)

    async def usage(self) -> list[UsageSample]:
        """What the sandbox used in the last hour, a sample for each minute in which it ran. Makes nothing."""
        answer = await self._box.json(wire.request("GET", "/usage"), now=True)
        return [made(UsageSample, one) for one in answer["samples"]]

    async def create_ticket(
        self, purpose: Literal["terminal", "exec", "watch", "download"], path: checks.StrPath | None = None
    ) -> Ticket:
        """A permission for one request of a web page, which can send no token: `?ticket=` in the URL of `/ws/pty` (terminal),
        `/ws/exec`, `/ws` (watch) or `/api/file` (the download of `path`). It holds for a minute."""
        if (purpose == "download") != (path is not None):
            raise checks.invalid("path", "a download has a path, and nothing else has")
        body = {"sandbox": self.id, "for": purpose, "path": None if path is None else checks.path_text(path)}
        return made(Ticket, await self._box.json(wire.request("POST", "/v1/tickets", body)))

    async def configure(
        self,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        env: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str] | None = None,
        sleep_after: str | int | None = None,
        keep_alive: bool | None = None,
        network: Mapping[str, Any] | None = None,
        secrets: Sequence[str] | None = None,
        volumes: Sequence[Mapping[str, Any]] | None = None,
        instance: Instance | None = None,
        backup: Mapping[str, Any] | None = None,
        durable: bool | None = None,
        fuse: bool | None = None,
        user: str | None = None,
        command: Sequence[str] | None = None,
    ) -> SandboxInfo:
        """Makes the sandbox, or changes an existing one at once: everything that is started from then on has `env` and
        `secrets`, which replace those that it had. `durable`, `user` and `command` count from the next start; volumes change
        only while the sandbox is stopped."""
        spec = _spec(None, limits, env, labels, sleep_after, keep_alive, network, secrets, volumes, instance, backup, durable,
                     fuse, user, command)
        return sandbox_info(await self._box.json(wire.request("PUT", "", spec, repeatable=True, nulls=True)))

    async def set_env_vars(self, env: Mapping[str, str | None]) -> None:
        """Sets variables for all that this object does from now on, in the default session, in new sessions and contexts;
        None unsets one."""
        checked = checks.variables(env)
        if self._session != wire.NO_SESSION:
            await self._export(self._session, checked)
        self._box.env.update(checked)
