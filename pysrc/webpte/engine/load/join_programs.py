"""Joins programs that are parts of a model into one program, which has the methods of all.

    program = await webpte.load("encoder.pte", data=["decoder.pte"])
    program.methods     # encoder, decoder

A part has the name of its file, or the file's attribute `part`. A method `forward` gets that name;
other methods keep theirs, unless several parts have one: then NAME becomes PART_NAME in each, but a
constant that is equal everywhere is there once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from webpte.engine.call.info import ScalarInfo
from webpte.engine.files.source import ByteSource
from webpte.engine.format.bundled import is_bundle
from webpte.engine.format.pte import HEAD_SIZE, is_program
from webpte.engine.load.program_file import Contents, MethodContents, read_contents
from webpte.errors import SourceError

USUAL = "forward"


@dataclass(frozen=True)
class JoinedFiles:
    """The files of a joined program: their common name, and the bytes of all."""

    name: str
    size: int


async def read_programs(
    files: Sequence[ByteSource], optional: Collection[str] = (), name: str | None = None
) -> Contents:
    """Read a program and the files that belong to it: `.ptd` files, and other parts of its model.

    optional   methods of OPTIONAL_METHODS to read as well
    name       the name of the program; by default the name of its first file
    """
    first, *others = files
    programs, data = [first], list[ByteSource]()
    for file in others:
        (programs if await _is_program(file) else data).append(file)
    if programs == [first]:
        named: Any = first
        named.name = name or first.name
        return await read_contents(first, data, optional)
    parts: dict[str, Contents] = {}
    for file in programs:
        part = part_of(file)
        if part in parts:
            raise SourceError(f"two programs are called {part!r}: give them other names")
        parts[part] = await read_contents(file, data, optional)
    size = sum(part.source.size for part in parts.values())
    return _joined(parts, JoinedFiles(name or first.name, size))


def part_of(file: ByteSource) -> str:
    """Return the name of a file as a part of a model."""
    return str(getattr(file, "part", "")) or PurePosixPath(file.name).stem


async def _is_program(file: ByteSource) -> bool:
    """Return whether a file is a part of the model; programs called `.ptd` are refused as such."""
    if file.name.endswith(".ptd"):
        return False
    head = await file.read(0, min(HEAD_SIZE, file.size))
    return is_program(head) or is_bundle(head)


def _joined(parts: Mapping[str, Contents], files: JoinedFiles) -> Contents:
    methods: dict[str, MethodContents] = {}
    cases = {}
    for part, contents in parts.items():
        for name, method in contents.methods.items():
            others = [it.methods[name] for it in parts.values() if name in it.methods]
            if name == USUAL:
                called = part
            elif len(others) == 1 or _are_equal_constants(others):
                called = name
            else:
                called = f"{part}_{name}"
            known = methods.get(called)
            if known is not None and not _are_equal_constants([known, method]):
                raise SourceError(
                    f"{files.name}: two of its parts have a method {called!r}: give one of the "
                    "files another name"
                )
            methods.setdefault(called, _renamed(method, called))
            if name in contents.cases:
                cases[called] = contents.cases[name]
    return Contents(files, methods, cases)


def _are_equal_constants(methods: Sequence[MethodContents]) -> bool:
    """Return whether methods are constants with the same numbers."""
    first = methods[0].info.outputs
    return all(
        method.info.is_constant
        and method.info.outputs == first
        and all(isinstance(one, ScalarInfo) for one in first)
        for method in methods
    )


def _renamed(method: MethodContents, name: str) -> MethodContents:
    plan, info = replace(method.plan, name=name), replace(method.info, name=name)
    return replace(method, plan=plan, info=info)
