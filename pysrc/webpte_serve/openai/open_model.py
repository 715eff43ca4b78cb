"""Opens a model by the path or address of its files: a program with its tokenizer next to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table, parse_table
from webpte.engine.open.manifest_files import beside, is_manifest, open_manifest
from webpte.engine.open.open_source import keeping, open_source
from webpte.engine.open.siblings import file_name, is_missing, names_beside, read_sibling, stem_of
from webpte.errors import InputError, SourceError, TextError
from webpte.hub.layouts import ChosenProgram
from webpte.llm.open_program import open_program
from webpte.llm.program_signature import vision_method
from webpte.llm.text import Tokenizer, encodes_sentences, load_tokenizer
from webpte.tasks.files import CONFIG, PREPROCESSOR, TOKENIZER, TOKENIZER_CONFIG, find_program
from webpte_serve.openai.models import WAITING, EmbeddingModel, Model

TOKENIZERS = (TOKENIZER, "tokenizer.model")


async def open_model(
    source: str | Path,
    *,
    name: str | None = None,
    tokenizer: str | Path | None = None,
    waiting: int = WAITING,
    slots: int = 1,
    **loading: Any,
) -> Model | EmbeddingModel:
    """Load a program and its tokenizer; a sentence encoder becomes a model for embeddings.

    source     a folder, a manifest or a program: a path, in the browser a URL; or hf:OWNER/NAME
    name       its name in requests; by default from the folder or program
    tokenizer  its file; by default NAME.tokenizer.json or tokenizer.json next to the program
    waiting    requests that may wait for the model
    slots      requests that are answered at once, if the program allows it
    loading    arguments of `webpte.load`: device, keep, progress, ...
    """
    keep = bool(loading.get("keep"))
    entry = await find_program(source, keep)
    found = await _tokenizer(entry, tokenizer, keep)
    called = name or (stem_of(file_name(entry)) if entry == source else file_name(source))
    program = await open_program(entry, **loading)
    try:
        if encodes_sentences(program.methods):
            return EmbeddingModel(called, program, found, waiting=waiting)
        vision = await _vision(entry, keep) if vision_method(program) else None
        model = Model(called, program, found, waiting=waiting, slots=slots, vision=vision)
        await model.prepare()
        return model
    except BaseException:
        program.close()
        raise


async def _tokenizer(
    entry: str | Path | ChosenProgram, given: str | Path | None, keep: bool
) -> Tokenizer:
    """Load the first tokenizer that exists, with the config of the same name."""
    if isinstance(entry, ChosenProgram):
        return await load_tokenizer(entry if given is None else given, keep=keep)
    own = await read_sibling(entry, names_beside(entry, TOKENIZER_CONFIG)[0], keep)
    async for place in _places(entry, given, keep):
        try:
            return await load_tokenizer(place, config=own, keep=keep)
        except SourceError as error:
            if given is not None or not is_missing(error):
                raise
    with keeping(False) as files:
        files.append(await open_source(entry))  # raises an error if the program is missing, too
    raise TextError(f"{entry} has no tokenizer next to it: copy the model's tokenizer.json there")


async def _places(
    entry: str | Path, given: str | Path | None, keep: bool
) -> AsyncIterator[str | Path]:
    if given is not None:
        yield given
        return
    if is_manifest(entry):
        named = (await open_manifest(entry, keep)).tokenizer
        if named is not None:
            yield beside(entry, named.name)
    for file in names_beside(entry, *TOKENIZERS):
        yield beside(entry, file)


async def _vision(entry: str | Path | ChosenProgram, keep: bool) -> tuple[Table, Table]:
    """Read a vision model's preparation of pictures, and its config."""
    found = []
    for name in (PREPROCESSOR, CONFIG):
        data = await read_sibling(entry, name, keep)
        if data is None:
            raise SourceError(f"{entry} sees pictures, but has no {name} next to it: copy it there")
        found.append(parse_table(data, name, InputError, not_finite=True))
    return found[0], found[1]
