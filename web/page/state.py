"""Whether a program keeps state, so that its results depend on the calls before.

State is what a call writes and the next one reads: caches that operators write in place, mutable
buffers of a delegate that get new values, and those that kernels outside of delegates change.
"""

from __future__ import annotations

from collections.abc import Mapping

from page.browser import Source
from webpte import MethodInfo
from webpte.kernels import lookup_kernel
from webpte.ops import lookup
from webpte.passes import rewritten_buffers
from webpte.runtime.contents import read_contents
from webpte.runtime.open import open_source


async def keeps_state(source: Source, methods: Mapping[str, MethodInfo]) -> bool:
    return any(_writes_in_place(info) for info in methods.values()) or await _has_buffers(source)


def _writes_in_place(info: MethodInfo) -> bool:
    """By the names of what it calls, which needs no second look into the file."""
    ops = [lookup(name) for name in info.ops]
    kernels = [lookup_kernel(name) for name in info.kernels_outside]
    return any(op is not None and op.mutates for op in ops) or any(
        kernel is not None and kernel.in_place for kernel in kernels
    )


async def _has_buffers(source: Source) -> bool:
    """Any operator can be the one that gives a buffer its new value: only the graphs tell."""
    files = [await open_source(file) for file in source.extra]
    contents = await read_contents(await open_source(source.data), files)
    graphs = [graph for method in contents.methods.values() for graph in method.graphs]
    return any(graph is not None and rewritten_buffers(graph) for graph in graphs)
