"""What is left to Python of compiling: every kernel once, and what a dialect of WGSL lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from webpte.gpu.device import PipelineSpec, Progress

Compile = Callable[[Sequence[PipelineSpec], Progress], Awaitable[list[int]]]

_BYTE_PRODUCTS = """
fn dot4I8Packed(a: u32, b: u32) -> i32 {
    let shifts = vec4<u32>(24u, 16u, 8u, 0u);
    let x = (vec4<i32>(i32(a)) << shifts) >> vec4<u32>(24u);
    let y = (vec4<i32>(i32(b)) << shifts) >> vec4<u32>(24u);
    return dot(x, y);
}
"""


def completed(code: str, has_byte_products: bool) -> str:
    """Not every WebGPU has the dot product of four bytes; a function of that name will do."""
    if has_byte_products or "dot4I8Packed" not in code:
        return code
    return code + _BYTE_PRODUCTS


class _CompileBatch:
    """Kernels that are compiled in one go, and who is told how many of them are there."""

    def __init__(self, total: int) -> None:
        self.done, self.total = 0, total
        self.listeners: list[Callable[[], None]] = []

    def tell(self, stage: str, done: int, total: int) -> None:
        self.done = int(done)
        for listener in self.listeners:
            listener()


class PipelineCache:
    """Pipelines by what they are; `compile` makes those that are missing, all in one go."""

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._made: dict[PipelineSpec, asyncio.Future[int]] = {}
        self._batches: dict[PipelineSpec, _CompileBatch] = {}  # of those that are being made

    async def get(self, specs: Sequence[PipelineSpec], progress: Progress | None) -> list[int]:
        missing = [spec for spec in dict.fromkeys(specs) if self._is_missing(spec)]
        if missing:
            # Whoever asks for the same meanwhile waits for this, and does not compile it again.
            batch = _CompileBatch(len(missing))
            compiling = asyncio.ensure_future(self._compile(missing, batch.tell))
            for index, spec in enumerate(missing):
                self._made[spec] = asyncio.ensure_future(_item(compiling, index))
                self._made[spec].add_done_callback(partial(self._settle, spec))
                self._batches[spec] = batch
        wanted = {spec: self._made[spec] for spec in specs}
        pending = {spec: made for spec, made in wanted.items() if not made.done()}
        if pending:  # not the others: their event loops may be gone
            with _told({self._batches[spec] for spec in pending}, progress):
                await asyncio.wait(pending.values())  # to the end of all, whichever fails
        return [wanted[spec].result() for spec in specs]

    def _is_missing(self, spec: PipelineSpec) -> bool:
        """Also if an event loop was closed before it was done."""
        made = self._made.get(spec)
        return made is None or (not made.done() and made.get_loop().is_closed())

    def _settle(self, spec: PipelineSpec, made: asyncio.Future[int]) -> None:
        if self._made.get(spec) is not made:
            return
        del self._batches[spec]
        if made.cancelled() or made.exception() is not None:
            del self._made[spec]  # it is tried again


@contextmanager
def _told(batches: Collection[_CompileBatch], progress: Progress | None) -> Iterator[None]:
    """Inside, `progress` hears how many kernels of the batches there are: at once, and then after
    each. If it fails, that is the error of whoever gave it, not of those who wait for the same.
    """
    if progress is None:
        yield
        return
    failures: list[Exception] = []

    def tell() -> None:
        if failures:
            return
        try:
            done, total = sum(one.done for one in batches), sum(one.total for one in batches)
            progress("compile", done, total)
        except Exception as error:
            failures.append(error)

    for batch in batches:
        batch.listeners.append(tell)
    try:
        tell()
        yield
    finally:
        for batch in batches:
            batch.listeners.remove(tell)
    if failures:
        raise failures[0]


async def _item(items: asyncio.Future[list[int]], index: int) -> int:
    return (await asyncio.shield(items))[index]
