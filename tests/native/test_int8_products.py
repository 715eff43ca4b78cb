"""Linear layers that multiply integers, on the native device, against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices import native
from support.devices.native import need_native
from support.graphs.fusion_graphs import SHAPES, Net, Sizes
from support.graphs.graphs import wait
from support.harness import extent
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.ops.gemm import linear_int8

Array = np.ndarray
BLOCKS = webpte.Options(int8_products=True)
# By default every fifth case of each kind runs: that is each tile, and each kind of weights.
# Rows, k and columns: less than a tile, parts of tiles, and k in parts.
MANY = (Sizes(17, 64, 8), Sizes(33, 96, 100), Sizes(130, 256, 132), Sizes(64, 32, 5))
ROW = (Sizes(1, 32, 4), Sizes(1, 576, 100), Sizes(1, 2112, 36), Sizes(1, 8192, 12))


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


def linear(sizes: Sizes, kind: str) -> tuple[GraphWriter, list[Array]]:
    net = Net()
    x = net.g.tensor((1, sizes.tokens, sizes.inner))
    return net.g, net.finish((x,), net.linear(x, sizes.rows, kind, bias=True))


def _title(value: Any) -> str:
    is_tile = isinstance(value, linear_int8.Int8TileConfig)
    return f"{value.rows}x{value.columns}" if is_tile else str(value)


async def outputs(
    graph: GraphWriter, inputs: list[Array], options: webpte.Options | None = None
) -> tuple[Array, list[str]]:
    """Return the first output, and the names of the kernels that ran."""
    device, chosen = native.shared_device(), options or webpte.Options()
    async with await webpte.load(write_pte(graph), device=device, options=chosen) as program:
        (got,) = await program.forward(*inputs)
        rows = await program.profile("forward", *inputs)
    return got, [label.split()[0].rstrip(":") for label, _ in rows]


@pytest.mark.parametrize(
    ("kind", "sizes", "config"),
    extent.share(list(product(("rounded", "qd8"), MANY, linear_int8.INT8_TILE_CONFIGS)), 5),
    ids=_title,
)
def test_many_rows(
    kind: str, sizes: Sizes, config: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_int8, "INT8_TILE_CONFIGS", (config,))
    graph, inputs = linear(sizes, kind)
    wait(native.compare(write_pte(graph), [inputs], 2e-5))
    _, names = wait(outputs(graph, inputs))
    assert names[:3] == ["choose_qparams", "linear_q4_codes", "linear_q4_int8"]


@pytest.mark.parametrize(
    ("shape", "sizes", "kind"),
    extent.share(
        [(shape, s, kind) for kind in ("rounded", "qd8") for s in ROW for shape in SHAPES], 5
    ),
    ids=str,
)
def test_a_row(shape: str, sizes: Sizes, kind: str) -> None:
    graph, inputs = SHAPES[shape](sizes, kind)
    wait(native.compare(write_pte(graph), [inputs], 2e-3))
    _, names = wait(outputs(graph, inputs))
    assert names == ["gemv_q4_gated" if shape == "gated" else "gemv_q4"]


def test_a_gate_rounds_its_rows_once() -> None:
    graph, inputs = SHAPES["gated"](MANY[1], "rounded")
    wait(native.compare(write_pte(graph), [inputs], 2e-3))
    _, names = wait(outputs(graph, inputs))
    assert (names.count("linear_q4_codes"), names.count("linear_q4_int8")) == (1, 2)


def rounded_in_blocks(x: Array) -> Array:
    """Round each 32 values to int8, with a scale by which the largest becomes 127."""
    blocks = x.reshape(*x.shape[:-1], -1, 32).astype(np.float32)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    return (np.round(blocks * inverse) * scale).reshape(x.shape)


@pytest.mark.parametrize(
    ("kind", "sizes", "config"),
    extent.share(list(product(("q4", "int8"), MANY[1:], linear_int8.INT8_TILE_CONFIGS)), 5),
    ids=_title,
)
def test_blocks_of_32_values(
    kind: str, sizes: Sizes, config: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_int8, "INT8_TILE_CONFIGS", (config,))
    graph, (x,) = linear(sizes, kind)
    x[0, 1] = 0
    x[0, 2, :32] *= 1000
    (got, names) = wait(outputs(graph, [x], BLOCKS))
    assert names[:2] == ["linear_q4_codes", "linear_q4_int8"]
    (want, _) = wait(outputs(graph, [rounded_in_blocks(x)]))
    largest = np.abs(want).max(-1, keepdims=True)
    assert (np.abs(got - want) <= 1e-3 * largest + 1e-6).all()
    (exact, others) = wait(outputs(graph, [x]))
    assert "linear_q4_int8" not in others
    assert 1e-4 < np.abs(got - exact).max() / np.abs(exact).max() < 2e-2


@pytest.mark.parametrize(("kind", "options"), [("q4", BLOCKS), ("int8", BLOCKS), ("rounded", None)])
def test_a_nan_stays_in_its_row(kind: str, options: webpte.Options | None) -> None:
    graph, (x,) = linear(MANY[1], kind)
    x[0, 3, 40] = np.nan
    got, names = wait(outputs(graph, [x], options))
    assert "linear_q4_int8" in names
    assert np.isnan(got[0, 3]).all()
    assert np.isfinite(np.delete(got, 3, axis=1)).all()
