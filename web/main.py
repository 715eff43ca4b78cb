"""Start the page: `scripts/start/worker.js` runs this file in a worker, after `boot.imports`.

Everything that needs the browser is here; `page.app` decides what happens. On the main thread,
`events.js` sends user actions as messages and applies the changes that come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any

import js
import numpy as np
import pyodide_js
from pyodide.ffi import JsException, JsProxy, create_proxy, to_js

import webpte
from boot.imports import compiled
from page.app import App
from page.browser import OpenProgram, Progress, Source
from page.core import open_tabs
from page.core.engine import PageEngine
from page.core.typed_address import origin_of
from page.shared.inputs.photos import PhotoPart
from page.shared.npy import Array
from page.shared.outputs.pictures import bmp
from webpte.engine.browser.scripts import load_script
from webpte.engine.gpu.webgpu.device import find_adapter
from webpte.engine.open.library import LOCAL, LibraryFile
from webpte.errors import NoWebGPUError, SourceError

_LINK_SECONDS = 60  # how long a download link is valid
_PICTURES = 32  # that have an address at a time


class BitmapPhoto:
    """A picture whose pixels the browser holds, in an ImageBitmap or a canvas."""

    def __init__(self, bitmap: JsProxy) -> None:
        self._bitmap = bitmap
        self.height, self.width = int(bitmap.height), int(bitmap.width)

    def part(self, box: PhotoPart, height: int, width: int) -> Array:
        canvas = js.OffscreenCanvas.new(width, height)
        context = canvas.getContext("2d", willReadFrequently=True)  # in memory, not on the GPU
        context.fillStyle = "white"  # below transparent pixels
        context.fillRect(0, 0, width, height)
        context.imageSmoothingQuality = "high"
        place = (box.left, box.top, box.columns, box.rows)
        context.drawImage(self._bitmap, *place, 0, 0, width, height)
        pixels = context.getImageData(0, 0, width, height).data.to_bytes()
        return np.frombuffer(pixels, np.uint8).reshape(height, width, 4)[:, :, :3]

    def close(self) -> None:
        if hasattr(self._bitmap, "close"):  # a canvas has nothing to close
            self._bitmap.close()


class WorkerBrowser:
    """The browser as seen from Python's worker."""

    base = ""  # the page's address: relative URLs cannot start from a worker's address
    library = webpte.library
    signals: Any = None  # memory shared with the page, through which it interrupts code

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[None]] = set()
        self._together: list[dict[str, object]] | None = None
        self._pictures: deque[str] = deque()  # addresses, the oldest first
        self.unkept: set[str] = set()
        self._asked = 0
        self._release: Any = None  # gives the lock of the open program back
        self._tab = token_hex(8)  # a name for this tab
        self._heard: dict[int, asyncio.Future[Mapping[str, Any]]] = {}

    def absolute(self, url: str) -> str:
        try:
            return url if url.startswith(LOCAL) else str(js.URL.new(url, self.base).href)
        except JsException as error:
            raise SourceError(f"{url} is not an address: {error.message}") from error

    def show(self, **changes: object) -> None:
        if self._together is None:
            self._post([changes])
        else:
            self._together.append(changes)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        if self._together is not None:
            yield
            return
        self._together = []
        try:
            yield
        finally:
            changes, self._together = self._together, None
            self._post(changes)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        if self.signals is None:
            yield
            return
        self.signals[0] = 0
        pyodide_js.setInterruptBuffer(self.signals)
        try:
            yield
        finally:
            pyodide_js.setInterruptBuffer()

    def _post(self, changes: list[dict[str, object]]) -> None:
        js.postMessage(to_js(changes, dict_converter=js.Object.fromEntries))

    async def adapter(self) -> webpte.DeviceInfo | str:
        if not getattr(js.navigator, "gpu", None):
            return "missing"
        try:
            return (await find_adapter())[1]
        except (NoWebGPUError, JsException):
            return "no adapter"

    def source(self, file: JsProxy) -> Source:
        return Source(file.name, int(file.size), file)

    async def fetch(
        self,
        url: str,
        progress: Progress,
        download: webpte.Download | None = None,
        sha256: str = "",
    ) -> Source:
        file = await self._open(url, progress, download, sha256)
        return Source(file.name, file.size, file, file=file)

    async def fetch_bytes(self, url: str) -> bytes:
        file = await self._open(url)
        data = await file.read(0, file.size)
        keeping = asyncio.ensure_future(_keep(file))
        self._tasks.add(keeping)
        keeping.add_done_callback(self._tasks.discard)
        return data

    async def _open(
        self,
        url: str,
        progress: Progress | None = None,
        download: webpte.Download | None = None,
        sha256: str = "",
    ) -> LibraryFile:
        address = self.absolute(url)
        return await webpte.library.open(
            address,
            progress=progress,
            download=download,
            sha256=sha256,
            keep=origin_of(address) not in self.unkept,
        )

    async def read(self, file: JsProxy) -> bytes:
        return bytes((await file.arrayBuffer()).to_bytes())

    def file_of(self, data: bytes | Sequence[bytes], name: str) -> JsProxy:
        parts = [data] if isinstance(data, bytes) else data
        return js.File.new(to_js([to_js(part) for part in parts]), name)

    async def decode(self, file: JsProxy | bytes, largest: int) -> BitmapPhoto:
        blob = js.Blob.new([to_js(file)]) if isinstance(file, bytes) else file
        try:
            bitmap = await js.createImageBitmap(blob)
        except JsException as error:
            name = "" if isinstance(file, bytes) else f"{getattr(file, 'name', 'picture')}: "
            raise ValueError(
                f"{name}the browser cannot read this picture: {error.message}"
            ) from error
        scale = largest / max(bitmap.width, bitmap.height)
        if scale < 1:
            width, height = (max(1, round(side * scale)) for side in (bitmap.width, bitmap.height))
            bitmap = await js.createImageBitmap(
                bitmap, resizeWidth=width, resizeHeight=height, resizeQuality="high"
            )
        return BitmapPhoto(bitmap)

    def frame(self, bitmap: JsProxy) -> BitmapPhoto:
        return BitmapPhoto(bitmap)

    def photo(self, pixels: Array) -> BitmapPhoto:
        return BitmapPhoto(_canvas(pixels))

    async def png(self, pixels: Array) -> bytes:
        return await _encoded(pixels, "image/png")

    async def jpeg(self, pixels: Array) -> bytes:
        return await _encoded(pixels, "image/jpeg")

    def picture_url(self, pixels: Array) -> str:
        url: str = js.URL.createObjectURL(js.Blob.new([to_js(bmp(pixels))], type="image/bmp"))
        self._pictures.append(url)
        if len(self._pictures) > _PICTURES:
            js.URL.revokeObjectURL(self._pictures.popleft())
        return url

    async def hear(self, file: JsProxy, rate: int, longest: int) -> Array:
        """Ask the main thread to decode a sound, which a worker cannot, and await it."""
        self._asked += 1
        number, self._heard[self._asked] = self._asked, asyncio.get_event_loop().create_future()
        try:
            self.show(hear={"number": number, "file": file, "rate": rate, "longest": longest})
            answer = await self._heard[number]
        finally:
            del self._heard[number]
        if "problem" in answer:
            raise ValueError(f"{file.name}: {answer['problem']}")
        return np.frombuffer(bytes(answer["samples"]), np.float32)

    def take_heard(self, message: Mapping[str, Any]) -> None:
        """Hand the main thread's answer to the `hear` that waits for it."""
        waiting = self._heard.get(int(message["number"]))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def hold(self, program: OpenProgram | None) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()
        if program is not None:
            name = open_tabs.lock_name(program, self._tab)
            self._release = await load_script("browser/web_locks.js").acquire(name)

    async def open_elsewhere(self) -> list[OpenProgram]:
        names = json.loads(await load_script("browser/web_locks.js").held())
        return open_tabs.open_elsewhere(names, self._tab)

    def download_url(self, data: bytes) -> str:
        url: str = js.URL.createObjectURL(js.Blob.new([to_js(data)]))
        asyncio.get_event_loop().call_later(_LINK_SECONDS, js.URL.revokeObjectURL, url)
        return url


def _canvas(pixels: Array) -> Any:
    """Return a canvas with these pixels, (height, width, 3) uint8."""
    height, width = pixels.shape[:2]
    coloured = np.full((height, width, 4), 255, np.uint8)
    coloured[:, :, :3] = pixels
    data = js.Uint8ClampedArray.new(to_js(coloured.tobytes()))
    canvas = js.OffscreenCanvas.new(width, height)
    canvas.getContext("2d").putImageData(js.ImageData.new(data, width, height), 0, 0)
    return canvas


async def _encoded(pixels: Array, kind: str) -> bytes:
    blob = await _canvas(pixels).convertToBlob(type=kind)
    return bytes((await blob.arrayBuffer()).to_bytes())


async def _keep(file: LibraryFile) -> None:
    with contextlib.suppress(SourceError):  # no room, for example: the file was read anyway
        await file.keep()


browser = WorkerBrowser()
app = App(browser, PageEngine())


def receive(event: JsProxy) -> None:
    if event.data.act == "python:signals":
        browser.signals = event.data.signals
        return
    message = event.data.to_py()
    if message.get("act") == "hello":
        browser.base = message["base"]
        if message.get("hub"):  # another server than huggingface.co
            os.environ["HF_ENDPOINT"] = str(message["hub"])
    if message.get("act") == "heard":
        browser.take_heard(message)
    else:
        app.receive(message)


js.onmessage = create_proxy(receive)
browser.show(state="up")
compiled.keep_later()
