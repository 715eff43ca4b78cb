"""A GPU's kernels in a browser whose adapter is a CPU: they must stay tested there, too.

A software adapter gets special kernels. A device that is told to be no software adapter gets
a GPU's kernels, as long as this browser compiles them in seconds: some take a minute for one tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from typing import TypeVar

import pytest

from support.cases.tables import Row
from support.devices.native import why_not
from support.harness import extent, limits
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.ops.core.row_reduction import THREADS, RowThreads
from webpte.engine.plan.shaders import ShaderLibrary
from webpte_host.harness.browser import Harness

T = TypeVar("T")

ADAPTERS, GPU = "adapter", "gpu"
both_kernels = pytest.mark.parametrize("kernels", [ADAPTERS, GPU])

# For one small kernel with barriers; a tile takes about ten times as long.
QUICK_SECONDS = 3.0
SAMPLE, SAMPLE_ALONE = 1, 12  # cases of a table that run here, if all run natively or none does

# Of so many cases of a table one runs in a browser, if everything is to run.
EVERY = 8


def for_browser(tables: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    """A sample of the families' tables; all rows, if there is no driver to run them natively.

    What the kernels compute is compared with the references by tests/native/test_tables.py. A
    browser has to show that it compiles a kernel of each family, and that numbers of all types find
    their way there and back, at one size and at several: the first case of every family runs there,
    and the first of every such kind in any family. If everything is to run, so do the first case
    of each op and kind in each family, and one of so many others.
    """
    if why_not() is not None:
        return {family: list(cases) for family, cases in tables.items()}
    if extent.everything():
        return {family: _many(cases) for family, cases in tables.items()}
    seen, chosen = set[object](), {}
    for family, cases in tables.items():
        first = {_types(case): case for case in reversed(cases)}
        new = [case for kind, case in first.items() if kind not in seen and case is not cases[0]]
        chosen[family] = [cases[0], *new]
        seen |= first.keys()
    return chosen


def _many(cases: Sequence[T]) -> list[T]:
    first: dict[object, int] = {}
    for index, case in enumerate(cases):
        first.setdefault(_op(case), index)
        first.setdefault(_types(case), index)
    return [cases[index] for index in sorted({*first.values(), *range(0, len(cases), EVERY)})]


def _op(case: object) -> object:
    return getattr(case, "op", None)


def _types(case: object) -> object:
    steps = Row("", case).steps
    return frozenset(str(array.dtype) for array in steps[0]), len(steps) > 1


_TIME = """
from time import perf_counter
import webpte
from webpte.engine.gpu.device import (PipelineSpec)

device = await webpte.shared_device()
bindings, overrides = tuple(spec["bindings"]), tuple(map(tuple, spec["overrides"]))
started = perf_counter()
await device.create_pipelines([PipelineSpec(spec["label"], spec["code"], bindings, overrides)])
return perf_counter() - started
"""

_TELL = """
import dataclasses, webpte

device = await webpte.shared_device()
told, device.info = device.info, dataclasses.replace(device.info, software=software)
return told.software
"""


@lru_cache  # a harness is one page of one browser
def compiles_quickly(harness: Harness) -> bool:
    """Measured, not guessed: it depends on the processor and on what else runs."""
    shader = ShaderLibrary().assemble("softmax", (("FLOAT", "f32"), ("ITEM", "f32")))
    overrides = (*RowThreads(THREADS).overrides, ("LOGARITHM", 0))
    spec = PipelineSpec("softmax", shader.code, shader.bindings, overrides)
    seconds = float(harness.python(_TIME, spec=asdict(spec), timeout=limits.CALL_SECONDS))
    print(f"a kernel with barriers takes {seconds:.1f} s to compile here")
    return seconds < QUICK_SECONDS


@contextmanager
def cases_for(
    kernels: str, harness: Harness, every: Sequence[T], few: Sequence[T] = ()
) -> Iterator[list[T]]:
    """The cases to run inside, with the adapter's own kernels or a GPU's.

    All of a GPU's kernels run natively where there is a driver, see tests/native/test_tables.py:
    here a sample does then if everything is to run, and a larger one without a driver. `few` is
    what runs otherwise, and where compiling is slow: cases without barriers. Where the adapter is a
    GPU, its own kernels are those, and there is nothing more to run.
    """
    if kernels == ADAPTERS:
        yield list(every)
        return
    software = harness.python(_TELL, software=False)
    try:
        sample = SAMPLE_ALONE if why_not() is not None else extent.count(0, SAMPLE)
        compiled = sample and software and compiles_quickly(harness)
        chosen = list(every[:sample] if compiled else few)
        print(f"{len(chosen)} of {len(every)} cases with the kernels of a GPU")
        yield chosen if software else []
    finally:
        if not harness.lost:
            harness.python(_TELL, software=software)
