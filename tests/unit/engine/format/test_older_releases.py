"""Programs in the layouts of older releases of ExecuTorch, with the operators they wrote.

Release 0.3 had no operator for prepacking and kept everything in one flatbuffer; 0.5 had SymInts
and prepacking; 0.6 named data of programs; 1.0 named data of delegates, the host's types of
tensors, and the size of all segments in the header. Fields that a release did not have yet are
left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, Node, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops import lookup

Array = np.ndarray
STAGING, KEY = 6, 2  # slots of a tensor and of a constant that came with later releases
MUTABLE_SEGMENTS, NAMED_DATA = 6, 7  # slots of a program


def older_graph() -> GraphWriter:
    """Return a writer of graphs without what later releases added."""

    def edit(root: Any) -> None:
        for value in root.slots[2]:
            value.slots[1].slots.pop(STAGING, None)
        for constant in root.slots[5]:
            constant.slots.pop(KEY, None)

    return GraphWriter(edit=edit)


def older_program(root: Node) -> None:
    root.slots.pop(MUTABLE_SEGMENTS)
    root.slots.pop(NAMED_DATA)


def numbers(*shape: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def results(data: bytes, *inputs: Array) -> list[Array]:
    """Run on the simulated GPU and on NumPy, whose results must agree."""

    async def run(device: Any) -> list[Array]:
        async with await webpte.load(data, device=device) as program:
            assert program.methods["forward"].unsupported == {}
            return list(await program.forward(*inputs))

    on_gpu, on_numpy = wait(run(SimulatedDevice())), wait(run("numpy"))
    for one, other in zip(on_gpu, on_numpy, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    return on_numpy


@pytest.mark.parametrize("release", ["0.3", "0.4"])
def test_a_product_that_is_split(release: str) -> None:
    """x @ w in parts of 4, 4 and 2 columns; the first two are added."""
    w = numbers(5, 10, seed=4)
    g = older_graph()
    x, product, out = g.tensor((3, 5)), g.tensor((3, 10)), g.tensor((3, 4))
    weight = g.tensor((5, 10), constant=w)
    parts = [g.tensor((3, size)) for size in (4, 4, 2)]
    g.op("aten.mm.default", x, weight, product)
    g.op("aten.split.Tensor", product, g.int(4), g.int(-1), g.value_list(parts))
    g.op("aten.add.Tensor", *parts[:2], g.int(1), out)
    g.inputs(x)
    g.outputs(out, parts[2])
    if release == "0.3":
        data = write_pte(g, extended_header=False, edit=older_program)
    else:
        data = write_pte(g, header_length=24, inline_constants=True, edit=older_program)
    given = numbers(3, 5)
    total, rest = results(data, given)
    np.testing.assert_allclose(
        total, (given @ w)[:, :4] + (given @ w)[:, 4:8], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(rest, (given @ w)[:, 8:], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("release", ["0.5", "0.7"])
def test_a_linear_layer_of_four_bits_and_a_name_without_its_namespace(release: str) -> None:
    codes = np.random.default_rng(5).integers(0, 16, (8, 64), np.uint8)
    pairs = np.stack([np.abs(numbers(2, 8)) * 0.1, numbers(2, 8, seed=6)], -1)
    g = older_graph()
    x, y = g.tensor((1, 64)), g.tensor((1, 8))
    integers, out = g.tensor((1, 8), "int8"), g.tensor((1, 8))
    packed = g.tensor((8, 32), "uint8", constant=codes[:, ::2] << 4 | codes[:, 1::2])
    scales = g.tensor((2, 8, 2), constant=pairs)
    g.op("et_vk.linear_weight_int4.default", x, packed, g.int(32), scales, g.int(8), y)
    between = g.double(0.5), g.int(3), g.int(-128), g.int(127)
    g.op("quantize_per_tensor.default", y, *between, integers)
    g.op("dequantize_per_tensor.default", integers, *between, out)
    g.inputs(x)
    g.outputs(y, out)
    edit = older_program if release == "0.5" else None
    data = write_pte(g, header_length=24, inline_constants=True, edit=edit)
    given = numbers(1, 64)
    groups = np.repeat(pairs, 32, axis=0)  # [64, 8, 2]
    want = given @ ((codes.T - 8.0) * groups[..., 0] + groups[..., 1])
    linear, rounded = results(data, given)
    np.testing.assert_allclose(linear, want, rtol=1e-4, atol=1e-4)
    assert np.array_equal(rounded, (np.clip(np.round(linear / 0.5) + 3, -128, 127) - 3) * 0.5)


def test_clamps_of_1_0() -> None:
    g = GraphWriter()
    x, y = g.tensor((5, 7)), g.tensor((7,))
    low, high, made, out = g.double(-0.5), g.double(1), g.tensor((5, 7)), g.tensor((5, 7))
    g.op("et_vk.binary_add_with_clamp.default", x, y, low, high, made)
    g.op("et_vk.clamp_with_binary_mul.default", x, g.null(), high, made, out)
    g.inputs(x, y)
    g.outputs(out)
    one, other = numbers(5, 7), numbers(7, seed=8)
    (got,) = results(write_pte(g), one, other)
    want = np.minimum(one, 1) * np.clip(one + other, -0.5, 1)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name",
    [
        *("quantize_per_tensor.default", "dequantize_per_tensor.default"),
        *("quantize_per_token.default", "dequantize_per_token.default"),
        *("choose_qparams.tensor", "choose_qparams_per_token_asymmetric.default"),
    ],
)
def test_names_without_a_namespace(name: str) -> None:
    found = lookup(name)
    assert found is not None
    assert found.name == f"quantized_decomposed.{name}"


@pytest.mark.parametrize("name", ["", ".", "default", "quantize.default", "no_such.default"])
def test_other_names_stay_unknown(name: str) -> None:
    assert lookup(name) is None
