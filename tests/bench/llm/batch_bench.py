"""Times several answers at once: tokens per second in all, and the time to the first token.

    PYTHONPATH=pysrc:tests python -m bench.llm.batch_bench [--device native] [--counts 1 8 32]
        [--tokens 200] [--prompt 128] [--layers 16] [--vocabulary 128256] [--profile]
    PYTHONPATH=pysrc:tests python -m bench.llm.batch_bench --program chat.pte

By default the model has random 4-bit weights and the sizes of Llama-3.2-1B, and is written here.
First one answer alone, with steps decoded ahead (`alone`), then so many at once by a scheduler:
all are submitted together, and the figure is that of the steps in which all of them decode. Last,
answers join while others decode (`under load`): the time to the first token of each.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter, defaultdict
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import webpte
from bench.task_page import alone, together
from support.graphs.draft_pairs import Shape, decoder_model
from webpte.engine.run.request import DryRun, RunRequest
from webpte.engine.run.timings import Timings
from webpte.llm import Generator, Scheduler
from webpte.llm.decode.batched_steps import BatchRow, _Packed
from webpte.llm.decode.sampling import SamplerSettings, Sampling

LOAD = 0.6


def prompts(count: int, length: int, vocabulary: int) -> list[list[int]]:
    """Make prompts that have nothing in common."""
    random = np.random.default_rng(0)
    return [random.integers(0, vocabulary, length).tolist() for _ in range(count)]


async def under_load(
    scheduler: Scheduler, count: int, options: argparse.Namespace, vocabulary: int, rate: float
) -> tuple[float, float]:
    """Return median and maximum of the time to the first token while others decode.

    Answers come as fast as LOAD of what the model can do at a `rate` of so many tokens per second.
    """
    firsts, given = list[float](), prompts(3 * count, options.prompt, vocabulary)

    async def take(prompt: list[int], wait: float) -> None:
        await asyncio.sleep(wait)
        started, times = perf_counter(), list[float]()
        async for _ in scheduler.submit(prompt, options.tokens):
            times.append(perf_counter())
        firsts.append(times[0] - started)

    pause = options.tokens / (rate * LOAD)
    await asyncio.gather(*(take(prompt, n * pause) for n, prompt in enumerate(given)))
    return median(firsts), max(firsts)


async def profile(scheduler: Scheduler, rows: int) -> None:
    """Print the kernels of one step of so many answers, the slowest first."""
    await scheduler.prepare()
    steps: Any = scheduler._steps
    greedy = SamplerSettings.of(Sampling(), 0)
    packed = _Packed.of([BatchRow(n, 200, 1, greedy) for n in range(rows)], steps.rows, steps.slots)
    given = [packed.tokens, packed.places, packed.picks]
    for _ in range(2):
        timings = Timings()
        await steps.body.run(RunRequest(given, dry_run=DryRun(timings)))
    total: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for label, microseconds in timings.rows:
        total[label] += microseconds
        counts[label] += 1
    print(f"{rows} rows: {sum(total.values()) / 1000:.2f} ms in {sum(counts.values())} dispatches")
    for label, microseconds in sorted(total.items(), key=lambda row: -row[1])[:12]:
        print(f"    {microseconds:8.0f} us  {counts[label]:4}  {label}")


async def run(options: argparse.Namespace) -> None:
    source: Any = options.program
    if source is None:
        shape = Shape(
            layers=options.layers,
            vocabulary=options.vocabulary,
            context=options.context,
            rotary=True,
        )
        source = decoder_model(shape)
    async with await webpte.load(source, device=options.device) as program:
        print(program.device_info.description, program.device_info.features, flush=True)
        generator = Generator(program)
        vocabulary = generator.vocabulary
        (prompt,) = prompts(1, options.prompt, vocabulary)
        single = await alone(generator, prompt, options.tokens)
        print(f"alone        {single:9.0f} tokens/s", flush=True)
        for count in options.counts:
            async with Scheduler(program, slots=count, max_context=options.context) as scheduler:
                if options.profile:
                    await profile(scheduler, count)
                given = prompts(count, options.prompt, vocabulary)
                await together(scheduler, given, options.tokens)  # makes plans
                rate, first = await together(scheduler, given, options.tokens)
                print(
                    f"{count:3} at once  {rate:9.0f} tokens/s in all ({rate / single:5.2f} times), "
                    f"first token after {first * 1000:7.1f} ms",
                    flush=True,
                )
                if count > 1:
                    loaded = (scheduler, count, options, vocabulary, rate)
                    middle, worst = await under_load(*loaded)
                    print(
                        f"     under load: first token after {middle * 1000:.1f} ms (median), "
                        f"{worst * 1000:.1f} ms (worst)",
                        flush=True,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="native")
    parser.add_argument("--program", help="a .pte in place of the model that is written here")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 8, 32])
    for name, number in (("tokens", 200), ("prompt", 128), ("layers", 16), ("context", 1024)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--profile", action="store_true", help="print the kernels of a step")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
