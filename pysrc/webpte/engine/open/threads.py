"""Work that grows with what a user gives, kept out of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from webpte.engine.browser import IN_BROWSER

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return `work(...)`, called in a thread; in the browser, which has none, called at once.

    A thread cannot be ended: who is cancelled waits for it, so that no more threads work than there
    are callers.
    """
    if IN_BROWSER:
        return work(*given, **named)
    call = partial(work, *given, **named)
    working = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        if not working.cancel():  # it has begun
            await asyncio.wait([working])
        raise
