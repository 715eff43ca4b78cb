"""Checks of requests before they are read, and their bodies, in a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request

from webpte.engine.files.json_reader import parse_json
from webpte.engine.open.threads import in_thread
from webpte_serve.api.host_header import host_name
from webpte_serve.openai import RequestError

MAX_BODY = 1 << 24  # bytes of a request, which may have pictures
BODY_SECONDS = 15.0  # for a whole body, and again for each part of this size
_SLOWEST = 1 << 15
_JSON = "application/json"


class RequestGuard:
    """Refuses requests by their headers.

    hosts    the accepted names of this server; empty accepts all. Otherwise a page of another site
             could reach a server on this machine by another name.
    origins  the sites whose pages may use this server; "*" is all. A browser sends the posts of
             another site's page, even if that page cannot read the answer.
    """

    def __init__(self, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts, self._origins = frozenset(hosts), frozenset(origins)

    def check(self, method: str, headers: Headers) -> None:
        """Raise RequestError for a refused request."""
        host = headers.get("host", "")
        if self._hosts and host_name(host) not in self._hosts:
            told = f"this server is not called {host!r}: address it as localhost"
            raise RequestError(told, None, 400, "unknown_host")
        if method != "POST":
            return
        origin = headers.get("origin")
        if origin is not None and not self._origins & {origin, "*"}:
            told = f"pages of {origin} may not use this server: start it with --origin {origin}"
            raise RequestError(told, None, 403, "unknown_origin")
        kind = headers.get("content-type", "").partition(";")[0].strip()
        if kind.lower() != _JSON:
            told = f"the Content-Type of a request is {_JSON}, not {kind or 'missing'}"
            raise RequestError(told, None, 415, "unsupported_media_type")


async def read_body(request: Request) -> dict[str, Any]:
    """Return the table in a request's body."""
    data = await _received(request)
    found = await in_thread(parse_json, data, "the request", RequestError)
    if not isinstance(found, dict):
        raise RequestError("a request is a JSON object")
    return found


async def _received(request: Request) -> bytes:
    data, ends = bytearray(), asyncio.get_running_loop().time() + BODY_SECONDS
    try:
        async with asyncio.timeout_at(ends) as limit:
            async for part in request.stream():
                data += part
                if len(data) > MAX_BODY:
                    raise RequestError(f"a request has at most {MAX_BODY:,} bytes", None, 413)
                limit.reschedule(ends + len(data) / _SLOWEST)
    except TimeoutError as error:
        raise RequestError("the request did not come in time", None, 408) from error
    return bytes(data)
