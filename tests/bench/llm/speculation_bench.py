"""Times answers with and without speculation, for pairs of models that agree more or less often.

    PYTHONPATH=pysrc:tests python -m bench.llm.speculation_bench [--device native] [--layers 20]
        [--draft-layers 2] [--size 2048] [--noise 0 0.05 0.2] [--tokens 200] [--temperature 0.8]
    PYTHONPATH=pysrc:tests python -m bench.llm.speculation_bench --write FOLDER [--noise 0 0.05 0.2]
        # for a browser: serve.py bench FOLDER/big_0.05.pte --draft FOLDER/draft.pte --prefill 128

The models have random weights and are written here: see support/graphs/draft_pairs.py. Each line
has the milliseconds per token, the tokens per second, and which part of the guesses was right. The
answers of one pair are compared: they have to be equal.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from time import perf_counter
from typing import Any

import webpte
from support.graphs.draft_pairs import Shape, draft_pair
from webpte.llm import Generation, Generator

PROMPT = [(7 * n) % 97 for n in range(60)]


async def timed(answer: Generation) -> tuple[list[int], float]:
    """Return the tokens of an answer, and the milliseconds per token of its second half."""
    tokens, arrivals = [], []
    async for token in answer:
        tokens.append(token)
        arrivals.append(perf_counter())
    half = arrivals[len(arrivals) // 2 :]
    return tokens, (half[-1] - half[0]) * 1000 / (len(half) - 1)


def shape_of(options: argparse.Namespace) -> Shape:
    heads = options.size // 64
    return Shape(options.layers, options.size, 4 * options.size, heads, max(1, heads // 4))


async def compare(options: argparse.Namespace, noise: float) -> None:
    """Time one pair of models."""
    big, small = draft_pair(shape_of(options), options.draft_layers, noise)
    sampled: dict[str, Any] = {}
    if options.temperature:
        sampled = {"temperature": options.temperature, "seed": 1}
    async with (
        await webpte.load(big, device=options.device) as program,
        await webpte.load(small, device=options.device) as draft,
    ):
        generator = Generator(program)
        wanted: list[int] = []
        for name, speculate in (("plain", None), ("lookup", "lookup"), ("draft", draft)):
            for _ in range(2):  # the first makes plans
                asked = {**sampled, "speculate": speculate}
                answer = generator.generate(PROMPT, options.tokens, **asked)
                tokens, ms = await timed(answer)
            wanted, stats = wanted or tokens, answer.stats
            same = "the same tokens" if tokens == wanted else "OTHER TOKENS"
            right = stats.accepted_tokens / max(1, stats.proposed_tokens)
            print(
                f"noise {noise:5.2f}  {name:7} {ms:8.2f} ms  {1000 / ms:8.1f} tokens/s  "
                f"{stats.accepted_tokens:4} of {stats.proposed_tokens:4} right ({right:.0%})  "
                f"{stats.submissions:4} submissions  {same}  {stats.not_speculating or ''}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="native")
    for name, number in (("layers", 20), ("draft-layers", 2), ("size", 2048), ("tokens", 200)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.05, 0.2])
    parser.add_argument("--write", type=Path, help="write the models to this folder instead")
    options = parser.parse_args()
    for noise in options.noise:
        if options.write:
            write(options, noise)
        else:
            asyncio.run(compare(options, noise))


def write(options: argparse.Namespace, noise: float) -> None:
    """Write a pair of models; all pairs have the same draft."""
    big, small = draft_pair(shape_of(options), options.draft_layers, noise)
    options.write.mkdir(parents=True, exist_ok=True)
    (options.write / f"big_{noise:g}.pte").write_bytes(big)
    (options.write / "draft.pte").write_bytes(small)


if __name__ == "__main__":
    main()
