"""The page without a browser: an App, a browser that remembers, an engine that can be held up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import webpte
from page.app import App
from page.browser import Progress, Source
from page.npy import read_npy
from webpte import DeviceInfo

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "web" / "samples"
STATE = ROOT / "tests" / "data" / "state"
GPU = DeviceInfo("webgpu", "google", "swiftshader", features=("timestamp-query",))


class File:
    """Stands for a File of the browser; reading it waits for its gate, if it has one."""

    def __init__(self, name: str, data: bytes, gate: asyncio.Event | None = None) -> None:
        self.name = name
        self.data = data
        self.gate = gate


class FakeBrowser:
    def __init__(self, adapter: DeviceInfo | str = "missing") -> None:
        self.html: dict[str, str] = {}
        self.text: dict[str, str] = {}
        self.hidden: dict[str, bool] = {}
        self.appended: list[tuple[str, str]] = []  # where, and what, in the order it came
        self.other: dict[str, Any] = {}
        self.links: list[bytes] = []
        self.asked: asyncio.Event | None = None  # the adapter is told once this is set
        self._adapter = adapter

    def show(self, **changes: Any) -> None:
        self.html.update(changes.pop("html", {}))
        self.appended += changes.pop("append", {}).items()
        self.text.update(changes.pop("text", {}))
        self.hidden.update(changes.pop("hidden", {}))
        self.other.update(changes)

    async def adapter(self) -> DeviceInfo | str:
        if self.asked is not None:
            await self.asked.wait()
        return self._adapter

    def source(self, file: File) -> Source:
        return Source(file.name, len(file.data), file.data)

    async def fetch(self, url: str, progress: Progress) -> Source:
        path = SAMPLES.parent / url
        if not path.is_file():
            raise webpte.errors.SourceError(f"{url}: the server answered 404 Not Found")
        progress("fetch", 1, 1)
        return Source(path.name, path.stat().st_size, path)

    async def fetch_bytes(self, url: str) -> bytes:
        path = SAMPLES.parent / url
        if not path.is_file():
            raise webpte.errors.SourceError(f"{url}: the server answered 404 Not Found")
        return path.read_bytes()

    async def decode(self, data: bytes, largest: int) -> Any:
        """Instead of a picture: a .npy of its pixels."""
        return read_npy(data)

    async def read(self, file: File) -> bytes:
        if file.gate is not None:
            await file.gate.wait()
        return file.data

    def download_url(self, data: bytes) -> str:
        self.links.append(data)
        return f"blob:{len(self.links)}"


class Engine:
    """webpte on NumPy, with a load that can be made to fail, to wait, or to be watched."""

    def __init__(self) -> None:
        self.programs: list[Any] = []
        self.closed: list[Any] = []
        self.data: list[Any] = []
        self.executions: list[int] = []  # of what was closed
        self.devices: list[str] = []  # that programs were asked for
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def inspect(self, source: Any, **options: Any) -> Any:
        self.data = list(options["data"])
        return await webpte.inspect(source, **options)

    async def load(self, source: Any, **options: Any) -> Any:
        self.devices.append(options["device"])
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        program = await webpte.load(source, **{**options, "device": "numpy"})
        self.programs.append(program)
        close = program.close

        def closing() -> None:
            self.closed.append(program)
            self.executions.append(program.stats.executions)
            close()

        program.close = closing  # type: ignore[method-assign]
        return program


Script = Callable[[App, FakeBrowser], Awaitable[None]]


def drive(
    script: Script, adapter: DeviceInfo | str = "missing", engine: Any = webpte
) -> FakeBrowser:
    async def all_of_it() -> FakeBrowser:
        browser = FakeBrowser(adapter)
        app = App(browser, engine)
        await app.receive({"act": "hello"})
        await script(app, browser)
        return browser

    return asyncio.run(all_of_it())


async def open_sample(app: App, name: str = "sigmoid.pte") -> None:
    await app.receive({"act": "open-url", "fields": {"url": f"samples/{name}"}})


async def open_file(app: App, path: Path) -> None:
    await app.receive({"act": "open-file", "files": [File(path.name, path.read_bytes())]})


async def drop(app: App, *files: File) -> None:
    await app.receive({"act": "open-file", "files": list(files)})


async def run(app: App, repeats: object = 2) -> None:
    await app.receive({"act": "run", "fields": {"repeats": repeats}})
