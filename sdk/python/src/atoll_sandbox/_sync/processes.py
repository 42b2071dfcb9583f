# Made by tools/unasync.py from ../_async/processes.py: change that file.
"""Background processes."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Callable, Literal, Mapping

from .. import _checks as checks
from .. import _wire as wire
from .._io import blocking as io
from .._matcher import LogMatcher, LogPattern
from ..errors import (
    ProcessExitedBeforeReadyError,
    ProcessNotFoundError,
    ProcessReadyTimeoutError,
    SandboxError,
)
from ..models import LogEvent, LogMatch, ProcessLogs, made, time_of
from .box import Box
from .commands import Commands, OnText, SessionLike
from .streams import EventStream, Follow, Link, ResumedLink

OnExit = Callable[[int], None]
OnError = Callable[[SandboxError], None]

#: Seconds for which the rest of a line is waited for when the pattern matches its beginning.
REST_OF_LINE_SECONDS = 0.1
#: Seconds that a process has to become ready unless told otherwise.
WAIT_SECONDS = 60.0


def _path(process_id: str) -> str:
    if not isinstance(process_id, str) or not process_id:
        raise TypeError("the id of a process is a str that is not empty")
    return f"/api/process/{wire.segment(process_id)}"


def _followed(box: Box, process_id: str) -> ResumedLink:
    """All output of a process so far, then new output, then its end."""
    request = wire.stream_request("GET", f"{_path(process_id)}/stream")
    return ResumedLink(box, Follow("process.logs", request, request, ("exit",), opening="process_info"))


class Process:
    """A background process: what was known when the object was made, and what can be done with it."""

    def __init__(self, box: Box, record: Mapping[str, Any]) -> None:
        self._box = box
        self.id: str = record["id"]
        self.pid: int | None = record.get("pid")
        self.command: str = record.get("command", "")
        #: `starting`, `running`, `completed`, `failed`, `killed` or `error`, when the object was made: see `get_status`.
        self.status: str = record.get("status", "running")
        self.start_time: datetime = time_of(record["startTime"])
        self.end_time: datetime | None = time_of(record["endTime"]) if record.get("endTime") else None
        self.exit_code: int | None = record.get("exitCode")
        session = record.get("sessionId")
        self.session_id: str | None = None if session == wire.NO_SESSION else session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} {self.status} {self.command!r}>"

    def kill(self, signal: str | None = None) -> None:
        """Ends the process and all it started: SIGTERM, and SIGKILL after 5 s. Another signal is only sent."""
        self._box.json(wire.request("DELETE", _path(self.id), query={"signal": signal}))

    def refresh(self) -> None:
        """Brings this object up to date with the process."""
        answer = self._box.json(wire.request("GET", _path(self.id)))
        self.__init__(self._box, answer["process"])  # type: ignore[misc]

    def get_status(self) -> str:
        try:
            self.refresh()
        except ProcessNotFoundError:
            self.status = "error"
        return self.status

    def logs(self) -> ProcessLogs:
        """Everything that the process has printed so far."""
        return made(ProcessLogs, self._box.json(wire.request("GET", f"{_path(self.id)}/logs")))

    def stream_logs(self) -> EventStream[LogEvent]:
        """All output of the process so far, then new output, then its end. Goes on after broken connections."""
        return EventStream(_followed(self._box, self.id), lambda event: made(LogEvent, event))

    def wait_for_exit(self, timeout: float | None = None) -> int:
        """Waits for the end of the process and returns its exit code. Raises ProcessReadyTimeoutError."""
        checks.milliseconds(timeout)
        until = io.deadline(timeout)
        link = _followed(self._box, self.id)
        try:
            while True:
                event = link.next(until)
                if event and event.get("type") == "exit":
                    return self._exited(event)
        except io.DeadlinePassed:
            raise self._late("process exit", timeout) from None
        finally:
            link.close()

    def _exited(self, event: Mapping[str, Any]) -> int:
        code = event.get("exitCode")
        return 1 if code is None else int(code)

    def wait_for_log(self, pattern: LogPattern, timeout: float | None = WAIT_SECONDS) -> LogMatch:
        """Waits for a line of output, past output included: one that holds a text, or that a compiled expression matches.

        Raises ProcessReadyTimeoutError, or ProcessExitedBeforeReadyError when the process ends without such a line.
        """
        checks.milliseconds(timeout)
        matchers = {"stdout": LogMatcher(pattern), "stderr": LogMatcher(pattern)}
        condition = f"/{pattern.pattern}/" if isinstance(pattern, re.Pattern) else f'"{pattern}"'
        until = io.deadline(timeout)
        link = _followed(self._box, self.id)
        found, resting = None, False
        try:
            while True:
                event = link.next(until) or {}
                kind = event.get("type")
                if kind in matchers:
                    found = matchers[kind].push(event.get("data") or "") or found
                if found and (found.whole or kind == "exit"):
                    return found.match
                if kind == "exit":
                    raise self._too_early(condition, self._exited(event))
                if found and not resting:
                    # "port 80" may be the beginning of "port 8080\n": the rest of a line is worth a moment.
                    until, resting = io.deadline(REST_OF_LINE_SECONDS), True
        except io.DeadlinePassed:
            if found:
                return found.match
            raise self._late(condition, timeout) from None
        finally:
            link.close()

    def wait_for_port(
        self,
        port: int,
        timeout: float | None = WAIT_SECONDS,
        *,
        mode: Literal["http", "tcp"] = "http",
        path: str = "/",
        status: int | tuple[int, int] = (200, 399),
        interval: float = 0.5,
    ) -> None:
        """Waits until the process serves: with `http`, until `path` is answered with a status in the range `status`; with
        `tcp`, until a connection is accepted. Looks every `interval` seconds."""
        if mode not in ("http", "tcp"):
            raise checks.invalid("mode", "use 'http' or 'tcp'")
        checks.milliseconds(timeout)
        lowest, highest = (status, status) if isinstance(status, int) else status
        body = {
            "port": checks.port_number(port, 1), "mode": mode, "path": path, "statusMin": lowest, "statusMax": highest,
            "interval": checks.milliseconds(interval, "interval"), "processId": self.id,
        }
        condition = f"port {port} (HTTP {path})" if mode == "http" else f"port {port} (TCP)"
        until = io.deadline(timeout)
        began = io.now()
        try:
            while True:
                try:
                    return self._port_events(body, condition, until)
                except SandboxError as error:
                    # To look again is harmless.
                    if error.code != "RPC_TRANSPORT_ERROR" or io.now() - began > WAIT_SECONDS:
                        raise
                    io.sleep(wire.delay(0), until)
        except io.DeadlinePassed:
            raise self._late(condition, timeout) from None

    def _port_events(self, body: Mapping[str, Any], condition: str, until: float | None) -> None:
        link = Link(self._box, wire.stream_request("POST", "/api/port-watch", body))
        try:
            while True:
                event = link.next(until)
                if event is None:
                    raise wire.ended_early(self._box.transport.place, "port watch")
                if event.get("type") == "ready":
                    return
                if event.get("type") == "process_exited":
                    raise self._too_early(condition, self._exited(event))
                if event.get("type") == "error":
                    raise SandboxError(str(event.get("error") or "The port could not be watched"), http_status=500)
        finally:
            link.close()

    def _late(self, condition: str, timeout: float | None) -> ProcessReadyTimeoutError:
        context = {"processId": self.id, "command": self.command, "condition": condition, "timeout": timeout}
        return ProcessReadyTimeoutError(
            f"Process {self.id} did not become ready within {timeout or 0:g} s. Waiting for: {condition}",
            http_status=408, context=context, suggestion="Look at its output with logs(), or give a longer timeout.",
        )

    def _too_early(self, condition: str, exit_code: int) -> ProcessExitedBeforeReadyError:
        context = {"processId": self.id, "command": self.command, "condition": condition, "exitCode": exit_code}
        return ProcessExitedBeforeReadyError(
            f"Process {self.id} exited with code {exit_code} before becoming ready. Waiting for: {condition}",
            http_status=500, context=context, suggestion="Look at what it printed with logs().",
        )


class Processes(Commands):
    def start_process(
        self,
        command: str,
        *,
        process_id: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str | None] | None = None,
        cwd: checks.StrPath | None = None,
        stdin: str | bytes | None = None,
        session: SessionLike = None,
        service: bool = False,
        keep_alive: bool = False,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_exit: OnExit | None = None,
        on_error: OnError | None = None,
    ) -> Process:
        """Starts a background process, which runs until it ends, is killed, or `timeout` seconds are over.

        A `service` is started again when it ends and whenever its sandbox starts. With `keep_alive` the sandbox does not fall
        asleep while the process runs.

        The callbacks are called from the background: for what the process prints, for its end, and when it cannot be followed
        any longer.
        """
        body = {**self._run(command, session, timeout, env, cwd, stdin), "processId": process_id,
                "service": service or None, "keepAlive": keep_alive or None}
        answer = self._box.json(wire.request("POST", "/api/process/start", body))
        record = {"id": answer["processId"], "startTime": answer["timestamp"], "status": "running",
                  "sessionId": body["sessionId"], "pid": answer.get("pid"), "command": command}
        process = Process(self._box, record)
        if on_stdout or on_stderr or on_exit:
            stream = process.stream_logs()
            io.background(lambda: _report(stream, on_stdout, on_stderr, on_exit, on_error))
        return process

    #: The same as `start_process`.
    spawn = start_process

    def is_process_running(self, process_id: str) -> bool:
        """Whether there is such a process and it has not ended."""
        process = self.get_process(process_id)
        return process is not None and process.status in ("starting", "running")

    def list_processes(self, session: SessionLike = None) -> list[Process]:
        """All background processes of the sandbox; with a session, those of that session."""
        query = {"sessionId": None if session is None else checks.session_name(session)}
        answer = self._box.json(wire.request("GET", "/api/process/list", query=query))
        return [Process(self._box, record) for record in answer["processes"]]

    def get_process(self, process_id: str) -> Process | None:
        """A process by its id; None when there is none."""
        try:
            answer = self._box.json(wire.request("GET", _path(process_id)))
        except ProcessNotFoundError:
            return None
        return Process(self._box, answer["process"])

    def kill_process(self, process_id: str, signal: str | None = None) -> None:
        self._box.json(wire.request("DELETE", _path(process_id), query={"signal": signal}))

    def kill_all_processes(self) -> int:
        """Ends all background processes and returns how many there were."""
        return int((self._box.json(wire.request("DELETE", "/api/process/kill-all")))["cleanedCount"])

    def cleanup_completed_processes(self) -> int:
        """Forgets processes that have ended, with their logs, and returns how many there were."""
        return int((self._box.json(wire.request("POST", "/api/process/cleanup")))["cleanedCount"])

    def get_process_logs(self, process_id: str) -> ProcessLogs:
        return made(ProcessLogs, self._box.json(wire.request("GET", f"{_path(process_id)}/logs")))

    def stream_process_logs(self, process_id: str) -> EventStream[LogEvent]:
        """All output of a process so far, then new output, then its end. Goes on after broken connections."""
        return EventStream(_followed(self._box, process_id), lambda event: made(LogEvent, event))


def _report(
    stream: EventStream[LogEvent],
    on_stdout: OnText | None,
    on_stderr: OnText | None,
    on_exit: OnExit | None,
    on_error: OnError | None,
) -> None:
    """Calls back for everything that a process prints, and for its end."""
    callbacks = {"stdout": on_stdout, "stderr": on_stderr}
    try:
        with stream as events:
            for event in events:
                if event.type in callbacks and event.data:
                    io.call(callbacks[event.type], event.data)
                elif event.type == "exit":
                    io.call(on_exit, 1 if event.exit_code is None else event.exit_code)
    except SandboxError as error:
        io.call(on_error, error)
