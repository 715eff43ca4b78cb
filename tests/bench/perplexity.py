"""Measures how options of `load` change a language model: perplexity of a text, and its logits.

    PYTHONPATH=pysrc:tests python -m bench.perplexity MODEL.pte TEXT
        [--variants half_products int8_products] [--tokens 8192] [--window 2048] [--rows 512]
        [--device native] [--gpu-kernels]

TEXT is a text for the `tokenizer.json` beside the model, or a .json with a list of tokens. Each
window of tokens begins with an empty cache and is a prompt in calls of `--rows` tokens, whose
logits all come back. `--gpu-kernels` takes a GPU's kernels on a software adapter, too, which
compile slowly there. In a page, `measure` does the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from webpte.engine.call.options import DeveloperOptions, applied_to, variant_label
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.run.request import RunRequest
from webpte.errors import InputError
from webpte.llm.decode.derived import row_logits_delegate
from webpte.program import build_of, method_of

Row = dict[str, Any]
FLOATS = "floats"
_PART = 64  # rows compared at once: 25 MB for each array of a vocabulary of 49,152
_TITLES = "perplexity", "more", "largest difference", "mean", "KL divergence", "equal likeliest"


class Sums:
    """Figures of a variant over all tokens; differences are from the logits of floats."""

    def __init__(self) -> None:
        self._lost = list[np.ndarray]()  # -log p of each token that follows
        self._largest = self._apart = self._divergence = 0.0
        self._numbers = self._equal = 0

    def add(self, logits: np.ndarray, floats: np.ndarray, following: np.ndarray) -> None:
        """Count the logits (n, vocabulary) before n tokens."""
        for at in range(0, len(following), _PART):
            got, want = (all_rows[at : at + _PART].astype("f8") for all_rows in (logits, floats))
            tokens, apart = following[at : at + _PART], np.abs(got - want)
            self._equal += int((got.argmax(1) == want.argmax(1)).sum())
            self._largest = max(self._largest, float(apart.max()))
            self._apart += float(apart.sum())
            self._numbers += apart.size
            got, want = (x - x.max(1, keepdims=True) for x in (got, want))
            got, want = (x - np.log(np.exp(x).sum(1, keepdims=True)) for x in (got, want))
            self._divergence += float((np.exp(want) * (want - got)).sum())
            self._lost.append(-got[np.arange(len(tokens)), tokens])

    def row(self, floats: Sums) -> Row:
        """Return the figures by name; percents are of the perplexity of floats."""
        lost = np.concatenate(self._lost)
        more, count = lost - np.concatenate(floats._lost), len(lost)
        return {
            "perplexity": math.exp(lost.mean()),
            "more_percent": 100 * math.expm1(more.mean()),
            "error_percent": 100 * float(more.std()) / math.sqrt(count),
            "largest_difference": self._largest,
            "mean_difference": self._apart / self._numbers,
            "divergence": self._divergence / count,
            "equal_percent": 100 * self._equal / count,
        }


async def logits_of(program: webpte.Program, tokens: Sequence[int], position: int) -> np.ndarray:
    """Return the logits after each token of a part of a prompt, (n, vocabulary)."""
    method = method_of(program, "forward")
    delegate = await row_logits_delegate(build_of(program), method, len(tokens))
    if isinstance(delegate, str):
        raise InputError(f"no logits of {len(tokens)} tokens at once: {delegate}; try fewer --rows")
    given = np.array([tokens], np.int64), np.array([position], np.int64)
    (logits,) = await delegate.run(RunRequest(method.take_inputs(given)))
    found: np.ndarray = logits.reshape(len(tokens), -1)
    return found


async def measure(
    source: Any,
    tokens: Sequence[int],
    variants: Sequence[str],
    *,
    window: int = 2048,
    rows: int = 512,
    device: str = "webgpu",
    gpu_kernels: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Row]:
    """Return the figures of floats and of each variant that the device has, by name.

    A variant is the name of an option of `webpte.Options`.
    """
    windows, apart = (len(tokens) - 1) // window, window % rows
    if not windows or apart:
        raise InputError(f"{len(tokens) - 1} tokens in windows of {window} and calls of {rows}")
    usual, info = DeveloperOptions(plain=False if gpu_kernels else None), DeviceInfo("numpy")
    with ExitStack() as stack:
        programs = dict[str, webpte.Program]()
        for name in (FLOATS, *variants):
            options = usual if name == FLOATS else replace(usual, **{name: True})
            if programs and applied_to(options, info).target == applied_to(usual, info).target:
                say(f"{name}: left out, as this device computes it as floats")
                continue
            programs[name] = await webpte.load(source, device=device, options=options)
            stack.callback(programs[name].close)
            info = programs[name].device_info
            say(f"{name}: {variant_label(options, info)}; {info.description or info.kind}")
        sums = {name: Sums() for name in programs}
        for at in range(0, windows * window, rows):
            following, floats = np.array(tokens[at + 1 : at + rows + 1]), None
            for name, program in programs.items():
                logits = await logits_of(program, tokens[at : at + rows], at % window)
                floats = logits if floats is None else floats
                sums[name].add(logits, floats, following)
            say(f"{at + rows} tokens")
    return {name: one.row(sums[FLOATS]) for name, one in sums.items()}


def table(rows: dict[str, Row]) -> str:
    """Return the figures as a table of Markdown."""
    lines = [f"| | {' | '.join(_TITLES)} |", "|---" * (len(_TITLES) + 1) + "|"]
    for name, row in rows.items():
        more = f"{row['more_percent']:+.3f} % (± {row['error_percent']:.3f})"
        logits = f"{row['largest_difference']:.3f} | {row['mean_difference']:.4f}"
        rest = f"{row['divergence']:.6f} | {row['equal_percent']:.2f} %"
        lines.append(f"| {name} | {row['perplexity']:.4f} | {more} | {logits} | {rest} |")
    return "\n".join(lines)


async def _measured(given: argparse.Namespace) -> dict[str, Row]:
    text = given.text.read_text("utf-8")
    if given.text.suffix == ".json":
        tokens = json.loads(text)
    else:
        tokenizer = await webpte.text.load_tokenizer(given.model.parent / "tokenizer.json")
        tokens = tokenizer.encode(text)
    how = {name: getattr(given, name) for name in ("window", "rows", "device", "gpu_kernels")}
    return await measure(given.model, tokens[: given.tokens + 1], given.variants, **how)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--variants", nargs="*", default=["half_products", "int8_products"])
    for name, number in (("--tokens", 8192), ("--window", 2048), ("--rows", 512)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--device", default="native")
    parser.add_argument("--gpu-kernels", action="store_true")
    given = parser.parse_args()
    print(table(asyncio.run(_measured(given))))


if __name__ == "__main__":
    main()
