"""Results that are told by a callback, and wake the task that waits for them in that very moment.

An ordinary future wakes a task with the loop's next turn. In a browser each turn is a message that
the page sends to itself, which takes as long as all of Python's work for a small call. What arrives
here comes in a turn of its own already: the one in which the browser says that the GPU is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_Callback = Callable[[Any], object]


class EagerFuture(Generic[T]):
    """What a coroutine awaits; it has what asyncio's tasks, and they alone, ask of a future."""

    _asyncio_future_blocking = False  # by this a task knows a future

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callbacks: list[tuple[_Callback, Context | None]] = []
        self._arrived = False
        self._result: Any = None
        self._error: BaseException | None = None

    def arrive(self, result: T | None, error: BaseException | None = None) -> None:
        """The result, or what is raised in its place; after a cancellation it is no news."""
        if self._arrived:
            return
        self._arrived, self._result, self._error = True, result, error
        callbacks, self._callbacks = self._callbacks, []
        for callback, context in callbacks:
            # A task that waits in the middle of a step (Pyodide's `run_sync`) is the current one
            # until that step ends, and no other may run inside of it.
            if context is None or asyncio.current_task(self._loop) is not None:
                self._loop.call_soon(callback, self, context=context)
            else:
                self._call(callback, context)

    def _call(self, callback: _Callback, context: Context) -> None:
        """As the loop would. What a task lets through (SystemExit, ...) is for the loop alone."""
        try:
            context.run(callback, self)
        except BaseException as error:
            self._loop.call_soon(_reraise, error)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._arrived:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: _Callback, *, context: Context | None = None) -> None:
        if self._arrived:
            self._loop.call_soon(callback, self, context=context)
        else:
            self._callbacks.append((callback, context))

    def cancel(self, msg: Any = None) -> bool:
        """Nobody waits any more; what is under way goes on."""
        if self._arrived:
            return False
        self._arrived, self._error = True, asyncio.CancelledError(*([] if msg is None else [msg]))
        callbacks, self._callbacks = self._callbacks, []
        for callback, context in callbacks:
            self._loop.call_soon(callback, self, context=context)
        return True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result


def _reraise(error: BaseException) -> None:
    raise error
