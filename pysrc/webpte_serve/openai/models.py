"""Models of a client: a program, its tokenizer, and a queue for answers."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.json_reader import Table
from webpte.engine.open.threads import in_thread
from webpte.errors import ChatTemplateError, InputError, OutOfMemoryError, UnsupportedError
from webpte.llm import BatchedGeneration, Generation, Generator, Scheduler
from webpte.llm.constrain.constraint import Constraint, Continued
from webpte.llm.constrain.grammar import LazyGrammars
from webpte.llm.constrain.json_answer import JsonAnswer, JsonForm
from webpte.llm.constrain.json_schema import any_object
from webpte.llm.constrain.regex import expression_of
from webpte.llm.logits_rule import change_logits
from webpte.llm.prompt import PromptMaker, end_tokens
from webpte.llm.reply import Reply, StopStrings, stats_of
from webpte.llm.text import ChatTemplate, SentenceEncoder, Tokenizer, check_fits
from webpte.program import Program
from webpte.tasks.vision.picture_prompts import PicturePrompt, PicturePrompts
from webpte.tasks.vision.pictures import picture_of
from webpte.tasks.vision.scaling.tiles import pictures_of
from webpte_serve.openai.messages import (
    SeenPicture,
    in_turns,
    measure_pictures,
    pictures_in,
    without_system,
)
from webpte_serve.openai.requests import ChatRequest, Decoding
from webpte_serve.openai.tools import ToolFormat, format_of
from webpte_serve.openai.values import RequestError

WAITING = 64  # waiting requests per model, at most
MOST_SCHEMA = 1 << 17  # characters of the schemas that an answer has to fit
_BUSY = 429
_STRING = re.compile(r'("(?:[^"\\]|\\.)*(?:"|$))', re.DOTALL)  # of JSON, the last perhaps not ended
_MARK = "content"  # the text of messages whose place in a template's text is searched for
ConstraintMaker = Callable[[], Awaitable[Constraint]]


class _Queue:
    """Gives a model to requests in turn, in the order of their arrival."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._lock = asyncio.Lock()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        return self._waiting

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self.check_room(self._waiting)
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._lock.release()

    def check_room(self, waiting: int) -> None:
        """Raise RequestError if no more requests may wait."""
        if waiting >= self._most:
            raise RequestError(
                f"{self._name}: {waiting} requests are waiting; try again later",
                status=_BUSY,
                code="rate_limit_exceeded",
            )


class Model:
    """A language model by name.

    waiting     the number of requests that may wait; further requests are refused
    slots       requests that are answered at once, if the program allows it; requests with a
                constraint or log-probabilities are answered in turn, in parallel
    one_by_one  the reason why requests are answered in turn, set by `prepare`
    vision      for a model that sees: its preprocessor_config.json and config.json
    """

    kind = "chat"

    def __init__(
        self,
        name: str,
        program: Program,
        tokenizer: Tokenizer,
        *,
        template: ChatTemplate | None = None,
        method: str = "forward",
        waiting: int = WAITING,
        slots: int = 1,
        vision: tuple[Table, Table] | None = None,
    ) -> None:
        self._generator = generator = Generator(program, method)
        check_fits(tokenizer, program, generator.method)
        self.name, self.created = name, int(time.time())
        self.program, self.tokenizer = program, tokenizer
        self.queue = _Queue(name, waiting)
        self._template = template or tokenizer.template
        self._sees: PicturePrompts | None = None
        if vision is not None:
            pictures = pictures_of(vision[0])
            self._sees = PicturePrompts(generator, tokenizer, pictures, vision[1], self._template)
        self._scheduler = Scheduler(program, slots, method=method) if slots > 1 else None
        self.one_by_one = None if slots > 1 else "it has one slot"
        self._grammars = LazyGrammars(tokenizer)
        prompts = PromptMaker(tokenizer, self._template, {}) if self._template else None
        self._stops = end_tokens(tokenizer, prompts)

    @cached_property
    def pieces(self) -> list[bytes | None]:
        """The bytes of every token; None for special tokens."""
        return self.tokenizer.pieces()

    @property
    def max_context(self) -> int | None:
        """The number of tokens of a prompt and its answer, if the program defines it."""
        return self._generator.max_context

    async def prepare(self) -> None:
        """Prepare the first answers, and find out whether several can run at once."""
        await self._grammars.guide()
        if self._scheduler is not None:
            try:
                await self._scheduler.prepare()
            except (UnsupportedError, OutOfMemoryError) as error:
                self._scheduler, self.one_by_one = None, str(error)

    @property
    def sees(self) -> bool:
        """Whether messages may have pictures."""
        return self._sees is not None

    @property
    def running(self) -> int:
        """The number of requests that share the model's steps now."""
        return 0 if self._scheduler is None else self._scheduler.running

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        shared = 0 if self._scheduler is None else self._scheduler.waiting
        return self.queue.waiting + shared

    def turn(self, alone: bool) -> AbstractAsyncContextManager[None]:
        """Wait until a request may be answered: immediately, unless it must be answered alone."""
        return self.queue.turn() if alone or self._scheduler is None else self._beside()

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        assert self._scheduler is not None
        self.queue.check_room(self._scheduler.waiting)
        yield

    @property
    def tool_format(self) -> ToolFormat:
        """The model's form of calls of tools."""
        return format_of(self._template.source if self._template is not None else "")

    async def chat_prompt(self, request: ChatRequest) -> PicturePrompt:
        """Return the tokens of the messages, up to where the answer begins, and their pictures."""
        await self.check_pictures(request)
        try:
            if self._sees is None:
                return PicturePrompt(await in_thread(self._chat_tokens, request), ())
            text, pictures = await in_thread(self._rendered, request, self._sees.render)
            await in_thread(self._check_length, text)
            return await self._sees.prompt(text, pictures, special=False)
        except RequestError:
            raise
        except (ChatTemplateError, InputError) as error:
            raise RequestError(str(error), "messages") from error

    async def check_pictures(self, request: ChatRequest) -> bool:
        """Return whether a request has pictures; raises RequestError for refused pictures.

        Pictures are decoded in the request's turn, so that waiting requests hold no pixels.
        """
        files = pictures_in(request.messages)
        if files and self._sees is None:
            raise self._blind()
        if files and not IN_BROWSER:
            await measure_pictures(files)
        return bool(files)

    def _blind(self) -> RequestError:
        return RequestError(f"{self.name} sees no pictures: send text alone", "messages")

    async def see(self, picture: Any) -> SeenPicture:
        """Read a picture for later requests."""
        if self._sees is None:
            raise self._blind()
        return SeenPicture(await in_thread(self._sees.see, await picture_of(picture)))

    async def count_tokens(self, request: ChatRequest, begins_answer: bool) -> int:
        """Return the number of tokens of a request's messages, however many they are.

        begins_answer   whether the beginning of the answer, which the template writes, counts
        """
        wanted = {**request.variables, "add_generation_prompt": begins_answer}
        request = replace(request, variables=wanted)
        await self.check_pictures(request)
        try:
            return await self._count(request)
        except ChatTemplateError:
            # Some templates want a question.
            asked = {"role": "user", "content": ""}
            try:
                return await self._count(replace(request, messages=[*request.messages, asked]))
            except ChatTemplateError as error:
                raise RequestError(str(error), "messages") from error

    async def _count(self, request: ChatRequest) -> int:
        if self._sees is None:
            return len(await in_thread(self._chat_tokens, request, False))
        text, pictures = await in_thread(self._rendered, request, self._sees.render)
        return len((await self._sees.prompt(text, pictures, special=False)).tokens)

    def _chat_tokens(self, request: ChatRequest, checks: bool = True) -> list[int]:
        text: str = self._rendered(
            request, None if self._template is None else self._template.render
        )
        if checks:
            self._check_length(text)
        return self.tokenizer.encode(text, special=False)

    @cached_property
    def _takes_system(self) -> bool:
        """Whether the template writes the text of a system message."""
        assert self._template is not None
        for content in (_MARK, [{"type": "text", "text": _MARK}]):
            messages = [{"role": role, "content": content} for role in ("system", "user")]
            try:
                if self._template.render(messages).count(_MARK) > 1:
                    return True
            except ChatTemplateError:
                continue
        return False

    def _rendered(self, request: ChatRequest, render: Callable[..., Any] | None) -> Any:
        """Return the chat template's text for messages, up to where the answer goes on."""
        if self._template is None or render is None:
            raise RequestError(
                f"{self.name} has no chat template: use completions", "model", code="no_template"
            )
        messages, variables = list(request.messages), dict(request.variables)
        if request.tools and request.tool_choice.may_call:
            if self.tool_format.is_in_template:
                variables["tools"] = [tool.table for tool in request.tools]
            else:
                messages = _with_instructions(messages, self.tool_format, request)
        begun = messages.pop()["content"] if request.is_continued else ""
        if not self._takes_system:
            messages = [*without_system(messages)]
        try:
            made = render(messages, **variables)
        except ChatTemplateError as refused:
            # Many templates want user and assistant to take turns.
            try:
                made = render(in_turns(messages), **variables)
            except ChatTemplateError:
                raise refused from None
        return made + begun if isinstance(made, str) else (made[0] + begun, made[1])

    def encode(self, prompt: str | list[int]) -> tuple[str, list[int]]:
        """Return a prompt as text and as tokens; raises RequestError if it is too long."""
        if isinstance(prompt, str):
            self._check_length(prompt)
            return prompt, self.tokenizer.encode(prompt)
        self._room_after(len(prompt))
        return self.tokenizer.decode(prompt, special=True), prompt

    def _check_length(self, text: str) -> None:
        """Raise RequestError for a text that cannot fit; encoding it would take long."""
        most = self.max_context
        if most is not None and len(text) > most and len(text) > most * self._longest_token:
            raise _too_long(f"{len(text):,} characters", most)

    @cached_property
    def _longest_token(self) -> int:
        return self.tokenizer.longest_token()

    def _room_after(self, count: int) -> int | None:
        """Return the room after a prompt in tokens; raises RequestError if it is 0."""
        if self.max_context is None:
            return None
        if count >= self.max_context:
            raise _too_long(f"{count} tokens", self.max_context)
        return self.max_context - count

    def answer(
        self,
        tokens: Sequence[int],
        decoding: Decoding,
        choice: int,
        top: int | None,
        constraint: ConstraintMaker | None = None,
    ) -> Reply:
        """Return an answer to tokens, inside a `turn`, alone if it cannot share steps."""
        room = self._room_after(len(tokens))
        if (token := max(decoding.logit_bias, default=0)) >= self._generator.vocabulary:
            raise RequestError(f"there is no token {token}", "logit_bias")
        wanted = decoding.max_new_tokens
        length = min(one for one in (wanted, room, 1 << 30) if one is not None)
        options = decoding.options(choice)
        rule = decoding.rule(len(tokens))
        alone = must_be_alone(decoding, top, constraint)
        if top is not None:
            options |= {"logprobs": True, "top": top}
        generation: Generation | BatchedGeneration
        try:
            if alone or self._scheduler is None:
                generation = self._generator.generate(tokens, length, stop=self._stops, **options)
                if rule is not None:
                    change_logits(generation, rule)
            else:
                generation = self._scheduler.submit(tokens, length, stop=self._stops, **options)
        except InputError as error:
            raise RequestError(str(error)) from error
        stop = StopStrings(decoding.stop)
        return Reply(generation, self.tokenizer, stop, stats_of(generation), constraint)

    def constraint(self, request: ChatRequest) -> ConstraintMaker | None:
        """Return the builder of a request's constraint; None for a request without constraints."""
        answer = self._required(request)
        name = "response_format" if request.tool_choice.name is None else "tools"
        made: ConstraintMaker
        try:
            if request.regex is not None:
                name = "structured_outputs"
                expression = expression_of(request.regex)
                made = partial(self._grammars.matching, expression, "the regex")
            elif answer is not None:
                _check_schemas(answer)
                made = self._grammars.json(answer)
            else:
                return None
        except InputError as error:
            raise RequestError(str(error), name) from error
        begun = str(request.messages[-1]["content"]) if request.is_continued else ""
        begun = begun if request.regex is not None else _with_fixed_spaces(begun)
        return partial(self._constrained, made, begun, name)

    async def _constrained(self, made: ConstraintMaker, begun: str, name: str) -> Constraint:
        """Build a constraint for an answer that begins with a text."""
        try:
            constraint = await made()
            return Continued(constraint, self._tokens_in(begun)) if begun else constraint
        except InputError as error:
            raise RequestError(str(error), name) from error

    def _tokens_in(self, text: str) -> list[int]:
        """Return tokens with the bytes of a text, the longest first."""
        numbers, data, found = self._numbers, text.encode(), list[int]()
        while data:
            length = next((n for n in range(min(len(data), 64), 0, -1) if data[:n] in numbers), 0)
            if not length:
                raise InputError(f"the tokenizer has no token for {data[:1]!r}")
            found.append(numbers[data[:length]])
            data = data[length:]
        return found

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The tokens by their bytes."""
        return {piece: number for number, piece in enumerate(self.pieces) if piece}

    def _required(self, request: ChatRequest) -> JsonAnswer | None:
        if request.tool_choice.name is not None:
            wanted = request.tool_choice.name
            tools = [tool for tool in request.tools if wanted in ("", tool.name)]
            return self.tool_format.call_of(tools)
        if request.schema is not None:
            return JsonAnswer((JsonForm(request.schema),))
        if request.is_json:
            return JsonAnswer(
                (JsonForm({"type": "object"}, automaton=any_object()),), "json_object"
            )
        return None


def _check_schemas(answer: JsonAnswer) -> None:
    """Raise InputError for schemas that are too large to be read, without writing them whole."""
    left = MOST_SCHEMA
    for form in answer.forms:
        try:
            for part in json.JSONEncoder().iterencode(form.schema):
                left -= len(part)
                if left < 0:
                    raise InputError(f"{answer.name} has more than {MOST_SCHEMA:,} characters")
        except (TypeError, ValueError, RecursionError):
            pass  # not JSON: its reader raises the error


def _with_fixed_spaces(text: str) -> str:
    """Return the beginning of JSON with the spaces that answers have: after colons and commas.

    Spaces outside of strings mean nothing, so the answer goes on after the text as it was given.
    """
    parts = _STRING.split(text)
    for at in range(0, len(parts), 2):
        bare = re.sub(r"\s+", "", parts[at])
        spaced = re.sub(r"([:,])(?=.)", r"\1 ", bare, flags=re.DOTALL)
        ends = bare[-1:] in (":", ",") and (at + 1 < len(parts) or parts[at][-1:].isspace())
        parts[at] = spaced + " " if ends else spaced
    return "".join(parts)


def must_be_alone(decoding: Decoding, top: int | None, constraint: object) -> bool:
    """Return whether a request has options that shared steps do not support.

    Unsupported are log-probabilities, a constraint, and biases or penalties that the host computes.
    """
    return top is not None or constraint is not None or decoding.rule(0) is not None


class EmbeddingModel:
    """A sentence encoder by name."""

    kind = "embedding"

    def __init__(
        self, name: str, program: Program, tokenizer: Tokenizer, *, waiting: int = WAITING
    ) -> None:
        self.name, self.created = name, int(time.time())
        self.program, self.tokenizer = program, tokenizer
        self.queue = _Queue(name, waiting)
        self._encoder = SentenceEncoder(program, tokenizer)

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self.queue.waiting

    async def embed(
        self, texts: Sequence[str], as_base64: bool
    ) -> tuple[list[list[float] | str], int]:
        """Return the texts' vectors, and the number of tokens that they were computed from."""
        async with self.queue.turn():
            tokens = await in_thread(self._encoder.tokens_of, texts)
            vectors = np.asarray(await self._encoder.embed_tokens(tokens), np.float32)
        count = sum(len(row) for row in tokens)
        if as_base64:
            return [base64.b64encode(row.tobytes()).decode() for row in vectors], count
        return [row.tolist() for row in vectors], count

    async def rank(self, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        """Return the indices of the texts with their scores, the best first."""
        async with self.queue.turn():
            ranked = await self._encoder.rank(query, list(texts))
        return [(one.at, float(one.score)) for one in ranked]


def _too_long(prompt: str, context: int) -> RequestError:
    told = f"the prompt has {prompt}, and the model's context {context} tokens: send a shorter one"
    return RequestError(told, "messages", code="context_length_exceeded")


def _with_instructions(
    messages: Sequence[Mapping[str, Any]], format: ToolFormat, request: ChatRequest
) -> list[Mapping[str, Any]]:
    """Return messages that describe the tools, for a template that does not."""
    told, rest = format.instructions(request.tools), list(messages)
    if rest and rest[0]["role"] == "system":
        told, rest = f"{rest[0]['content']}\n\n{told}", rest[1:]
    return [{"role": "system", "content": told}, *rest]
