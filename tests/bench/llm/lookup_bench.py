"""Times answers that repeat a text, plain and with guesses by lookup, of a real language model.

    PYTHONPATH=pysrc:tests python -m bench.llm.lookup_bench chat.pte tokenizer.json TEXT...
        [--device native] [--known 400] [--begun 40] [--tokens 200]

The prompt is `known` tokens of a text, and the first `begun` ones again: most models go on with
what follows there. Printed are the milliseconds per token and the tokens per second of the second
half of an answer, and how many guesses were right. The answers have to be equal.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import webpte
from bench.llm.speculation_bench import timed
from webpte.llm import Generator
from webpte.llm.generation import ignore_stops
from webpte.llm.text import load_tokenizer

ANSWERS = 3  # the last one is timed: the first make plans, and measure whether rounds pay


async def compare(program: webpte.Program, name: str, known: list[int], begun: int, n: int) -> None:
    """Time the answers to one text."""
    generator, wanted = Generator(program), list[int]()
    ways: tuple[tuple[str, Any], ...] = (("plain", None), ("lookup", "lookup"))
    for kind, speculate in ways:
        for _ in range(ANSWERS):
            answer = generator.generate([*known, *known[:begun]], n, speculate=speculate)
            ignore_stops(answer)
            tokens, ms = await timed(answer)
        wanted, stats = wanted or tokens, answer.stats
        same = "the same tokens" if tokens == wanted else "OTHER TOKENS"
        copied = sum(a == b for a, b in zip(tokens, known[begun:], strict=False))
        print(
            f"{name:24} {kind:7} {ms:7.3f} ms  {1000 / ms:8.1f} tokens/s  {copied} copied  "
            f"{stats.accepted_tokens:4} of {stats.proposed_tokens:4} right  "
            f"{stats.submissions:4} submissions  {same}  {stats.not_speculating or ''}",
            flush=True,
        )


async def run(options: argparse.Namespace) -> None:
    tokenizer = await load_tokenizer(options.tokenizer)
    async with await webpte.load(options.program, device=options.device) as program:
        for path in options.texts:
            known = tokenizer.encode(path.read_text("utf-8"))[: options.known]
            await compare(program, path.name, known, options.begun, options.tokens)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", help="a .pte with methods of a language model")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--device", default="native")
    for name, number in (("known", 400), ("begun", 40), ("tokens", 200)):
        parser.add_argument(f"--{name}", type=int, default=number)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
