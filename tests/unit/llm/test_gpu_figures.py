"""Figures of a GPU: programs with made-up weights, and their multiplications."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from math import floor, prod

import numpy as np
import pytest

import webpte
from webpte.engine.gpu.device_info import MATRICES, DeviceInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import SourceError
from webpte.llm.gpu_figures.layers import MadeUpProgram
from webpte.llm.gpu_figures.measure import ALL, DECODERS, RESNET, KnownLayers, variants_of
from webpte.llm.gpu_figures.peaks import PeakMeter


def run(source: MadeUpProgram, offset: int, length: int) -> bytes:
    return asyncio.run(source.read(offset, length))


def test_ranges_are_parts_of_one_file() -> None:
    source = MadeUpProgram("qwen3")
    (begin,) = struct.unpack_from("<Q", run(source, 0, 64), 24)
    whole = run(source, begin - 100, 3_000_000)
    assert len(whole) == 3_000_000
    for offset, length in ((0, 100), (99, 2), (100, 0), (1_048_700, 5), (0, 2_999_999)):
        assert run(source, begin - 100 + offset, length) == whole[offset : offset + length]
    with pytest.raises(SourceError, match="but the file has"):
        run(source, source.size - 1, 2)
    floats = np.frombuffer(whole[100 : 100 + 4_000], np.float32)
    assert 0.01 < floats.std() < 0.03


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[KnownLayers, webpte.Program]]:
    async def load(layers: KnownLayers) -> webpte.Program:
        return await webpte.load(MadeUpProgram(layers.file), device="numpy")

    found = {layers: asyncio.run(load(layers)) for layers in DECODERS}
    yield found
    for program in found.values():
        program.close()


@pytest.mark.parametrize("layers", DECODERS, ids=lambda one: one.file)
def test_multiplications_are_those_of_the_weights(
    layers: KnownLayers, programs: dict[KnownLayers, webpte.Program]
) -> None:
    """Weights of 4 bits are pairs in bytes; the embedding is looked up."""
    constants = programs[layers].methods["forward"].constants
    packed = [one for one in constants if one.dtype == "uint8"]
    embedding = packed[0]
    assert embedding.shape[0] == 32_768
    pairs = sum(prod(one.shape) for one in packed) - prod(embedding.shape)
    assert 2 * pairs == layers.macs + layers.head


def test_multiplications_of_the_blocks() -> None:
    sides, macs, taken = (56, 28, 14, 7), 0, 64
    for channels, side in zip((64, 128, 256, 512), sides, strict=True):
        first = taken * channels * 9 + (taken * channels if channels != taken else 0)
        macs += side**2 * (first + 3 * channels * channels * 9)
        taken = channels
    assert macs == RESNET.macs


def test_memory_is_measured_by_a_clock_of_coarse_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    each = 56e-6  # seconds for 268 MB, at 4.8 TB/s

    async def waited(
        meter: PeakMeter, spec: object, given: object, groups: int, times: int
    ) -> float:
        return floor((230e-6 + times * each) * 1e4) / 1e4

    async def script() -> float:
        meter = PeakMeter(SimulatedDevice())
        try:
            return (await meter._memory()).value
        finally:
            meter.close()

    monkeypatch.setattr(PeakMeter, "_waited", waited)
    nbytes = 1 << 28
    assert asyncio.run(script()) == pytest.approx(nbytes / each / 1e9, rel=0.06)


def test_variants_are_those_of_the_device() -> None:
    assert [one.label for one in variants_of(DeviceInfo("webgpu"))] == ["float32"]
    matrices = DeviceInfo(
        "webgpu",
        features=("shader-f16", "subgroups", MATRICES),
        limits={"subgroupMinSize": 32, "subgroupMaxSize": 32},
        matrix_shapes=("f16 f32 16x16x16",),
    )
    labels = [one.label for one in variants_of(matrices)]
    assert labels == ["float32", "matrices", "matrices of f16"]


def test_a_title_stands_once() -> None:
    assert len({layers.title for layers in ALL}) == len(ALL)
