"""Broken programs on WebGPU: a result or one of our errors; the page and the device survive."""

from __future__ import annotations

import base64
import random

import pytest

from support.graphs.fuzz import FILES, WRITTEN, changed_bytes, changed_tree
from support.harness import extent
from support.page.page import python
from webpte_host.harness.browser import Harness

OF_TREES, OF_BYTES = extent.count(20, 60), extent.count(12, 40)  # changes of each program
PER_CALL = 50
MAX_INPUT = 100_000  # elements; a method that takes more is loaded, but not run

LOAD_AND_RUN = """
from webpte.engine.shapes import numel

def inputs_of(info):
    tensors = [value for value in info.inputs if isinstance(value, webpte.TensorInfo)]
    if sum(numel(tensor.shape) for tensor in tensors) > max_input:
        return None
    return [
        np.ones(value.shape, value.dtype) if isinstance(value, webpte.TensorInfo) else value.value
        for value in info.inputs
    ]

async def load_and_run(data):
    async with await webpte.load(data) as program:
        for name, info in program.methods.items():
            inputs = inputs_of(info)
            for _ in range(2 if inputs is not None else 0):
                await program.run(name, *inputs)

good, wrong = 0, []
for data in programs:
    try:
        await load_and_run(base64.b64decode(data))
        good += 1
    except webpte.WebpteError:
        pass
    except BaseException as error:
        wrong.append(f"{type(error).__name__}: {error}")
device = await shared_device()
return good, wrong, device.lost
"""


def run_all(harness: Harness, programs: list[bytes]) -> int:
    """Count the programs that ran; fails for any error that is not ours."""
    total = 0
    for at in range(0, len(programs), PER_CALL):
        packed = [base64.b64encode(data).decode() for data in programs[at : at + PER_CALL]]
        good, wrong, lost = python(harness, LOAD_AND_RUN, programs=packed, max_input=MAX_INPUT)
        assert wrong == []
        assert not lost
        total += good
    return total


@pytest.mark.parametrize("name", extent.share(list(WRITTEN), 4))
def test_broken_programs_do_not_break_the_page(harness: Harness, name: str) -> None:
    harness.log.take()
    rng = random.Random(f"{name} in a browser")
    trees = [changed_tree(name, rng) for _ in range(OF_TREES)]
    good = run_all(harness, [*trees, *(changed_bytes(FILES[name], rng) for _ in range(OF_BYTES))])
    assert 2 < good < OF_TREES + OF_BYTES - 2
    assert run_all(harness, [FILES[name]]) == 1  # a correct program still runs
    assert harness.log.take() == ([], [])
