"""wgsl/conv/conv_winograd.wgsl on the native device: every size and end against the references."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.conv.conv_cases import conv
from support.cases.explain import explain
from support.cases.row_cases import RowCase, normal
from support.devices.native import need_native
from support.devices.winograd import BLOCKS, OFFERED, SMALL, error_bound
from support.graphs.conv_graphs import Block, conv_block
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte.gpu.native.device import NativeDevice
from webpte.ops.conv import conv as conv_module
from webpte.ops.conv.conv_winograd import CUTS
from webpte.ops.core.target import GPU

Array = np.ndarray


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.fixture(params=CUTS, ids=lambda cut: cut.label.replace(" ", "-"))
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """At all sizes, also where it would not be measured."""
    monkeypatch.setattr(conv_module, "choose_cut", lambda *_: request.param)


@cache
def device() -> NativeDevice:
    """With a GPU's kernels; one for all tests, so that each is compiled once."""
    made = asyncio.run(NativeDevice.create())
    made.info = replace(made.info, software=False)
    return made


async def outputs(program: bytes, steps: Sequence[Sequence[Array]], where: Any) -> list[Array]:
    async with await webpte.load(program, device=where) as loaded:
        found = [output for step in steps for output in await loaded.forward(*step)]
        if where != "numpy":
            assert any(kernel.startswith("conv_winograd") for kernel in loaded.kernels)
        return found


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("case", [*OFFERED, *SMALL], ids=str)
def test_sizes(case: RowCase) -> None:
    program = case.program()
    got, want = (wait(outputs(program, case.steps, where)) for where in (device(), "numpy"))
    for one, other in zip(got, want, strict=True):
        agree = np.allclose(one, other, rtol=case.rtol, atol=case.atol)
        assert agree, explain(program, GPU, got, want)


def run(case: RowCase, x: Array, weight: Array) -> Array:
    (got,) = wait(outputs(case.program(), [(x, weight)], device()))
    return got


def compare(graph: GraphWriter, inputs: Sequence[Array], tolerance: float) -> None:
    program = write_pte(graph)
    (got,), (want,) = (wait(outputs(program, [inputs], on)) for on in (device(), "numpy"))
    scale = max(float(np.abs(want).max()), 1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_ends(case: Block) -> None:
    compare(*conv_block(case), tolerance=1e-5)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("case", BLOCKS[:2], ids=str)
def test_half_floats(case: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    if not device().info.has_halves:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    compare(*conv_block(case), tolerance=4e-3)


# How far it may be off


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("large", [1.0, 1e4], ids=["alike", "one large input"])
def test_errors_are_bounded_by_the_inputs_of_a_patch(large: float) -> None:
    """Also where an output has no part in the largest of them."""
    shape, taps = (1, 67, 17, 19), (21, 67, 3, 3)
    x, weight = normal(shape, 5), normal(taps, 6)
    x[:, :, ::4, ::4] *= np.float32(large)
    case = conv(shape, taps, padding=[1], bias=False)
    (want,) = case.expected((x, weight))
    off = np.abs(run(case, x, weight) - want)
    assert (off <= error_bound(x, weight, padding=1)).all()


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_patches(wrong: float) -> None:
    """In the corner, beside patches of nothing but padding, and in the last channel of all."""
    shape, taps, padding = (2, 17, 12, 10), (16, 17, 3, 3), 4
    x, weight = normal(shape, 7), normal(taps, 8)
    case = conv(shape, taps, padding=[padding], bias=False)
    (want,) = case.expected((x, weight))
    seen = np.zeros(want.shape, bool)
    for image, channel, *place in ((0, 3, 0, 0), (1, 16, 6, 5)):
        x[image, channel, place[0], place[1]] = wrong
        firsts = (np.arange(n) // 2 * 2 - padding for n in want.shape[2:])  # inputs of patches
        down, across = ((f <= at) & (at < f + 4) for f, at in zip(firsts, place, strict=True))
        seen[image] |= down[:, None] & across
    got = run(case, x, weight)
    np.testing.assert_allclose(got[~seen], want[~seen], rtol=1e-4, atol=1e-4)
    assert not np.isfinite(got[0, :, padding, padding]).any()
