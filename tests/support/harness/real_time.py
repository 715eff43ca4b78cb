"""Waiting in real time for what threads, sockets and processes do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from support.harness import limits


async def until(met: Callable[[], bool]) -> None:
    """Let other tasks and threads run until `met()`: the machine may take its time."""
    async with asyncio.timeout(limits.PROCESS_SECONDS):
        while not met():
            await asyncio.sleep(0.001)
