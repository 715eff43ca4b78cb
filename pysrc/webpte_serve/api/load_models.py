"""Models of the API from folders: a program with the tokenizer next to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte.engine.open.hub_name import is_hub
from webpte.engine.open.siblings import names_beside
from webpte.errors import InputError, WebpteError
from webpte_serve.openai import EmbeddingModel, Model
from webpte_serve.openai import open_model as open_files
from webpte_serve.openai.open_model import TOKENIZERS


def model_files(text: str) -> tuple[str, Path, Path]:
    """Return the name, the program and the tokenizer of "[NAME=]FOLDER" or "[NAME=]FILE.pte"."""
    name, equals, place = text.partition("=")
    path = Path(place if equals else text)
    if path.is_dir():
        programs = sorted(path.glob("*.pte"))
        if len(programs) != 1:
            raise InputError(
                f"{path} has {len(programs)} .pte files: name the one to serve (FOLDER/FILE.pte)"
            )
        program = programs[0]
    else:
        program = path
    if not program.is_file():
        raise InputError(f"{program}: there is no such file or folder")
    places = [program.with_name(name) for name in names_beside(program, *TOKENIZERS)]
    tokenizer = next(filter(Path.is_file, places), None)
    if tokenizer is None:
        raise InputError(
            f"{program} has no tokenizer next to it: copy the model's tokenizer.json there"
        )
    default = path.resolve().name if path.is_dir() else program.stem
    return (name if equals else default), program, tokenizer


async def open_model(
    text: str, device: str, waiting: int, slots: int, **loading: Any
) -> Model | EmbeddingModel:
    """Load a program and its tokenizer; a sentence encoder becomes a model for embeddings."""
    loading |= {"waiting": waiting, "slots": slots, "device": device}
    given, equals, place = text.rpartition("=")
    if is_hub(place):
        return await open_files(place, name=given if equals else None, **loading)
    name, path, file = model_files(text)
    loading["data"] = sorted(path.parent.glob(f"{path.stem}*.ptd"))
    try:
        return await open_files(path, name=name, tokenizer=file, **loading)
    except WebpteError as error:
        known = name == path.stem and str(error).startswith(f"{path.name}: ")
        raise InputError(str(error) if known else f"{name}: {error}") from error
