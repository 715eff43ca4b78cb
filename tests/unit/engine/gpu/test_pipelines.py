"""Every kernel is compiled once, for all callers and event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.gpu.pipelines import PipelineCache
from webpte.errors import ShaderError


def spec(label: str) -> PipelineSpec:
    return PipelineSpec(label, "", (), ())


class Compiler:
    """A compiler that records its specs and waits for `ready`; "bad" does not compile."""

    def __init__(self) -> None:
        self.compiled: list[list[str]] = []
        self.numbers: dict[str, int] = {}  # in the order in which compiling began
        self.ready = asyncio.Event()
        self.ready.set()
        self.cache = PipelineCache(self.compile)

    async def compile(self, specs: Sequence[PipelineSpec], progress: Progress) -> list[int]:
        self.compiled.append([spec.label for spec in specs])
        for label in self.compiled[-1]:
            if label != "bad":
                self.numbers.setdefault(label, len(self.numbers) + 1)
        await asyncio.sleep(0.001)
        for done in range(1, len(specs) + 1):
            progress("compile", done, len(specs))
            await self.ready.wait()
        if "bad" in [spec.label for spec in specs]:
            raise ShaderError("bad")
        return [self.numbers[spec.label] for spec in specs]

    async def get(self, *labels: str, progress: Progress | None = None) -> list[int]:
        return await self.cache.get([spec(label) for label in labels], progress)


def test_once_also_if_two_ask_at_the_same_time() -> None:
    compiler = Compiler()

    async def both() -> list[list[int]]:
        return list(await asyncio.gather(compiler.get("a", "b", "a"), compiler.get("b", "c")))

    assert asyncio.run(both()) == [[1, 2, 1], [2, 3]]
    assert compiler.compiled == [["a", "b"], ["c"]]


def test_what_another_event_loop_made_counts() -> None:
    compiler = Compiler()
    assert asyncio.run(compiler.get("a")) == [1]
    assert asyncio.run(compiler.get("a", "b")) == [1, 2]
    assert asyncio.run(compiler.get("b", "a")) == [2, 1]
    assert compiler.compiled == [["a"], ["b"]]


def test_what_another_event_loop_left_undone_is_made_again() -> None:
    compiler = Compiler()

    async def leave() -> None:
        asking = asyncio.ensure_future(compiler.get("a"))
        await asyncio.sleep(0)
        asking.cancel()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined] # as if never there
    loop.close()
    assert asyncio.run(compiler.get("a")) == [1]
    assert compiler.compiled == [["a"], ["a"]]


def test_a_failure_is_tried_again_and_spoils_nothing() -> None:
    compiler = Compiler()
    for _ in range(2):
        with pytest.raises(ShaderError):
            asyncio.run(compiler.get("bad", "a"))
    assert asyncio.run(compiler.get("a")) == [1]
    assert compiler.compiled == [["bad", "a"], ["bad", "a"], ["a"]]


def test_who_is_cancelled_does_not_stop_the_others() -> None:
    compiler = Compiler()

    async def run() -> list[int]:
        first = asyncio.ensure_future(compiler.get("a"))
        second = asyncio.ensure_future(compiler.get("a"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(run()) == [1]
    assert compiler.compiled == [["a"]]


def test_whoever_waits_for_a_kernel_is_told_how_many_there_are() -> None:
    compiler = Compiler()
    first, second = list[tuple[int, int]](), list[tuple[int, int]]()

    async def run() -> None:
        compiler.ready.clear()
        asking = asyncio.ensure_future(
            compiler.get("a", "b", "a", progress=lambda _, *told: first.append(told))
        )
        await asyncio.sleep(0)
        assert first == [(0, 2)]  # before any is compiled
        while len(first) == 1:
            await asyncio.sleep(0.001)
        assert first == [(0, 2), (1, 2)]
        late = asyncio.ensure_future(
            compiler.get("b", "c", progress=lambda _, *told: second.append(told))
        )
        await asyncio.sleep(0)
        assert second == [(1, 3)]  # a kernel of the first batch is done; "c" is new
        asking.cancel()
        compiler.ready.set()
        await late
        assert second[-1] == (3, 3)
        assert first == [(0, 2), (1, 2)]  # a cancelled caller gets no more progress
        await compiler.get("a", "b", "c", progress=lambda _, *told: first.append(told))
        assert len(first) == 2

    asyncio.run(run())
    assert compiler.compiled == [["a", "b"], ["c"]]


def test_who_fails_to_be_told_spoils_nothing_for_others() -> None:
    compiler = Compiler()

    def fail(*told: object) -> None:
        raise ZeroDivisionError

    async def run() -> list[int]:
        first = asyncio.ensure_future(compiler.get("a"))
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            await compiler.get("a", progress=fail)
        return await first

    assert asyncio.run(run()) == [1]
    assert compiler.compiled == [["a"]]
