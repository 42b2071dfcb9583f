"""A network between a client and the real daemon that breaks where it is told to."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import Callable, Optional

#: After how many bytes from the daemon a connection, numbered from 1, is cut; 0 is before the first, None is never.
Fate = Callable[[int], Optional[int]]

_REQUEST = re.compile(rb"^((?:GET|POST|PUT|DELETE) \S+) HTTP", re.M)


class BadNetwork:
    def __init__(self, address: str, fate: Fate = lambda n: None) -> None:
        host, _, port = address.rpartition(":")
        self._daemon = (host, int(port))
        self._fate = fate
        self._mute = False
        self._open: set[socket.socket] = set()
        self._server = socket.create_server(("127.0.0.1", 0))
        #: Connections that were made, and requests that went through.
        self.connections = 0
        self.requests: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                limit = self._fate(self.connections + 1)
                # The greeting of a client is no part of what is tested.
                greeted = client.recv(15, socket.MSG_PEEK).startswith(b"GET /v1/health ")
                daemon = socket.create_connection(self._daemon)
                self._open |= {client, daemon}
                self.connections += 1  # only now: `cut` ends whatever is counted
                threading.Thread(target=self._up, args=(client, daemon), daemon=True).start()
                threading.Thread(target=self._down, args=(client, daemon, limit, greeted), daemon=True).start()

    def _up(self, client: socket.socket, daemon: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = client.recv(65536)
                if not data:
                    break
                self.requests += [line.decode() for line in _REQUEST.findall(data) if b"/v1/health" not in line]
                daemon.sendall(data)
        self._end(client, daemon)

    def _down(self, client: socket.socket, daemon: socket.socket, limit: int | None, greeted: bool) -> None:
        with contextlib.suppress(OSError):
            if greeted and not self._mute:
                client.sendall(daemon.recv(65536))
            if limit == 0:
                daemon.recv(1, socket.MSG_PEEK)  # the request has been worked on: the answer is what is lost
            while limit is None or limit > 0:
                data = daemon.recv(65536 if limit is None else min(limit, 65536))
                if not data:
                    break
                if self._mute:
                    continue
                client.sendall(data)
                limit = None if limit is None else limit - len(data)
        self._end(client, daemon)

    def _end(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mute(self) -> None:
        """From now on connections are made, and requests taken, but no answer comes back."""
        self._mute = True

    def cut(self) -> None:
        """Cuts everything that is connected now."""
        self._end(*self._open)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for one in self._open:
            one.close()
