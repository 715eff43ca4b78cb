"""A future that resumes the task waiting for it synchronously.

An asyncio future resumes a task in the loop's next turn. In a browser each turn is a message that
the page sends to itself, which takes as long as all of Python's work for a small call. An
EagerFuture is settled in a separate turn already: the browser's callback that the GPU is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_Callback = Callable[[Any], object]


class EagerFuture(Generic[T]):
    """An awaitable with the methods that asyncio's tasks, and nobody else, call on a future."""

    _asyncio_future_blocking = False  # marks a future for asyncio's tasks

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callbacks: list[tuple[_Callback, Context | None]] = []
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def settle(self, result: T | None, error: BaseException | None = None) -> None:
        """Set the result, or the error to raise instead; ignored after a cancellation."""
        if self._done:
            return
        self._done, self._result, self._error = True, result, error
        callbacks, self._callbacks = self._callbacks, []
        for callback, context in callbacks:
            # A task that waits inside a step (Pyodide's `run_sync`) stays the current task until
            # the step ends, and no other task may run meanwhile.
            if context is None or asyncio.current_task(self._loop) is not None:
                self._loop.call_soon(callback, self, context=context)
            else:
                self._call(callback, context)

    def _call(self, callback: _Callback, context: Context) -> None:
        """Call back as the loop would; raise an error (SystemExit, ...) in the loop's next turn."""
        try:
            context.run(callback, self)
        except BaseException as error:
            self._loop.call_soon(_reraise, error)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: _Callback, *, context: Context | None = None) -> None:
        if self._done:
            self._loop.call_soon(callback, self, context=context)
        else:
            self._callbacks.append((callback, context))

    def cancel(self, msg: Any = None) -> bool:
        """Raise CancelledError in the waiting task; the GPU's work goes on."""
        if self._done:
            return False
        self._done, self._error = True, asyncio.CancelledError(*([] if msg is None else [msg]))
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
