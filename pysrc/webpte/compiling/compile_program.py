"""Compiles a program into a folder that runs in a web page without Python."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from webpte.compiling.constants import ConstantFiles
from webpte.compiling.description import Description
from webpte.compiling.device_classes import (
    CLASSES,
    DESCRIPTION,
    LEAST,
    MOST,
    DeviceClass,
    is_between,
)
from webpte.compiling.device_test import self_test
from webpte.compiling.encoder_decoder import answer_tables
from webpte.compiling.language import language_tables
from webpte.compiling.plans import example_inputs, method_table, plan_tables
from webpte.compiling.runtime_files import DeviceRow, runtime_files
from webpte.compiling.task import Opener, fitted, task_examples
from webpte.compiling.write_folder import write_folder
from webpte.compiling.write_zip import write_zip
from webpte.engine.call.info import ScalarInfo
from webpte.engine.files.download import Progress
from webpte.engine.files.source import ByteSource
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.engine.run.build import Build
from webpte.program import build_of, contents_of
from webpte.tasks.files import TOKENIZER, TOKENIZER_CONFIG

Files = dict[str, bytes | ByteSource]
Examples = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Compiled:
    """A compiled program. `sizes` has the bytes of each file, by its name in the folder."""

    folder: Path
    methods: tuple[str, ...]
    sizes: dict[str, int]


async def compile(
    source: Any,
    out: str | Path,
    *,
    data: Sequence[Any] = (),
    examples: Examples | None = None,
    name: str | None = None,
    task: str | Mapping[str, Any] | None = None,
    labels: Sequence[str] = (),
    more: Mapping[str, bytes] | None = None,
) -> Compiled:
    """Compile a program into a folder, which any web server can serve.

    source    as in `webpte.load`
    out       the folder, which must be new, empty, or an earlier output
    data      the `.ptd` files that belong to the program
    examples  for each method example calls, each a list of inputs: the method is compiled for the
              shapes of these. By default for the largest shapes that the file declares
    task      also compile how inputs are prepared and results are read: the name of a task in
              `webpte.tasks`, for a source of that task; or the card of a sample or model
    labels    for a card that names a file of labels: its lines
    more      further files by name; with "tokenizer.json", and "tokenizer_config.json" if it
              exists, a language model takes and returns texts, and an encoder of sentences takes
              texts. Pages then need "tokenizers.js", and chats "jinja.js", which `serve.py compile`
              adds; files that pages of the task never fetch are left out

    Raises UnsupportedError if a step of a method would need Python, and names the step.
    """
    opener = Opener(source, data, name, task, labels, more or {})
    files, methods = await _compiled(opener, examples or {}, None)
    folder = await write_folder(Path(out), files, DESCRIPTION)
    sizes = {file: (folder / file).stat().st_size for file in sorted(files)}
    return Compiled(folder, methods, sizes)


async def compile_zip(
    source: Any,
    *,
    data: Sequence[Any] = (),
    examples: Examples | None = None,
    name: str,
    task: Mapping[str, Any] | None = None,
    labels: Sequence[str] = (),
    progress: Progress | None = None,
) -> bytes:
    """Compile a program into a zip archive with the folder of that name; see `compile`.

    progress  called as progress(stage, done, total): the classes of devices ("compile"), then the
              bytes of the archive ("pack")

    Raises UnsupportedError as `compile`, and for a folder that is too large for memory.
    """
    opener = Opener(source, data, name, task, labels, {})
    files, _ = await _compiled(opener, examples or {}, progress)
    return await write_zip(name, files, progress)


async def _compiled(
    opener: Opener, examples: Examples, progress: Progress | None
) -> tuple[Files, tuple[str, ...]]:
    """Return the files of a compiled program by name, and its methods."""
    more, files = opener.more, Files()
    variants = await _variants(opener, examples, progress)
    devices: list[DeviceRow] = []
    for kind, found in variants:
        files |= found.files | {kind.file: _json(found.table)}
        needs = found.table["device"]
        row: DeviceRow = {"file": kind.file, "software": kind.info.software, **needs}
        if test := await self_test(kind.info, needs):
            row["test"], table, shaders = test
            files[row["test"]] = _json(table)
            files |= {name: code.encode() for name, code in shaders.items()}
        devices.append(row)
    written = runtime_files(devices, found.is_language_model, found.input_kind)
    unused = _UNUSED.get(found.input_kind or "", ())
    files |= {name: data for name, data in more.items() if name not in unused}
    files |= {name: text.encode() for name, text in written.items()}
    return files, found.methods


def _json(table: Mapping[str, Any]) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()


# Files for texts that no page fetches, by the kind of a task's input.
_UNUSED = {
    "sentences": ("jinja.js",),
    "spoken": ("jinja.js",),
    "speech": ("jinja.js", "tokenizers.js", TOKENIZER, TOKENIZER_CONFIG),
}


@dataclass(frozen=True)
class _DeviceVariant:
    """The description of a program for a class of devices, and the files that it names."""

    table: dict[str, Any]
    files: dict[str, bytes | ByteSource]
    is_language_model: bool
    input_kind: str | None  # of its task
    methods: tuple[str, ...]

    def is_like(self, other: _DeviceVariant) -> bool:
        """Return whether two descriptions differ in no more than their devices."""
        return {**self.table, "device": None} == {**other.table, "device": None}


async def _variants(
    opener: Opener, examples: Examples, progress: Progress | None
) -> list[tuple[DeviceClass, _DeviceVariant]]:
    """Return the classes of devices that make a difference for a program, `LEAST` last."""
    seen = count()

    async def described(one: DeviceClass) -> _DeviceVariant:
        if progress is not None:
            progress("compile", next(seen), len(CLASSES))
        await asyncio.sleep(0)  # others want a turn, and may cancel this
        return await _described(opener, one, examples)

    kept = {one: await described(one) for one in (LEAST, MOST)}
    if kept[LEAST].is_like(kept[MOST]):
        del kept[MOST]
    for one in reversed(CLASSES):  # from the class that asks for the least
        if one in kept or (MOST not in kept and is_between(one)):
            continue
        made = await described(one)
        if not any(made.is_like(less) for other, less in kept.items() if other.asks_less(one)):
            kept[one] = made
    if MOST in kept and any(
        kept[MOST].is_like(less) for one, less in kept.items() if one is not MOST
    ):
        del kept[MOST]
    return [(one, kept[one]) for one in CLASSES if one in kept]


async def _described(opener: Opener, kind: DeviceClass, examples: Examples) -> _DeviceVariant:
    device = kind.info
    recorder = RecordingDevice(device)
    program, task = await opener.open(recorder)
    async with program:
        build = build_of(program)
        language = await language_tables(program, recorder)
        if language is not None:
            task = opener.text_task(task)
        elif task is not None:
            examples = {**task_examples(task, program), **examples}
            task = fitted(task, examples)
        more = {} if language is None else language[0]
        apart = set() if language is None else {language[1]["method"]} - examples.keys()
        if task is not None and "decoder" in task:
            calls = examples.get(task["method"], ())
            more = await answer_tables(program, recorder, task, calls)
            apart = set(more)
        tables = {
            name: await _method(build, recorder, name, examples)
            for name in program.methods
            if name not in apart
        } | more
        description = Description(recorder, tables)
        methods = contents_of(program).methods.values()
        constants = ConstantFiles([method.file.source for method in methods])
        await constants.add(t for t in recorder.transfers if description.uses(t.buffer))
        computed = constants.name_computed()
        sizes = {name: source.size for name, source in constants.files.items()}
        sizes |= {name: len(data) for name, data in computed.items()}
        table = description.table(program.name, sizes, constants.rows)
        if language is not None:
            table["language"] = language[1]
        if task is not None:
            table["task"] = task
        shaders = {name: code.encode() for name, code in description.shaders.items()}
        files: dict[str, bytes | ByteSource] = {**constants.files, **computed, **shaders}
        given = task["input"]["kind"] if task is not None else None
        return _DeviceVariant(table, files, language is not None, given, tuple(tables))


async def _method(
    build: Build, device: RecordingDevice, name: str, examples: Examples
) -> dict[str, Any]:
    method = build.methods[name]
    if method.info.is_constant and all(isinstance(i, ScalarInfo) for i in method.info.outputs):
        return method_table(method, (), await method.run(method.request(())))
    given = examples.get(name) or [example_inputs(method)]
    return method_table(method, await plan_tables(method, device, given))
