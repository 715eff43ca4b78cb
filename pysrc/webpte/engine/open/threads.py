"""Runs work on user data outside of the event loop, because it may take long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from webpte.engine.browser import IN_BROWSER

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return `work(...)`, called in a thread; the browser lacks threads, so the call runs at once.

    A thread cannot be ended, so a cancelled caller waits for it: at most one thread runs per
    caller.
    """
    if IN_BROWSER:
        return work(*given, **named)
    call = partial(work, *given, **named)
    working = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        if not working.cancel():  # the thread has begun
            await asyncio.wait([working])
        raise
