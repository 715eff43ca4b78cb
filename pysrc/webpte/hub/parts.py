"""Models in several programs: which programs of a repository belong together, and their names.

A part is named by the words of its path that the other programs of its folder lack, if all of them
are in WORDS: whisper_encoder_xnnpack_fp32.pte and whisper_decoder_xnnpack_int8.pte are `encoder`
and `decoder`. A program that only prepares inputs, as tasks do here by themselves, is a helper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import PurePosixPath
from typing import Any

# Words in the names of parts.
WORDS = frozenset(
    (
        *("encoder", "encode", "decoder", "decode", "head", "lm", "logits", "sampler"),
        *("mel", "spectrogram", "preprocessor", "preprocess", "frontend", "features"),
        *("cross", "kv", "cache", "attention", "self", "prefill", "prompt", "step", "init"),
        *("first", "next", "loop", "with", "past", "single", "multi", "token", "tokens"),
        *("embedding", "embeddings", "embed", "text", "vision", "image", "audio", "visual"),
        *("mask", "projector", "projection", "connector", "language", "model"),
        *("unet", "vae", "denoiser", "denoise", "transformer", "scheduler"),
        *("duration", "predictor", "synthesizer", "vocoder", "vector", "estimator", "codec"),
        *("flow", "backbone", "mimi", "acoustic", "speech", "style", "pitch"),
    )
)
_HELPERS = frozenset(("preprocessor", "preprocess"))
_PLAIN = ("model", "program", "forward")  # stems that say nothing: the folder does
_PRECISION = re.compile(r"(?:q|f|fp|bf|int|uint|i|w|a)\d\w*|\d{1,2}da\d\w*|mixed|quantized|dynamic")


_SIZE = re.compile(r"_\d{2,4}(?=[_.])")  # as in unet_256.pte, beside unet.pte


def parts_of(
    programs: Collection[str], best: str, dropped: Collection[str], prefer: Callable[[str], Any]
) -> dict[str, str]:
    """Return the parts of the model that a program belongs to, by name; {} if it is one alone.

    A program with nothing but helpers beside it is alone, and has the name "".

    programs  paths of programs that run here
    best      the path of the program
    dropped   words that say nothing of a part, such as names of backends
    prefer    a key for sorting programs of one name: the lowest is taken
    """
    near = [path for path in programs if _folder(path) == _folder(best)]
    words = {path: _words(path, dropped) for path in near}
    if len(set(words.values())) > 1:
        common = set.intersection(*map(set, words.values()))
        words = {path: tuple(one for one in it if one not in common) for path, it in words.items()}
    real = {path: it for path, it in words.items() if not _HELPERS & set(it)}
    if len(real) == 1 and len(words) > 1:
        return {"": next(iter(real))}
    words = real or words
    if not all(it and WORDS.issuperset(it) for it in words.values()):
        return {}
    names = {path: "_".join(it) for path, it in words.items()}
    found = {
        name: min(
            (path for path in names if names[path] == name),
            key=lambda path: (_SIZE.search(PurePosixPath(path).name) is not None, prefer(path)),
        )
        for name in sorted(set(names.values()))
    }
    return found if len(found) > 1 else {}


def _words(path: str, dropped: Collection[str]) -> tuple[str, ...]:
    """Return the words of a program's name, without numbers, precisions, and those `dropped`."""
    place = PurePosixPath(path)
    stem = place.parent.name if place.stem.lower() in _PLAIN and place.parent.name else place.stem
    return tuple(
        word
        for word in re.split("[_.-]+", stem.lower())
        if word and not word.isdigit() and word not in dropped and not _PRECISION.fullmatch(word)
    )


def _folder(path: str) -> PurePosixPath:
    """Return the folder of a model's programs: above a folder that has one part alone."""
    place = PurePosixPath(path)
    return place.parent.parent if place.stem.lower() in _PLAIN else place.parent
