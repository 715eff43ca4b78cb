"""The lock of a task whose program keeps state: it gives one answer at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from webpte.errors import InputError


def _no_stream() -> None:
    """Return None: no stream has the turn."""


class AnswerLock:
    """A lock for answers. Code that reads a stream of the task cannot wait for the stream's end.

    A call from within that loop would wait for ever, so it is an error; after the loop was left,
    the next call waits until the stream is closed. Other code waits for its turn.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._reader: asyncio.Task[Any] | None = None
        # Returns the stream that has the turn, while someone holds it.
        self._stream: Callable[[], Any] = _no_stream

    @asynccontextmanager
    async def taken(self, stream: Callable[[], Any] = _no_stream) -> AsyncIterator[None]:
        """Wait for the turn, and have it inside of the block."""
        reader = asyncio.current_task()
        if self._reader is reader and self._stream() is not None:
            raise InputError(
                "this task is in the middle of a stream that the same code reads: read it to its "
                "end, or close it (`await stream.aclose()`), before the next call"
            )
        async with self._lock:
            self._reader, self._stream = reader, stream
            try:
                yield
            finally:
                self._reader, self._stream = None, _no_stream

    def stream(self, pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        """Return the pieces as a stream, which has the turn from the first to the last."""

        async def read() -> AsyncGenerator[str, None]:
            async with self.taken(made_ref), aclosing(pieces):
                async for piece in pieces:
                    yield piece

        made = read()
        made_ref = weakref.ref(made)
        return made
