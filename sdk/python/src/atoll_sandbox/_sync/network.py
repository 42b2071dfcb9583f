# Made by tools/unasync.py from ../_async/network.py: change that file.
"""What the sandbox may reach, and connections that wait for an approval."""

from __future__ import annotations

import json
from typing import Any, Literal, Mapping, Sequence

from .. import _checks as checks
from .. import _wire as wire
from ..errors import SandboxError
from ..models import made
from ..models_network import Approval, NetworkRecord
from .commands import Scope
from .streams import EndlessLink, EventStream


class Network(Scope):
    def get_network(self) -> dict[str, Any]:
        """The policy that holds: `mode`, `allow`, `deny`, …; `own` is what the sandbox asked for, beside totals."""
        return self._box.json(wire.request("GET", "/network"))

    def set_network(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Changes the members that are given; None takes one away. Connections that begin afterwards meet the new policy.

            sandbox.set_network({"mode": "list", "allow": ["pypi.org"], "ask": True})
        """
        if not isinstance(policy, Mapping):
            raise TypeError(f"a policy is a mapping like {{'mode': 'list', 'allow': [...]}}, not {type(policy).__name__}")
        body = json.dumps(dict(policy)).encode()
        headers = {"content-type": "application/json"}
        try:
            return self._box.json(wire.Request("PATCH", "/network", body, headers, True, wire.ANSWER_SECONDS))
        except SandboxError as error:
            if error.code != "SANDBOX_NOT_FOUND":
                raise
        # The first call makes the sandbox.
        given = {name: value for name, value in policy.items() if value is not None}
        self._box.json(wire.request("PUT", "", {"network": given}, repeatable=True))
        return self.get_network()

    def set_allowed_hosts(self, hosts: Sequence[str]) -> None:
        """Only these hosts can be reached; an empty list means none."""
        self.set_network({"mode": "list", "allow": checks.names(hosts, "hosts")})

    def set_denied_hosts(self, hosts: Sequence[str]) -> None:
        """These hosts cannot be reached, whatever else is allowed."""
        self.set_network({"deny": checks.names(hosts, "hosts")})

    def network_log(self) -> list[NetworkRecord]:
        """The last connections that have ended and names that were refused, oldest first."""
        return [made(NetworkRecord, one) for one in (self._box.json(wire.request("GET", "/network/log")))["log"]]

    def follow_network_log(self) -> EventStream[NetworkRecord]:
        """The same as events that go on.

            for record in sandbox.follow_network_log():
                print(record.decision, record.name, record.port)
        """
        link = EndlessLink(self._box, wire.stream_request("GET", "/network/log?follow=1"), "network.log")
        return EventStream(link, lambda event: made(NetworkRecord, event))

    def approvals(self) -> list[Approval]:
        """Connections of this sandbox that wait for an approval, oldest first."""
        found = (self._box.json(wire.request("GET", "/v1/approvals")))["approvals"]
        return [made(Approval, one) for one in found if one["sandbox"] == self._box.id]

    def follow_approvals(self) -> EventStream[Approval]:
        """Connections of this sandbox that wait now, then those that come, and their ends.

            for approval in sandbox.follow_approvals():
                if approval.type == "approval":
                    sandbox.approve(approval)
        """
        link = _OwnLink(self._box, wire.stream_request("GET", "/v1/approvals?follow=1"), "network.approvals")
        return EventStream(link, lambda event: made(Approval, event))

    def approve(
        self,
        approval: str | Approval,
        decision: Literal["allow", "deny"] = "allow",
        *,
        remember: Literal["once", "sandbox", "always"] = "once",
    ) -> dict[str, Any]:
        """Answers one. `remember` makes the answer a rule of the sandbox, or of all sandboxes."""
        name = approval.id if isinstance(approval, Approval) else approval
        if not isinstance(name, str) or not name:
            raise TypeError("an approval is an Approval, or the str of its id")
        body = {"decision": decision, "remember": remember}
        return self._box.json(wire.request("POST", f"/v1/approvals/{wire.segment(name)}", body))


class _OwnLink(EndlessLink):
    """Events of all sandboxes, of which one's own are kept."""

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        while True:
            event = super().next(until)
            if event is None or event.get("sandbox") == self._box.id:
                return event
