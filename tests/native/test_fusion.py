"""The kernels of fused calls on the native device, as a GPU runs them, against the references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import webpte
from support.fusion_graphs import (
    HEADS,
    RESIDUALS,
    SHAPES,
    SIZES,
    Heads,
    Sizes,
    attention,
    attention_steps,
    chains,
    residual_conv,
)
from support.graphs import wait
from support.native import need_native
from support.pte_writer import GraphWriter, write_pte
from webpte.gpu.native import NativeDevice


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


async def compare(
    graph: GraphWriter,
    steps: Sequence[Sequence[np.ndarray]],
    tolerance: float,
    subgroups: bool = False,
) -> None:
    device = await NativeDevice.create()
    device.info = replace(device.info, software=False, prefers_subgroups=subgroups)
    data = write_pte(graph)
    async with await webpte.load(data, device=device) as program:
        got = [output for inputs in steps for output in await program.forward(*inputs)]
    async with await webpte.load(data, device="numpy") as program:
        want = [output for inputs in steps for output in await program.forward(*inputs)]
    for one, other in zip(got, want, strict=True):
        scale = float(np.abs(other.astype(np.float64)).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(scale, 1))


CASES = [("gated", "q4", sizes) for sizes in SIZES[1:6]]
CASES += [("normed", "q4", SIZES[1]), ("normed", "int8", SIZES[3]), ("gated", "int8", SIZES[0])]
CASES += [("residual", kind, SIZES[3]) for kind in ("q4", "float")]


@pytest.mark.parametrize(("shape", "kind", "sizes"), CASES, ids=str)
def test_kernels(shape: str, kind: str, sizes: Sizes) -> None:
    graph, inputs = SHAPES[shape](sizes, kind)
    wait(compare(graph, [inputs], tolerance=1e-5))


def test_residuals_of_convolutions() -> None:
    for case in RESIDUALS:
        graph, inputs = residual_conv(case)
        wait(compare(graph, [inputs], tolerance=1e-5))


def test_chains() -> None:
    for graph, inputs in chains():
        wait(compare(graph, [inputs], tolerance=1e-5))


@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_attention(heads: Heads) -> None:
    net = attention(heads)
    wait(compare(net.g, attention_steps(net, heads), tolerance=1e-5))


@pytest.mark.parametrize("shape", ["gated", "normed"])
def test_half_floats(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_halves:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    graph, inputs = SHAPES[shape](SIZES[2], "q4")
    wait(compare(graph, [inputs], tolerance=4e-3))


def test_half_floats_of_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_halves:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    net = attention(HEADS[1])
    wait(compare(net.g, attention_steps(net, HEADS[1]), tolerance=4e-3))


@pytest.mark.parametrize(
    ("shape", "kind"), [("gated", "q4"), ("normed", "int8"), ("residual", "q4")]
)
def test_sums_by_subgroups(shape: str, kind: str) -> None:
    if not wait(webpte.shared_device("native")).info.subgroup:
        pytest.skip("no subgroups")
    graph, inputs = SHAPES[shape](SIZES[2], kind)
    wait(compare(graph, [inputs], tolerance=1e-5, subgroups=True))


def test_attention_with_sums_by_subgroups() -> None:
    if not wait(webpte.shared_device("native")).info.subgroup:
        pytest.skip("no subgroups")
    net = attention(HEADS[1])
    wait(compare(net.g, attention_steps(net, HEADS[1]), tolerance=1e-5, subgroups=True))
