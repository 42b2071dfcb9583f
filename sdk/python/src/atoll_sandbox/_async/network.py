"""What the sandbox may reach, and connections that wait for an approval."""

from __future__ import annotations

import json
from typing import Any, Mapping

from .. import _wire as wire
from ..errors import SandboxError
from .commands import Scope
from .streams import AsyncEventStream, Link


class AsyncNetwork(Scope):
    async def get_network(self) -> dict[str, Any]:
        """The policy that holds: `mode`, `allow`, `deny`, …; `own` is what the sandbox asked for, beside totals."""
        return await self._box.json(wire.request("GET", "/network"))

    async def set_network(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Changes the members that are given; None takes one away. Connections that begin afterwards meet the new policy.

            await sandbox.set_network({"mode": "list", "allow": ["pypi.org"], "ask": True})
        """
        body = json.dumps(dict(policy)).encode()
        headers = {"content-type": "application/json"}
        try:
            return await self._box.json(wire.Request("PATCH", "/network", body, headers, True, wire.ANSWER_SECONDS))
        except SandboxError as error:
            if error.code != "SANDBOX_NOT_FOUND":
                raise
        # The first call makes the sandbox.
        given = {name: value for name, value in policy.items() if value is not None}
        await self._box.json(wire.request("PUT", "", {"network": given}, repeatable=True))
        return await self.get_network()

    async def network_log(self) -> list[dict[str, Any]]:
        """The last connections that have ended and names that were refused, oldest first."""
        return list((await self._box.json(wire.request("GET", "/network/log")))["log"])

    def follow_network_log(self) -> AsyncEventStream[dict[str, Any]]:
        """The same as events that go on.

            async for record in sandbox.follow_network_log():
                print(record["decision"], record["name"], record["port"])
        """
        return AsyncEventStream(Link(self._box, wire.stream_request("GET", "/network/log?follow=1")), dict)

    async def approvals(self) -> list[dict[str, Any]]:
        """Connections of this sandbox that wait for somebody: `id`, `host`, `port`, `protocol`, …"""
        found = (await self._box.json(wire.request("GET", "/v1/approvals")))["approvals"]
        return [one for one in found if one["sandbox"] == self._box.id]

    async def approve(self, approval_id: str, decision: str = "allow", *, remember: str = "once") -> dict[str, Any]:
        """Answers one: `decision` is allow or deny, `remember` once, sandbox or always."""
        body = {"decision": decision, "remember": remember}
        return await self._box.json(wire.request("POST", f"/v1/approvals/{wire.segment(approval_id)}", body))
