"""Starts the page: PyScript runs this in a worker.

Everything that needs the browser is here; `page.app` decides what happens. The main thread's share
is `events.js`: it sends what people do as messages and shows what comes back.
"""

from __future__ import annotations

import asyncio
from typing import Any

import js
from polyscript import xworker  # PyScript calls xworker.onmessage, so the name must stay global
from pyodide.ffi import JsException, JsProxy, create_proxy, to_js

import webpte
from page.app import App
from page.browser import Progress, Source
from webpte.errors import NoWebGPUError, SourceError
from webpte.gpu.webgpu import find_adapter
from webpte.runtime.open import open_source

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
            return (await find_adapter())[2]
        except (NoWebGPUError, JsException):
            return "no adapter"

    def source(self, file: JsProxy) -> Source:
        return Source(file.name, int(file.size), file)

    async def fetch(self, url: str, progress: Progress) -> Source:
        try:
            address = js.URL.new(url, self.base).href
        except JsException as error:
            raise SourceError(f"{url} is not an address") from error
        opened: Any = await open_source(address, progress=progress)
        return Source(opened.name, opened.size, opened.blob)

    async def read(self, file: JsProxy) -> bytes:
        return bytes((await file.arrayBuffer()).to_bytes())

    def download_url(self, data: bytes) -> str:
        url: str = js.URL.createObjectURL(js.Blob.new([to_js(data)]))
        asyncio.get_event_loop().call_later(_LINK_SECONDS, js.URL.revokeObjectURL, url)
        return url


browser = WorkerBrowser()
app = App(browser, webpte)


def receive(event: JsProxy) -> None:
    message = event.data.to_py()
    if message.get("act") == "hello":
        browser.base = message["base"]
    app.receive(message)


xworker.onmessage = create_proxy(receive)
browser.show(state="up")
