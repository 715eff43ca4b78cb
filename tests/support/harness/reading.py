"""Reads files in memory, without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from webpte.engine.files.source import BytesSource, Region
from webpte.engine.format.pte import ProgramFile, read_program
from webpte.engine.format.vulkan import VkDelegate, VkGraph, read_delegate

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Finish a coroutine that never waits, such as a read of bytes in memory."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the coroutine waits for something")


def run_apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """Finish a coroutine in another thread: the present thread may run Playwright's event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def read_pte(data: bytes) -> ProgramFile:
    return run(read_program(BytesSource(data)))


def read_delegates(data: bytes, program: ProgramFile) -> list[VkDelegate]:
    """Read all delegates of all methods."""
    source = BytesSource(data)
    spans = [program.delegate_span(d) for plan in program.methods for d in plan.delegates]
    return [run(read_delegate(Region(source, span.offset, span.size))) for span in spans]


def read_graph(data: bytes) -> VkGraph:
    """Read the graph of a file's only delegate."""
    (delegate,) = read_delegates(data, read_pte(data))
    return delegate.graph
