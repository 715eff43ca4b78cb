"""Texts for the calibration of a language model's 4-bit weights, and its results.

The built-in text (calibration.txt) was written for this purpose: stories, explanations, letters,
conversations, programs, tables and some sentences of other languages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from webpte_export.errors import ExportError
from webpte_export.llm.source import Source
from webpte_export.quantize import (
    GROUP_SIZE,
    grouped_layers,
    quantize_weights,
    rounded_to_nearest,
    row_scales,
    use_8_bits,
)

if TYPE_CHECKING:
    from webpte_export.calibrate import CalibratedLayer

BUILT_IN = Path(__file__).with_name("calibration.txt")
_LENGTH = 512  # tokens per piece of the text, which the model computes as a whole
_MOST_PIECES = 32
_FEWEST_TOKENS = 512  # with fewer, weights would be fitted to this text alone
_MORE_BYTES = 1 - (0.5 + 4 / GROUP_SIZE)  # per weight in 8 bits; groups of 4 bits have scales
_SHARES = (0.02, 0.1)  # shares of the 4-bit weights for which the report estimates 8 bits


class Parts(NamedTuple):
    """A module to export, with all that is needed to quantize and measure it."""

    module: Any
    body: Any  # the module whose linear layers are quantized
    prepare: Callable[[], None]  # makes them `Linear`s, and quantizes the embedding
    logits: Callable[[Sequence[int]], Any]  # after each token of a text, (n, vocabulary)
    max_length: int  # per text

    def perplexity(self, text: Sequence[int]) -> float:
        """Return the perplexity of a text; lower is better."""
        from webpte_export.llm.model import perplexity_of

        return round(perplexity_of(self.logits(text[:-1]), text[1:]), 3)


class Rounding(NamedTuple):
    """The choice between rounding to nearest, and rounding by the text of a calibration."""

    text: str | None = None
    name: str = ""  # of the text
    keep_8w: int = 0  # number of most sensitive layers that get 8 bits

    def pieces(self, source: Source, longest: int) -> list[list[int]]:
        """Cut pieces of equal length from all over the text. Raises ExportError.

        The result is empty if weights are rounded to nearest.
        """
        from tokenizers import Tokenizer

        if self.text is None:
            return []
        if longest < 2:
            raise ExportError(
                f"{source.name} takes one token at a time (it keeps a state instead of keys and "
                "values), and cannot be calibrated: export it without."
            )
        tokenizer = Tokenizer.from_str(json.dumps(source.tokenizer))
        tokenizer.no_truncation()
        tokens = tokenizer.encode(self.text, add_special_tokens=False).ids
        if len(tokens) < _FEWEST_TOKENS:
            raise ExportError(
                f"{self.name} has {len(tokens)} tokens; calibration needs at least "
                f"{_FEWEST_TOKENS}, and some thousands are better. Give a longer text, or none for "
                "the built-in one."
            )
        length = min(_LENGTH, longest)
        whole = len(tokens) // length
        count = min(whole, _MOST_PIECES)
        starts = [number * whole // count * length for number in range(count)]
        return [tokens[start : start + length] for start in starts]


NEAREST = Rounding()


def choose_rounding(
    quantize: str | None, calibrate: str | Path | bool, keep_8w: int, paragraph: str
) -> Rounding:
    """Check the arguments of `export_llm`, and read the text. Raises ExportError.

    paragraph  the text whose perplexity the report gives, which must not be in the calibration
    """
    if calibrate is False:
        if keep_8w:
            raise ExportError(
                "keep_8w needs calibrate: it tells which layers are the most sensitive."
            )
        return NEAREST
    if quantize not in ("4w", "8da4w"):
        raise ExportError(
            f"calibration is for weights of 4 bits: choose 4w or 8da4w as the quantization, not "
            f"{quantize or 'none'}."
        )
    if keep_8w < 0:
        raise ExportError(f"keep_8w={keep_8w}: it is a number of layers.")
    path = BUILT_IN if calibrate is True else Path(calibrate)
    text = _read(path)
    if " ".join(paragraph.split()) in " ".join(text.split()):
        raise ExportError(
            f"{path} contains the paragraph whose perplexity the report gives, which would then "
            "say nothing: calibrate with another text."
        )
    return Rounding(text, str(path), keep_8w)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ExportError(
            f"{path}: there is no such file to calibrate with. Give a text file, or none for the "
            "built-in text."
        ) from None
    except UnicodeDecodeError as error:
        raise ExportError(
            f"{path} is not text in UTF-8 (byte {error.start}): calibration takes plain text."
        ) from error
    except OSError as error:
        raise ExportError(
            f"{path} cannot be read ({error.strerror}): calibration takes a text file."
        ) from error


def quantize_calibrated(
    parts: Parts, how: str, pieces: Sequence[list[int]], text: Sequence[int], keep_8w: int
) -> dict[str, Any]:
    """Quantize a prepared model to 4 bits by calibration; return facts for the report.

    text     the text whose perplexity is measured
    keep_8w  number of the most sensitive layers that get 8 bits
    """
    from webpte_export.calibrate import calibrate

    with rounded_to_nearest(parts.body, how):
        facts: dict[str, Any] = {f"perplexity_{how}_uncalibrated": parts.perplexity(text)}
    runs = [partial(parts.logits, piece) for piece in pieces]
    found = calibrate(parts.body, grouped_layers(parts.body), runs, GROUP_SIZE)
    if not found:
        raise ExportError(
            f"no linear layer's width is a multiple of {GROUP_SIZE}: there is nothing to calibrate."
        )
    facts[f"perplexity_{how}"] = parts.perplexity(text)
    facts["calibration"] = f"{len(found)} layers, {sum(map(len, pieces)):,} tokens"
    order = sorted(found, key=lambda name: found[name].error, reverse=True)
    for count in [keep_8w] if keep_8w else _counts(order, found):
        chosen = {name: found[name] for name in order[:count]}
        with _eight_bits(parts.body, chosen):
            perplexity = parts.perplexity(text)
        more = sum(it.weight.numel() for it in chosen.values()) * _MORE_BYTES / 1e6
        what = f"perplexity {perplexity}, {more:.1f} MB more"
        facts[f"with_{len(chosen)}_layers_at_8_bits"] = what
    for name in order[:keep_8w]:
        layer = parts.body.get_submodule(name)
        layer.weight = _parameter(found.pop(name).weight)
        use_8_bits(parts.body, name)
    quantize_weights(parts.body, how, {name: it.rounded for name, it in found.items()})
    return facts


def _counts(order: Sequence[str], found: Mapping[str, CalibratedLayer]) -> list[int]:
    """Return numbers of the most sensitive layers for certain shares of the weights."""
    sizes = [found[name].weight.numel() for name in order]
    parts = [sum(sizes[: count + 1]) / sum(sizes) for count in range(len(sizes))]
    counts = [sum(part <= share for part in parts) for share in _SHARES]
    return sorted({count for count in counts if count})


@contextmanager
def _eight_bits(body: Any, chosen: Mapping[str, CalibratedLayer]) -> Iterator[None]:
    """Let layers compute with their original weights in 8 bits, inside the context."""
    for name, it in chosen.items():
        scales = row_scales(it.weight)[:, None]
        rows = (it.weight / scales).round().clamp(-127, 127) * scales
        body.get_submodule(name).weight = _parameter(rows)
    try:
        yield
    finally:
        for name, it in chosen.items():
            body.get_submodule(name).weight = _parameter(it.rounded.weights())


def _parameter(weight: Any) -> Any:
    import torch

    return torch.nn.Parameter(weight, requires_grad=False)
