"""A cache of pipelines that compiles every kernel once, and a polyfill for `dot4I8Packed`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import PipelineSpec

Compile = Callable[[Sequence[PipelineSpec], Progress], Awaitable[list[int]]]

PACKED_DOT = "dot4I8Packed"  # a function of WGSL
_DOT4_I8_PACKED = """
fn dot4I8Packed(a: u32, b: u32) -> i32 {
    let shifts = vec4<u32>(24u, 16u, 8u, 0u);
    let x = (vec4<i32>(i32(a)) << shifts) >> vec4<u32>(24u);
    let y = (vec4<i32>(i32(b)) << shifts) >> vec4<u32>(24u);
    return dot(x, y);
}
"""


def add_packed_dot(code: str, has_packed_dot: bool) -> str:
    """Add a WGSL function `dot4I8Packed` to code that calls it, if this WGSL lacks it."""
    if has_packed_dot or PACKED_DOT not in code:
        return code
    return code + _DOT4_I8_PACKED


class _CompileBatch:
    """Kernels that are compiled together, and listeners to the count of compiled kernels."""

    def __init__(self, total: int) -> None:
        self.done, self.total = 0, total
        self.listeners: list[Callable[[], None]] = []

    def report(self, stage: str, done: int, total: int) -> None:
        self.done = int(done)
        for listener in self.listeners:
            listener()


class PipelineCache:
    """Pipelines by their spec; `compile` compiles all missing pipelines in one call."""

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._compiled: dict[PipelineSpec, asyncio.Future[int]] = {}
        self._batches: dict[PipelineSpec, _CompileBatch] = {}  # still compiling

    async def get(self, specs: Sequence[PipelineSpec], progress: Progress | None) -> list[int]:
        missing = [spec for spec in dict.fromkeys(specs) if self._is_missing(spec)]
        if missing:
            # Other callers that request these pipelines meanwhile wait for this batch.
            batch = _CompileBatch(len(missing))
            compiling = asyncio.ensure_future(self._compile(missing, batch.report))
            for index, spec in enumerate(missing):
                self._compiled[spec] = asyncio.ensure_future(_item(compiling, index))
                self._compiled[spec].add_done_callback(partial(self._settle, spec))
                self._batches[spec] = batch
        wanted = {spec: self._compiled[spec] for spec in specs}
        pending = {spec: made for spec, made in wanted.items() if not made.done()}
        if pending:  # finished futures are not awaited: their event loops may be closed
            with _reporting({self._batches[spec] for spec in pending}, progress):
                await asyncio.wait(pending.values())  # until all are done, even if one fails
        return [wanted[spec].result() for spec in specs]

    def _is_missing(self, spec: PipelineSpec) -> bool:
        """Return whether a spec is new, or its event loop was closed before it was compiled."""
        made = self._compiled.get(spec)
        return made is None or (not made.done() and made.get_loop().is_closed())

    def _settle(self, spec: PipelineSpec, made: asyncio.Future[int]) -> None:
        if self._compiled.get(spec) is not made:
            return
        del self._batches[spec]
        if made.cancelled() or made.exception() is not None:
            del self._compiled[spec]  # the next request compiles it again


@contextmanager
def _reporting(batches: Collection[_CompileBatch], progress: Progress | None) -> Iterator[None]:
    """A context in which `progress` gets the count of compiled kernels: at once, then after each.

    An error of `progress` is raised at the end, to its own caller only.
    """
    if progress is None:
        yield
        return
    failures: list[Exception] = []

    def report() -> None:
        if failures:
            return
        try:
            done, total = sum(one.done for one in batches), sum(one.total for one in batches)
            progress("compile", done, total)
        except Exception as error:
            failures.append(error)

    for batch in batches:
        batch.listeners.append(report)
    try:
        report()
        yield
    finally:
        for batch in batches:
            batch.listeners.remove(report)
    if failures:
        raise failures[0]


async def _item(items: asyncio.Future[list[int]], index: int) -> int:
    return (await asyncio.shield(items))[index]
