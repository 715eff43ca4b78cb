"""Answers of the Hub's interface, with their headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import js
from pyodide.ffi import JsException, to_js

from webpte.engine.browser.files import abortable
from webpte.errors import SourceError

SECONDS = 30  # for an answer
_HEADERS = ("link", "x-error-code")


async def get(address: str) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, headers and body of an answer; SourceError if there is no answer."""

    async def ask(signal: Any) -> tuple[int, Mapping[str, str], bytes]:
        # Without cookies: a page reads public repositories only.
        how = to_js({"credentials": "omit", "signal": signal}, dict_converter=js.Object.fromEntries)
        answer = await js.fetch(address, how)
        headers = {name: str(answer.headers.get(name) or "") for name in _HEADERS}
        return int(answer.status), headers, (await answer.arrayBuffer()).to_bytes()

    try:
        return await asyncio.wait_for(abortable(ask), SECONDS)
    except JsException as error:
        raise SourceError(f"{address}: {error.message}") from error
    except TimeoutError as error:
        raise SourceError(f"{address}: no answer in {SECONDS} seconds") from error
