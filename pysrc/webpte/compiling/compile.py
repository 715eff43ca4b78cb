"""Compiles a program into a folder that runs in a web page without Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webpte.compiling.constants import COMPUTED, ConstantFiles
from webpte.compiling.description import Description
from webpte.compiling.plans import example_inputs, method_table, plan_tables
from webpte.compiling.runtime_files import runtime_files
from webpte.compiling.write_folder import write_folder
from webpte.engine.call.info import ScalarInfo
from webpte.engine.call.options import Options
from webpte.engine.files.source import ByteSource
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.recording.device import EVERY_GPU, RecordingDevice
from webpte.engine.run.build import Build
from webpte.loading import load
from webpte.program import Program, build_of, contents_of

Examples = Mapping[str, Sequence[Sequence[Any]]]
DESCRIPTION = "program.json"


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
    device: DeviceInfo = EVERY_GPU,
) -> Compiled:
    """Compile a program into a folder, which any web server can serve.

    source    as in `webpte.load`
    out       the folder, which must be new, empty, or an earlier output
    data      the `.ptd` files that belong to the program
    examples  for each method example calls, each a list of inputs: the method is compiled for the
              shapes of these. By default for the largest shapes that the file declares
    device    the GPUs to compile for: their features and limits; by default every GPU

    Raises UnsupportedError if a step of a method would need Python, and names the step.
    """
    recorder = RecordingDevice(device)
    options = Options(tuned=False)
    program = await load(
        source, device=recorder, data=data, strict=True, name=name, options=options
    )
    async with program:
        tables = {
            method: await _method(build_of(program), recorder, method, examples or {})
            for method in program.methods
        }
        description = Description(recorder, tables)
        methods = contents_of(program).methods.values()
        constants = ConstantFiles([method.file.source for method in methods])
        await constants.add(t for t in recorder.transfers if description.uses(t.buffer))
        return await _write(Path(out), program, description, constants)


async def _method(
    build: Build, device: RecordingDevice, name: str, examples: Examples
) -> dict[str, Any]:
    method = build.methods[name]
    if method.info.is_constant and all(isinstance(i, ScalarInfo) for i in method.info.outputs):
        return method_table(method, (), await method.run(method.request(())))
    given = examples.get(name) or [example_inputs(method)]
    return method_table(method, await plan_tables(method, device, given))


async def _write(
    out: Path, program: Program, description: Description, constants: ConstantFiles
) -> Compiled:
    sizes = {name: source.size for name, source in constants.files.items()}
    if constants.computed:
        sizes[COMPUTED] = len(constants.computed)
    table = description.table(program.name, sizes, constants.rows)
    written: dict[str, bytes | ByteSource] = dict(constants.files)
    if constants.computed:
        written[COMPUTED] = bytes(constants.computed)
    written[DESCRIPTION] = json.dumps(table, separators=(",", ":")).encode()
    written |= {name: code.encode() for name, code in description.shaders.items()}
    written |= {name: text.encode() for name, text in runtime_files().items()}
    folder = await write_folder(out, written, DESCRIPTION)
    found = {file: (folder / file).stat().st_size for file in written}
    return Compiled(folder, tuple(program.methods), found)
