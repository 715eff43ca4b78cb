"""A server like the page's, but with a network that breaks.

Requests below `/big/` are disturbed in turn: most are answered, some are cut off in the middle,
some stall, some are refused with a busy server's answer. `restart` ends all connections, and
refuses new connections for a while.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import Any, BinaryIO

from webpte_host.serving import server as serving
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Handler, Site

DISTURBED = "/big/"
STEP = 1 << 16  # bytes written at once


@dataclass
class Trouble:
    """Faults of a network, and a record of requests and answers.

    faults   kinds by the number of a request modulo `every`: "cut", "stall", "busy"
    pace     seconds between two writes of 64 KiB, which makes the network slow
    asked    (first byte, last byte) of each request, in order
    sent     bytes that were sent in all
    """

    every: int = 10
    faults: dict[int, str] = field(default_factory=dict)
    stall: float = 3.0
    pace: float = 0.0
    asked: list[tuple[int, int]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    sent: int = 0
    is_down: bool = False
    numbers: Any = field(default_factory=count)
    lock: threading.Lock = field(default_factory=threading.Lock)


class BreakingHandler(Handler):
    """A connection that breaks."""

    site: BreakingSite

    @property
    def trouble(self) -> Trouble:
        return self.site.trouble

    @property
    def _is_disturbed(self) -> bool:
        return self.path.startswith(DISTURBED)

    def _send(self, body: BinaryIO, size: int, *given: Any, **named: Any) -> None:
        self._fault = ""
        if self._is_disturbed:
            trouble = self.trouble
            with trouble.lock:
                self._fault = trouble.faults.get(next(trouble.numbers) % trouble.every, "")
                trouble.headers.append(dict(self.headers.items()))
                if self._fault:
                    trouble.happened.append(self._fault)
            if self._fault == "busy":
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
                return
        super()._send(body, size, *given, **named)

    def _copy(self, body: BinaryIO, first: int, length: int) -> None:
        if not self._is_disturbed:
            super()._copy(body, first, length)
            return
        trouble = self.trouble
        with trouble.lock:
            trouble.asked.append((first, first + length - 1))
        body.seek(first)
        most = length // 2 if self._fault else length
        for at in range(0, most, STEP):
            if trouble.is_down:
                break
            data = body.read(min(STEP, most - at))
            self.wfile.write(data)
            with trouble.lock:
                trouble.sent += len(data)
            time.sleep(trouble.pace)
        if self._fault == "stall":
            time.sleep(trouble.stall)
        if self._fault or trouble.is_down:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


class BreakingSite(Site):
    """A site with trouble, which `restart` makes unreachable for a while."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        super().__init__(mounts=mounts)
        self.trouble = Trouble()
        self._handler = type("Breaking", (BreakingHandler,), {"site": self})
        self._server.RequestHandlerClass = self._handler

    def __enter__(self) -> BreakingSite:
        super().__enter__()
        return self

    def restart(self, seconds: float) -> None:
        """End all connections, and refuse new connections for this time."""
        old, port = self._server, self.port
        self.trouble.is_down = True
        self.trouble.happened.append("restart")
        old.shutdown()
        old.server_close()
        self._thread.join()
        time.sleep(seconds)
        version = old.runtime_path.strip("/").rpartition("v-")[2]
        kept = (old.mounts, old.web, old.bundles, old.runtime, version, old.hosts)
        self._server = serving._Server(("127.0.0.1", port), *kept)
        self._server.RequestHandlerClass = self._handler
        self.trouble.is_down = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
