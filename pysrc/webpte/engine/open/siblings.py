"""Small files in a program's folder, for example its config."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, runtime_checkable
from urllib.parse import unquote

from webpte.engine.format.kinds import is_page
from webpte.engine.open.manifest_files import beside
from webpte.engine.open.open_source import keeping, open_source
from webpte.errors import SourceError

_STATUS = re.compile(r"the server answered (\d+)")
# Names of errors of the browser's disk: a copy that is there could not be read.
_DISK_ERRORS = ("AbortError", "InvalidStateError", "NotFoundError", "NotReadableError")
_MISSING = ("403", "404", "410")  # some file stores answer "forbidden" for missing files


@runtime_checkable
class HasSiblings(Protocol):
    """A program that knows the files that belong to it, wherever they are."""

    @property
    def path(self) -> str: ...

    async def read_sibling(self, name: str) -> bytes | None: ...


async def read_file(source: Any, keep: bool = False) -> tuple[bytes, str]:
    """Read a whole file; return its bytes and its name. `keep` is defined by `webpte.load`."""
    with keeping(keep) as files:
        opened = await open_source(source, keep=keep)
        files.append(opened)
        data = await opened.read(0, opened.size)
    # Servers of single-page apps answer with their page for missing files.
    if is_page(data):
        raise SourceError(f"{opened.name}: instead of the file there is an HTML page")
    return data, opened.name


def file_name(source: str | Path) -> str:
    """Return the last part of a path or address."""
    return source.resolve().name if isinstance(source, Path) else unquote(_last_part(source))


def _last_part(source: str | Path | HasSiblings) -> str:
    """Return the last part of a path or address, spelled as there."""
    source = source.path if isinstance(source, HasSiblings) else source
    if isinstance(source, Path):
        return source.name
    return PurePosixPath(source.partition("#")[0].partition("?")[0]).name


def stem_of(name: str) -> str:
    """Return the prefix of a program's own files: "chat" for chat.pte and chat.manifest.json."""
    path = PurePosixPath(name)
    return path.stem.removesuffix(".manifest") if path.suffix == ".json" else path.stem


def names_beside(program: str | Path | HasSiblings, *files: str) -> list[str]:
    """Return possible names of a file in the folder of a program, in the order in which to look for
    them.

    A folder can have several programs: chat.tokenizer.json belongs to chat.pte, tokenizer.json to
    programs without a file of their name.
    """
    stem = stem_of(_last_part(program))
    return [*(f"{stem}.{file}" for file in files), *files]


async def read_sibling(source: Any, name: str, keep: bool = False) -> bytes | None:
    """Read a file in the same folder; None if it is missing, or the source has no folder."""
    if isinstance(source, HasSiblings):
        return await source.read_sibling(name)
    kept = getattr(source, "address", "")  # of the library, where this file is, too
    source = kept or source
    if not isinstance(source, Path | str):
        return None
    try:
        data, _ = await read_file(beside(source, name), keep=keep or bool(kept))
    except SourceError as error:
        if is_missing(error):
            return None
        raise
    except OSError as error:  # a folder, say
        raise SourceError(f"{name} cannot be read: {error.strerror}") from error
    return data


def is_missing(error: SourceError) -> bool:
    """Return whether a file does not exist; an existing file that cannot be read is an error.

    Without a network, a browser does not distinguish the two; then only stored files exist.
    """
    cause = error.__cause__
    if isinstance(cause, OSError):
        return isinstance(cause, FileNotFoundError | NotADirectoryError)
    if getattr(cause, "name", "") in _DISK_ERRORS:
        return False
    status = _STATUS.search(str(error))
    return status is None or status[1] in _MISSING
