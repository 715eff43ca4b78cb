"""WebDriver BiDi, the protocol of browsers' drivers, over a WebSocket.

Playwright drives only its patched Firefox; a stock Firefox speaks this protocol without further
software.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any

from playwright.sync_api import Error as PlaywrightError
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

_BIGGEST = 256 << 20  # bytes of a message: a screenshot, or outputs of a program
# Longer than any call after which the harness gives up.
_ANSWER_SECONDS = 300.0

Listener = Callable[[dict[str, Any]], None]


class BidiError(PlaywrightError):
    """A command that failed: a Playwright error, so that the harness treats both drivers alike."""


class BidiSession:
    """A session: commands are answered in order, with events in between."""

    def __init__(self, url: str) -> None:
        self._connection = connect(f"{url}/session", max_size=_BIGGEST, open_timeout=60)
        self._listeners: dict[str, list[Listener]] = {}
        self._count = 0

    def __enter__(self) -> BidiSession:
        self._socket = self._connection.__enter__()
        self.call("session.new", capabilities={})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.__exit__(kind, error, trace)

    def listen(self, event: str, listener: Listener) -> None:
        """Call `listener` with the parameters of every event of this name, while a call waits."""
        if event not in self._listeners:
            self.call("session.subscribe", events=[event])
        self._listeners.setdefault(event, []).append(listener)

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; raises BidiError with the browser's message."""
        self._count += 1
        number = self._count
        try:
            self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
            while True:
                message = json.loads(self._socket.recv(timeout=_ANSWER_SECONDS))
                if message.get("id") == number:
                    break
                for listener in self._listeners.get(message.get("method"), ()):
                    listener(message["params"])
        except TimeoutError as error:
            raise BidiError(f"{method} was not answered for {_ANSWER_SECONDS:g} s") from error
        except (ConnectionClosed, OSError) as error:
            raise BidiError(f"{method}: the browser crashed or was closed: {error}") from error
        if message["type"] == "error":
            raise BidiError(f"{method}: {message['error']}: {message['message']}")
        return message["result"]
