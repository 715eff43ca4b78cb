"""The environment in which each document's Python runs: names, files, a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from data.make.make_tokenizers import SPECIAL
from support.harness import image_text_cases
from support.harness.inspecting import APART
from support.harness.sounds import voices_folder
from support.harness.task_cases import make_bursts, make_picture, models_folder
from support.harness.texts import BYTES, FOLDER
from support.llm import lora_models, small_seq2seq, training_models
from support.page.chats import Q4
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte_host.base.layout import ROOT

SAMPLES, LORAS = ROOT / "web/samples", lora_models.folder()
TRAINED = training_models.folder()
DIGITS, PHOTO = SAMPLES / "digits.pte", SAMPLES / "photo.pte"
MODELS = models_folder()  # of tasks
SEEN = image_text_cases.models_folder()
TEXT = FOLDER / BYTES  # a tokenizer with its configuration


@dataclass(frozen=True)
class Prepared:
    """The environment of a document's blocks.

    scope     names; a path or bytes stands for the program or tokenizer loaded from it
    instead   by the first line of a block: names that change from that block on
    files     the current folder: names to a file or folder elsewhere, or to a text
    device    makes the device of programs, for any request of the block
    options   more options of `load`
    printed   text that the output must contain
    """

    scope: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path | str] = field(default_factory=dict)
    device: Callable[[], Any] = lambda: "numpy"
    options: Mapping[str, Any] = field(default_factory=dict)
    printed: tuple[str, ...] = ()
    instead: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def timed_device() -> SimulatedDevice:
    return SimulatedDevice(features=("timestamp-query",))


def sentence_encoder() -> bytes:
    """Write a program that returns the mean of the tokens' rows of a table."""
    table = np.random.default_rng(0).normal(0, 1, (512, 8)).astype(np.float32)
    g = GraphWriter()
    tokens, rows = g.tensor((2, 12), "int32"), g.tensor(table.shape, constant=table)
    words = g.op("aten.embedding.default", rows, tokens, g.tensor((2, 12, 8)))
    mean = g.op("aten.mean.dim", words, g.int_list([1]), g.bool_(False), g.tensor((2, 8)))
    g.inputs(tokens)
    g.outputs(mean)
    return write_pte(g)


def face_finder() -> bytes:
    """Write a detector of two anchors, whose boxes and scores are values of the picture."""
    g = GraphWriter()
    picture = g.tensor((1, 3, 128, 128))
    numbers = g.op(
        "aten.view_copy.default", picture, g.int_list([1, 3072, 16]), g.tensor((1, 3072, 16))
    )
    part = (g.int(1), g.int(0), g.int(2), g.int(1), g.tensor((1, 2, 16)))
    boxes = g.op("aten.slice_copy.Tensor", numbers, *part)
    part = (g.int(2), g.int(0), g.int(1), g.int(1), g.tensor((1, 2, 1)))
    scores = g.op("aten.slice_copy.Tensor", boxes, *part)
    g.inputs(picture)
    g.outputs(boxes, scores)
    return write_pte(g)


LINES = {"np": np, "webpte": webpte}  # imports that short examples leave out
CHAT = {**LINES, "program": Q4, "tokenizer": TEXT / "tokenizer.json", "conversation": [5, 9, 33]}
_FEATURES, _GENERATION = small_seq2seq.whisper_settings()
ENCODED = {
    "translator": small_seq2seq.program_of("bart"),
    "source": [3, 7, 5],
    "whisper": small_seq2seq.program_of("whisper"),
    "preprocessor_config": _FEATURES,
    "generation_config": _GENERATION,
    "samples": small_seq2seq.sound(0.7),
}
SEEING = {
    "seeing": SEEN / "patches" / "model.pte",
    "pixels": np.zeros((1, 3, 16, 16), np.float32),
    "before": [2, 20],
    "after": [30],
}
PICTURE = {**LINES, "x": np.zeros((1, 1, 28, 28), np.float32)}
TOKENIZER = {name: TEXT / name for name in ("tokenizer.json", "tokenizer_config.json")}

# Documents: that their text is not in a PDF is nothing to a search.
WRITTEN: dict[str, Path | str] = {
    "manual.pdf": "It is washed by hand.",
    "notes.md": "# Home\nThe dog is lazy.",
}

PREPARED = {
    "README.md": Prepared(
        files={
            "model.pte": DIGITS,
            "out/chat.pte": Q4,
            **{f"out/{name}": path for name, path in TOKENIZER.items()},
            "out/feelings": MODELS / "feelings",
        },
        device=SimulatedDevice,
    ),
    "docs/inside/adapters.md": Prepared(files={"model.pte": DIGITS}, device=SimulatedDevice),
    "docs/use/export.md": Prepared(
        {**LINES, "picture": np.ones((1, 3, 128, 128), np.float32)},
        {
            "out/chat.pte": Q4,
            "out/model.pte": ROOT / "tests/data/kernels/quant.pte",
            **{f"out/{name}": path for name, path in TOKENIZER.items()},
            "models/pitch/model.pte": DIGITS,
            "models/minilm": TEXT,
            "anchors.txt": "0.2 0.2\n0.8 0.8",
        },
        instead={
            'tokenizer = await webpte.text.load_tokenizer("/models': {
                "program": sentence_encoder()
            },
            "boxes, scores = await": {
                "program": face_finder(),
                "letters": np.eye(3)[None],
                "labels": ["", "h", "i"],
            },
        },
        printed=("Wolves hunt", "(0.2", "hi"),
    ),
    "docs/start/first_model.md": Prepared(
        files={"out/model.pte": DIGITS},
        device=SimulatedDevice,
        printed=("float32 [1, 1, 28, 28]", "this is a 1", "all agree"),
    ),
    "docs/inside/how_it_works.md": Prepared(
        LINES, {"llama.pte": Q4}, SimulatedDevice, printed=("58 19",)
    ),
    "docs/use/inspecting.md": Prepared(
        CHAT,
        {"model.pte": DIGITS},
        device=timed_device,
        options=APART,
        printed=("layer x2", "all agree", "bytes on the GPU"),
    ),
    "docs/use/chat.md": Prepared(
        {
            **CHAT,
            "special_tokens": SPECIAL,
            **ENCODED,
            **SEEING,
            "draft": Q4.with_name("llama_tiny_fp32.pte"),
        },
        {
            "model": TEXT,
            "chat.pte": Q4,
            "out/chat.pte": Q4,
            **{f"out/{name}": path for name, path in TOKENIZER.items()},
            "model.pte": Q4,
            "assistant.pte": LORAS / "llama_4w.pte",
            "pirate": LORAS / "llama_4w/one",
            "lawyer": LORAS / "llama_4w/two",
        },
        printed=("'role': 'assistant'",),
    ),
    "docs/use/native.md": Prepared(PICTURE, {"model.pte": DIGITS}, SimulatedDevice),
    "docs/use/serve.md": Prepared(CHAT, {"model.pte": DIGITS}),
    "docs/package.md": Prepared(files={"model.pte": DIGITS}, printed=("float32 [1, 1, 28, 28]",)),
    "docs/inside/extending.md": Prepared(),
    "docs/use/documents.md": Prepared(
        files={
            "out/minilm": MODELS / "vectors",
            "out/chat/model.pte": SAMPLES / "stories.pte",
            "out/chat/tokenizer.json": SAMPLES / "stories.tokenizer.json",
            "out/chat/tokenizer_config.json": SAMPLES / "stories.tokenizer_config.json",
            **WRITTEN,
        },
        printed=("manual.pdf", "memo.txt None Buy milk."),
    ),
    "docs/start/samples.md": Prepared(
        {
            **LINES,
            "program": SAMPLES / "teach.pte",
            "pictures": np.random.default_rng(0).random((8, 1, 28, 28), np.float32),
            "labels": np.arange(8) % 5,
            "picture": np.zeros((1, 28, 28), np.float32),
        }
    ),
    "docs/use/tasks.md": Prepared(
        {
            "picture": make_picture(9, 7),
            "reviews": ["Good.", "Bad."],
            "samples": make_bursts([2000, 9000]),
        },
        WRITTEN
        | {
            f"out/{name}": MODELS / model
            for name, model in (
                ("feelings", "feelings"),
                ("names", "entities"),
                ("answers", "answers"),
                ("chat", "replies"),
                ("minilm", "vectors"),
                ("photos", "shapes"),
                ("things", "things"),
                ("depth", "depths"),
                ("scenes", "scenes"),
                ("sam", "prompts"),
                ("clip", "captions"),
                ("owl", "finds"),
                ("larger", "enlarged"),
                ("front", "cutouts"),
                ("voice-activity", "voices"),
                ("basic-pitch", "music"),
            )
        }
        | {
            "out/seeing": SEEN / "patches",
            "out/ears": small_seq2seq.whisper_folder(),
            "out/mms-tts-eng": voices_folder() / "drawn",
        },
        printed=("'label': ", "PER", "'answer': "),
    ),
    "docs/use/training.md": Prepared(
        LINES,
        {
            "out/chat.pte": TRAINED / "llama_8w.pte",
            **{f"out/{name}": TRAINED / name for name in TOKENIZER},
        },
    ),
    "docs/inside/tuning.md": Prepared(
        {"program": Q4, "tokens": np.array([[7]]), "position": np.array([0])},
        device=timed_device,
        printed=("tunable | default | chosen", "gemv_q4 n"),
    ),
    "docs/start/troubleshooting.md": Prepared(PICTURE, {"model.pte": DIGITS}),
}
