"""What is left to Python of compiling: every kernel once, and what a dialect of WGSL lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from webpte.gpu.device import PipelineSpec, Progress

Compile = Callable[[Sequence[PipelineSpec], Progress | None], Awaitable[list[int]]]

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


class PipelineCache:
    """Pipelines by what they are; `compile` makes those that are missing, all in one go."""

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._made: dict[PipelineSpec, asyncio.Future[int]] = {}

    async def get(self, specs: Sequence[PipelineSpec], progress: Progress | None) -> list[int]:
        missing = [spec for spec in dict.fromkeys(specs) if self._is_missing(spec)]
        if missing:
            # Whoever asks for the same meanwhile waits for this, and does not compile it again.
            compiling = asyncio.ensure_future(self._compile(missing, progress))
            for index, spec in enumerate(missing):
                self._made[spec] = asyncio.ensure_future(_item(compiling, index))
                self._made[spec].add_done_callback(partial(self._forget_failed, spec))
        wanted = {spec: self._made[spec] for spec in specs}
        pending = [made for made in wanted.values() if not made.done()]
        if pending:  # not the others: their event loops may be gone
            await asyncio.wait(pending)  # to the end of all, whichever fails
        return [wanted[spec].result() for spec in specs]

    def _is_missing(self, spec: PipelineSpec) -> bool:
        """Also if an event loop was closed before it was done."""
        made = self._made.get(spec)
        return made is None or (not made.done() and made.get_loop().is_closed())

    def _forget_failed(self, spec: PipelineSpec, made: asyncio.Future[int]) -> None:
        failed = made.cancelled() or made.exception() is not None
        if failed and self._made.get(spec) is made:
            del self._made[spec]


async def _item(items: asyncio.Future[list[int]], index: int) -> int:
    return (await asyncio.shield(items))[index]
