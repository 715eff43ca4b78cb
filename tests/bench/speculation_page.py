"""Times an answer plainly, with a draft and with a lookup, in a page that runs this as its script.

The page has `js.query` with `model` and `draft`, paths of two programs on its own server, and
perhaps `at` (lengths of the prompt, such as "128,512"), `tokens` (of an answer) and `counts`
(guesses of a round, such as "1,3,7"; by default as many as pay). `js.say` shows progress. The value
of the last line is a JSON text: for each length and way the milliseconds per token, the tokens per
second, guesses, submissions, calls to JavaScript per token, and whether the tokens are the plain
ones.

Pairs to measure: `python -m bench.llm.speculation_bench --write FOLDER` writes models with
random weights, of which the small one guesses as well as `--noise` lets it.
"""

from __future__ import annotations

import asyncio
import json
from statistics import median
from time import perf_counter
from typing import Any

import js  # of Pyodide

import webpte
from webpte.llm import Generator
from webpte.llm.generation import ignore_stops
from webpte.llm.speculation_payoff import Payoff

RUNS = 4  # of an answer; the first makes plans


def asked(name: str, default: str) -> str:
    value = getattr(js.query, name, None)
    return default if value is None else str(value)


async def timed(
    generator: Generator, prompt: list[int], count: int, options: dict[str, Any]
) -> tuple[list[int], dict[str, Any]]:
    """Return the tokens and the figures of an answer: times of the second half of each run."""
    times = []
    for _ in range(RUNS):
        answer = generator.generate(prompt, count, **options)
        ignore_stops(answer)
        before = generator.program.device.interop_calls
        tokens, arrivals = [], []
        async for token in answer:
            tokens.append(token)
            arrivals.append(perf_counter())
        crossings = generator.program.device.interop_calls - before
        half = arrivals[len(arrivals) // 2 :]
        times.append((half[-1] - half[0]) * 1000 / (len(half) - 1))
    ms, stats = median(times[1:]), answer.stats
    return tokens, {
        "ms": round(ms, 3),
        "tok/s": round(1000 / ms),
        "right": f"{stats.accepted_tokens} of {stats.proposed_tokens}",
        "submissions": stats.submissions,
        "calls per token": round(crossings / count, 2),
        "off": stats.not_speculating,
    }


async def main() -> str:
    base = str(js.location.origin)
    lengths = [int(one) for one in asked("at", "128").split(",")]
    count = int(asked("tokens", "320"))
    counts = [int(one) for one in asked("counts", "").split(",") if one]
    figures: dict[str, Any] = {}
    async with (
        await webpte.load(f"{base}/{asked('model', 'big.pte')}") as program,
        await webpte.load(f"{base}/{asked('draft', 'draft.pte')}", device=program.device) as draft,
    ):
        generator = Generator(program)
        for length in lengths:
            prompt = [(7 * n) % 97 for n in range(length)]
            wanted, figures[f"plain {length}"] = await timed(generator, prompt, count, {})
            ways: list[tuple[str, Any, int]] = [("draft", draft, 0), ("lookup", "lookup", 0)]
            ways += [(f"draft of {one}", draft, one) for one in counts]
            for name, speculate, fixed in ways:
                js.say(f"{name} {length}")
                # With a given count, rounds go on whether they pay or not.
                changed: dict[str, Any] = {
                    "loss": None,
                    "best_count": lambda _, most, n=fixed: min(most, n),
                }
                usual = {key: getattr(Payoff, key) for key in changed}
                try:
                    for key, value in changed.items() if fixed else ():
                        setattr(Payoff, key, value)
                    tokens, told = await timed(generator, prompt, count, {"speculate": speculate})
                finally:
                    for key, value in usual.items():
                        setattr(Payoff, key, value)
                figures[f"{name} {length}"] = {**told, "same tokens": tokens == wanted}
    return json.dumps(figures)


running = asyncio.ensure_future(main())
running  # noqa: B018  the page awaits the value of its script
