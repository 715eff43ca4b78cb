"""Threads for deeply recursive work, which may take too long to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

STACK = 1 << 28  # bytes of addresses: only used parts become memory
_STARTING = threading.Lock()


def in_deep_thread(work: Callable[[], T]) -> Future[T]:
    """Call `work` in a new thread with a large stack; the thread may outlive the program's end.

    A native library that overruns its stack ends the process.
    """
    found: Future[T] = Future()
    found.set_running_or_notify_cancel()  # the result is set even if nobody waits any more

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
