"""Writes tests/data/image_text: small random models that see, and what transformers gives.

    PYTHONPATH=pysrc:tests python tests/data/make/make_image_text.py [MODEL ...]

It needs the environment of `serve.py export`, and a Pillow older than version 13. With names of
models, the others stay as they are in the archive.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image

from data.make.grid_models import GRIDS, StillProcessor, steps
from data.make.small_vlm import COLOURS, text_settings, tokenizer_of
from data.make.task_models import save
from data.make.task_models import transformers as tf
from data.make.vision_models import spread
from support.harness.image_text_cases import (
    ARCHIVE,
    CASES,
    EXPECTED,
    STEPS,
    made,
    models_folder,
)
from webpte_export.manifest_writer import write_manifest
from webpte_export.tasks import export_task

START, END, FAKE = "<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>"
IMAGE, GLOBAL = "<image>", "<global-img>"
TILES = [f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)]
SPECIAL = ["<unk>", "<pad>", START, END, FAKE, IMAGE, GLOBAL, *TILES]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' if loop.first }}{{ message.role | capitalize }}"
    "{{ ':' if message.content[0].type == 'image' else ': ' }}{% for part in message.content %}"
    "{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{{ 'Assistant:' if add_generation_prompt }}"
)
KEPT = (
    *("model.pte", "model.manifest.json", "config.json", "tokenizer.json"),
    *("tokenizer_config.json", "preprocessor_config.json"),
)


def tokenizer() -> Any:
    """Return a byte-level tokenizer with the special tokens of Idefics3 and LLaVA."""
    names = {"bos_token": START, "eos_token": END, "pad_token": "<pad>", "unk_token": "<unk>"}
    return tokenizer_of(SPECIAL, TEMPLATE, **names)


ENDS = {
    "pad_token_id": SPECIAL.index("<pad>"),
    "bos_token_id": SPECIAL.index(START),
    "eos_token_id": SPECIAL.index(END),
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
}


def idefics(tokens: Any, **settings: Any) -> tuple[Any, Any]:
    """Return a model of tiles, each of four rows, and its processor."""
    config = tf.Idefics3Config(
        vision_config={**VISION, "patch_size": 4, "model_type": "idefics3_vision"},
        text_config={**text_settings(tokens), **ENDS, "model_type": "llama"},
        image_token_id=SPECIAL.index(IMAGE),
        scale_factor=2,
        pad_token_id=SPECIAL.index("<pad>"),
        tie_word_embeddings=False,
    )
    pictures = tf.Idefics3ImageProcessorPil(
        size={"longest_edge": 40}, max_image_size={"longest_edge": 16}, **COLOURS, **settings
    )
    processor = tf.Idefics3Processor(pictures, tokens, image_seq_len=4, chat_template=TEMPLATE)
    return tf.Idefics3ForConditionalGeneration(config), processor


def llava(tokens: Any) -> tuple[Any, Any]:
    """Return a model of whole pictures of four rows, and its processor."""
    config = tf.LlavaConfig(
        vision_config={**VISION, "patch_size": 8, "model_type": "clip_vision_model"},
        text_config={**text_settings(tokens), **ENDS, "model_type": "llama"},
        image_token_id=SPECIAL.index(IMAGE),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    pictures = tf.CLIPImageProcessorPil(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, **COLOURS
    )
    processor = tf.LlavaProcessor(
        pictures,
        tokens,
        patch_size=8,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    )
    return tf.LlavaForConditionalGeneration(config), processor


def make_models(root: Path) -> None:
    makers: dict[str, Callable[[], tuple[Any, Any]]] = {
        "tiles": lambda: idefics(tokenizer()),
        "one-tile": lambda: idefics(tokenizer(), do_image_splitting=False),
        "patches": lambda: llava(tokenizer()),
        **GRIDS,
    }
    for name, make in makers.items():
        model, processor = make()
        save(spread(model, 1, 2.0).eval(), root / name)
        processor.save_pretrained(root / name)


def as_pillow(argument: Any) -> Any:
    """Return an argument with pictures as Pillow has them."""
    if isinstance(argument, dict):
        return {key: as_pillow(value) for key, value in argument.items()}
    if isinstance(argument, list):
        return [as_pillow(one) for one in argument]
    return Image.fromarray(argument) if isinstance(argument, np.ndarray) else argument


def expected(root: Path) -> list[Any]:
    """Run every case in transformers' pipeline."""
    opened: dict[str, Any] = {}
    found = []
    for model, given, options in CASES:
        if model not in opened:
            processor = StillProcessor.of(root / model) if model in GRIDS else None
            opened[model] = tf.pipeline(
                "image-text-to-text", str(root / model), processor=processor
            )
        most = {"max_new_tokens": options["max_new_tokens"], "do_sample": False}
        arguments = as_pillow(made(given))
        (said,) = opened[model](**arguments, generate_kwargs=most, return_full_text=False)
        (whole,) = opened[model](**arguments, generate_kwargs=most, return_tensors=True)
        tokens = whole["generated_token_ids"].tolist()
        found.append({"generated_text": said["generated_text"], "tokens": tokens})
    return found


def main(*only: str) -> None:
    assert int(PIL.__version__.split(".")[0]) < 13, PIL.__version__
    torch.manual_seed(27)
    with tempfile.TemporaryDirectory() as work:
        models, out = Path(work, "models"), Path(work, "out")
        make_models(models)
        results = expected(models)
        stored: Any = steps(models)
        np.savez_compressed(STEPS, **stored)
        if only:
            shutil.copytree(models_folder(), out)
        for folder in sorted(models.iterdir()):
            if only and folder.name not in only:
                continue
            report = export_task(folder, out / folder.name, "image-text-to-text")
            print(folder.name, report.program_bytes, report.delegates, report.host_ops)
            print("passed" if report.passed else report.problem, report.max_abs)
            write_manifest(out / folder.name / KEPT[0], KEPT[2:])
        pack(out)
    EXPECTED.write_text(json.dumps(results, ensure_ascii=False) + "\n", encoding="utf-8")


def pack(out: Path) -> None:
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for file in KEPT:
            for folder in sorted(out.iterdir()):
                entry = tarfile.TarInfo(f"{folder.name}/{file}")  # of a fixed time and user
                data = (folder / file).read_bytes()
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])
