"""Compiles a program into a folder that runs in a web page without Python."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webpte.compiling.constants import ConstantFiles
from webpte.compiling.description import Description
from webpte.compiling.language import language_tables
from webpte.compiling.plans import example_inputs, method_table, plan_tables
from webpte.compiling.runtime_files import DeviceRow, runtime_files
from webpte.compiling.task import Opener, fitted, task_examples
from webpte.compiling.write_folder import write_folder
from webpte.compiling.write_zip import write_zip
from webpte.engine.call.info import ScalarInfo
from webpte.engine.files.download import Progress
from webpte.engine.files.source import ByteSource
from webpte.engine.gpu.device_info import BINDING_LIMIT, BUFFER_LIMIT, DeviceInfo
from webpte.engine.gpu.recording.device import EVERY_GPU, RecordingDevice
from webpte.engine.run.build import Build
from webpte.program import build_of, contents_of
from webpte.tasks.files import TOKENIZER, TOKENIZER_CONFIG

Files = dict[str, bytes | ByteSource]
Examples = Mapping[str, Sequence[Sequence[Any]]]
DESCRIPTION = "program.json"  # for every GPU
SOFTWARE = replace(EVERY_GPU, software=True)
# Browsers give these limits to the GPUs of computers. Kernels may bind ten buffers, so that more is
# fused, and large weights are bound whole: a token of Llama 1B takes 103 dispatches, not 167.
_DESKTOP_LIMITS = {
    BINDING_LIMIT: (1 << 31) - 4,
    BUFFER_LIMIT: (1 << 31) - 4,
    "maxComputeWorkgroupStorageSize": 32768,
    "maxStorageBuffersPerShaderStage": 10,
}
DESKTOP = replace(EVERY_GPU, limits=EVERY_GPU.limits | _DESKTOP_LIMITS)
# In this order: the first that suits a device is taken.
_CLASSES = {"software.json": SOFTWARE, "desktop.json": DESKTOP, DESCRIPTION: EVERY_GPU}


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
    devices: list[DeviceRow] = []
    for done, (description, device) in enumerate(_CLASSES.items()):
        if progress is not None:
            progress("compile", done, len(_CLASSES))
        await asyncio.sleep(0)  # others want a turn, and may cancel this
        found, methods = await _described(opener, device, examples)
        files |= found.files | {description: found.text}
        devices.append({"file": description, "software": device.software, **found.needs})
    written = runtime_files(devices, found.is_language_model, found.input_kind)
    unused = _UNUSED.get(found.input_kind or "", ())
    files |= {name: data for name, data in more.items() if name not in unused}
    files |= {name: text.encode() for name, text in written.items()}
    return files, methods


# Files for texts that no page fetches, by the kind of a task's input.
_UNUSED = {
    "sentences": ("jinja.js",),
    "speech": ("jinja.js", "tokenizers.js", TOKENIZER, TOKENIZER_CONFIG),
}


@dataclass(frozen=True)
class _DeviceVariant:
    """The description of a program for a class of devices, and the files that it names."""

    text: bytes
    needs: dict[str, Any]  # features, and limits
    files: dict[str, bytes | ByteSource]
    is_language_model: bool
    input_kind: str | None  # of its task


async def _described(
    opener: Opener, device: DeviceInfo, examples: Examples
) -> tuple[_DeviceVariant, tuple[str, ...]]:
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
        tables = {
            name: await _method(build, recorder, name, examples)
            for name in program.methods
            if language is None or name != language[1]["method"] or name in examples
        }
        if language is not None:
            tables |= language[0]
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
        text = json.dumps(table, separators=(",", ":")).encode()
        shaders = {name: code.encode() for name, code in description.shaders.items()}
        files: dict[str, bytes | ByteSource] = {**constants.files, **computed, **shaders}
        kind = task["input"]["kind"] if task is not None else None
        made = _DeviceVariant(text, table["device"], files, language is not None, kind)
        return made, tuple(tables)


async def _method(
    build: Build, device: RecordingDevice, name: str, examples: Examples
) -> dict[str, Any]:
    method = build.methods[name]
    if method.info.is_constant and all(isinstance(i, ScalarInfo) for i in method.info.outputs):
        return method_table(method, (), await method.run(method.request(())))
    given = examples.get(name) or [example_inputs(method)]
    return method_table(method, await plan_tables(method, device, given))
