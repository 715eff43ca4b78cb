"""Measures how a smaller KV cache changes what a language model expects of a text.

    PYTHONPATH=pysrc:tests python -m bench.llm.cache_perplexity chat.pte tokenizer.json TEXT...
        [--device native] [--tokens 2048] [--caches f32 f16 int8]

Each text goes in token by token, from its start up to so many tokens. Printed for each cache are
the perplexities of the tokens at some distances from the start, over all texts, and how far its
probabilities of all tokens are from those with the first cache (the Kullback-Leibler
divergence, in nats per token).
"""

from __future__ import annotations

import argparse
import asyncio
from itertools import pairwise
from pathlib import Path

import numpy as np

import webpte
from webpte.llm.text import load_tokenizer

BOUNDS = (1, 128, 512, 2048, 8192, 32768)
Array = np.ndarray


def log_probabilities(logits: Array) -> Array:
    shifted = logits.reshape(-1).astype(np.float64)
    shifted -= shifted.max()
    found: Array = shifted - np.log(np.exp(shifted).sum())
    return found


async def expectations(program: webpte.Program, tokens: list[int]) -> list[Array]:
    """Return the log-probabilities of every token at each place but the first."""
    found = []
    for place, token in enumerate(tokens[:-1]):
        given = np.array([[token]], np.int64), np.array([place], np.int64)
        (logits,) = await program.forward(*given)
        found.append(log_probabilities(np.asarray(logits)).astype(np.float32))
    return found


def report(
    name: str, texts: list[list[int]], found: list[list[Array]], exact: list[list[Array]]
) -> None:
    for low, high in pairwise(BOUNDS):
        losses, distances = list[float](), list[float]()
        for tokens, rows, others in zip(texts, found, exact, strict=True):
            for place in range(low, min(high, len(tokens))):
                row, other = rows[place - 1], others[place - 1].astype(np.float64)
                losses.append(-float(row[tokens[place]]))
                distances.append(float((np.exp(other) * (other - row)).sum()))
        if losses:
            print(
                f"{name:8} tokens {low:6} to {high:6}: perplexity {np.exp(np.mean(losses)):8.3f}, "
                f"divergence {np.mean(distances):.2e} of {len(losses)} tokens",
                flush=True,
            )


async def run(options: argparse.Namespace) -> None:
    tokenizer = await load_tokenizer(options.tokenizer)
    texts = [tokenizer.encode(path.read_text("utf-8"))[: options.tokens] for path in options.texts]
    exact = list[list[Array]]()
    for cache in options.caches:
        loaded = await webpte.llm.load(options.program, device=options.device, kv_cache=cache)
        async with loaded as program:
            found = [await expectations(program, tokens) for tokens in texts]
        exact = exact or found
        report(cache, texts, found, exact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="a .pte with methods of a language model")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--device", default="native")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--caches", nargs="+", default=["f32", "f16", "int8"])
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
