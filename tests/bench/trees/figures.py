"""Rates of a program, as code that any tree of the project runs: a page's or a process's.

It knows public names only, so that trees before and after a change run the same text. All figures
are per second: more is better.

    PYTHONPATH=TREE/pysrc python tests/bench/trees/figures.py JOBS.json DEVICE

prints a line for each job of the list: its name and figures, or an error, as JSON.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

Job = dict[str, Any]
Rates = dict[str, float]


async def rates_of(url: str, job: Job, device: str = "webgpu") -> Rates:
    """Return name -> rate of one program. `job` has `kind`, and what that kind takes."""
    import webpte

    options = webpte.Options(tuned=False)
    async with await webpte.load(url, device=device, options=options) as program:
        kinds: dict[str, Callable[[Any, Job], Awaitable[Rates]]]
        kinds = {"decoder": decoder, "lone": lone, "batch": batch}
        return await kinds[job["kind"]](program, job)


async def seconds(run: Callable[[], Awaitable[None]], times: int, warm: float) -> float:
    """Return the median seconds of a call, after some calls and some time that warm up."""
    begun = perf_counter()
    for _ in range(times):
        await run()
    while perf_counter() - begun < warm:
        await run()
    found = []
    for _ in range(times):
        started = perf_counter()
        await run()
        found.append(perf_counter() - started)
    return median(found)


def tokens_of(count: int, vocabulary: int, seed: int = 0) -> list[int]:
    drawn: list[int] = np.random.default_rng(seed).integers(0, vocabulary, count).tolist()
    return drawn


async def decoder(program: Any, job: Job) -> Rates:
    """Return tokens per second of prompts, and of the second half of greedy answers to them."""
    from webpte.llm import Generator

    generator, found = Generator(program), Rates()
    for length in job["lengths"]:
        prompt = tokens_of(length, generator.vocabulary)

        async def fill(prompt: list[int] = prompt) -> None:
            generator.reset()
            await generator.prefill(prompt)

        taken = await seconds(fill, job["times"], job["warm"])
        found[f"prompt of {length}"] = length / taken
        rates = [await steady(generator, prompt, job["tokens"]) for _ in range(job["answers"] + 1)]
        found[f"decode at {length}"] = median(rates[1:])
    return found


async def steady(generator: Any, prompt: Sequence[int], count: int) -> float:
    arrivals = [perf_counter() async for _ in endless(generator.generate(prompt, 2 * count))]
    later = arrivals[count - 1 :]
    return (len(later) - 1) / (later[-1] - later[0])


def endless(answer: Any) -> AsyncIterator[int]:
    """Let an answer run past the tokens that end it."""
    from webpte.llm.generation import ignore_stops

    ignore_stops(answer)
    found: AsyncIterator[int] = answer
    return found


async def lone(program: Any, job: Job) -> Rates:
    """Return calls per second, each awaited before the next, and with four on their way."""
    random = np.random.default_rng(0)
    given = [
        random.standard_normal(info.shape).astype(np.float32)
        for info in program.methods["forward"].inputs
    ]

    async def call() -> None:
        await program.forward(*given)

    found = {"alone": 1 / await seconds(call, job["times"], job["warm"])}
    rates = []
    for _ in range(job["answers"]):
        left, started = iter(range(job["times"])), perf_counter()

        async def take(left: Any = left) -> None:
            for _ in left:
                await call()

        await asyncio.gather(*(take() for _ in range(4)))
        rates.append(job["times"] / (perf_counter() - started))
    return found | {"four at once": median(rates)}


async def batch(program: Any, job: Job) -> Rates:
    """Return tokens per second of answers that are decoded together, in all."""
    from webpte.llm import Generator, Scheduler

    vocabulary, slots = Generator(program).vocabulary, job["slots"]
    async with Scheduler(program, slots=slots, max_context=job["context"]) as scheduler:
        rates = []
        for _ in range(job["answers"] + 1):
            arrivals: list[list[float]] = [[] for _ in range(slots)]

            async def take(number: int, arrivals: list[list[float]] = arrivals) -> None:
                prompt = tokens_of(job["prompt"], vocabulary, number)
                async for _ in scheduler.submit(prompt, job["tokens"]):
                    arrivals[number].append(perf_counter())

            await asyncio.gather(*(take(number) for number in range(slots)))
            begin = max(times[len(times) // 4] for times in arrivals)
            end = min(times[-1] for times in arrivals)
            decoded = sum(begin < at <= end for times in arrivals for at in times)
            rates.append(decoded / (end - begin))
    return {f"{slots} answers": median(rates[1:])}


async def tell_all(jobs: Sequence[Job], device: str) -> None:
    for job in jobs:
        try:
            told: dict[str, Any] = {"rates": await rates_of(job["path"], job, device)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"name": job["name"], **told}), flush=True)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as listed:
        asyncio.run(tell_all(json.load(listed), sys.argv[2]))
