"""Answers in the form of OpenAI's API: whole, or in chunks while they are generated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from webpte.engine.open.threads import in_thread
from webpte.llm import Reply, TokenLogprob
from webpte.tasks.vision.picture_prompts import PicturePrompt
from webpte_serve.openai.models import ConstraintMaker, Model, must_be_alone
from webpte_serve.openai.requests import ChatRequest, CompletionRequest
from webpte_serve.openai.tools import AnswerParser, ToolCall

Json = dict[str, Any]


@dataclass
class _AnswerPiece:
    """A step of an answer: text, a call of a tool, tokens' log-probabilities, or the end."""

    text: str = ""
    call: ToolCall | None = None
    logprobs: Sequence[TokenLogprob] = ()
    finish: str | None = None


@dataclass
class _Counts:
    """Tokens of prompts and answers."""

    prompt: int = 0
    answer: int = 0
    cached: int = 0

    def add(self, reply: Reply) -> None:
        self.answer += len(reply.tokens)
        self.cached += reply.stats.reused_tokens

    @property
    def usage(self) -> Json:
        return usage_of(self.prompt, self.answer, self.cached)


@dataclass
class _Choice:
    """A complete answer."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None

    def add(self, piece: _AnswerPiece) -> None:
        self.text += piece.text
        self.calls += [piece.call] if piece.call is not None else []
        self.logprobs += piece.logprobs
        self.finish = piece.finish or self.finish


class ChatAnswer:
    """The answer to a request for chat completions."""

    def __init__(
        self, model: Model, request: ChatRequest, constraint: ConstraintMaker | None
    ) -> None:
        self._model, self._request = model, request
        self._prompt: PicturePrompt | None = None  # which keeps its pictures
        self._constraint = constraint
        self._alone = must_be_alone(request.decoding, request.top, constraint)
        self._head = _AnswerHead("chatcmpl", model.name)

    @classmethod
    async def create(cls, model: Model, request: ChatRequest) -> ChatAnswer:
        """Read a request's messages, except for pictures; nothing is generated yet."""
        answer = cls(model, request, await in_thread(model.constraint, request))
        if not await model.check_pictures(request):
            answer._prompt = await model.chat_prompt(request)
        return answer

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[_Counts]:
        """Wait until the answer may begin; pictures of waiting requests are not decoded."""
        async with self._model.turn(self._alone):
            if self._prompt is None:
                self._prompt = await self._model.chat_prompt(self._request)
            yield _Counts(len(self._prompt.tokens))

    async def whole(self) -> Json:
        """Generate all choices."""
        rows = []
        async with self._turn() as counts:
            for index in range(self._request.decoding.choices):
                choice = _Choice()
                async with aclosing(self._pieces(index, counts)) as pieces:
                    async for piece in pieces:
                        choice.add(piece)
                rows.append(self._choice(index, choice))
        return {**self._head.table("chat.completion"), "choices": rows, "usage": counts.usage}

    async def chunks(self) -> AsyncIterator[Json]:
        """Generate the choices in turn, in chunks as the text comes."""
        head = self._head.table("chat.completion.chunk")
        decoding = self._request.decoding
        if decoding.include_usage:
            head["usage"] = None
        async with self._turn() as counts:
            for index in range(decoding.choices):
                calls, started = 0, False
                async with aclosing(self._pieces(index, counts)) as pieces:
                    async for piece in pieces:
                        if not started:  # not earlier: a request may fail until here
                            first = {"role": "assistant", "content": ""}
                            yield {**head, "choices": [_chunk(index, first)]}
                            started = True
                        delta: Json = {"content": piece.text} if piece.text else {}
                        if piece.call is not None:
                            delta["tool_calls"] = [piece.call.table(calls)]
                            calls += 1
                        logprobs = self._logprobs(piece.logprobs)
                        yield {**head, "choices": [_chunk(index, delta, logprobs, piece.finish)]}
        if decoding.include_usage:
            yield {**head, "choices": [], "usage": counts.usage}

    async def _pieces(self, choice: int, counts: _Counts) -> AsyncGenerator[_AnswerPiece, None]:
        """Generate a choice, with calls of tools apart from the text."""
        request, model = self._request, self._model
        assert self._prompt is not None  # since the start of its turn
        tokens = self._prompt.tokens
        reply = model.answer(tokens, request.decoding, choice, request.top, self._constraint)
        may_call = bool(request.tools) and request.tool_choice.may_call
        parser = AnswerParser(model.tool_format, request.tools) if may_call else None
        calls = False
        async for piece in _steps(reply):
            texts: Iterator[str | ToolCall] = iter([piece.text] if piece.text else [])
            if parser is not None:
                texts = parser.feed(piece.text) if piece.finish is None else parser.finish()
            for found in texts:
                if isinstance(found, ToolCall):
                    calls = True
                    yield _AnswerPiece(call=found)
                else:
                    yield _AnswerPiece(found)
            finish = "tool_calls" if calls and piece.finish == "stop" else piece.finish
            if piece.logprobs or finish:
                yield _AnswerPiece(logprobs=piece.logprobs, finish=finish)
        counts.add(reply)

    def _choice(self, index: int, choice: _Choice) -> Json:
        message: Json = {"role": "assistant", "content": choice.text or None, "refusal": None}
        if choice.calls:
            message["tool_calls"] = [call.table() for call in choice.calls]
        elif not choice.text:
            message["content"] = ""
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": choice.finish,
        }

    def _logprobs(self, logprobs: Sequence[TokenLogprob]) -> Json | None:
        if self._request.top is None:
            return None
        return {"content": [_logprob(self._model, one) for one in logprobs], "refusal": None}


class CompletionAnswer:
    """The answer to a request to continue texts."""

    def __init__(
        self, model: Model, request: CompletionRequest, prompts: Sequence[tuple[str, list[int]]]
    ) -> None:
        self._model, self._request, self._prompts = model, request, prompts
        self._alone = must_be_alone(request.decoding, request.top, None)
        self._head = _AnswerHead("cmpl", model.name)

    @classmethod
    async def create(cls, model: Model, request: CompletionRequest) -> CompletionAnswer:
        """Read a request's prompts; nothing is generated yet."""
        return cls(model, request, [await in_thread(model.encode, one) for one in request.prompts])

    async def whole(self) -> Json:
        """Continue all prompts."""
        counts, rows = self._counts(), []
        async with self._model.turn(self._alone):
            for index, echo, reply in self._replies():
                choice = _Choice(echo)
                async for piece in _steps(reply):
                    choice.add(piece)
                counts.add(reply)
                rows.append(self._row(index, choice.text, choice.logprobs, choice.finish))
        return {**self._head.table("text_completion"), "choices": rows, "usage": counts.usage}

    async def chunks(self) -> AsyncIterator[Json]:
        """Continue the prompts in turn, in chunks as the text comes."""
        counts, head = self._counts(), self._head.table("text_completion")
        async with self._model.turn(self._alone):
            for index, echo, reply in self._replies():
                if echo:
                    yield {**head, "choices": [self._row(index, echo, (), None)]}
                async for piece in _steps(reply):
                    row = self._row(index, piece.text, piece.logprobs, piece.finish)
                    yield {**head, "choices": [row]}
                counts.add(reply)
        if self._request.decoding.include_usage:
            yield {**head, "choices": [], "usage": counts.usage}

    def _counts(self) -> _Counts:
        return _Counts(sum(len(tokens) for _, tokens in self._prompts))

    def _replies(self) -> Iterator[tuple[int, str, Reply]]:
        request = self._request
        for number, (text, tokens) in enumerate(self._prompts):
            for choice in range(request.decoding.choices):
                index = number * request.decoding.choices + choice
                reply = self._model.answer(tokens, request.decoding, choice, request.top)
                yield index, text if request.echo else "", reply

    def _row(
        self, index: int, text: str, logprobs: Sequence[TokenLogprob], finish: str | None
    ) -> Json:
        row: Json = {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
        if self._request.top is not None:
            decode = self._model.tokenizer.decode
            row["logprobs"] = {
                "tokens": [decode([one.token], special=True) for one in logprobs],
                "token_logprobs": [one.logprob for one in logprobs],
                "top_logprobs": [
                    {decode([top.token], special=True): top.logprob for top in one.top}
                    for one in logprobs
                ],
            }
        return row


@dataclass(frozen=True)
class _AnswerHead:
    """The common part of all chunks of an answer."""

    prefix: str
    model: str
    id: str = field(default_factory=lambda: token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def table(self, kind: str) -> Json:
        return {
            "id": f"{self.prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }


async def _steps(reply: Reply) -> AsyncIterator[_AnswerPiece]:
    """Yield the text of a reply as it comes, with the log-probabilities of its tokens."""
    seen = 0
    try:
        async for text in reply:
            await asyncio.sleep(0)  # NumPy computes in this thread, and other tasks want a turn
            new, seen = reply.logprobs[seen:], len(reply.logprobs)
            yield _AnswerPiece(text, logprobs=new)
        finish = "stop" if reply.ended == "stop" else "length"
        yield _AnswerPiece(logprobs=reply.logprobs[seen:], finish=finish)
    finally:  # also when the other side has gone, or a stop text was found
        reply.close()


def _chunk(
    index: int, delta: Json, logprobs: Json | None = None, finish: str | None = None
) -> Json:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}


def _logprob(model: Model, found: TokenLogprob) -> Json:
    def told(token: int, logprob: float) -> Json:
        text = model.tokenizer.decode([token], special=True)
        piece = model.pieces[token] if token < len(model.pieces) else None
        data = text.encode() if piece is None else piece
        return {"token": text, "logprob": logprob, "bytes": list(data)}

    top = [told(one.token, one.logprob) for one in found.top]
    return {**told(found.token, found.logprob), "top_logprobs": top}


def usage_of(prompt: int, answer: int, cached: int | None) -> Json:
    """Return the count of tokens; `cached` tokens of the prompt were not computed."""
    usage: Json = {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
    }
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return usage
