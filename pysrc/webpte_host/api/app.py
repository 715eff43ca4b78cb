"""The application: OpenAI's endpoints over a client of `webpte.openai`, for an ASGI server."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from webpte.errors import InputError, WebpteError
from webpte.json_reader import parse_json
from webpte.openai import Client, EmbeddingModel, Model, RequestError
from webpte_host.serving.routing import host_name

MAX_BODY = 1 << 24  # bytes of a request, which may have pictures
_GONE = 499  # the status of requests whose client went away, which nobody sees but the metrics
T = TypeVar("T")
Handler = Callable[[dict[str, Any]], Awaitable[Any]]


class ApiApp:
    """Answers requests over HTTP.

    keys     what requests must have as a bearer token; without any, everybody is answered
    hosts    the only names of this server that are answered; all, if there are none. Otherwise a
             page of another site could reach a server on this machine by a name of its own.
    origins  the sites whose pages may use this server
    """

    def __init__(
        self,
        client: Client,
        keys: Sequence[str] = (),
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._keys = [key.encode() for key in keys]
        self._metrics = _Metrics()
        models = client.models
        self.asgi = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._tell_metrics),
                Route("/v1/models", self._get(lambda _: models.list())),
                Route("/v1/models/{name:path}", self._get(models.retrieve)),
                self._post("/v1/chat/completions", lambda b: client.chat.completions.create(**b)),
                self._post("/v1/completions", lambda b: client.completions.create(**b)),
                self._post("/v1/embeddings", lambda b: client.embeddings.create(**b)),
                self._post("/v1/rerank", lambda b: client.rerank(**b)),
            ],
            middleware=_middleware(hosts, origins),
            exception_handlers={404: _not_found, 405: _not_allowed},
        )

    async def _health(self, request: Request) -> Response:
        models = self._client.all_models
        waiting = {model.name: model.waiting for model in models}
        running = {model.name: model.running for model in models if isinstance(model, Model)}
        return JSONResponse({"status": "ok", "waiting": waiting, "running": running})

    async def _tell_metrics(self, request: Request) -> Response:
        text = self._metrics.text(self._client.all_models)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    def _get(self, find: Callable[[str], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
        async def answer(request: Request) -> Response:
            try:
                self._check_key(request)
                return JSONResponse(await find(request.path_params.get("name", "")))
            except RequestError as error:
                return _error(error)

        return answer

    def _post(self, path: str, handle: Handler) -> Route:
        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            try:
                self._check_key(request)
                found = await _unless_gone(request, handle(await _body(request)))
                if not isinstance(found, dict):
                    return await self._stream(request, path, found, started)
                self._metrics.note(path, 200, started, found.get("usage"))
                return JSONResponse(found)
            except ClientDisconnect:
                self._metrics.note(path, _GONE, started)
                return Response(status_code=_GONE)
            except Exception as error:
                told = _as_request_error(error)
                self._metrics.note(path, told.status, started)
                return _error(told)

        return Route(path, answer, methods=["POST"])

    async def _stream(
        self, request: Request, path: str, chunks: AsyncIterator[Any], started: float
    ) -> Response:
        """Send chunks as events. Errors before the first of them have a status of their own."""
        first = await _unless_gone(request, anext(chunks))
        self._metrics.note_first(path, started)

        async def events() -> AsyncIterator[str]:
            usage, status = None, 200
            try:
                yield _event(first)
                async for chunk in chunks:
                    usage = chunk.get("usage") or usage
                    yield _event(chunk)
                yield "data: [DONE]\n\n"
            except Exception as error:
                told = _as_request_error(error)
                status = told.status
                yield _event(told.body)
            finally:  # also when the other side has gone
                await chunks.aclose()  # type: ignore[attr-defined]
                self._metrics.note(path, status, started, usage)

        return StreamingResponse(events(), media_type="text/event-stream")

    def _check_key(self, request: Request) -> None:
        if not self._keys:
            return
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        given = key.strip().encode()
        # Every key is compared, so that the time says nothing about them.
        known = [hmac.compare_digest(given, one) for one in self._keys]
        if kind.lower() != "bearer" or not any(known):
            raise RequestError("the API key is missing or wrong", None, 401, "invalid_api_key")


class _Metrics:
    """Counts of requests and tokens, and times, for Prometheus."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        given: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter(
            "webpte_requests", "Requests that were answered", ["path", "status"], **given
        )
        self._tokens = Counter("webpte_tokens", "Tokens of requests", ["kind"], **given)
        self._under_way = Gauge(
            "webpte_under_way",
            "Requests that share the steps of a model now, and those that wait",
            ["model", "state"],
            **given,
        )
        self._seconds = Histogram(
            "webpte_request_seconds", "Time until a request was answered", ["path"], **given
        )
        self._first = Histogram(
            "webpte_first_chunk_seconds",
            "Time until the first chunk of a stream",
            ["path"],
            **given,
        )

    def text(self, models: Sequence[Model | EmbeddingModel]) -> bytes:
        for model in models:
            self._under_way.labels(model.name, "waiting").set(model.waiting)
            if isinstance(model, Model):
                self._under_way.labels(model.name, "running").set(model.running)
        return bytes(generate_latest(self._registry))

    def note_first(self, path: str, started: float) -> None:
        self._first.labels(path).observe(time.perf_counter() - started)

    def note(
        self, path: str, status: int, started: float, usage: dict[str, int] | None = None
    ) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(time.perf_counter() - started)
        for kind in ("prompt", "completion"):
            self._tokens.labels(kind).inc((usage or {}).get(f"{kind}_tokens", 0))


class _KnownHosts:
    """Answers only requests that address this server by one of its names."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else None
        app = self._app
        if host is not None and host_name(host) not in self._hosts:
            told = f"this server is not called {host!r}: address it as localhost"
            app = _error(RequestError(told, None, 400, "unknown_host"))
        await app(scope, receive, send)


def _middleware(hosts: Sequence[str], origins: Sequence[str]) -> list[Middleware]:
    found = list[Middleware]()
    if hosts:
        found.append(Middleware(_KnownHosts, hosts=hosts))
    if origins:
        allowed: dict[str, Any] = {"allow_origins": list(origins), "allow_methods": ["GET", "POST"]}
        found.append(Middleware(CORSMiddleware, **allowed, allow_headers=["*"]))
    return found


async def _unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Await work; when the client has gone, cancel it and raise ClientDisconnect."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:  # the model is free when this returns
        for one in (working, leaving):
            one.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Wait until the client has gone; its request was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise RequestError(f"a request has at most {MAX_BODY:,} bytes", None, 413)
    found = parse_json(bytes(data), "the request", RequestError)
    if not isinstance(found, dict):
        raise RequestError("a request is a JSON object")
    return found


def _as_request_error(error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    if isinstance(error, InputError):
        return RequestError(str(error))
    if isinstance(error, WebpteError):
        return RequestError(f"{type(error).__name__}: {error}", status=500)
    raise error


def _error(error: RequestError) -> Response:
    headers = {"Retry-After": "1"} if error.status == 429 else None
    return JSONResponse(error.body, error.status, headers)


def _event(table: Any) -> str:
    return f"data: {json.dumps(table, ensure_ascii=False)}\n\n"


async def _not_found(request: Request, error: Exception) -> Response:
    return _error(RequestError(f"there is no {request.url.path}", None, 404, "not_found"))


async def _not_allowed(request: Request, error: Exception) -> Response:
    told = f"{request.url.path} does not take {request.method}"
    return _error(RequestError(told, None, 405, "method_not_allowed"))
