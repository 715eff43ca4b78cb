"""Opens the files of a compiled program: a description, a folder, or a .zip with a folder."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from page.browser import FilesError, Message
from page.core.state import AppState, Change
from page.shared.html.units import bytes_text, plural
from webpte.compiling.read_compiled import DESCRIPTIONS, MOST_BYTES, is_wanted, read_compiled

_VIEW = "graph"
MOST_ZIP = 512 << 20  # bytes of an archive, which is read as a whole
_ZIP, _WGSL = ".zip", ".wgsl"
# What zipfile raises for archives that are broken, encrypted or compressed in other ways.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, EOFError),
    *(NotImplementedError, RuntimeError, OSError),
)


class CompiledController:
    def __init__(self, state: AppState, bring_to_front: Callable[[str], None]) -> None:
        self._state = state
        self._bring_to_front = bring_to_front
        state.follow(self._follow, Change.SESSION)

    def _follow(self, change: Change) -> None:
        if self._state.session is not None:  # the program that was opened last is shown
            self._state.show_compiled(None)

    def on_close_compiled(self, message: Message) -> None:
        self._state.show_compiled(None)
        if self._state.session is None:  # the page is empty again
            self._state.show(view_graph="")
        self._state.tell("Closed")

    def takes(self, files: Sequence[Any], paths: Sequence[str] = ()) -> bool:
        """Return whether files are of a compiled program; `paths` come with a folder."""
        if paths:
            return any(_inside(path) in DESCRIPTIONS for path in paths)
        names = [self._state.browser.source(file).name for file in files]
        alone = len(names) == 1 and names[0].lower().endswith(_ZIP)
        return alone or any(name in DESCRIPTIONS for name in names)

    async def open(self, files: Sequence[Any], paths: Sequence[str] = ()) -> None:
        """Show the program of these files. Raises as `read_compiled`, and FilesError."""
        browser, turn = self._state.browser, self._state.compiled
        named = {browser.source(file).name: file for file in files}
        self._state.tell("Reading the compiled program", "busy")
        if paths:
            folder = paths[0].partition("/")[0]
            found = {_inside(path): file for path, file in zip(paths, files, strict=True)}
            contents = await self._read(found)
        elif (first := next(iter(named))).lower().endswith(_ZIP):
            folder = first
            contents = await self._read_zip(first, named[first])
        else:
            folder = next(one for one in named if one in DESCRIPTIONS)
            contents = await self._read(
                {f"wgsl/{n}" if n.endswith(_WGSL) else n: one for n, one in named.items()}
            )
        compiled = read_compiled(contents, folder)
        if self._state.compiled is not turn:  # another one came meanwhile
            return
        self._state.show(error="")
        self._state.show_compiled(compiled)
        self._bring_to_front(_VIEW)
        kinds = plural(len(compiled.tables), "description")
        self._state.tell(f"{compiled.name}, compiled: {kinds} read")

    async def _read(self, files: Mapping[str, Any]) -> dict[str, bytes]:
        browser = self._state.browser
        wanted = {path: file for path, file in files.items() if is_wanted(path)}
        _limit({path: browser.source(file).size for path, file in wanted.items()})
        return {path: await browser.read(file) for path, file in wanted.items()}

    async def _read_zip(self, name: str, file: Any) -> dict[str, bytes]:
        size = self._state.browser.source(file).size
        if size > MOST_ZIP:
            raise FilesError(
                f"{name} has {bytes_text(size)}, and archives of up to {bytes_text(MOST_ZIP)} are "
                "opened: unpack it, and drop its program.json"
            )
        try:
            with zipfile.ZipFile(io.BytesIO(await self._state.browser.read(file))) as archive:
                infos = {_inside(one.filename): one for one in archive.infolist()}
                flat = {one.filename: one for one in archive.infolist()}
                if not any(path in DESCRIPTIONS for path in infos):
                    infos = flat
                wanted = {path: one for path, one in infos.items() if is_wanted(path)}
                _limit({path: one.file_size for path, one in wanted.items()})
                return {path: _unpacked(archive, one) for path, one in wanted.items()}
        except _UNREADABLE as error:
            raise FilesError(f"{name} is no .zip that can be read: {error}") from None


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a file of an archive; it has no more bytes than the archive says."""
    with archive.open(info) as file:
        return file.read(info.file_size)


def _inside(path: str) -> str:
    """Return the path of a file in its folder."""
    return path.partition("/")[2]


def _limit(sizes: Mapping[str, int]) -> None:
    if sum(sizes.values()) > MOST_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise FilesError(
            f"the descriptions and kernels have {bytes_text(sum(sizes.values()))}, and at most "
            f"{bytes_text(MOST_BYTES)} are read; the largest is {PurePath(largest).name}"
        )
