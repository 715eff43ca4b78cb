"""Measurements of a benchmark: some samples with their examples, and the open program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from page.core.session import Session
from page.core.state import AppState
from page.shared.html.units import shape_text
from page.shared.persistence.library_files import keep_file
from webpte.engine.open.open_source import let_go
from webpte.errors import InputError
from webpte.inspection.example import read_example
from webpte.llm import Generator
from webpte.llm.bench import bench_llm, bench_method
from webpte.llm.gpu_figures.result import BenchRow

SAMPLES = ("digits", "photo", "stories")
RUNS, PROMPT, STEPS = 20, 64, 32
MOST_SHAPES = 2
SLOW_RUNS, SLOW_STEPS = 3, 4  # on a CPU, where one run takes long


async def measure_sample(state: AppState, name: str, device: str) -> list[BenchRow]:
    """Load a sample, measure it and close it."""
    address = f"samples/{name}.pte"
    source = await state.browser.fetch(address, lambda stage, done, total: None)
    try:
        program = await state.engine.load(source.data, device=device, name=source.name)
    except BaseException as error:
        if source.file is not None:
            let_go(source.file, error)
        raise
    try:
        await keep_file(source)
        data = await state.browser.fetch_bytes(f"samples/{name}.check.npz")
        example = await read_example(program.methods["forward"], data)
        return await _rows(program, name, "forward", example.inputs)
    finally:
        program.close()


async def measure_session(session: Session) -> list[BenchRow]:
    """Measure the open program with its current inputs."""
    inputs = [state.array() for state in session.inputs]
    session.lose_state("the benchmark has changed it")
    return await _rows(session.program, session.source.name, session.method, inputs)


async def _rows(program: Any, name: str, method: str, inputs: Sequence[Any]) -> list[BenchRow]:
    info = program.device_info
    slow = info.software or info.kind == "numpy"
    warm = 0.0 if slow else 0.5
    found = await bench_method(
        program, method, SLOW_RUNS if slow else RUNS, 1 if slow else 3, inputs, warm
    )
    of = f" of {_sizes(inputs)}" if any(np.ndim(one) for one in inputs) else ""
    rows = [BenchRow(f"{name}: one call{of}", found["ms"], "ms")]
    if found["gpu_ms"] is not None:
        rows.append(BenchRow(f"{name}: kernels{of}", found["gpu_ms"], "ms"))
    try:
        context = Generator(program, method).max_context
    except InputError:
        return rows
    steps = SLOW_STEPS if slow else STEPS
    if context is not None and context < PROMPT + 8 * steps:
        return rows
    figures = await bench_llm(program, [PROMPT], steps)
    for label, key in (("prefill", "prefill"), ("decode", "ahead"), ("sampled", "sampled")):
        speed = figures[f"{key}_{PROMPT}"]["tokens_per_second"]
        rows.append(BenchRow(f"{name}: {label} at {PROMPT}", speed, "tokens/s"))
    return rows


def _sizes(inputs: Sequence[Any]) -> str:
    """Return the shapes of the first inputs, which the time of a call depends on."""
    shapes = [shape_text(np.shape(one)) for one in inputs if np.ndim(one)]
    more = ", …" if len(shapes) > MOST_SHAPES else ""
    return ", ".join(shapes[:MOST_SHAPES]) + more
