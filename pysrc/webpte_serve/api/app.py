"""The application: OpenAI's endpoints over a `webpte_serve.openai.Client`, for an ASGI server."""

from __future__ import annotations

import hmac
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from webpte_serve.api.guards import RequestGuard, read_body
from webpte_serve.api.metrics import Metrics
from webpte_serve.api.replies import (
    GONE,
    EventStream,
    as_request_error,
    error_response,
    json_response,
)
from webpte_serve.api.watch import Watch
from webpte_serve.openai import Client, Model, RequestError

_OTHER = "other"  # metrics' path for unknown addresses
Handler = Callable[[dict[str, Any]], Awaitable[Any]]


class ApiApp:
    """Answers requests over HTTP.

    keys     accepted bearer tokens; empty answers every request
    hosts    the accepted names of this server; empty accepts all
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
        self._guard = RequestGuard(hosts, origins)
        self._metrics = Metrics()
        self._watch = Watch()
        models = client.models
        posts: dict[str, Handler] = {
            "/v1/chat/completions": lambda b: client.chat.completions.create(**b),
            "/v1/completions": lambda b: client.completions.create(**b),
            "/v1/embeddings": lambda b: client.embeddings.create(**b),
            "/v1/rerank": lambda b: client.rerank(**b),
        }
        self._paths = frozenset((*posts, "/health", "/metrics", "/v1/models"))
        self.asgi = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._tell_metrics),
                Route("/v1/models", self._get(lambda _: models.list())),
                Route("/v1/models/{name:path}", self._get(models.retrieve)),
                *(
                    Route(path, self._post(handle), methods=["POST"])
                    for path, handle in posts.items()
                ),
            ],
            middleware=self._middleware(origins),
            exception_handlers={
                404: self._not_found,
                405: self._not_allowed,
                Exception: self._failed,
            },
        )

    def stop(self) -> None:
        """End all answers, and send their clients an error."""
        self._watch.stop()

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
                return await json_response(await find(request.path_params.get("name", "")))
            except Exception as error:
                return self._refused(request.scope, error)

        return answer

    def _post(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            path, started = request.url.path, time.perf_counter()
            try:
                self._check_key(request)
                body = await read_body(request)
                found = await self._watch.run(request.receive, handle(body))
                if not isinstance(found, dict):
                    return await self._stream(request, found, started)
                response = await json_response(found)
                self._metrics.note(path, 200, started, found.get("usage"))
                return response
            except ClientDisconnect:
                self._metrics.note(path, GONE, started)
                return Response(status_code=GONE)
            except Exception as error:
                return self._refused(request.scope, error, started)

        return answer

    async def _stream(
        self, request: Request, chunks: AsyncGenerator[Any, None], started: float
    ) -> Response:
        """Return chunks as events. Errors before the first chunk get their own HTTP status."""
        path = request.url.path
        first = await self._watch.run(request.receive, anext(chunks))
        self._metrics.note_first(path, started)

        def done(status: int, usage: Any) -> None:
            self._metrics.note(path, status, started, usage)

        return EventStream(first, chunks, self._watch, done)

    def _refused(self, scope: Scope, error: Exception, started: float | None = None) -> Response:
        """Return the response to a request that fails, and count it."""
        told = as_request_error(error)
        path = scope["path"] if scope["path"] in self._paths else _OTHER
        self._metrics.note(path, told.status, time.perf_counter() if started is None else started)
        return error_response(told)

    async def _not_found(self, request: Request, error: Exception) -> Response:
        told = f"there is no {request.url.path}"
        return self._refused(request.scope, RequestError(told, None, 404, "not_found"))

    async def _not_allowed(self, request: Request, error: Exception) -> Response:
        told = f"{request.url.path} does not take {request.method}"
        return self._refused(request.scope, RequestError(told, None, 405, "method_not_allowed"))

    async def _failed(self, request: Request, error: Exception) -> Response:
        return self._refused(request.scope, error)

    def _check_key(self, request: Request) -> None:
        if not self._keys:
            return
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        given = key.strip().encode()
        # Every key is compared, so that the time reveals nothing.
        known = [hmac.compare_digest(given, one) for one in self._keys]
        if kind.lower() != "bearer" or not any(known):
            raise RequestError("the API key is missing or wrong", None, 401, "invalid_api_key")

    def _middleware(self, origins: Sequence[str]) -> list[Middleware]:
        """Return the middleware; pages of known sites can also read refusals."""
        guarded = Middleware(_HeaderCheck, check=self._guard.check, refused=self._refused)
        if not origins:
            return [guarded]
        allowed: dict[str, Any] = {"allow_origins": list(origins), "allow_methods": ["GET", "POST"]}
        return [Middleware(CORSMiddleware, **allowed, allow_headers=["*"]), guarded]


class _HeaderCheck:
    """Answers only requests that pass a check of their headers."""

    def __init__(
        self,
        app: ASGIApp,
        check: Callable[[str, Headers], None],
        refused: Callable[[Scope, Exception], Response],
    ) -> None:
        self._app, self._check, self._refused = app, check, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            try:
                self._check(scope["method"], Headers(scope=scope))
            except RequestError as error:
                app = self._refused(scope, error)
        await app(scope, receive, send)
