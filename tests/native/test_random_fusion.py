"""Fused calls against the references: graphs that resemble a rule's pattern, and random graphs.

With all that a GPU may have, and with the least that every GPU has.
"""

from __future__ import annotations

import pytest

from support.devices.native import ADAPTERS, compare, need_native
from support.graphs.fusion_graphs import SHAPES, Sizes
from support.graphs.graphs import wait
from support.graphs.near_misses import NEAR_MISSES
from support.graphs.random_images import random_graph
from support.harness import extent
from support.write.pte_writer import write_pte

# The first have shown faults: sums that are broadcast, no keys, buffers that are written,
# places in the order of calls.
SEEDS = (*extent.share((56, 60, 62, 71, 83, 95, 100, 126)), *range(extent.count(4, 300)))


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.mark.parametrize("name", extent.share(list(NEAR_MISSES)))
def test_near_misses(name: str) -> None:
    graph, steps = NEAR_MISSES[name]()
    wait(compare(write_pte(graph), steps, tolerance=1e-5))


@pytest.mark.parametrize("seed", dict.fromkeys(SEEDS))
def test_random_graphs(seed: int) -> None:
    case = random_graph(seed)
    adapter = ADAPTERS[seed // 2 % len(ADAPTERS)]
    wait(compare(write_pte(case.graph), case.steps, case.tolerance, adapter))


@pytest.mark.parametrize(
    ("shape", "kind", "sizes"),
    [
        *((shape, "q4", Sizes(4, 4096, 8)) for shape in SHAPES),
        ("gated", "q4", Sizes(1, 4096, 8)),
        ("gated", "rounded", Sizes(4, 512, 8)),
        ("gated", "float", Sizes(4, 512, 8)),
        ("residual", "float", Sizes(20, 64, 8)),
    ],
    ids=str,
)
def test_the_memory_that_every_gpu_has(shape: str, kind: str, sizes: Sizes) -> None:
    """Workgroups that take all of it, and sums of long rows."""
    graph, inputs = SHAPES[shape](sizes, kind)
    tolerance = 2e-3 if kind == "rounded" else 1e-5
    wait(compare(write_pte(graph), [inputs], tolerance, "phone"))
