"""Tuning of loaded programs, and the questions of convolutions, attention, small products."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

import webpte
from support.graphs.conv_graphs import Block, conv_block
from support.graphs.encoder_graphs import Encoder, encoder_layer
from support.graphs.fusion_graphs import HEADS, attention, attention_steps
from support.graphs.graphs import wait
from support.harness.timed import Timed
from support.write.pte_writer import GraphWriter, write_pte
from webpte import program as runtime_program
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Tunable
from webpte.errors import ClosedError, DeviceError, InputError
from webpte.inspection import tune_programs as runtime_tune
from webpte.inspection.tune.tuning import tunables_of
from webpte.program import Program, can_tune_now

Made = tuple[GraphWriter, list[np.ndarray]]


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests leave programs to the garbage collector, which comes when it likes."""
    programs: WeakSet[Program] = WeakSet()
    monkeypatch.setattr(runtime_program, "LOADED", programs)
    monkeypatch.setattr(runtime_tune, "LOADED", programs)


def encoder() -> Made:
    net = Encoder()
    x = net.g.tensor((1, 20, 32))
    return net.g, net.finish((x,), encoder_layer(net, x, 4, 64))


def decoder() -> Made:
    net = attention(HEADS[0])
    return net.g, attention_steps(net, HEADS[0])[0]


def convolution() -> Made:
    return conv_block(Block((12, 20), (9, 14), 3, "slope"))


def gpu() -> Timed:
    """Return a device with as many buffers per shader as the widest kernels bind."""
    device = Timed(float)
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    return device


async def load(made: Made, device: Any = None) -> webpte.Program:
    return await webpte.load(write_pte(made[0]), device=device or gpu())


@pytest.mark.parametrize(
    ("make", "beginnings"),
    [
        (convolution, {"conv m20 n126 k108 x1 groups1 3x3x1x1x1x1 f32"}),
        (decoder, {"attention attention_flash_split_rope jobs2 keys131 size16+16 f32"}),
        (encoder, {"gemm_small_qkv m32 n96 k32", "gemm_small m32 n32 k64"}),
    ],
)
def test_more_than_products_of_one_row_are_asked(
    make: Callable[[], Made], beginnings: set[str]
) -> None:
    async def check() -> None:
        made = make()
        async with await load(made) as program:
            (before,) = await program.forward(*made[1])
            found = await webpte.tune(program)
            (after,) = await program.forward(*made[1])
        np.testing.assert_array_equal(after, before)
        for beginning in beginnings:
            (row,) = [row for row in found.rows if row.key.startswith(beginning)]
            assert len(row.microseconds) > 1
            assert row.default in row.microseconds

    wait(check())


def test_all_that_is_loaded_and_has_run_is_tuned() -> None:
    async def check() -> None:
        first, second, idle, made = encoder(), convolution(), decoder(), convolution()
        device = gpu()
        programs = [await load(each, device) for each in (first, second, idle)]
        plain = await load(made, "numpy")
        closed = await load(made, device)
        for program, inputs in (
            *zip(programs[:2], (first[1], second[1]), strict=True),
            *((plain, made[1]), (closed, made[1])),
        ):
            await program.forward(*inputs)
        closed.close()
        found = await webpte.tune()
        kernels = {row.key.split()[0] for row in found.rows}
        assert {"conv", "gemm_small_qkv", "gemm_small"} <= kernels
        assert not any(kernel.startswith(("attention", "linear_q4")) for kernel in kernels)
        for program in (*programs, plain):
            program.close()
        with pytest.raises(InputError, match="run it first"):
            await webpte.tune()

    wait(check())


def test_what_is_closed_meanwhile_is_left_out_unless_it_was_asked_for() -> None:
    async def check(asked: bool, at: int) -> webpte.Tuning:
        made, device = (convolution(), encoder()), gpu()
        programs = [await load(each, device) for each in made]
        for program, (_, inputs) in zip(programs, made, strict=True):
            await program.forward(*inputs)
        done = list[int]()

        def close_one(_: str, number: int, __: int) -> None:
            done.append(number)
            if len(done) == at:
                programs[0].close()

        try:
            return await webpte.tune(*(programs if asked else ()), progress=close_one)
        finally:
            assert len(done) >= at
            for program in programs:
                program.close()

    for at in (1, 2):
        found = wait(check(False, at))
        assert any(row.key.startswith("gemm_small_qkv") for row in found.rows)
    with pytest.raises(ClosedError):
        wait(check(True, 1))


def test_what_cannot_be_tuned_says_so() -> None:
    async def check() -> None:
        made = convolution()
        for device in ("numpy", SimulatedDevice()):
            async with await load(made, device) as program:
                await program.forward(*made[1])
                with pytest.raises(DeviceError, match=r"no kernels to tune|no timestamps"):
                    await webpte.tune(program)

    wait(check())


def test_calls_come_between_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    rests, sleep = list[float](), asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(seconds)

    async def check() -> None:
        made = convolution()
        async with await load(made) as program:
            (want,) = await program.forward(*made[1])
            told = list[int]()
            tuning = asyncio.create_task(
                webpte.tune(program, rest=0.02, progress=lambda _, done, __: told.append(done))
            )
            seen = set[int]()
            while not tuning.done():
                (got,) = await program.forward(*made[1])
                np.testing.assert_array_equal(got, want)
                seen.add(len(told))
                await sleep(0.001)
            assert (await tuning).rows
            assert [seconds for seconds in rests if seconds] == [0.02] * (told[-1] - 1)
            assert len(seen) > 2  # calls ended between candidates, not only before and after

    monkeypatch.setattr(asyncio, "sleep", rest)
    wait(check())


def test_a_kernel_counts_for_the_questions_about_it() -> None:
    row, tiles, splits = (
        Tunable(key, "a", ("a",)) for key in ("gemv_q4 n1", "linear_q4 m1", "attention x")
    )
    asked = (row, tiles, splits)
    assert tunables_of("gemv_q4_gated f32", asked) == [row]
    assert tunables_of("linear_q4 f32", asked) == [tiles]
    assert tunables_of("attention_flash_reduce f32", asked) == [splits]
    assert tunables_of("gemm_split_k_sum f32", asked) == asked


@pytest.mark.parametrize(
    ("names", "software", "wanted"),
    [
        (("arm", "valhall"), False, True),
        (("", ""), False, True),  # an unknown one
        (("nvidia", ""), False, False),  # such a GPU was measured
        (("google", "swiftshader"), True, False),  # plain kernels have no configs
    ],
)
def test_a_gpu_that_nobody_measured_needs_tuning_once(
    names: tuple[str, str], software: bool, wanted: bool
) -> None:
    async def check() -> None:
        made, device = encoder(), gpu()
        vendor, architecture = names
        device.info = replace(
            device.info,
            kind="webgpu",
            vendor=vendor,
            architecture=architecture,
            software=software,
        )
        async with await load(made, device) as program:
            assert not can_tune_now(program)  # nothing has run
            assert not program.needs_tuning
            await program.forward(*made[1])
            assert can_tune_now(program) != software
            assert program.needs_tuning == wanted
            if can_tune_now(program):
                await program.tune("forward")
                assert not program.needs_tuning

    wait(check())


def test_numpy_needs_no_tuning() -> None:
    async def check() -> None:
        made = encoder()
        async with await load(made, "numpy") as program:
            await program.forward(*made[1])
            assert not can_tune_now(program)
            assert not program.needs_tuning

    wait(check())
