"""Requests to an ASGI application in this process, with a client that stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

JSON = {"content-type": "application/json"}


async def ask(
    app: Any, path: str, body: Any, headers: Mapping[str, str] = JSON, method: str = "POST"
) -> tuple[int, bytes]:
    """Return the status and the body of an answer; a body of None never comes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = [] if body is None else [{"type": "http.request", "body": data, "more_body": False}]
    status, found = 0, bytearray()
    done = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        found.extend(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await app(scope, receive, send)
    return status, bytes(found)
