"""Broken and hostile programs, loaded and run: a result or one of our errors, in bounded work.

Each change is made to a program that works. Most files are refused by the reader; all others must
be refused, or run, by the stages after it: graphs, plans, references, kernels.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.fuzz import FILES, WRITTEN, changed_bytes, changed_tree
from support.graphs.graphs import wait
from support.harness import extent
from support.harness.bounded import begin_file, bounded_work
from support.write.pte_writer import GraphWriter, write_pte
from webpte import errors
from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.plan import reference
from webpte.engine.run import method
from webpte.engine.shapes import numel

# Changes of each file that are read; every fourth of them is run as well.
READ = extent.count(60, 950)
RUN_EVERY = 4
MAX_INPUT = 1_000_000  # elements; a method that takes more is loaded, but not run
DEVICE_BYTES = 1 << 24
HOST_BYTES = 1 << 26


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small limits, and bounds of time and memory."""
    monkeypatch.setattr(method, "MAX_INSTRUCTIONS", 1000)
    monkeypatch.setattr(reference, "MEMORY_LIMIT", HOST_BYTES)
    with bounded_work():
        yield


def inputs_of(info: MethodInfo) -> list[Any] | None:
    """Return ones for every input, or None if the inputs are larger than MAX_INPUT."""
    tensors = [value for value in info.inputs if isinstance(value, TensorInfo)]
    if sum(numel(tensor.shape) for tensor in tensors) > MAX_INPUT:
        return None
    return [
        np.ones(value.shape, value.dtype) if isinstance(value, TensorInfo) else value.value
        for value in info.inputs
    ]


async def load_and_run(data: bytes, device: Any) -> None:
    async with await webpte.load(data, device=device) as program:
        for name, info in program.methods.items():
            inputs = inputs_of(info)
            for _ in range(2 if inputs is not None else 0):
                await program.run(name, *inputs or ())


def check(data: bytes, *, run: bool) -> bool:
    """Whether the file was good; fails for any error that is not ours."""
    begin_file()
    if not run:
        return _outcome(webpte.inspect(data))
    recording = SimulatedDevice(memory_limit=DEVICE_BYTES)
    good = [_outcome(load_and_run(data, device)) for device in ("numpy", recording)]
    assert recording.buffers == {}, "what was allocated is given back"
    assert recording.plans == {}
    return all(good)


def _outcome(work: Any) -> bool:
    cause: BaseException | None = None
    try:
        wait(work)
    except webpte.WebpteError as error:
        cause = error
    good = cause is None
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise cause
        cause = cause.__cause__
    return good


@pytest.mark.parametrize("name", FILES)
def test_the_programs_run_before_they_are_broken(name: str) -> None:
    wait(load_and_run(FILES[name], "numpy"))
    wait(load_and_run(FILES[name], SimulatedDevice()))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.usefixtures("bounded")
def test_changes_of_bytes(name: str) -> None:
    rng = random.Random(name)
    for at in range(READ):
        check(changed_bytes(FILES[name], rng), run=at % RUN_EVERY == 0)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.usefixtures("bounded")
def test_changes_of_what_the_file_says(name: str) -> None:
    rng = random.Random(name)
    times = READ // RUN_EVERY
    good = sum(check(changed_tree(name, rng), run=True) for _ in range(times))
    assert 0.03 * times < good < 0.97 * times  # some break the file, some do not


def big_full(rows: int) -> GraphWriter:
    """Returns rows x 1 MiB of zeros, from nothing."""
    g = GraphWriter()
    g.outputs(g.op("aten.zeros.default", g.int_list([rows, 1 << 18]), g.tensor((rows, 1 << 18))))
    return g


def test_arrays_over_the_limit_are_an_error_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference, "MEMORY_LIMIT", 8 << 20)

    async def run(rows: int) -> int:
        async with await webpte.load(write_pte(big_full(rows)), device="numpy") as program:
            (result,) = await program.forward()
            return int(result.nbytes)

    assert asyncio.run(run(8)) == 8 << 20
    with pytest.raises(errors.OutOfMemoryError, match="have 9,437,184 bytes, but 8,388,608"):
        asyncio.run(run(9))


def test_an_array_that_no_machine_has_room_for() -> None:
    """No limit is set here, so the machine's memory is the limit."""
    with pytest.raises(errors.OutOfMemoryError, match="are left of"):
        wait(load_and_run(write_pte(big_full(1 << 30)), "numpy"))
