"""Work that holds a lease: memory is freed when it ends, whichever way that is."""

from __future__ import annotations

import asyncio

import pytest

from support.graphs.graphs import wait
from webpte.engine.call.call import Lifetime


async def _fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("late")


@pytest.mark.parametrize("ending", ["result", "error", "cancelled", "cancelled early"])
def test_work_gives_its_lease_back(ending: str) -> None:
    async def run() -> None:
        freed: list[str] = []
        logged: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        lifetime = Lifetime()
        lifetime.hold(lambda: freed.append("memory"))
        work = lifetime.lease_for(_fails() if ending == "error" else asyncio.sleep(0.001))
        lifetime.end("closed")
        assert not freed
        if ending == "cancelled":
            await asyncio.sleep(0)
        if "cancelled" in ending:
            work.cancel()
        await asyncio.wait([work])
        assert freed == ["memory"]
        del work
        await asyncio.sleep(0)
        assert not logged

    wait(run())
