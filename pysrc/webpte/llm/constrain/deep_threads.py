"""Threads for work that calls itself deeply, and that may take too long to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

STACK = 1 << 28  # bytes of addresses: only what is used becomes memory
_STARTING = threading.Lock()


def in_deep_thread(work: Callable[[], T]) -> Future[T]:
    """Call `work` in a thread of its own with a large stack, which may outlive the program's end.

    A library that is not Python ends the process where it overruns its stack.
    """
    found: Future[T] = Future()
    found.set_running_or_notify_cancel()  # who no longer waits does not keep it from its result

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    with _STARTING:
        usual = threading.stack_size(STACK)
        try:
            threading.Thread(target=run, name="deep", daemon=True).start()
        finally:
            threading.stack_size(usual)
    return found
