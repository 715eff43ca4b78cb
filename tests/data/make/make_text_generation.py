"""Writes tests/data/tasks/writers.tar.xz and written.json: models that write, and their texts.

    PYTHONPATH=pysrc:tests python tests/data/make/make_text_generation.py [expect]

With "expect" it writes only the texts. It needs the environment of `serve.py export`. "replies" is
a Llama with a byte-level tokenizer and a chat template, "sequels" a Qwen2 with a tokenizer in
sentencepiece's form, both with random weights.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from data.make.pack_folders import pack
from data.make.task_models import save
from data.make.task_models import transformers as tf
from data.make.vision_models import spread
from support.harness.texts import BYTES, FOLDER, PIECES
from support.llm.text_generation_cases import CASES, EXPECTED, WRITERS
from webpte_export.tasks import export_task

TASK = "text-generation"
KEPT = ("model.pte", "model.manifest.json", "tokenizer.json", "tokenizer_config.json")
MODELS = {"replies": (tf.LlamaForCausalLM, BYTES), "sequels": (tf.Qwen2ForCausalLM, PIECES)}


def tokenizer(kind: str) -> Any:
    folder = FOLDER / kind
    settings = folder / "tokenizer_config.json"
    names = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    if isinstance(names.get("bos_token"), dict):
        names["bos_token"] = names["bos_token"]["content"]
    return tf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **names)


def sizes(tokens: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokens),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
    }


def make_models(root: Path) -> None:
    for name, (kind, words) in MODELS.items():
        tokens = tokenizer(words)
        model = kind(kind.config_class(**sizes(tokens), tie_word_embeddings=False))
        save(spread(model, 3, 2.0).eval(), root / name)
        tokens.save_pretrained(root / name)


def expected(root: Path) -> list[Any]:
    """Run every case in transformers' pipeline."""
    opened = {}
    for folder in root.iterdir():
        # Given, because by the model's type the pipeline would choose a class with its own decoder.
        tokens = tf.PreTrainedTokenizerFast.from_pretrained(folder)
        opened[folder.name] = tf.pipeline(TASK, str(folder), tokenizer=tokens)
    found = []
    for model, given, options in CASES:
        pipeline = opened[model]
        made = pipeline(given, do_sample=False, **options)
        if model == "sequels":
            made = with_spaces(pipeline, given, options)
        found.append(made)
    return found


def with_spaces(pipeline: Any, given: Any, options: dict[str, Any]) -> Any:
    """Return the continuations of texts, cut from the text of all tokens.

    Version 5 of the pipeline decodes new tokens alone: then sentencepiece's first space is lost.
    """
    texts = [given] if isinstance(given, str) else given
    most = options["max_new_tokens"]
    found = []
    for text in texts:
        ids = pipeline.tokenizer(text)["input_ids"]
        with torch.no_grad():
            all_ids = pipeline.model.generate(
                torch.tensor([ids]), do_sample=False, max_new_tokens=most
            )[0].tolist()
        before, whole = (
            pipeline.tokenizer.decode(one, skip_special_tokens=True) for one in (ids, all_ids)
        )
        assert whole.startswith(before)
        new = whole[len(before) :]
        full = options.get("return_full_text", True)
        found.append([{"generated_text": text + new if full else new}])
    return found[0] if isinstance(given, str) else found


def main(*what: str) -> None:
    with tempfile.TemporaryDirectory() as work:
        models, out = Path(work, "models"), Path(work, "out")
        make_models(models)
        EXPECTED.write_text(
            json.dumps(expected(models), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        if what == ("expect",):
            return
        for name in MODELS:
            report = export_task(models / name, out / name, TASK)
            assert report.passed, report.problem
            print(name, report.program_bytes, report.max_abs)
        pack(out, WRITERS, KEPT, MODELS)


if __name__ == "__main__":
    main(*sys.argv[1:])
