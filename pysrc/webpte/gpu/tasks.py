"""Work that cannot be stopped half-way: whoever waits for it may be cancelled, it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def detach(work: Awaitable[T]) -> asyncio.Future[T]:
    """A future that nobody has to wait for: an error that nobody asks about is no news."""
    going = asyncio.ensure_future(work)
    going.add_done_callback(lambda done: done.cancelled() or done.exception())
    return going


async def shield_or_undo(work: Awaitable[T], undo: Callable[[T], object]) -> T:
    """What `work` gives; if the caller is cancelled meanwhile, `undo` gets it instead."""
    going = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:

        def take_back(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                undo(done.result())

        going.add_done_callback(take_back)
        raise
