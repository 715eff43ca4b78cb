"""Answers and errors in HTTP: JSON, and streams of events."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from webpte.engine.open.threads import in_thread
from webpte.errors import InputError, WebpteError
from webpte.llm.text.tokenizer import clean
from webpte_serve.api.watch import Watch
from webpte_serve.openai import RequestError

GONE = 499  # the status of requests whose client went away, visible only in metrics
_LOG = logging.getLogger(__name__)
_AT_ONCE = 16  # items that are written at once: Python's JSON lets no other thread run meanwhile
_TYPE = "application/json"


async def json_response(table: Mapping[str, Any]) -> Response:
    """Return a response with a table in JSON, which may be long."""
    return Response(await in_thread(lambda: _encoded("".join(_pieces(table)))), media_type=_TYPE)


def error_response(error: RequestError) -> Response:
    """Return an error in the API's form."""
    headers = {"Retry-After": "1"} if error.status == 429 else None
    return Response(_encoded(_written(error.body)), error.status, headers, _TYPE)


def as_request_error(error: Exception) -> RequestError:
    """Return the error for a client; unexpected errors are logged, too."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, InputError):
        return RequestError(str(error))
    if isinstance(error, WebpteError):
        _LOG.error("%s: %s", type(error).__name__, error)
        return RequestError(f"{type(error).__name__}: {error}", status=500)
    _LOG.error("a request was not answered", exc_info=error)
    return RequestError(f"the server failed ({type(error).__name__}): see its log", status=500)


class EventStream(StreamingResponse):
    """A response of chunks as events.

    done   called once, with the final status and the usage in the last chunk that has it
    """

    def __init__(
        self,
        first: Mapping[str, Any],
        chunks: AsyncGenerator[Mapping[str, Any], None],
        watch: Watch,
        done: Callable[[int, Any], None],
    ) -> None:
        super().__init__(iter(()), media_type="text/event-stream")
        self._first, self._chunks, self._watch, self._done = first, chunks, watch, done
        self._usage: Any = None
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = GONE  # unless its end was sent
        try:
            await self._watch.run(receive, self._sent(send))
            status = 200
        except ClientDisconnect:
            pass
        except Exception as error:
            told = as_request_error(error)
            status = told.status
            if self._has_begun:
                await send(_part(_event(told.body), False))
            else:
                await error_response(told)(scope, receive, send)
        finally:
            await self._chunks.aclose()
            self._done(status, self._usage)

    async def _sent(self, send: Send) -> None:
        self._has_begun = True
        headers = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **headers})
        await send(_part(_event(self._first)))
        async for chunk in self._chunks:
            self._usage = chunk.get("usage") or self._usage
            await send(_part(_event(chunk)))
        await send(_part(b"data: [DONE]\n\n", False))


def _part(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _event(table: Mapping[str, Any]) -> bytes:
    return b"data: " + _encoded(_written(table)) + b"\n\n"


def _encoded(text: str) -> bytes:
    """Return UTF-8, with U+FFFD for lone surrogates, which requests may have and UTF-8 lacks."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean(text).encode()


def _pieces(value: Any) -> Iterator[str]:
    """Write a value as JSON, piece by piece."""
    if isinstance(value, dict) and value:
        before = "{"
        for key, one in value.items():
            yield f"{before}{_written(key)}:"
            yield from _pieces(one)
            before = ","
        yield "}"
    elif isinstance(value, list) and len(value) > _AT_ONCE:
        before = "["
        for start in range(0, len(value), _AT_ONCE):
            yield before + _written(value[start : start + _AT_ONCE])[1:-1]
            before = ","
        yield "]"
    elif isinstance(value, list) and value:
        before = "["
        for one in value:
            yield before
            yield from _pieces(one)
            before = ","
        yield "]"
    else:
        yield _written(value)


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
