"""The cost of a step of real exports, unfused and fused: dispatches, waits and bytes.

A number that grew is a fusion or a plan that was lost; a smaller number goes into this table, and
into docs/inside/fusion.md. `python -m support.graphs.step_costs` prints the table.
"""

from __future__ import annotations

import pytest

from support.graphs.fusion_graphs import llama_layers
from support.graphs.graphs import wait
from support.graphs.step_costs import Costs, costs_of, exports
from support.write.pte_writer import write_pte

# dispatches, the longest chain of them, bytes of weights, of activations, and between dispatches
TABLE = {
    "encoder_dynamic_seq": (Costs(44, 40, 230428, 1248800, 0), Costs(16, 16, 230428, 419360, 0)),
    "gpt_small_static": (Costs(51, 47, 484360, 978720, 0), Costs(18, 18, 482824, 381984, 0)),
    "llama_tiny_8da4w": (Costs(49, 43, 83776, 102972, 2304), Costs(17, 15, 83776, 75972, 4352)),
    "llama_tiny_fp32": (Costs(40, 34, 525888, 99524, 2304), Costs(17, 15, 525888, 75972, 4352)),
    "llama_tiny_q4": (Costs(40, 34, 83776, 99524, 2304), Costs(15, 13, 83776, 74948, 4352)),
    "mlp_dynamic_batch": (Costs(4, 4, 10528, 11232, 0), Costs(3, 3, 10528, 6624, 0)),
    "mlp_fp16": (Costs(4, 4, 10528, 4992, 0), Costs(3, 3, 10528, 2944, 0)),
    "mobilenetv2_small": (Costs(17, 17, 50576, 940368, 0), Costs(15, 15, 50576, 885072, 0)),
    "resnet_small": (Costs(24, 22, 319336, 524840, 475136), Costs(18, 18, 319336, 410152, 475136)),
    "superres_small": (Costs(7, 7, 11872, 295680, 131072), Costs(6, 6, 11872, 234240, 131072)),
    "two_outputs": (Costs(7, 5, 0, 1170, 0), Costs(7, 5, 0, 1170, 0)),
    "unet_small": (Costs(10, 10, 7844, 491552, 0), Costs(8, 8, 7844, 434208, 0)),
    "vit_small": (Costs(49, 45, 457008, 633744, 0), Costs(21, 21, 457008, 282320, 0)),
    "sample digits": (Costs(6, 6, 67208, 92024, 0), Costs(6, 6, 67208, 92024, 0)),
    "sample photo": (Costs(9, 8, 40240, 1015021568, 0), Costs(8, 7, 40240, 914358272, 0)),
    "sample stories": (
        Costs(91, 79, 1160320, 1459716, 43520),
        Costs(30, 28, 1160320, 1349892, 53760),
    ),
    "sample superres": (Costs(7, 7, 11872, 295680, 131072), Costs(6, 6, 11872, 234240, 131072)),
    "sample teach": (Costs(57, 40, 97532, 8639136, 256), Costs(32, 23, 97532, 4594848, 256)),
    "a layer of Llama-3.2-1B": (
        Costs(17, 15, 38027264, 9998592, 1081344),
        Costs(6, 6, 38027264, 9568512, 1114112),
    ),
    "a layer of SmolLM2-135M": (
        Costs(17, 15, 2216448, 3664384, 270336),
        Costs(5, 5, 2216448, 3565312, 143360),
    ),
}
SHAPES = {
    "a layer of Llama-3.2-1B": {},
    "a layer of SmolLM2-135M": {"heads": 9, "key_heads": 3, "hidden": 1536},
}


def test_real_exports() -> None:
    found = {
        name: tuple(wait(costs_of(program, *inputs, fuse=fuse)) for fuse in (False, True))
        for name, program, inputs in exports()
    }
    assert found == {name: costs for name, costs in TABLE.items() if name not in SHAPES}
    for plain, fused in found.values():
        assert (fused.chain, fused.activations) <= (plain.chain, plain.activations)


@pytest.mark.parametrize("name", SHAPES)
def test_layers_of_large_models(name: str) -> None:
    """Sizes alone: their weights are zeros."""
    program = write_pte(llama_layers(1, **SHAPES[name]))
    found = tuple(wait(costs_of(program, fuse=fuse)) for fuse in (False, True))
    assert found == TABLE[name]
