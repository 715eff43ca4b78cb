"""Measures a GPU: its peaks, then layers of known models in every variant that it offers."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.call.options import DeveloperOptions, Options
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.devices import shared_device
from webpte.errors import ShaderError
from webpte.llm import Generator
from webpte.llm.bench import bench_method
from webpte.llm.generation import ignore_stops
from webpte.llm.gpu_figures.layers import MadeUpProgram
from webpte.llm.gpu_figures.peaks import MEMORY, PeakMeter, peak_of
from webpte.llm.gpu_figures.result import BenchRow
from webpte.loading import load

Told = Callable[[int, int, str], None]  # done, total, work


@dataclass(frozen=True)
class KnownLayers:
    """Layers of a known model, as a file of this package.

    title   for people
    file    its name
    macs    multiplications of a token in the layers, or of a picture
    head    multiplications of the head, which a prompt has once
    """

    title: str
    file: str
    macs: int
    head: int = 0

    @property
    def weight_bytes(self) -> int:
        """The bytes that a token reads: 4 bits a weight, and a scale of 32 bits for 32 weights."""
        return (self.macs + self.head) * 5 // 8


_WORDS = 32_768
LLAMA = KnownLayers(
    "Llama 1B, 2 layers",
    "llama",
    2 * (2 * 2048 * (2048 + 512) + 3 * 2048 * 8192),
    2048 * _WORDS,
)
QWEN3 = KnownLayers(
    "Qwen3 0.6B, 2 layers",
    "qwen3",
    2 * (2 * 1024 * (2048 + 1024) + 3 * 1024 * 3072),
    1024 * _WORDS,
)
RESNET = KnownLayers("ResNet-18, blocks", "resnet", 1_695_547_392)
DECODERS, ALL = (LLAMA, QWEN3), (LLAMA, QWEN3, RESNET)


@dataclass(frozen=True)
class GpuVariant:
    """A way to run programs, and the peak of its arithmetic."""

    label: str
    options: Options
    peak: str = "float32"


FLOATS = GpuVariant("float32", DeveloperOptions(subgroup_matrices=False, tuned=False))


@dataclass(frozen=True)
class BenchSize:
    """Tokens and repetitions of a measurement, and the seconds before it that warm up the GPU."""

    prompt: int
    steps: int
    rounds: int
    warm: float


ON_GPU, ON_CPU = BenchSize(512, 64, 5, 0.5), BenchSize(4, 1, 1, 0.0)


def variants_of(info: DeviceInfo) -> list[GpuVariant]:
    """Return the ways that a device can run programs, floats first."""
    found = [FLOATS]
    if info.has_subgroup_matrices:
        matrices = DeveloperOptions(subgroup_matrices=True, tuned=False)
        found.append(GpuVariant("matrices", matrices))
        found.append(GpuVariant("matrices of f16", replace(matrices, half_products=True)))
    return found


async def measure_gpu(
    device: str | Device = "webgpu", told: Told | None = None
) -> AsyncIterator[BenchRow]:
    """Yield the figures of a device as they are measured; nothing is downloaded.

    told   called with the steps that are done, the number of steps, and the work under way
    """
    given = await shared_device(device) if isinstance(device, str) else device
    variants, size = variants_of(given.info), ON_CPU if given.info.software else ON_GPU
    total = 1 + len(variants) * len(ALL)

    def tell(done: int, work: str) -> None:
        if told is not None:
            told(done, total, work)

    tell(0, "peaks")
    meter, peaks = PeakMeter(given), list[BenchRow]()
    try:
        async for row in meter.figures():
            peaks.append(row)
            yield row
    finally:
        meter.close()
    exact: dict[KnownLayers, np.ndarray] = {}
    done = 1
    for layers in ALL:
        for variant in variants:
            tell(done, f"{layers.title}, {variant.label}")
            try:
                async for row in _figures(given, layers, variant, size, peaks, exact):
                    yield row
            except ShaderError as error:
                yield BenchRow(f"{layers.title}: {variant.label}", 0.0, "ms", None, str(error))
            done += 1
    tell(total, "")


async def _figures(
    device: Device,
    layers: KnownLayers,
    variant: GpuVariant,
    size: BenchSize,
    peaks: list[BenchRow],
    exact: dict[KnownLayers, np.ndarray],
) -> AsyncIterator[BenchRow]:
    source = MadeUpProgram(layers.file)
    async with await load(source, device=device, options=variant.options) as program:
        results = await _results(program, layers, size)
        note = _error_note(results, exact.setdefault(layers, results))
        speed = peak_of(peaks, variant.peak)

        def row(work: str, value: float, unit: str, share: float) -> BenchRow:
            reached = share if math.isfinite(share) else None
            return BenchRow(f"{layers.title}, {variant.label}: {work}", value, unit, reached, note)

        if layers not in DECODERS:
            timed = await bench_method(program, "forward", size.rounds, 0, warm_seconds=size.warm)
            yield row("a call", timed["ms"], "ms", 2e-9 * layers.macs / timed["ms"] / speed)
            return
        generator = Generator(program)
        tokens = np.random.default_rng(0).integers(0, _WORDS, size.prompt).tolist()
        times = [await _prefill(generator, tokens) for _ in range(size.rounds + 1)]
        rate = size.prompt / min(times)
        share = 2e-12 * layers.macs * rate / speed
        yield row(f"a prompt of {size.prompt}", rate, "tokens/s", share)
        rate = await _decode(generator, tokens[:16], size)
        share = 1e-9 * layers.weight_bytes * rate / peak_of(peaks, MEMORY)
        yield row("decode", rate, "tokens/s", share)


async def _results(program: Any, layers: KnownLayers, size: BenchSize) -> np.ndarray:
    """Return the outputs for inputs that are always the same."""
    random = np.random.default_rng(2)
    if layers in DECODERS:
        tokens = random.integers(0, _WORDS, (1, size.prompt))
        (found,) = await program.forward(tokens, np.array([0]))
    else:
        shape = program.methods["forward"].inputs[0].shape
        (found,) = await program.forward(random.standard_normal(shape, np.float32))
    return np.asarray(found, np.float32)


def _error_note(found: np.ndarray, exact: np.ndarray) -> str:
    """Return the largest error beside floats, as a part of the largest number."""
    if found is exact:
        return ""
    error = float(np.abs(found - exact).max() / np.abs(exact).max())
    return f"error {error:.1e}"


async def _prefill(generator: Generator, tokens: list[int]) -> float:
    """Return the seconds of a prompt; its logits stay on the GPU."""
    generator.reset()
    started = perf_counter()
    await generator.prefill(tokens)
    return perf_counter() - started


async def _decode(generator: Generator, tokens: list[int], size: BenchSize) -> float:
    """Return tokens per second in the second half of an answer, the best of some answers."""
    best = 0.0
    for _ in range(size.rounds):
        generator.reset()
        answer = generator.generate(tokens, 2 * size.steps)
        ignore_stops(answer)
        arrivals = [perf_counter() async for _ in answer]
        first, last = arrivals[size.steps - 1], arrivals[-1]
        best = max(best, size.steps / max(last - first, 1e-9))
    return best
