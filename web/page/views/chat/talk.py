"""A conversation, and the details of every answer in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from page.shared.persistence.codec import Codec
from page.views.chat.pictures import ChatPicture
from page.views.chat.settings import ChatSettings
from page.views.chat.sight import MakeReader
from page.views.chat.versions import Message, Tail, Versions
from webpte import Program
from webpte.llm import Chat, Generator, Reply, ReplyOptions, ReplyStats, TokenLogprob
from webpte.llm.text import TextStream, Tokenizer

REST_SECONDS = 1 / 60  # on NumPy nothing awaits, so the loop yields this often


@dataclass(eq=False)
class Answer:
    """The tokens and figures of one answer, as far as it was generated; it outlives the program.

    stats     of its last part: an answer may be continued
    follows   text before its first token that the model did not write
    logprobs  of the tokens; None if they were not requested
    first_ms  time to the first text
    ended     "": not yet; "stop", "full" and "length" as a Reply says, or "broken off"
    """

    stream: TextStream
    stats: ReplyStats
    seed: int
    follows: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of the tokens, as far as they are shown
    first_ms: float | None = None
    ended: str = ""
    context: int = 0  # tokens of the conversation up to its end

    def take(self, reply: Reply, start: int) -> None:
        """Add the new part of a reply; `start` is the number of its first token."""
        new = len(self.tokens) - start
        logprobs: Sequence[TokenLogprob | None] = reply.logprobs or [None] * len(reply.tokens)
        self.tokens += reply.tokens[new:]
        self.logprobs += logprobs[new:]
        self.stats = reply.stats
        read = reply.stats.reused_tokens + reply.stats.prefill_tokens
        self.context = read + len(reply.tokens)

    def catch_up(self) -> None:
        """Add the missing texts of tokens."""
        self.texts += [self.stream.feed(token) for token in self.tokens[len(self.texts) :]]


class Talk:
    """A conversation. Lines are messages but the system prompt; answers and versions go by line
    number. A message has role, content, and perhaps pictures: ChatPictures."""

    def __init__(
        self,
        program: Program,
        codec: Codec,
        before: Talk | None = None,
        reader: MakeReader | None = None,
    ) -> None:
        """Start a conversation; `before` is the same one with a program that is gone. `reader`
        makes what reads pictures, if the program takes them."""
        self._chat = Chat(
            program, codec.tokenizer, template=codec.template, when_full="slide", reader=reader
        )
        self._codec = codec
        self._current: tuple[Reply, Answer] | None = None
        self._takes_pictures = reader is not None
        self._pictures: dict[int, tuple[ChatPicture, ...]] = {}  # by line
        self.max_context = Generator(program).max_context
        self.answers: dict[int, Answer] = {}
        self.versions: dict[int, Versions] = {}
        if before is not None:
            self.messages = before.messages
            self.answers, self.versions = before.answers, before.versions

    @property
    def tokenizer(self) -> Tokenizer:
        return self._codec.tokenizer

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer."""
        return self._codec.name or self._codec.kind

    @property
    def messages(self) -> list[Message]:
        """All messages, with the system prompt."""
        system = [one for one in self._chat.messages if one["role"] == "system"]
        return [*system, *self.lines]

    @messages.setter
    def messages(self, messages: Sequence[Message]) -> None:
        self._give(messages)
        self.answers, self.versions = {}, {}

    @property
    def lines(self) -> list[Message]:
        said = [one for one in self._chat.messages if one["role"] != "system"]
        lines: list[Message] = []
        for at, one in enumerate(said):
            lines.append({"role": one["role"], "content": one["content"]})
            if at in self._pictures:
                lines[at]["pictures"] = self._pictures[at]
        return lines

    def _give(self, messages: Sequence[Message]) -> None:
        """Give messages to the chat, with the pixels of their pictures."""
        self._chat.messages = [
            {
                "role": one["role"],
                "content": one["content"],
                "pictures": self._pixels(one.get("pictures", ())),
            }
            for one in messages
        ]
        lines = [one for one in messages if one["role"] != "system"]
        self._pictures = {
            at: tuple(map(self._sent, one["pictures"]))
            for at, one in enumerate(lines)
            if one.get("pictures")
        }

    def _pixels(self, pictures: Sequence[ChatPicture]) -> list[Any]:
        seen = pictures if self._takes_pictures else ()
        return [one.pixels for one in seen if one.pixels is not None]

    def _sent(self, picture: ChatPicture) -> ChatPicture:
        return replace(picture, sent=self._takes_pictures)

    @property
    def last(self) -> Answer | None:
        return self.answers[max(self.answers)] if self.answers else None

    @property
    def can_go_on(self) -> bool:
        """Whether there may be more of the last answer."""
        lines = self.lines
        if not lines or lines[-1]["role"] != "assistant":
            return False
        answer = self.answers.get(len(lines) - 1)
        return answer is None or answer.ended in ("length", "broken off")

    # ---- acts

    def ask(self, text: str, settings: ChatSettings, pictures: Sequence[ChatPicture] = ()) -> None:
        self._set_system(settings.system)
        options, pixels = settings.options(), self._pixels(pictures)
        line = len(self.lines)
        reply = self._chat.send(text, settings.max_tokens, pictures=pixels, **options)
        if pictures:
            self._pictures[line] = tuple(map(self._sent, pictures))
        self._begin(reply, options)

    def ask_again(self, settings: ChatSettings) -> None:
        """Ask for another answer to the last question; the old answer becomes a version."""
        self._set_system(settings.system)
        options, lines = settings.options(), self.lines
        line = len(lines) - 1
        before = self._tail(line) if lines[line]["role"] == "assistant" else None
        reply = self._chat.regenerate(settings.max_tokens, **options)
        if before is not None:
            self._keep(line, before)
        self._begin(reply, options)

    def go_on(self, settings: ChatSettings) -> None:
        """Continue an answer that failed, with the tokens that it has left; or ask once more."""
        answer = self.last
        if answer is None or not self.can_go_on:
            self.ask_again(settings)
            return
        self.ask_more(settings, max(1, settings.max_tokens - len(answer.tokens)))

    def ask_more(self, settings: ChatSettings, max_tokens: int | None = None) -> None:
        """Continue the last answer, with the same seed."""
        line = len(self.lines) - 1
        answer, options = self.answers.get(line), settings.options()
        if answer is not None:
            options["seed"] = answer.seed
        count = settings.max_tokens if max_tokens is None else max_tokens
        reply = self._chat.continue_(count, **options)
        if answer is None:
            self.answers[line] = answer = self._new_answer(reply, options)
            answer.follows = reply.prefix
        answer.first_ms, answer.ended = None, ""
        self._current = reply, answer

    def edit(self, line: int, text: str, pictures: Sequence[ChatPicture] = ()) -> None:
        """Edit a message, which keeps these pictures; all from here on becomes a version."""
        lines = self.lines
        self._keep(line, self._tail(line))
        shift = len(self._chat.messages) - len(lines)
        if list(lines[line].get("pictures", ())) == list(pictures):
            self._chat.edit(line + shift, text)
        else:
            edited = {**lines[line], "content": text, "pictures": tuple(pictures)}
            self._give([*self.messages[: line + shift], edited])
        self.answers = {at: answer for at, answer in self.answers.items() if at < line}
        self._pictures = {at: one for at, one in self._pictures.items() if at <= line}

    # ---- versions

    def _tail(self, line: int) -> Tail:
        """Return the conversation from a line on, without the versions of the line itself."""
        answers = {at: one for at, one in self.answers.items() if at >= line}
        versions = {at: one for at, one in self.versions.items() if at > line}
        return Tail(self.lines[line:], answers, versions)

    def _keep(self, line: int, before: Tail) -> None:
        """Keep a version, before another one begins."""
        self.versions.setdefault(line, Versions([None])).add(before)
        self.versions = {at: one for at, one in self.versions.items() if at <= line}

    def turn(self, line: int, step: int) -> None:
        """Go on with the version before (-1) or after (1) that from this line on."""
        versions = self.versions.get(line)
        if versions is None:
            return
        found = versions.swap(versions.at + step, self._tail(line))
        if found is None:
            return
        system = [one for one in self._chat.messages if one["role"] == "system"]
        self._give([*system, *self.lines[:line], *found.messages])
        kept = {at: one for at, one in self.answers.items() if at < line}
        self.answers = kept | found.answers
        self.versions = {at: one for at, one in self.versions.items() if at <= line}
        self.versions |= found.versions

    def _begin(self, reply: Reply, options: ReplyOptions) -> None:
        lines = self.lines
        said = {at for at, line in enumerate(lines) if line["role"] == "assistant"}
        self.answers = {at: one for at, one in self.answers.items() if at in said}
        self._pictures = {at: one for at, one in self._pictures.items() if at < len(lines)}
        answer = self.answers[len(lines)] = self._new_answer(reply, options)
        self._current = reply, answer

    def _new_answer(self, reply: Reply, options: ReplyOptions) -> Answer:
        return Answer(self.tokenizer.stream(), reply.stats, options["seed"] or 0)

    def _set_system(self, text: str) -> None:
        messages = self._chat.messages
        old = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
        if text != old:
            system = [{"role": "system", "content": text}] if text else []
            self._give([*system, *self.lines])

    # ---- the answer, as it comes

    async def listen(self, hear: Callable[[str], None], stopping: Callable[[], bool]) -> None:
        """Generate the answer and pass its text to `hear`, until `stopping`."""
        assert self._current is not None, "nothing was asked"
        reply, answer = self._current
        start, started = len(answer.tokens), perf_counter()
        rested = started
        try:
            async for piece in reply:
                answer.take(reply, start)
                if answer.first_ms is None:
                    answer.first_ms = 1000 * (perf_counter() - started)
                hear(piece)
                if perf_counter() - rested > REST_SECONDS:
                    await asyncio.sleep(0)
                    rested = perf_counter()
                if stopping():
                    break
        finally:
            answer.take(reply, start)
            answer.ended = reply.ended or "broken off"
