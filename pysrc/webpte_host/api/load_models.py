"""Models of the API from folders: a program with the tokenizer next to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import webpte
from webpte.openai import EmbeddingModel, Model
from webpte.openai import open_model as open_files
from webpte.openai.open_model import TOKENIZERS
from webpte.runtime.base.siblings import names_beside
from webpte_host.base.errors import HostError


def model_files(text: str) -> tuple[str, Path, Path]:
    """Return the name, the program and the tokenizer of "[NAME=]FOLDER" or "[NAME=]FILE.pte"."""
    name, equals, place = text.partition("=")
    path = Path(place if equals else text)
    if path.is_dir():
        programs = sorted(path.glob("*.pte"))
        if len(programs) != 1:
            raise HostError(
                f"{path} has {len(programs)} .pte files: name the one to serve (FOLDER/FILE.pte)"
            )
        program = programs[0]
    else:
        program = path
    if not program.is_file():
        raise HostError(f"{program}: there is no such file or folder")
    places = [program.with_name(name) for name in names_beside(program, *TOKENIZERS)]
    tokenizer = next(filter(Path.is_file, places), None)
    if tokenizer is None:
        raise HostError(
            f"{program} has no tokenizer next to it: copy the model's tokenizer.json there"
        )
    default = path.resolve().name if path.is_dir() else program.stem
    return (name if equals else default), program, tokenizer


async def open_model(
    text: str, device: str, waiting: int, slots: int, **loading: Any
) -> Model | EmbeddingModel:
    """Load a program and its tokenizer; a sentence encoder becomes a model for embeddings."""
    name, path, file = model_files(text)
    loading["data"] = sorted(path.parent.glob(f"{path.stem}*.ptd"))
    loading |= {"waiting": waiting, "slots": slots, "device": device}
    try:
        return await open_files(path, name=name, tokenizer=file, **loading)
    except webpte.WebpteError as error:
        known = name == path.stem and str(error).startswith(f"{path.name}: ")
        raise HostError(str(error) if known else f"{name}: {error}") from error
