"""Programs that take other ways than those chosen for their device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.plain_matrices import with_matrices
from support.devices.recorded import ADD, RELU
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte import Options
from webpte.gpu.device import HALVES, MATRICES
from webpte.gpu.simulated.device import SimulatedDevice


def gpu() -> SimulatedDevice:
    """One that has everything."""
    device = SimulatedDevice(features=("shader-f16", "subgroups"))
    device.info = replace(device.info, limits={"subgroupMinSize": 32})
    return device


def half_chain() -> bytes:
    """relu(x) + x in half floats."""
    g = GraphWriter()
    x = g.tensor((4,), "float16")
    relu = g.op(RELU, x, g.tensor((4,), "float16"))
    out = g.op(ADD, relu, x, g.int(1), g.tensor((4,), "float16"))
    g.inputs(x)
    g.outputs(out)
    return write_pte(g)


X = np.array([-1, 0, 2, 3], np.float16)


async def run(options: Options, fuse: bool = True) -> tuple[Any, frozenset[str], Any]:
    """The result, the kernels, and what the output is stored as."""
    given: dict[str, Any] = {"device": gpu(), "options": options, "fuse": fuse}
    async with await webpte.load(half_chain(), **given) as program:
        (result,) = await program.forward(X)
        (tensor,) = await program.forward(X, output="gpu")
        return result, program.kernels, tensor.stored_dtype


def names(kernels: frozenset[str]) -> set[str]:
    return {kernel.split()[0].rstrip(":") for kernel in kernels}


def test_every_way_gives_the_same() -> None:
    ways = [Options(), Options(fuse=False), Options(halves=False), Options(plain=True)]
    for options in ways:
        np.testing.assert_array_equal(wait(run(options))[0], [-1, 0, 4, 6])


def test_without_fusion_by_either_name() -> None:
    _, fused, _ = wait(run(Options()))
    assert names(fused) == {"fused_elementwise"}
    for options, fuse in ((Options(fuse=False), True), (Options(), False)):
        assert names(wait(run(options, fuse))[1]) == {"unary", "binary"}


def test_half_floats_can_be_stored_as_floats() -> None:
    _, kernels, stored = wait(run(Options()))
    _, others, stored_as_floats = wait(run(Options(halves=False)))
    assert (stored, stored_as_floats) == (np.float16, np.float32)
    assert names(kernels) == names(others)
    assert kernels.isdisjoint(others)  # of the same names, but not of the same text


def test_a_tensor_goes_from_one_way_to_another() -> None:
    async def check() -> None:
        device = gpu()
        program = half_chain()
        narrow = await webpte.load(program, device=device)
        wide = await webpte.load(program, device=device, options=Options(halves=False))
        async with narrow, wide:
            (between,) = await narrow.forward(X, output="gpu")
            (result,) = await wide.forward(between)
            np.testing.assert_array_equal(result, [-1, 0, 8, 12])

    wait(check())


@pytest.mark.parametrize(
    ("options", "software"),
    [
        (Options(), False),
        (Options(plain=True), True),
        (Options(plain=False, halves=False), False),
    ],
)
def test_what_lowerings_are_told(options: Options, software: bool) -> None:
    assert options.applied_to(gpu().info).target.software == software


def test_matrices_are_for_those_who_ask_where_there_are_such() -> None:
    info = replace(with_matrices(gpu().info), prefers_matrices=False)
    asked = Options(matrices=True)
    assert not Options().applied_to(info).target.matrices
    assert asked.applied_to(info).target.matrices
    assert not replace(asked, halves=False).applied_to(info).target.matrices
    assert not Options(matrices=False).applied_to(with_matrices(info)).target.matrices
    for missing in (MATRICES, HALVES, "subgroups"):
        features = tuple(name for name in info.features if name != missing)
        assert not asked.applied_to(replace(info, features=features)).target.matrices
    others = replace(info, matrix_shapes=("i8 i32 16x16x32",))
    assert not asked.applied_to(others).target.matrices
    sizes = replace(info, limits=info.limits | {"subgroupMaxSize": 64})
    assert not asked.applied_to(sizes).target.matrices


def test_options_outlive_a_rebuild() -> None:
    async def check() -> None:
        options = Options(fuse=False, halves=False)
        async with await webpte.load(half_chain(), device=gpu(), options=options) as program:
            await program.recover()
            (tensor,) = await program.forward(X, output="gpu")
            assert program.options == options
            assert tensor.stored_dtype == np.float32
            assert names(program.kernels) == {"unary", "binary"}

    wait(check())
