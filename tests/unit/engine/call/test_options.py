"""Programs with other options than those chosen for their device."""

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
from webpte.engine.call.options import DeveloperOptions, applied_to
from webpte.engine.gpu.device_info import MATRICES, SHADER_F16, SIZE_CONTROL
from webpte.engine.gpu.simulated.device import SimulatedDevice


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


async def run(options: Options) -> tuple[Any, frozenset[str], Any]:
    """Return the result, the kernels, and the dtype in which the output is stored."""
    given: dict[str, Any] = {"device": gpu(), "options": options}
    async with await webpte.load(half_chain(), **given) as program:
        (result,) = await program.forward(X)
        (tensor,) = await program.forward(X, output="gpu")
        return result, program.kernels, tensor.stored_dtype


def names(kernels: frozenset[str]) -> set[str]:
    return {kernel.split()[0].rstrip(":") for kernel in kernels}


def test_every_way_gives_the_same() -> None:
    variants = [
        Options(),
        Options(fuse=False),
        DeveloperOptions(f16=False),
        DeveloperOptions(plain=True),
    ]
    for options in variants:
        np.testing.assert_array_equal(wait(run(options))[0], [-1, 0, 4, 6])


def test_without_fusion() -> None:
    assert names(wait(run(Options()))[1]) == {"fused_elementwise"}
    assert names(wait(run(Options(fuse=False)))[1]) == {"unary", "binary"}


def test_half_floats_can_be_stored_as_floats() -> None:
    _, kernels, stored = wait(run(Options()))
    _, others, stored_as_floats = wait(run(DeveloperOptions(f16=False)))
    assert (stored, stored_as_floats) == (np.float16, np.float32)
    assert names(kernels) == names(others)
    assert kernels.isdisjoint(others)  # of the same names, but not of the same text


def test_a_tensor_goes_from_one_way_to_another() -> None:
    async def check() -> None:
        device = gpu()
        program = half_chain()
        narrow = await webpte.load(program, device=device)
        wide = await webpte.load(program, device=device, options=DeveloperOptions(f16=False))
        async with narrow, wide:
            (between,) = await narrow.forward(X, output="gpu")
            (result,) = await wide.forward(between)
            np.testing.assert_array_equal(result, [-1, 0, 8, 12])

    wait(check())


@pytest.mark.parametrize(
    ("options", "software"),
    [
        (Options(), False),
        (DeveloperOptions(plain=True), True),
        (DeveloperOptions(plain=False, f16=False), False),
    ],
)
def test_what_lowerings_are_told(options: Options, software: bool) -> None:
    assert applied_to(options, gpu().info).target.software == software


def test_matrices_are_for_those_who_ask_where_there_are_such() -> None:
    info = replace(with_matrices(gpu().info), prefers_subgroup_matrices=False)
    asked = DeveloperOptions(subgroup_matrices=True)
    assert not applied_to(Options(), info).target.subgroup_matrices
    assert applied_to(asked, info).target.subgroup_matrices
    assert not applied_to(replace(asked, f16=False), info).target.subgroup_matrices
    assert not applied_to(
        DeveloperOptions(subgroup_matrices=False), with_matrices(info)
    ).target.subgroup_matrices
    for missing in (MATRICES, SHADER_F16, "subgroups"):
        features = tuple(name for name in info.features if name != missing)
        assert not applied_to(asked, replace(info, features=features)).target.subgroup_matrices
    others = replace(info, matrix_shapes=("i8 i32 16x16x32",))
    assert not applied_to(asked, others).target.subgroup_matrices
    small = replace(info, matrix_shapes=("f16 f16 16x16x16", "f16 f32 8x8x8", "f16 f32 8x16x16"))
    assert applied_to(asked, small).target.matrix_shape == (8, 16, 16)
    # AMD's subgroups: kernels ask for 32 where they can.
    sizes = replace(info, limits=info.limits | {"subgroupMaxSize": 64})
    assert applied_to(asked, sizes).target.subgroup_matrices
    assert applied_to(asked, sizes).target.sized_subgroups
    assert not applied_to(asked, info).target.sized_subgroups
    features = tuple(name for name in info.features if name != SIZE_CONTROL)
    assert not applied_to(asked, replace(sizes, features=features)).target.subgroup_matrices
    large = replace(info, limits=info.limits | {"subgroupMinSize": 64, "subgroupMaxSize": 128})
    assert not applied_to(asked, large).target.subgroup_matrices


def test_options_outlive_a_rebuild() -> None:
    async def check() -> None:
        options = DeveloperOptions(fuse=False, f16=False)
        async with await webpte.load(half_chain(), device=gpu(), options=options) as program:
            await program.recover()
            (tensor,) = await program.forward(X, output="gpu")
            assert program.options == options
            assert tensor.stored_dtype == np.float32
            assert names(program.kernels) == {"unary", "binary"}

    wait(check())
