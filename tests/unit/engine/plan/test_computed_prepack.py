"""A prepack of a value that is not in the file is a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import build_graph, load, wait
from support.graphs.prepacks import ADD, PREPACK, W, X, constant
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.rewrite.validate import constant_transfers


def computed(g: GraphWriter) -> tuple[list[int], int]:
    """Write a weight that calls compute: 2 * relu(w), as Gemma's 1 + w is."""
    source = g.op("aten.relu.default", constant(g), g.tensor((3,)))
    double = g.op(ADD, source, source, g.int(1), g.tensor((3,)))
    return [], g.op(PREPACK, double, g.tensor((3,)))


def given(g: GraphWriter) -> tuple[list[int], int]:
    source = g.tensor((3,))
    return [source], g.op(PREPACK, source, g.tensor((3,)))


def overwritten(g: GraphWriter) -> tuple[list[int], int]:
    """Write a source whose memory something else takes after the copy."""
    source = g.op("aten.relu.default", constant(g), g.tensor((3,), mem_obj_id=0))
    packed = g.op(PREPACK, source, g.tensor((3,)))
    other = g.op("aten.neg.default", constant(g), g.tensor((3,), mem_obj_id=0))
    g.op(ADD, other, other, g.int(1), g.tensor((3,), mem_obj_id=1))
    return [], packed


@pytest.mark.parametrize("device", ["numpy", "simulated"])
@pytest.mark.parametrize(
    ("write", "weights"),
    [(computed, 2 * np.maximum(W, 0)), (given, W + 1), (overwritten, np.maximum(W, 0))],
)
def test_the_copy_is_made_where_the_prepack_stands(write: Any, weights: Any, device: str) -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    inputs, packed = write(g)
    out = g.op(ADD, x, packed, g.int(1), g.tensor((2, 3)))
    g.inputs(x, *inputs)
    g.outputs(out)
    assert PREPACK not in {call.name for call in build_graph(g).calls}
    assert all(transfer.target.constant for transfer in constant_transfers(build_graph(g)))

    async def run() -> None:
        where: Any = SimulatedDevice() if device == "simulated" else device
        async with await load(g, device=where) as program:
            for scale in (1, 3):
                arrays = [X * scale, *([weights] if inputs else [])]
                (result,) = await program.forward(*(a.astype(np.float32) for a in arrays))
                np.testing.assert_allclose(result, X * scale + weights)

    wait(run())
