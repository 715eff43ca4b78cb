"""The HTTP server under the application, with time limits for clients and a quiet stop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from webpte_serve.api.app import ApiApp

IDLE_SECONDS = 15.0  # until a connection has sent the head of a request
READ_SECONDS = 60.0  # until a client has taken a part of its answer
END_SECONDS = 30.0  # for running answers when the server is stopped
_LAST_SECONDS = 2.0  # to inform clients of the stop


class ApiServer(uvicorn.Server):
    """Serves an application until it is stopped; running answers may then end."""

    def __init__(self, app: ApiApp, host: str, port: int) -> None:
        config = uvicorn.Config(
            app.asgi, host=host, port=port, log_level="warning", http=_TimedConnection
        )
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = asyncio.ensure_future(self._end_late())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()
            await self._end()  # also when it is stopped a second time

    async def _end_late(self) -> None:
        """End running answers after a while, or at a second stop: Python 3.12 waits for clients."""
        time = asyncio.get_running_loop().time
        end = time() + END_SECONDS
        while time() < end and not self.force_exit:
            await asyncio.sleep(0.1)
        await self._end()

    async def _end(self) -> None:
        self._app.stop()
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_LAST_SECONDS)
        for connection in list(self.server_state.connections):
            assert isinstance(connection, _TimedConnection)
            connection.transport.abort()
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_LAST_SECONDS)


class _TimedConnection(H11Protocol):
    """A connection that is closed when its client is inactive for long.

    The body of a request has a separate time limit (`guards`).
    """

    _timer: asyncio.TimerHandle | None = None
    _is_writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self.resume_writing()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._forget()

    def on_response_complete(self) -> None:
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is answered:  # no further request has arrived
            self._expect_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_writing = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_writing is not None:
            self._is_writing.cancel()
            self._is_writing = None

    def _expect_request(self) -> None:
        """Close the connection unless the whole head of a request comes in time.

        The rest of a refused request's body is read meanwhile: else its client would get a reset
        instead of the answer.
        """
        self._forget()
        self._timer = self.loop.call_later(IDLE_SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
