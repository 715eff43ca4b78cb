"""The lock of a task with stateful programs: it gives a single answer at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from webpte.errors import InputError


def _no_stream() -> None:
    """Return None: no stream holds the lock."""


class AnswerLock:
    """A lock for answers, with an error for code that would wait for its own stream.

    A call inside the loop over a stream would wait for ever, so it is an error; after the loop was
    left, the next call waits until the stream is closed. Other code waits for the lock.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._reader: asyncio.Task[Any] | None = None
        # Returns the stream that holds the lock, while a caller reads it.
        self._stream: Callable[[], Any] = _no_stream

    @asynccontextmanager
    async def taken(self, stream: Callable[[], Any] = _no_stream) -> AsyncIterator[None]:
        """Hold the lock inside the block."""
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
        """Return the pieces as a stream, which holds the lock from the first piece to the last."""

        async def read() -> AsyncGenerator[str, None]:
            async with self.taken(made_ref), aclosing(pieces):
                async for piece in pieces:
                    yield piece

        made = read()
        made_ref = weakref.ref(made)
        return made
