"""The Hugging Face Hub: models by name, wherever a path or an address is taken.

    program = await webpte.load("hf:OWNER/NAME")
    for file in await webpte.hub.files("hf:OWNER/NAME"):
        print(file.path, file.size, file.backend, file.runs, file.chosen)

A name is hf:OWNER/NAME, and after it may come /PATH of a file or folder and @REVISION, a branch,
tag or commit. See docs/use/library.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from webpte.errors import RepositoryError
from webpte.hub.layouts import choose_among, list_variants, open_repository

__all__ = ["File", "files"]


@dataclass(frozen=True)
class File:
    """A file of a repository.

    size       in bytes
    sha256     its hash, if the Hub names it; "" otherwise
    backend    for programs: "Vulkan", "XNNPACK", "Core ML", ...; "" if the name does not say
    precision  for programs: "fp16", "8da4w", ...; "" if the name does not say
    runs       whether it is a program for a backend that runs here
    chosen     whether the repository's name opens it, alone or with the other parts of its model
    """

    path: str
    size: int
    sha256: str = ""
    backend: str = ""
    precision: str = ""
    runs: bool = False
    chosen: bool = False


async def files(source: str | Path, *, half: bool = True) -> list[File]:
    """List the files of a repository, or of a folder: first its programs, in order of preference.

    source  hf:OWNER/NAME[/PATH][@REVISION], or outside of the browser a folder
    half    whether the device has 16-bit floats, which chooses among programs
    """
    repository, below = await open_repository(source)
    found = await list_variants(repository)
    try:
        chosen = choose_among(repository, below, found, half)
        opened = {one.path for one in (chosen.variant, *chosen.others)}
    except RepositoryError:
        opened = set()
    programs = {
        one.path: File(
            one.path,
            repository.files[one.path].size,
            one.program.sha256 or repository.files[one.path].sha256,
            one.backend.title,
            one.precision,
            one.backend.runs,
            one.path in opened,
        )
        for one in found
    }
    others = [
        File(path, file.size, file.sha256)
        for path, file in repository.files.items()
        if path not in programs
    ]
    return [*programs.values(), *others]
