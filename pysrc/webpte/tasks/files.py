"""The files of a model that a task reads: a program, and Hugging Face's files next to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.json_reader import Table, parse_table
from webpte.engine.open.hub_name import is_hub
from webpte.engine.open.siblings import names_beside, read_sibling
from webpte.errors import InputError, SourceError
from webpte.hub.layouts import ChosenProgram, choose
from webpte.llm.open_program import open_program
from webpte.llm.text import Tokenizer, load_tokenizer
from webpte.program import Program

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
TOKENIZER_CONFIG, PREPROCESSOR = "tokenizer_config.json", "preprocessor_config.json"
GENERATION = "generation_config.json"
MANIFEST = "manifest.json"  # of ExecuTorch's WebGPU collection
# Files that open a folder, the first that exists: by `serve.py export --task`, by `serve.py models
# add`, and a program without a manifest.
_PROGRAMS = ("model.manifest.json", "card.json", "model.pte")
_EXPORTED = (".manifest.json", ".pte")  # appended by `serve.py export` to its output name

# Tasks of models that `serve.py models add` makes, by the name of the model.
_ADDED = {
    "audio-to-midi": "basic-pitch",
    "optical-character-recognition": "ocr",
    "voice-activity-detection": "voice-activity",
}


@dataclass(frozen=True)
class ModelFiles:
    """A program, and the existing files next to it.

    settings   the tables of JSON files by name; a file that the task does not need may be missing
    texts      the contents of text files by name
    arrays     the numbers of files of float32 by name
    """

    program: Program
    where: str
    tokenizer: Tokenizer | None = None
    settings: Mapping[str, Table] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """Return a file's table; an empty table if the file is missing."""
        return self.settings.get(name) or Table({}, name, InputError)


async def open_files(
    task: str,
    source: str | Path | ChosenProgram,
    needed: Sequence[str],
    wanted: Sequence[str],
    patterns: Sequence[str] = (),
    **loading: Any,
) -> ModelFiles:
    """Open a model by its folder, manifest or program (a path, in the browser a URL, or hf:...).

    needed   names of required files; next to NAME.pte, NAME.tokenizer.json comes before
             tokenizer.json
    wanted   names of optional files
    patterns patterns of names of further optional files
    loading  arguments of `webpte.load`
    """
    if not isinstance(source, str | Path | ChosenProgram) or not str(source):
        raise InputError(
            f"{task} is opened by the folder of a model (a path, in the browser a URL), "
            f"not by a {type(source).__name__}"
        )
    keep = bool(loading.get("keep"))
    entry = await find_program(source, keep, _advice(task))
    contents: dict[str, bytes] = {}
    own = False  # whether files have the program's name
    for name in (*needed, *wanted):
        names = names_beside(entry, name) if name in needed or own else [name]
        data = None
        for one in names:
            data = await read_sibling(entry, one, keep)
            if data is not None:
                own = own or one != name
                break
        if data is not None:
            contents[name] = data
        elif name in needed:
            raise SourceError(f"{source} has no {name}, which {task} needs{_advice(task)}")
    for name in matching(_names_near(entry), patterns):
        data = await read_sibling(entry, name, keep)
        if data is not None:
            contents[name] = data
    read = await _read_contents(contents)
    program = await open_program(entry, **loading)
    return ModelFiles(program, str(source), *read)


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that fit a pattern."""
    return sorted(one for one in names if any(fnmatchcase(one, like) for like in patterns))


def _names_near(entry: str | Path | ChosenProgram) -> list[str]:
    """Return the names of the files near a program, as far as they can be listed."""
    if isinstance(entry, ChosenProgram):
        return [name for one in (entry.variant, *entry.others) for name in one.beside]
    if isinstance(entry, Path) or (isinstance(entry, str) and not IN_BROWSER):
        return [one.name for one in Path(entry).parent.iterdir() if one.is_file()]
    return []


async def bind_files(
    task: str, program: Program, contents: Mapping[str, bytes], needed: Sequence[str]
) -> ModelFiles:
    """Join a loaded program and files by name; raise SourceError if a needed file is missing."""
    for name in needed:
        if name not in contents:
            raise SourceError(f"{program.name} has no {name}, which {task} needs{_advice(task)}")
    return ModelFiles(program, program.name, *await _read_contents(contents))


async def _read_contents(
    contents: Mapping[str, bytes],
) -> tuple[Tokenizer | None, dict[str, Table], dict[str, str], dict[str, np.ndarray]]:
    """Return the tokenizer if it exists, tables of JSON files, texts, and arrays."""
    tables = {
        name: parse_table(data, name, InputError, not_finite=True)
        for name, data in contents.items()
        if name.endswith(".json") and name != TOKENIZER
    }
    arrays = {name: _array(data, name) for name, data in contents.items() if name.endswith(".bin")}
    texts = {
        name: _text(data, name)
        for name, data in contents.items()
        if not name.endswith((".json", ".bin"))
    }
    if TOKENIZER not in contents:
        return None, tables, texts, arrays
    config = tables.get(TOKENIZER_CONFIG)
    tokenizer = await load_tokenizer(
        contents[TOKENIZER], config=config.content if config is not None else {}
    )
    return tokenizer, tables, texts, arrays


def _array(data: bytes, name: str) -> np.ndarray:
    if len(data) % 4:
        raise InputError(f"{name} has {len(data)} bytes, which are no floats of 32 bits")
    return np.frombuffer(data, "<f4")


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not a text in UTF-8: {error}") from error


async def find_program(
    source: str | Path | ChosenProgram, keep: bool = False, advice: str = ""
) -> str | Path | ChosenProgram:
    """Return the path or address of a model's manifest or program, from that path or its folder.

    source  may also be the output name of `serve.py export`: out/chat for out/chat.pte; or a name
            in the Hub, or a folder that is laid out as there
    advice  advice in the error if there is no program
    """
    if isinstance(source, ChosenProgram):
        return source
    if is_hub(source):
        return await choose(source, keep)
    path = str(source).partition("?")[0].partition("#")[0]
    if path.lower().endswith((".json", ".pte")):
        return source
    if not IN_BROWSER and not Path(source).is_dir():
        for ending in _EXPORTED:
            written = Path(f"{source}{ending}")
            if written.is_file():
                return written
        raise SourceError(f"{source}: there is no such folder, and no {source}.pte{advice}")
    folder: str | Path = Path(source) if not IN_BROWSER else f"{path.rstrip('/')}/"
    if isinstance(folder, Path) and _is_repository(folder):
        return await choose(folder)
    for name in _PROGRAMS:
        entry = folder / name if isinstance(folder, Path) else f"{folder}{name}"
        if isinstance(entry, Path):
            if entry.is_file():
                return entry
        elif name.endswith(".pte"):  # the last resort, whose existence is not checked
            manifest = f"{path.rstrip('/')}{_EXPORTED[0]}"
            there = await read_sibling(manifest, manifest.rpartition("/")[2], keep)
            return entry if there is None else manifest
        elif await read_sibling(entry, name, keep) is not None:
            return entry
    programs = sorted(folder.glob("*.pte")) if isinstance(folder, Path) else []
    if len(programs) == 1:
        return programs[0]
    raise SourceError(
        f"{source} has {len(programs)} .pte files"
        + (": name the one to open" if programs else advice)
    )


def _is_repository(folder: Path) -> bool:
    """Return whether the programs of a folder are found as in the Hub: by a list, or in folders."""
    own = any((folder / name).is_file() for name in _PROGRAMS[:2])
    has_list, is_alone = (folder / MANIFEST).is_file(), any(folder.glob("*.pte"))
    return not own and (has_list or (not is_alone and any(folder.glob("*/**/*.pte"))))


def _advice(task: str) -> str:
    added = _ADDED.get(task)
    command = f"models add {added}" if added else f"export FOLDER OUT --task {task}"
    return f"; `python3 serve.py {command}` makes a folder with all files"
