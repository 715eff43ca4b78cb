"""Tasks that run to their end even if the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def detach(work: Awaitable[T]) -> asyncio.Future[T]:
    """Run `work` as a separate task; asyncio does not log its error if nobody awaits the task."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def shield_or_undo(work: Awaitable[T], undo: Callable[[T], object]) -> T:
    """Return the result of `work`; if the caller is cancelled meanwhile, call `undo` with it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:

        def roll_back(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                undo(done.result())

        task.add_done_callback(roll_back)
        raise
