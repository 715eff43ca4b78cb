"""The files next to a program that answers questions about pictures, the same for all models.

Models of Hugging Face keep the preprocessing of pictures in preprocessor_config.json, newer models
in processor_config.json; and the chat template in any of four files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.llm.huggingface import json_table, read_tokenizer_config

CONFIG, TOKENIZER, GENERATION = "config.json", "tokenizer.json", "generation_config.json"
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"


def write_files(folder: Path, out: Path, preprocessing: Mapping[str, Any]) -> list[str]:
    """Write the task's files, with this preprocessing; return their names."""
    out.mkdir(parents=True, exist_ok=True)
    if not (folder / TOKENIZER).is_file():
        raise ExportError(f"{folder} has no {TOKENIZER}; copy it from the model's page.")
    found = {PREPROCESSOR: dict(preprocessing), TOKENIZER_CONFIG: _tokenizer_config(folder)}
    for name, content in found.items():
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (out / name).write_text(text + "\n", encoding="utf-8")
    copied = [name for name in (CONFIG, TOKENIZER, GENERATION) if (folder / name).is_file()]
    for name in copied:
        if (folder / name).resolve() != (out / name).resolve():
            shutil.copyfile(folder / name, out / name)
    return [*copied, *found]


def read_preprocessing(folder: Path) -> dict[str, Any]:
    """Return the settings of the preprocessing of pictures."""
    if (folder / PREPROCESSOR).is_file():
        return dict(json_table(folder / PREPROCESSOR).content)
    nested = json_table(folder / PROCESSOR, needed=False).content.get("image_processor")
    if not isinstance(nested, dict):
        raise ExportError(
            f"{folder} has neither {PREPROCESSOR} nor an image_processor in {PROCESSOR}: copy one "
            "of them from the model's page."
        )
    return nested


def _tokenizer_config(folder: Path) -> dict[str, Any]:
    """Return tokenizer_config.json with the chat template, wherever that is."""
    config = read_tokenizer_config(folder)
    for name in ("chat_template.json", PROCESSOR):
        template = json_table(folder / name, needed=False).content.get("chat_template")
        if "chat_template" not in config and isinstance(template, str):
            config["chat_template"] = template
    return config
