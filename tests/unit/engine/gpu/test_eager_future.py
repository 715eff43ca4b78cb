"""A future that resumes its task at once, and not in the loop's next turn."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context

import pytest

from support.graphs.graphs import wait
from webpte.engine.gpu.webgpu.eager_future import EagerFuture
from webpte.errors import DeviceError

NAME = ContextVar("name", default="nobody")


async def told_by_the_loop(future: EagerFuture[int], log: list[str], **what: object) -> None:
    """Settle as a browser does: in a turn that belongs to no task."""

    def tell() -> None:
        log.append("told")
        future.settle(what.get("result"), what.get("error"))  # type: ignore[arg-type]
        log.append("returned")

    asyncio.get_running_loop().call_soon(tell)
    while "returned" not in log:
        await asyncio.sleep(0)


def test_who_waits_goes_on_in_the_same_turn_and_in_its_own_context() -> None:
    async def run() -> None:
        log: list[str] = []
        future = EagerFuture[int]()

        async def waiting() -> int:
            NAME.set("waiting")
            result = await future
            log.append(NAME.get())
            return result

        task = asyncio.ensure_future(waiting())
        await asyncio.sleep(0)
        await told_by_the_loop(future, log, result=7)
        assert log == ["told", "waiting", "returned"]
        assert await task == 7
        assert await future == 7, "again, once it is there"

    wait(run())


def test_an_error_is_raised_where_it_is_awaited() -> None:
    async def run() -> None:
        future = EagerFuture[int]()

        async def waiting() -> None:
            with pytest.raises(DeviceError, match="broken"):
                await future

        task = asyncio.ensure_future(waiting())
        await asyncio.sleep(0)
        await told_by_the_loop(future, [], error=DeviceError("broken"))
        await task

    wait(run())


def test_while_another_task_runs_it_is_the_loops_turn() -> None:
    async def run() -> None:
        log: list[str] = []
        future = EagerFuture[int]()

        async def waiting() -> None:
            log.append(str(await future))

        task = asyncio.ensure_future(waiting())
        await asyncio.sleep(0)
        future.settle(7)  # from within this task
        assert log == []
        await task
        assert log == ["7"]

    wait(run())


def test_a_call_that_is_cancelled_or_late_ends_so_and_what_comes_later_is_no_news() -> None:
    async def run() -> None:
        async def waiting(future: EagerFuture[int]) -> int:
            return await future

        first, second = EagerFuture[int](), EagerFuture[int]()
        task = asyncio.ensure_future(waiting(first))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiting(second), 0.01)
        for future in (first, second):
            await told_by_the_loop(future, [], result=7)
            with pytest.raises(asyncio.CancelledError):
                future.result()

    wait(run())


def test_what_a_callback_raises_goes_to_the_loop_and_not_to_who_told() -> None:
    async def run() -> None:
        log: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, told: log.append(str(told["exception"]))
        )

        def fail(_: object) -> None:
            raise RuntimeError("mine")

        future = EagerFuture[int]()
        future.add_done_callback(fail, context=copy_context())
        await told_by_the_loop(future, log, result=7)
        await asyncio.sleep(0)
        assert log == ["told", "returned", "mine"]

    wait(run())
