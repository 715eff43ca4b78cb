"""The calls that a program has on a GPU, after a check of its results against NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

import webpte
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice


async def recognized(
    writer: GraphWriter | MethodWriter, calls: Sequence[Sequence[np.ndarray]]
) -> Counter[str]:
    """Return the calls of a program's only graph; its results are compared with NumPy's."""
    data = write_pte(writer)
    async with (
        await webpte.load(data, device="numpy") as reference,
        await webpte.load(data, device=SimulatedDevice()) as program,
    ):
        for inputs in calls:
            wanted, found = await reference.forward(*inputs), await program.forward(*inputs)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        (graph,) = program._build.stages["forward"].planned.graphs
        assert graph is not None
        return Counter(call.name for call in graph.calls)
