"""The client: it passes requests to models, and writes answers in the form of OpenAI's API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from webpte.engine.open.threads import in_thread
from webpte_serve.openai.answers import ChatAnswer, CompletionAnswer, usage_of
from webpte_serve.openai.messages import SeenPicture
from webpte_serve.openai.models import EmbeddingModel, Model
from webpte_serve.openai.requests import (
    ChatRequest,
    CompletionRequest,
    chat_request,
    completion_request,
    embedding_request,
    rerank_request,
)
from webpte_serve.openai.values import RequestError

Json = dict[str, Any]
Request = TypeVar("Request", bound=ChatRequest | CompletionRequest)


class Client:
    """Answers requests with models, with the methods of the `openai` package's client.

    chat.completions.create(...), completions.create(...), embeddings.create(...), rerank(...),
    tokenize(...), picture(model, picture), models.list(), models.retrieve(name)
    """

    def __init__(self, models: Sequence[Model | EmbeddingModel]) -> None:
        self._models = {model.name: model for model in models}
        if len(self._models) < len(models):
            raise RequestError("two models have the same name")
        self.completions = _Completions(self, completion_request, CompletionAnswer.create)
        self.chat = _ChatEndpoints(self)
        self.embeddings = _Embeddings(self)
        self.models = _Models(self)

    @property
    def all_models(self) -> list[Model | EmbeddingModel]:
        """The models, in the given order."""
        return list(self._models.values())

    def language_model(self, name: str) -> Model:
        """Return a language model by name."""
        model = self._model(name)
        if not isinstance(model, Model):
            raise RequestError(f"{name} embeds texts, and answers none", "model")
        return model

    def embedding_model(self, name: str) -> EmbeddingModel:
        """Return a sentence encoder by name."""
        model = self._model(name)
        if not isinstance(model, EmbeddingModel):
            raise RequestError(f"{name} answers texts, and embeds none", "model")
        return model

    def _model(self, name: str) -> Model | EmbeddingModel:
        if name not in self._models:
            known = ", ".join(self._models) or "none"
            raise RequestError(
                f"there is no model {name!r}; there are: {known}", "model", 404, "model_not_found"
            )
        return self._models[name]

    async def tokenize(self, /, add_generation_prompt: bool = True, **body: Any) -> Json:
        """Count the tokens of a request for chat completions, as vLLM does; none is too long.

        add_generation_prompt   whether to count the beginning of the answer, too
        """
        request = await in_thread(chat_request, body)
        model = self.language_model(request.model)
        count = await model.count_tokens(request, add_generation_prompt)
        return {"count": count, "max_model_len": model.max_context}

    async def picture(self, model: str, picture: Any) -> SeenPicture:
        """Read a picture once, to be the `url` of an `image_url` in any number of requests."""
        return await self.language_model(model).see(picture)

    async def rerank(self, /, **body: Any) -> Json:
        """Return documents in the order of how well they answer a query, as other servers do."""
        request = await in_thread(rerank_request, body)
        model = self.embedding_model(request.model)
        ranked = (await model.rank(request.query, request.documents))[: request.most]
        rows: list[Json] = [{"index": at, "relevance_score": score} for at, score in ranked]
        for row in rows if request.wants_texts else ():
            row["document"] = {"text": request.documents[row["index"]]}
        return {"object": "list", "model": model.name, "results": rows}


class _ChatEndpoints:
    def __init__(self, client: Client) -> None:
        self.completions = _Completions(client, chat_request, ChatAnswer.create)


class _Completions(Generic[Request]):
    """An endpoint that generates, with its check of requests and its answers."""

    def __init__(
        self,
        client: Client,
        check: Callable[[Mapping[str, Any]], Request],
        answer: Callable[[Model, Request], Awaitable[ChatAnswer | CompletionAnswer]],
    ) -> None:
        self._client = client
        self._check = check
        self._answer = answer

    async def create(self, /, **body: Any) -> Any:
        """Answer a request; with `stream=True` returns an async iterator of chunks."""
        request = await in_thread(self._check, body)
        answer = await self._answer(self._client.language_model(request.model), request)
        return answer.chunks() if request.decoding.stream else await answer.whole()


class _Embeddings:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, /, **body: Any) -> Json:
        """Return a vector for each text."""
        request = await in_thread(embedding_request, body)
        model = self._client.embedding_model(request.model)
        vectors, count = await model.embed(request.texts, request.as_base64)
        rows = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(vectors)
        ]
        usage = usage_of(count, 0, None)
        return {"object": "list", "data": rows, "model": model.name, "usage": usage}


class _Models:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Json:
        """Return all models."""
        rows = [_listed(model) for model in self._client.all_models]
        return {"object": "list", "data": rows}

    async def retrieve(self, name: str) -> Json:
        """Return the description of a model."""
        return _listed(self._client._model(name))


def _listed(model: Model | EmbeddingModel) -> Json:
    known = {"id": model.name, "object": "model", "created": model.created}
    return {**known, "owned_by": "webpte"}
