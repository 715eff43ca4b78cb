"""A conversation, and what is known of every answer in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from page.chat.codec import Codec
from page.chat.settings import Settings
from webpte import Program
from webpte.errors import InputError
from webpte.llm import Chat, Generator, Reply, ReplyOptions, ReplyStats, TokenLogprob
from webpte.text import TextStream, Tokenizer

REST_SECONDS = 1 / 60  # on NumPy nothing waits, so messages have to be let in now and then
_ANY_NUMBER = 1 << 20
Message = dict[str, str]


@dataclass(eq=False)
class Answer:
    """What one answer was made of; it outlives the program.

    first_ms  from asking to the first text
    ended     "": it goes on; "stop", "full" and "length" as a Reply says, or "broken off"
    """

    tokens: Sequence[int]
    logprobs: Sequence[TokenLogprob]
    stats: ReplyStats
    stream: TextStream
    seed: int = 0
    first_ms: float | None = None
    ended: str = ""
    texts: list[str] = field(default_factory=list)  # of the tokens; together they are the answer

    def catch_up(self) -> list[str]:
        """The texts of the tokens that have come since the last time."""
        known = len(self.texts)
        self.texts += [self.stream.feed(token) for token in self.tokens[known:]]
        return self.texts[known:]

    @property
    def context(self) -> int:
        """Tokens of the conversation up to its end."""
        return self.stats.reused_tokens + self.stats.prefill_tokens + len(self.tokens)


class Talk:
    """Lines are the messages but for the system's; an answer is known by the number of its line."""

    def __init__(self, program: Program, codec: Codec, before: Talk | None = None) -> None:
        """`before` is the same conversation with a program that is gone."""
        self._chat = Chat(program, codec.tokenizer, template=codec.template, when_full="slide")
        self._codec = codec
        self._reply: Reply | None = None
        self.max_context = Generator(program).max_context
        self.answers: dict[int, Answer] = {}
        if before is not None:
            self._chat.messages = before._chat.messages
            self.answers = before.answers

    @property
    def tokenizer(self) -> Tokenizer:
        return self._codec.tokenizer

    @property
    def lines(self) -> list[Message]:
        return [one for one in self._chat.messages if one["role"] != "system"]

    @property
    def last(self) -> Answer | None:
        return self.answers[max(self.answers)] if self.answers else None

    @property
    def can_go_on(self) -> bool:
        """Whether more of the last answer can be asked for."""
        lines = self.lines
        return (
            self._reply is not None
            and self._reply.ended is None
            and bool(lines)
            and lines[-1]["role"] == "assistant"
        )

    # ---- what can be done

    def ask(self, text: str, settings: Settings) -> None:
        self._set_system(settings.system)
        options = settings.options()
        self._begin(self._chat.send(text, self._most, **options), options)

    def ask_again(self, settings: Settings) -> None:
        """Another answer to the last question."""
        self._set_system(settings.system)
        options = settings.options()
        self._begin(self._chat.regenerate(self._most, **options), options)

    def edit(self, line: int, text: str) -> None:
        """What was said after it goes."""
        shift = len(self._chat.messages) - len(self.lines)
        self._chat.edit(line + shift, text)
        self._reply = None
        self.answers = {at: answer for at, answer in self.answers.items() if at < line}

    @property
    def _most(self) -> int:
        """An answer may be asked to go on, so where to pause is decided here, not by the Chat."""
        return self.max_context or _ANY_NUMBER

    def _begin(self, reply: Reply, options: ReplyOptions) -> None:
        self._reply = reply
        stream = self._codec.tokenizer.stream()
        answer = Answer(reply.tokens, reply.logprobs, reply.stats, stream, options["seed"] or 0)
        lines = self.lines
        said = {at for at, line in enumerate(lines) if line["role"] == "assistant"}
        self.answers = {at: one for at, one in self.answers.items() if at in said}
        self.answers[len(lines)] = answer

    def _set_system(self, text: str) -> None:
        messages = self._chat.messages
        old = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
        if text != old:
            system = [{"role": "system", "content": text}] if text else []
            self._chat.messages = [*system, *self.lines]

    # ---- the answer, as it comes

    async def listen(
        self, most: int, hear: Callable[[str], None], stopping: Callable[[], bool]
    ) -> None:
        """Hand out the answer for as many tokens, or until it is to stop. `listen` goes on."""
        reply, answer = self._reply, self.last
        if reply is None or answer is None:
            raise InputError("there is no answer to go on with: ask for another")
        answer.ended = ""
        until, started = len(answer.tokens) + most, perf_counter()
        rested = started
        try:
            async for piece in reply:
                if answer.first_ms is None:
                    answer.first_ms = 1000 * (perf_counter() - started)
                hear(piece)
                if perf_counter() - rested > REST_SECONDS:
                    await asyncio.sleep(0)
                    rested = perf_counter()
                if len(answer.tokens) >= until and reply.ended is None:
                    answer.ended = "length"
                    return
                if stopping():
                    answer.ended = "broken off"
                    return
        finally:
            answer.ended = answer.ended or reply.ended or "broken off"
