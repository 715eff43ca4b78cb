"""Starts the page: PyScript runs this in a worker.

Everything that needs the browser is here; `page.app` decides what happens. The main thread's share
is `events.js`: it sends what people do as messages and shows what comes back.
"""

from __future__ import annotations

import asyncio

import js
import numpy as np
from polyscript import xworker  # PyScript calls xworker.onmessage, so the name must stay global
from pyodide.ffi import JsException, JsProxy, create_proxy, to_js

import webpte
from page.app import App
from page.browser import Progress, Source
from page.npy import Array
from webpte.errors import NoWebGPUError, SourceError
from webpte.gpu.webgpu import find_adapter

_PARTIAL = 206
_LINK_SECONDS = 60  # how long a download link stays good


class WorkerBrowser:
    """The browser as seen from PyScript's worker."""

    base = ""  # the page's address: a worker has none that a relative URL could start from

    def show(self, **changes: object) -> None:
        xworker.postMessage(to_js(changes, dict_converter=js.Object.fromEntries))

    async def adapter(self) -> webpte.DeviceInfo | str:
        if not getattr(js.navigator, "gpu", None):
            return "missing"
        try:
            return (await find_adapter())[1]
        except (NoWebGPUError, JsException):
            return "no adapter"

    def source(self, file: JsProxy) -> Source:
        return Source(file.name, int(file.size), file)

    async def fetch(self, url: str, progress: Progress) -> Source:
        """webpte reads an address in parts if its server can; else the file is fetched whole."""
        try:
            address: str = js.URL.new(url, self.base).href
            asked = to_js({"Range": "bytes=0-0"}, dict_converter=js.Object.fromEntries)
            response = await js.fetch(address, headers=asked)
            _, _, size = (response.headers.get("Content-Range") or "").rpartition("/")
            if response.status == _PARTIAL and not size.isdigit():
                response = await js.fetch(address)  # another origin need not show that header
        except JsException as error:
            raise SourceError(
                f"{url}: {error.message}; is the address right, and does its server allow this "
                "page to read it (CORS)?"
            ) from error
        name = address.partition("?")[0].rpartition("/")[2] or address
        if response.status == _PARTIAL:
            return Source(name, int(size), address)
        if not response.ok:
            raise SourceError(f"{url}: the server answered {response.status} {response.statusText}")
        blob = await _collect(response, progress)
        return Source(name, int(blob.size), blob)

    async def fetch_bytes(self, url: str) -> bytes:
        try:
            response = await js.fetch(js.URL.new(url, self.base).href)
        except JsException as error:
            raise SourceError(f"{url}: {error.message}") from error
        if not response.ok:
            raise SourceError(f"{url}: the server answered {response.status} {response.statusText}")
        return bytes((await response.arrayBuffer()).to_bytes())

    async def read(self, file: JsProxy) -> bytes:
        return bytes((await file.arrayBuffer()).to_bytes())

    async def decode(self, data: bytes, largest: int) -> Array:
        try:
            bitmap = await js.createImageBitmap(js.Blob.new([to_js(data)]))
        except JsException as error:
            raise ValueError(f"the browser cannot read this picture: {error.message}") from error
        scale = min(1.0, largest / max(bitmap.width, bitmap.height))
        width, height = (max(1, round(side * scale)) for side in (bitmap.width, bitmap.height))
        canvas = js.OffscreenCanvas.new(width, height)
        context = canvas.getContext("2d")
        context.fillStyle = "white"  # behind what is transparent
        context.fillRect(0, 0, width, height)
        context.imageSmoothingQuality = "high"
        context.drawImage(bitmap, 0, 0, width, height)
        pixels = context.getImageData(0, 0, width, height).data.to_bytes()
        return np.frombuffer(pixels, np.uint8).reshape(height, width, 4)[:, :, :3]

    def download_url(self, data: bytes) -> str:
        url: str = js.URL.createObjectURL(js.Blob.new([to_js(data)]))
        asyncio.get_event_loop().call_later(_LINK_SECONDS, js.URL.revokeObjectURL, url)
        return url


async def _collect(response: JsProxy, progress: Progress) -> JsProxy:
    """A download as a Blob: its bytes never enter Python's memory."""
    total = int(response.headers.get("Content-Length") or 0)
    parts, done = js.Array.new(), 0
    reader = response.body.getReader()
    while not (step := await reader.read()).done:
        parts.push(step.value)
        done += step.value.byteLength
        progress("fetch", done, max(total, done))
    return js.Blob.new(parts)


browser = WorkerBrowser()
app = App(browser, webpte)


def receive(event: JsProxy) -> None:
    message = event.data.to_py()
    if message.get("act") == "hello":
        browser.base = message["base"]
    app.receive(message)


xworker.onmessage = create_proxy(receive)
browser.show(state="up")
