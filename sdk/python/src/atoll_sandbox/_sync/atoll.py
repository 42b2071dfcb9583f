# Made by tools/unasync.py from ../_async/atoll.py: change that file.
"""The daemon itself: its sandboxes, events and images."""

from __future__ import annotations

import io as files
import json
import os
import tarfile
import tempfile
from typing import IO, Any, Mapping, Sequence

from .. import _checks as checks
from .. import _wire as wire
from .._place import locate
from ..errors import error_from_response
from ..models import SandboxInfo, made, sandbox_info
from ..models_daemon import DaemonEvent, Image, ImageEvent, daemon_event
from ..models_storage import BackupUsage, BoxBackup
from .box import Box
from .streams import EventStream, Follow, Link, ResumedLink
from .transport import Transport

#: Seconds for which a build, a pull or a push may be silent.
IMAGE_SECONDS = 600.0


class _Daemon(Box):
    """Routes that belong to no sandbox: none has to be there."""

    def still_there(self, life: int, operation: str) -> None:
        return None


class _ImageLink(Link):
    """The events of a build, a pull or a push. What goes wrong is raised."""

    _over = False

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        event = super().next(until)
        if event is None and not self._over:
            raise wire.ended_early(self._box.transport.place, "images")
        if event is not None and event.get("type") == "error":
            raise error_from_response(event)
        self._over = self._over or (event or {}).get("type") == "done"
        return event


def _image_event(event: Any) -> ImageEvent:
    return made(ImageEvent, event)


def _image(reference: str) -> str:
    if not isinstance(reference, str) or not reference:
        raise TypeError("an image is named by a str: a name, name:tag or a digest")
    return f"/v1/images/{wire.segment(reference)}"


def _packed(directory: str) -> IO[bytes]:
    """A directory as a tar, in a file without a name."""
    packed = tempfile.TemporaryFile()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(directory, ".")
    packed.seek(0)
    return packed


class Atoll:
    """An Atoll: what it has beside one sandbox.

        with Atoll() as atoll:
            for info in atoll.sandboxes():
                print(info.id, info.state)

    `url` and `token` say which one, as for `Sandbox`.
    """

    def __init__(self, *, url: str | None = None, token: str | None = None) -> None:
        self._box = _Daemon(Transport(locate(url, token), wire.READY_SECONDS), "none", {}, True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._box.transport.place.where}>"

    def __enter__(self) -> Atoll:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._box.transport.close()

    def health(self) -> dict[str, Any]:
        """The daemon's version and what its host has."""
        return self._box.json(wire.request("GET", "/v1/health"))

    def sandboxes(self, *, state: str | None = None, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """All sandboxes, sorted by id; those in a state, and those with labels."""
        found: list[SandboxInfo] = []
        after: str | None = None
        while True:
            answer = self._box.json(wire.request("GET", "/v1/sandboxes", query={"after": after, "state": state}))
            found += [sandbox_info(one) for one in answer["sandboxes"]]
            after = answer.get("next")
            if after is None:
                break
        wanted = dict(labels or {}).items()
        return [info for info in found if wanted <= info.labels.items()]

    def backups(self) -> list[BoxBackup]:
        """The backups of all sandboxes, oldest first."""
        return [made(BoxBackup, one) for one in (self._box.json(wire.request("GET", "/v1/backups")))["backups"]]

    def backup_usage(self) -> BackupUsage:
        """What the backups of all sandboxes take, with hidden ones."""
        return made(BackupUsage, (self._box.json(wire.request("GET", "/v1/backups")))["usage"])

    def events(self) -> list[DaemonEvent]:
        """What happened to sandboxes lately, oldest first."""
        return [daemon_event(one) for one in (self._box.json(wire.request("GET", "/v1/events")))["events"]]

    def follow_events(self) -> EventStream[DaemonEvent]:
        """What happens to sandboxes from now on. Goes on after broken connections.

            for event in atoll.follow_events():
                print(event.type, event.sandbox)
        """
        request = wire.stream_request("GET", "/v1/events?follow=1")
        follow = Follow("events", request, request, ())
        return EventStream(ResumedLink(self._box, follow), daemon_event)

    # ---- Images

    def images(self) -> list[Image]:
        """All images, by name."""
        return [made(Image, one) for one in (self._box.json(wire.request("GET", "/v1/images")))["images"]]

    def get_image(self, reference: str) -> Image:
        """An image with its configuration, by a name, name:tag or a digest."""
        return made(Image, self._box.json(wire.request("GET", _image(reference))))

    def delete_image(self, reference: str) -> None:
        """Takes a name away, and removes what nothing refers to."""
        self._box.json(wire.request("DELETE", _image(reference)))

    def prune_images(self) -> None:
        """Removes images without a name or a sandbox, and the cached steps of builds."""
        self._box.json(wire.request("POST", "/v1/images/prune"))

    def tag_image(self, source: str, target: str) -> None:
        """Gives an image another name."""
        self._box.json(wire.request("POST", "/v1/images/tag", {"source": source, "target": target}))

    def commit_image(self, sandbox: str, name: str) -> str:
        """Makes an image from the files of a sandbox, which runs on; returns its id."""
        body = {"sandbox": checks.sandbox_id(sandbox), "name": name}
        return str((self._box.json(wire.request("POST", "/v1/images/commit", body, read_seconds=IMAGE_SECONDS)))["id"])

    def pull_image(self, reference: str, *, auth: Mapping[str, Any] | None = None) -> EventStream[ImageEvent]:
        """Fetches an image from a registry. `auth` is as in docker's config.json. Iterate, or the pull does not begin."""
        body = {"reference": reference, "auth": None if auth is None else dict(auth)}
        return self._progress(wire.request("POST", "/v1/images/pull", body, read_seconds=IMAGE_SECONDS))

    def push_image(self, name: str, reference: str, *, auth: Mapping[str, Any] | None = None) -> EventStream[ImageEvent]:
        """Sends an image to a registry."""
        body = {"name": name, "reference": reference, "auth": None if auth is None else dict(auth)}
        return self._progress(wire.request("POST", "/v1/images/push", body, read_seconds=IMAGE_SECONDS))

    def build_image(
        self,
        context: checks.StrPath | bytes | IO[bytes],
        *,
        tags: Sequence[str] = (),
        dockerfile: str | None = None,
        target: str | None = None,
        args: Mapping[str, str] | None = None,
        cache: bool = True,
    ) -> EventStream[ImageEvent]:
        """Builds an image from a directory with a Dockerfile, or from a tar of one. Leaving the loop cancels the build.

            for event in atoll.build_image("./app", tags=["app"]):
                print(event.text or event.type)
        """
        query = {
            "tag": ",".join(checks.names(tags, "tags")) or None, "dockerfile": dockerfile, "target": target,
            "buildargs": json.dumps(dict(args)) if args else None, "nocache": None if cache else "1",
        }
        if isinstance(context, (str, os.PathLike)):
            content = _packed(checks.path_text(context, "context"))
        else:
            content = files.BytesIO(context) if isinstance(context, bytes) else context
        return self._progress(wire.request("POST", "/v1/images/build", query=query, read_seconds=IMAGE_SECONDS), content)

    def _progress(self, request: wire.Request, content: IO[bytes] | None = None) -> EventStream[ImageEvent]:
        return EventStream(_ImageLink(self._box, request, content), _image_event)
