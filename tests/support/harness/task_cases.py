"""Calls of tasks whose results transformers gave: tests/data/tasks/expected.json, in this order."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[2] / "data" / "tasks"
ARCHIVE, EXPECTED = DATA / "models.tar.xz", DATA / "expected.json"
MUSIC = DATA / "music.tar.xz"  # the model of support.music.music_cases
READER = DATA / "reader.tar.xz"  # the model of support.reader.reader_cases
WRITERS = DATA / "writers.tar.xz"  # models of support.llm.text_generation_cases

SHORT = "She said that the fox is quick."
ACCENTS = "Café Zürich, über 12 naïve dogs… do ½ know 東京 today?"
LONG = " ".join(["The forecast says that it will rain later, and they all laughed."] * 6)
PAIR = {"text": "The dog is lazy.", "text_pair": "Nobody laughed today!"}
QUESTION = "What does the forecast say?"
DOCUMENTS = ["It will rain later.", "", "The cache keeps what has been said.", LONG]

WIDE, HIGH = {"picture": [23, 61]}, {"picture": [67, 29]}  # rows and columns
DOT, EXACT = {"picture": [1, 1]}, {"picture": [16, 16]}
PAUSES = {"bursts": [3000, 9000, 1300, 6000, 4100, 2100, 900, 3000, 5000, 7001]}  # quiet, loud, ...
BROAD, TALL = {"picture": [9, 14]}, {"picture": [13, 6]}

# (model, task, arguments, options)
CASES: list[tuple[str, str, list[Any], dict[str, Any]]] = [
    ("feelings", "text-classification", [SHORT], {}),
    ("feelings", "text-classification", [""], {}),
    ("feelings", "text-classification", [[SHORT, "", ACCENTS]], {}),
    ("feelings", "text-classification", [SHORT], {"top_k": None}),
    ("feelings", "text-classification", [[ACCENTS, "ok"]], {"top_k": 2}),
    ("feelings", "text-classification", [SHORT], {"top_k": 1}),
    ("feelings", "text-classification", [LONG], {"truncation": True}),
    ("feelings", "text-classification", [SHORT], {"function_to_apply": "sigmoid"}),
    ("feelings", "text-classification", [SHORT], {"function_to_apply": "none", "top_k": 3}),
    ("verdicts", "text-classification", [PAIR], {"top_k": None}),
    ("verdicts", "text-classification", [[PAIR, {"text": SHORT, "text_pair": ""}]], {}),
    (
        "verdicts",
        "text-classification",
        [{"text": SHORT, "text_pair": LONG}],
        {"truncation": True, "top_k": None},
    ),
    (
        "verdicts",
        "text-classification",
        [{"text": LONG, "text_pair": LONG}],
        {"truncation": True, "top_k": None},
    ),
    ("verdicts", "zero-shot-classification", [SHORT, ["animals", "weather", "money"]], {}),
    ("verdicts", "zero-shot-classification", [[SHORT, LONG], "animals, weather"], {}),
    (
        "verdicts",
        "zero-shot-classification",
        [SHORT, ["animals", "weather"]],
        {"multi_label": True, "hypothesis_template": "It is about {}."},
    ),
    ("verdicts", "zero-shot-classification", [ACCENTS, ["animals"]], {}),
    ("entities", "token-classification", [SHORT], {}),
    ("entities", "token-classification", [ACCENTS], {"ignore_labels": []}),
    ("entities", "token-classification", [[SHORT, ACCENTS]], {"aggregation_strategy": "simple"}),
    ("entities", "token-classification", [LONG], {"aggregation_strategy": "simple"}),
    ("byte-entities", "token-classification", [SHORT], {"ignore_labels": []}),
    ("byte-entities", "token-classification", [ACCENTS], {"ignore_labels": []}),
    ("byte-entities", "token-classification", [ACCENTS], {"aggregation_strategy": "simple"}),
    ("answers", "question-answering", [], {"question": QUESTION, "context": LONG}),
    ("answers", "question-answering", [], {"question": QUESTION, "context": ACCENTS, "top_k": 3}),
    (
        "answers",
        "question-answering",
        [],
        {"question": "Who?", "context": SHORT, "handle_impossible_answer": True, "top_k": 4},
    ),
    (
        "answers",
        "question-answering",
        [],
        {"question": "Who?", "context": LONG, "max_seq_len": 30, "doc_stride": 8, "top_k": 2},
    ),
    ("byte-answers", "question-answering", [], {"question": "Where?", "context": ACCENTS}),
    (
        "byte-answers",
        "question-answering",
        [],
        {"question": "Who said it?", "context": SHORT, "top_k": 5, "max_answer_len": 4},
    ),
    ("gaps", "fill-mask", ["The [MASK] is loaded once."], {}),
    ("gaps", "fill-mask", [["A [MASK] dog", "Do you know [MASK] [MASK]?"]], {"top_k": 2}),
    ("gaps", "fill-mask", ["The [MASK] is quick."], {"targets": ["the", "quick", "zebra"]}),
    ("ranks", "reranking", [QUESTION, DOCUMENTS], {}),
    ("ranks", "reranking", [QUESTION, DOCUMENTS], {"top_k": 2}),
    ("vectors", "feature-extraction", [SHORT], {}),
    ("vectors", "feature-extraction", [[SHORT, "ok"]], {}),
    ("vectors", "feature-extraction", [ACCENTS], {"pooling": "mean"}),
    ("vectors", "feature-extraction", [[SHORT, ""]], {"pooling": "cls", "normalize": True}),
    (
        "vectors",
        "feature-extraction",
        [[LONG, "ok", SHORT]],
        {"pooling": "mean", "normalize": True, "truncation": True},
    ),
    ("shapes", "image-classification", [WIDE], {}),
    ("shapes", "image-classification", [[HIGH, DOT, EXACT]], {"top_k": 2}),
    ("shapes", "image-classification", [WIDE], {"function_to_apply": "none", "top_k": 9}),
    ("textures", "image-classification", [[WIDE, HIGH]], {}),
    ("textures", "image-classification", [DOT], {"top_k": 1}),
    ("noises", "audio-classification", [{"sound": 900}], {}),
    ("noises", "audio-classification", [{"sound": 9000}], {"top_k": 2}),
    ("noises", "audio-classification", [{"sound": 4000}], {"function_to_apply": "none"}),
    ("noises", "audio-classification", [[{"sound": 400}, {"sound": 5000}]], {"top_k": 1}),
    ("patches", "image-feature-extraction", [WIDE], {}),
    ("patches", "image-feature-extraction", [[HIGH, DOT]], {}),
    ("things", "object-detection", [WIDE], {}),
    ("things", "object-detection", [[HIGH, DOT]], {"threshold": 0.1}),
    ("things", "object-detection", [EXACT], {"threshold": 0.99}),
    ("queries", "object-detection", [WIDE], {"threshold": 0.3}),
    ("queries", "object-detection", [[HIGH, DOT]], {"threshold": 0.1}),
    ("conditions", "object-detection", [WIDE], {"threshold": 0.2}),
    ("conditions", "object-detection", [[HIGH, DOT]], {}),
    ("depths", "depth-estimation", [BROAD], {}),
    ("depths", "depth-estimation", [[TALL, EXACT]], {}),
    ("distances", "depth-estimation", [TALL], {}),
    ("distances", "depth-estimation", [[BROAD]], {}),
    ("scenes", "image-segmentation", [TALL], {}),
    ("scenes", "image-segmentation", [[BROAD, DOT]], {"subtask": "semantic"}),
    ("prompts", "mask-generation", [BROAD], {"points": [[3, 4]]}),
    ("prompts", "mask-generation", [BROAD], {"points": [[3, 4], [9.5, 2]], "labels": [1, 0]}),
    ("prompts", "mask-generation", [TALL], {"box": [1, 2, 5, 11]}),
    ("prompts", "mask-generation", [TALL], {"points": [[2, 2]], "box": [0, 1, 5, 9]}),
    ("captions", "zero-shot-image-classification", [WIDE, ["a dog", "the quick fox", "rain"]], {}),
    ("captions", "zero-shot-image-classification", [[HIGH, DOT], ["dog", "forecast"]], {}),
    (
        "captions",
        "zero-shot-image-classification",
        [WIDE, ["dog", "cache"]],
        {"hypothesis_template": "It is {}!"},
    ),
    ("sentences", "zero-shot-image-classification", [WIDE, ["a dog", "the quick fox"]], {}),
    ("sentences", "zero-shot-image-classification", [[HIGH, DOT], ["cache", LONG]], {}),
    ("finds", "zero-shot-object-detection", [WIDE], {"candidate_labels": ["a dog", "the fox"]}),
    (
        "finds",
        "zero-shot-object-detection",
        [HIGH],
        {"candidate_labels": ["rain", "a quick dog"], "threshold": 0.4, "top_k": 3},
    ),
    ("instants", "object-detection", [WIDE], {"threshold": 0.3}),
    ("instants", "object-detection", [[HIGH, DOT]], {"threshold": 0.4}),
    ("enlarged", "image-to-image", [BROAD], {}),
    ("enlarged", "image-to-image", [[{"picture": [8, 15]}]], {}),
    ("cutouts", "background-removal", [BROAD], {}),
    ("cutouts", "background-removal", [[TALL, DOT]], {}),
    ("voices", "voice-activity-detection", [PAUSES], {}),
    ("voices", "voice-activity-detection", [PAUSES], {"return_seconds": True, "threshold": 0.3}),
    (
        "voices",
        "voice-activity-detection",
        [[PAUSES, {"sound": 40}]],
        {"min_silence_duration_ms": 10, "min_speech_duration_ms": 40, "speech_pad_ms": 60},
    ),
    ("voices", "voice-activity-detection", [PAUSES], {"neg_threshold": 0.2}),
]


def made(argument: Any) -> Any:
    """Return an argument of a case; pictures and sounds are given by their size, and made here."""
    if isinstance(argument, list):
        return [made(one) for one in argument]
    if isinstance(argument, dict) and "sound" in argument:
        return make_sound(argument["sound"])
    if isinstance(argument, dict) and "bursts" in argument:
        return make_bursts(argument["bursts"])
    if isinstance(argument, dict) and "picture" in argument:
        return make_picture(*argument["picture"])
    return argument


def make_picture(rows: int, columns: int) -> np.ndarray:
    """Return a picture with soft and hard edges, (rows, columns, 3) of bytes."""
    noise = np.random.RandomState(rows).randint(0, 100, (rows, columns, 3))
    slope = np.arange(rows)[:, None, None] * 3 + np.arange(columns)[None, :, None]
    return ((slope + noise + 50 * np.arange(3)) % 256).astype(np.uint8)


def make_sound(count: int) -> np.ndarray:
    """Return samples (count,): a rising tone with noise."""
    times = np.arange(count) / 16_000
    noise = np.random.RandomState(count).uniform(-0.1, 0.1, count)
    return (0.5 * np.sin(4000 * times * (1 + 3 * times)) + noise).astype(np.float32)


def make_bursts(lengths: Sequence[int]) -> np.ndarray:
    """Return samples: noise that is quiet and loud in turns."""
    loudness = np.repeat(np.resize([0.02, 0.4], len(lengths)), lengths)
    noise = np.random.RandomState(len(loudness)).uniform(-1, 1, len(loudness))
    return (noise * loudness).astype(np.float32)


# What Pillow made of a picture, in tests/data/tasks/resized.npz.
RESIZED = DATA / "resized.npz"
SIZES = ((7, 5), (19, 23), (1, 1), (13, 8), (13, 17))
RESIZED_FROM = (13, 17)

# What PyTorch's interpolation made of a map, in tests/data/tasks/interpolated.npz.
INTERPOLATED = DATA / "interpolated.npz"
MAP_SIZES = ((5, 7), (10, 14), (13, 3), (1, 1), (2, 29))


def make_map() -> np.ndarray:
    """Return a map (2, 5, 7) of floats."""
    return np.random.RandomState(5).uniform(-3, 3, (2, 5, 7)).astype(np.float32)


@cache
def _unpacked() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="webpte-tasks-")
    for path in (ARCHIVE, MUSIC, READER, WRITERS):
        with tarfile.open(path) as archive:
            archive.extractall(folder.name, filter="data")
    return folder


def models_folder() -> Path:
    """Return the folder of all models, which is removed when the process ends."""
    return Path(_unpacked().name)


def plain(value: Any) -> Any:
    """Return a result with arrays as lists, and pictures as {"pixels": ...}."""
    if isinstance(value, np.ndarray):
        return {"pixels": value.tolist()} if value.dtype == np.uint8 else value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def check(found: Any, wanted: Any, where: str = "result", *, tolerance: float = 2e-4) -> None:
    """Compare everything in two results, numbers within a tolerance, pixels within one level."""
    assert type(found) is type(wanted), where
    if isinstance(wanted, dict) and "pixels" in wanted:
        pixels, others = (np.array(one["pixels"], np.int64) for one in (found, wanted))
        assert pixels.shape == others.shape, where
        assert np.abs(pixels - others).max(initial=0) <= 1, where
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key, item in wanted.items():
            check(found[key], item, f"{where}[{key!r}]", tolerance=tolerance)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for at, item in enumerate(wanted):
            check(found[at], item, f"{where}[{at}]", tolerance=tolerance)
    elif isinstance(wanted, float):
        assert abs(found - wanted) <= tolerance * (1 + abs(wanted)), (where, found, wanted)
    else:
        assert found == wanted, where
