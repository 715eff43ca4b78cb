"""The page without a browser: an App, a fake browser that records, and an engine that can be
delayed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from page.app import App
from page.browser import OpenProgram, Progress, Source
from page.core.engine import PageEngine
from page.core.typed_address import origin_of
from page.shared.npy import read_npy, write_npy
from page.shared.outputs.pictures import data_url, png_rgb
from support.harness.virtual_time import run_virtually
from support.page.fake_photo import FakePhoto, pixels_of_png
from webpte import DeviceInfo
from webpte.engine.open.library import Entry, Usage
from webpte.llm.open_program import open_program

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "web" / "samples"
STATE = ROOT / "tests" / "data" / "state"
GPU = DeviceInfo("webgpu", "google", "swiftshader", features=("timestamp-query",))


class File:
    """Stands for a File of the browser; reading it waits for its gate, if it has one."""

    def __init__(self, name: str, data: bytes, gate: asyncio.Event | None = None) -> None:
        self.name = name
        self.data = data
        self.gate = gate


class FakeLibrary:
    """Files in memory; `full`: there is no room for another one."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[Entry, Any]] = {}
        self.full = False
        self.quota = 10 << 30
        self.persistent = False
        self._clock = 0.0

    def put(self, address: str, name: str, data: Any, size: int, parts: Sequence[str] = ()) -> None:
        self._clock += 1
        times = self._clock, self._clock
        self.files[address] = Entry(address, name, size, "", "", *times, tuple(parts)), data

    async def entries(self) -> list[Entry]:
        return sorted((entry for entry, _ in self.files.values()), key=lambda entry: -entry.used)

    async def usage(self) -> Usage:
        used = sum(entry.size for entry, _ in self.files.values())
        return Usage(used, self.quota, self.persistent)

    async def add(
        self,
        file: Any,
        name: str,
        *,
        parts: Sequence[str] = (),
        progress: Progress | None = None,
        replace: bool = True,
    ) -> str:
        if not replace and f"local:{name}" in self.files:
            raise webpte.errors.SourceError(f"{name} is in the library already: try again")
        if self.full:
            raise webpte.errors.SourceError(f"{name} is not kept: there is no room left for it")
        data = file.data if isinstance(file, File) else file
        if progress is not None:
            progress("keep", len(data), len(data))
        self.put(f"local:{name}", name, data, len(data), parts)
        return f"local:{name}"

    async def delete(self, address: str) -> None:
        self.files.pop(address, None)

    async def persist(self) -> bool:
        return self.persistent


class FakeKept:
    """Stands for a file that the library opened."""

    def __init__(self, library: FakeLibrary, source: Source, came: str) -> None:
        self._library = library
        self.name, self.size, self.data = source.name, source.size, source.data
        self.address, self.came, self.kept = source.address, came, bool(came)
        entry, _ = library.files.get(source.address, (None, None))
        self.parts = entry.parts if entry is not None and came else ()
        self.left = self.stopped = False
        self.may_keep = True

    async def read(self, offset: int, length: int) -> bytes:
        data: bytes = self.data if isinstance(self.data, bytes) else self.data.read_bytes()
        return data[offset : offset + length]

    async def keep(self, progress: Progress | None = None) -> bool:
        if not self.may_keep:
            return False
        if self._library.full:
            raise webpte.errors.SourceError(f"{self.name} could not be kept: no room is left")
        self._library.put(self.address, self.name, self.data, self.size)
        self.kept = True
        return True

    async def check_digest(self, sha256: str, progress: Progress | None = None) -> None:
        found = hashlib.sha256(self.data.read_bytes()).hexdigest()
        if found != sha256:
            raise webpte.errors.DigestError(self.name, sha256, found)

    def stop(self) -> None:
        self.stopped = True

    def leave(self) -> None:
        self.left = True


class FakeBrowser:
    def __init__(self, adapter: DeviceInfo | str = "missing") -> None:
        self.library = FakeLibrary()
        self.unkept: set[str] = set()
        self.elsewhere: dict[str, Path] = {}  # files of other sites, by address
        self.offline = False
        self.opened: list[FakeKept] = []
        self.html: dict[str, str] = {}
        self.text: dict[str, str] = {}
        self.hidden: dict[str, bool] = {}
        self.appended: list[tuple[str, str]] = []  # where, and what, in the order it came
        self.other: dict[str, Any] = {}
        self.frames: list[set[str]] = []  # the sections of which new markup came at once
        self._together = False
        self.interrupts = False  # whether code may be interrupted now
        self.links: list[bytes] = []
        self.asked: asyncio.Event | None = None  # the adapter is told once this is set
        self._adapter = adapter
        self.held_program: OpenProgram | None = None  # the program open in this tab
        self.other_tabs: list[OpenProgram] = []

    def show(self, **changes: Any) -> None:
        html = changes.pop("html", {})
        self.html.update(html)
        if not self._together:
            self.frames.append(set())
        self.frames[-1].update(html)
        self.appended += changes.pop("append", {}).items()
        self.text.update(changes.pop("text", {}))
        self.hidden.update(changes.pop("hidden", {}))
        self.other.update(changes)

    @contextmanager
    def together(self) -> Iterator[None]:
        if self._together:
            yield
            return
        self.frames.append(set())
        self._together = True
        try:
            yield
        finally:
            self._together = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        self.interrupts = True
        try:
            yield
        finally:
            self.interrupts = False

    async def adapter(self) -> DeviceInfo | str:
        if self.asked is not None:
            await self.asked.wait()
        return self._adapter

    def source(self, file: File) -> Source:
        return Source(file.name, len(file.data), file.data)

    def absolute(self, url: str) -> str:
        return url if ":" in url else f"http://site/{url}"

    async def fetch(
        self, url: str, progress: Progress, download: Any = None, sha256: str = ""
    ) -> Source:
        address = self.absolute(url)
        if address in self.library.files and (self.offline or address.startswith("local:")):
            entry, data = self.library.files[address]
            found = Source(entry.name, entry.size, data, address=address)
            self.opened.append(FakeKept(self.library, found, "from the library"))
            return replace(found, file=self.opened[-1])
        path = self.elsewhere.get(url, SAMPLES.parent / url)
        if not path.is_file():
            raise webpte.errors.SourceError(f"{url}: the server answered 404 Not Found")
        if self.offline:
            raise webpte.errors.SourceError(f"{url}: Failed to fetch")
        progress("fetch", 1, 1)
        found = Source(path.name, path.stat().st_size, path, address=address)
        self.opened.append(FakeKept(self.library, found, ""))
        self.opened[-1].may_keep = origin_of(address) not in self.unkept
        return replace(found, file=self.opened[-1])

    async def fetch_bytes(self, url: str) -> bytes:
        path = self.elsewhere.get(url, SAMPLES.parent / url)
        if not path.is_file():
            raise webpte.errors.SourceError(f"{url}: the server answered 404 Not Found")
        return path.read_bytes()

    async def decode(self, file: File | bytes, largest: int) -> FakePhoto:
        """Decode a .npy of pixels instead of a picture, or a PNG as `png` makes them."""
        data = file if isinstance(file, bytes) else await self.read(file)
        return FakePhoto(pixels_of_png(data) if data.startswith(b"\x89PNG") else read_npy(data))

    def picture_url(self, pixels: Any) -> str:
        return data_url(png_rgb(pixels))

    async def png(self, pixels: Any) -> bytes:
        return png_rgb(pixels)

    async def jpeg(self, pixels: Any) -> bytes:
        """Encode as a .npy instead, which `decode` takes."""
        return write_npy(pixels)

    def frame(self, bitmap: Any) -> FakePhoto:
        return FakePhoto(bitmap)

    def photo(self, pixels: Any) -> FakePhoto:
        return FakePhoto(pixels)

    async def hear(self, file: File, rate: int, longest: int) -> Any:
        """Decode a .npy of one second instead of a sound, resampled by repeating or dropping
        samples."""
        try:
            samples = read_npy(await self.read(file))
        except ValueError as error:
            raise ValueError(f"{file.name}: the browser cannot read this sound") from error
        return samples[(np.arange(rate) * len(samples)) // rate]

    def file_of(self, data: bytes | Sequence[bytes], name: str) -> File:
        return File(name, data if isinstance(data, bytes) else b"".join(data))

    async def read(self, file: File) -> bytes:
        if file.gate is not None:
            await file.gate.wait()
        return file.data

    async def hold(self, program: OpenProgram | None) -> None:
        self.held_program = program

    async def open_elsewhere(self) -> list[OpenProgram]:
        return self.other_tabs

    def download_url(self, data: bytes) -> str:
        self.links.append(data)
        return f"blob:{len(self.links)}"


class Engine:
    """webpte on NumPy, with a load that can be made to fail, to wait, or to be watched."""

    def __init__(self) -> None:
        self.programs: list[Any] = []
        self.closed: list[Any] = []
        self.data: list[Any] = []
        self.executions: list[int] = []  # of closed programs
        self.devices: list[str] = []  # that programs were asked for
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.early = 0  # how often the GPU was asked for before a load

    async def inspect(self, source: Any, **options: Any) -> Any:
        self.data = list(options["data"])
        return await webpte.inspect(source, **options)

    async def forecast(self, source: Any, **options: Any) -> Any:
        return await webpte.llm.forecast(source, **options)

    async def shared_device(self) -> None:
        self.early += not self.devices
        if self.failure is not None:
            raise self.failure

    async def load(self, source: Any, **options: Any) -> Any:
        self.devices.append(options["device"])
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        program = await open_program(source, **{**options, "device": "numpy"})
        self.programs.append(program)
        close = program.close

        def closing() -> None:
            self.closed.append(program)
            self.executions.append(program.stats.executions)
            close()

        program.close = closing  # type: ignore[method-assign]
        return program


Script = Callable[[App, FakeBrowser], Awaitable[None]]


def drive(script: Script, adapter: DeviceInfo | str = "missing", engine: Any = None) -> FakeBrowser:
    async def all_of_it() -> FakeBrowser:
        browser = FakeBrowser(adapter)
        app = App(browser, engine or PageEngine())
        await app.receive({"act": "hello"})
        await script(app, browser)
        return browser

    return run_virtually(all_of_it())


async def open_sample(app: App, name: str = "sigmoid.pte") -> None:
    await app.receive({"act": "open-url", "fields": {"url": f"samples/{name}"}})


async def open_file(app: App, path: Path) -> None:
    await app.receive({"act": "open-file", "files": [File(path.name, path.read_bytes())]})


async def drop(app: App, *files: File) -> None:
    await app.receive({"act": "open-file", "files": list(files)})


async def run(app: App) -> None:
    await app.receive({"act": "run"})


async def benchmark(app: App, repeats: object = 3) -> None:
    await app.receive({"act": "benchmark", "fields": {"repeats": repeats}})
