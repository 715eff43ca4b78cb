"""Tasks that go on when their caller is cancelled, as a JavaScript promise does."""

from __future__ import annotations

import asyncio

import pytest

from support.graphs.graphs import wait
from webpte.engine.files.detached import shield_or_undo


async def making(turns: int, made: list[int]) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    made.append(7)
    return 7


def test_what_was_made_is_given_back_when_nobody_waits_any_more() -> None:
    async def run() -> None:
        made: list[int] = []
        task = asyncio.ensure_future(shield_or_undo(making(5, made), made.remove))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made == []
        for _ in range(10):
            await asyncio.sleep(0)
        assert made == [], "made, and given back"
        assert await shield_or_undo(making(5, made), made.remove) == 7
        assert made == [7]

    wait(run())


def test_what_fails_after_that_is_nobodys_business() -> None:
    async def failing() -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise ValueError("late")

    async def run() -> None:
        task = asyncio.ensure_future(shield_or_undo(failing(), lambda _: None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(ValueError, match="late"):
            await shield_or_undo(failing(), lambda _: None)

    wait(run())
