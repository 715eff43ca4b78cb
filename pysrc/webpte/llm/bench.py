"""Timing of a loaded program: whole runs, their stages, and every kernel by the GPU's clock.

All figures are milliseconds, medians after a warm-up. A run splits into `prepare` (Python: shapes
and inputs), `submit` (JavaScript: upload and encode) and `wait`, of which `gpu_ms` are kernels, by
timestamps, and the rest is the way back to the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.call.info import ScalarInfo, TensorInfo
from webpte.errors import DeviceError, DeviceLostError, InputError, OutOfMemoryError
from webpte.llm import GenerationStats, Generator
from webpte.llm.generation import ignore_stops
from webpte.llm.program_signature import USUAL
from webpte.program import Program

WARM_SECONDS = 0.5  # the clocks of an idle GPU are a fifth of a busy GPU's
LONG_PROMPT = 4096
SAMPLED = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 1}


async def figures_of(
    program: Program,
    method: str,
    runs: int,
    prefill: Sequence[int],
    decode_steps: int,
    draft: Program | None = None,
) -> dict[str, Any]:
    """Measure a method of a program, or with `prefill` a language model, perhaps with a draft."""
    figures = {"adapter": asdict(program.device_info), "load_ms": program.stats.load_ms}
    if prefill:
        return figures | await bench_llm(program, prefill, decode_steps, draft)
    method = _method_of(program, method)
    return figures | {method: await bench_method(program, method, runs)}


def _method_of(program: Program, method: str) -> str:
    """Return the method to time: the given method, or the only method in place of `forward`."""
    names = [name for name, info in program.methods.items() if not info.is_constant]
    if method in names or (method == USUAL and len(names) == 1):
        return method if method in names else names[0]
    raise InputError(f"{program.name} has no method {method!r}: name one of {', '.join(names)}")


async def bench_method(
    program: Program,
    method: str = "forward",
    runs: int = 20,
    warmup: int = 3,
    inputs: Sequence[Any] | None = None,
    warm_seconds: float = WARM_SECONDS,
) -> dict[str, Any]:
    """Time a method with these inputs, or with random inputs of its largest shapes."""
    random = np.random.default_rng(0)
    given = inputs
    if given is None:
        given = [example_input(info, random) for info in program.methods[method].inputs]
    figures = await _measure(
        program, lambda: program.run(method, *given), runs, warmup, warm_seconds
    )
    return figures | await _kernels(program, method)


async def bench_llm(
    program: Program,
    prefill: Sequence[int],
    decode_steps: int = 32,
    draft: Program | None = None,
) -> dict[str, Any]:
    """Time prefill of each length, then decoding, in three ways; logits stay on the GPU.

    `decode` runs step by step: the host sees each token before the next step. `ahead` has several
    steps in a submission; `sampled` also samples its tokens. With a draft, `drafted` and
    `drafted_sampled` are the same two ways with its guesses, and `lookup` guesses by the text.
    """
    ways: dict[str, dict[str, Any]] = {"ahead": {}, "sampled": SAMPLED}
    if draft is not None:
        guesses: dict[str, Any] = {"speculate": draft}
        ways |= {"drafted": guesses, "drafted_sampled": SAMPLED | guesses}
        ways["lookup"] = {"speculate": "lookup"}
    generator = Generator(program)
    random = np.random.default_rng(0)
    vocabulary = generator.vocabulary
    figures: dict[str, Any] = {}
    for length in prefill:
        tokens = random.integers(0, vocabulary, length).tolist()

        async def fill(tokens: list[int] = tokens) -> None:
            generator.reset()
            await generator.prefill(tokens)

        measured = await _measure(program, fill, *_rounds(length))
        measured["tokens_per_second"] = length / measured["ms"] * 1000
        figures[f"prefill_{length}"] = measured | await _kernels(program, generator.method)
        await fill()  # the timed kernels have written to the cache
        # No further warm-up: each step takes a place of the context.
        measured = await _measure(program, lambda: generator.prefill([1]), decode_steps, 5, 0.0)
        measured["tokens_per_second"] = 1000 / measured["ms"]
        figures[f"decode_{length}"] = measured | await _kernels(program, generator.method)
        for name, asked in ways.items():
            figures[f"{name}_{length}"] = await _steady(generator, tokens, 4 * decode_steps, asked)
    return figures


def _rounds(length: int) -> tuple[int, int]:
    """Return how often to time a prompt, and how often to warm up: a long prompt takes seconds."""
    return (8, 4) if length <= LONG_PROMPT else (3, 1)


async def _steady(
    generator: Generator, tokens: list[int], count: int, asked: dict[str, Any]
) -> dict[str, Any]:
    """Return the milliseconds per token of the second half of an answer; the first is warm-up."""
    times, stats = [], GenerationStats()
    for _ in range(4):  # the first makes plans
        answer = generator.generate(tokens, 2 * count, **asked)
        ignore_stops(answer)
        arrivals = [perf_counter() async for _ in answer]
        steady = arrivals[len(arrivals) // 2 :]
        times.append((steady[-1] - steady[0]) * 1000 / (len(steady) - 1))
        stats = answer.stats
    first, *later = times
    guesses: dict[str, Any] = {}
    if "speculate" in asked:
        right = f"{stats.accepted_tokens} of {stats.proposed_tokens} guesses right"
        guesses = {"guesses": right, "not_speculating": stats.not_speculating}
    return guesses | {
        "ms": median(later),
        "best_ms": min(later),
        "first_ms": first,
        "tokens_per_second": 1000 / median(later),
        "steps_per_submission": stats.decode_tokens / max(1, stats.submissions),
        "step_by_step": stats.step_by_step,
        "parts": {},
        "gpu_ms": None,
        "kernels": [],
    }


def example_input(info: TensorInfo | ScalarInfo, random: np.random.Generator) -> Any:
    """Make random values that every model accepts: small floats, zeros and ones for integers."""
    if isinstance(info, ScalarInfo):
        return info.value
    dtype = info.array_dtype
    if dtype.kind == "f":
        return random.standard_normal(info.shape).astype(dtype)
    return random.integers(0, 2, info.shape).astype(dtype)


async def _measure(
    program: Program,
    run: Callable[[], Awaitable[Any]],
    runs: int,
    warmup: int,
    warm_seconds: float = WARM_SECONDS,
) -> dict[str, Any]:
    """Time `runs` calls, after `warmup` calls and at least `warm_seconds`."""
    started = perf_counter()
    await run()
    first = (perf_counter() - started) * 1000
    for _ in range(warmup):
        await run()
    while perf_counter() - started < warm_seconds:
        await run()
    times, parts = [], []
    for _ in range(runs):
        started = perf_counter()
        await run()
        times.append((perf_counter() - started) * 1000)
        parts.append(program.stats.last_ms)
    split = {name: median(part.get(name, 0.0) for part in parts) for name in parts[0]}
    return {"ms": median(times), "best_ms": min(times), "first_ms": first, "parts": split}


async def _kernels(program: Program, method: str) -> dict[str, Any]:
    """Return dispatches and microseconds per kernel, slowest first; empty without timestamps."""
    try:
        await program.profile(method)  # not measured: the first run has one-time costs
        rows = await program.profile(method)
    except (DeviceLostError, OutOfMemoryError):
        raise
    except DeviceError:
        return {"gpu_ms": None, "kernels": []}
    timed = [row for row in rows if not row[0].startswith("host: ")]
    total: dict[str, list[float]] = {}
    for label, microseconds in timed:
        total.setdefault(label, []).append(microseconds)
    slowest = sorted(total.items(), key=lambda row: -sum(row[1]))
    return {
        "gpu_ms": sum(microseconds for _, microseconds in timed) / 1000,
        "dispatches": len(timed),
        "kernels": [
            {"kernel": label, "count": len(times), "us": round(sum(times), 1)}
            for label, times in slowest
        ],
    }
