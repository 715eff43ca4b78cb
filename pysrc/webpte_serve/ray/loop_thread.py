"""Coroutines for code that cannot await."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from threading import Lock, Thread
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a separate thread, which ends with the process.

    A device belongs to the thread that uses it, and programs share devices, so a process has a
    single such thread. Callers may have a running event loop, and come from any thread.
    """

    _made: ClassVar[dict[int, LoopThread]] = {}  # by the process: a fork has no threads
    _making: ClassVar[Lock] = Lock()

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, name="webpte", daemon=True).start()

    @classmethod
    def shared(cls) -> LoopThread:
        """Return the thread of this process."""
        process = os.getpid()
        with cls._making:
            if process not in cls._made:
                cls._made[process] = cls()
            return cls._made[process]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine. A caller that is interrupted cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # without effect on a task that has ended
