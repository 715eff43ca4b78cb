"""One answer of a chat, as text that comes piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from webpte.errors import InputError
from webpte.llm.constrain.constraint import Constraint
from webpte.llm.generation import Generation, GenerationStats
from webpte.llm.logprobs import TokenLogprob
from webpte.text import Tokenizer
from webpte.text.stream import REPLACEMENT


@dataclass
class ReplyStats(GenerationStats):
    """Also about the conversation.

    retokenized  answers of before whose tokens are not those that the model said, since the chat
                 template changes them or they were given; from the first on, all is computed again
    dropped      messages that the model does not see any more, since the context was full
    """

    retokenized: int = 0
    dropped: int = 0


class StopStrings:
    """Texts that end an answer."""

    def __init__(self, texts: Collection[str]) -> None:
        if isinstance(texts, str) or not all(isinstance(text, str) and text for text in texts):
            raise InputError(f"stop is a list of texts that are not empty, not {texts!r}")
        self._texts = tuple(texts)

    @property
    def longest(self) -> int:
        return max(map(len, self._texts), default=1)

    def find(self, text: str, start: int, known: int = 0) -> int | None:
        """Where the first of them begins that does not end within the `known` first characters."""
        starts = [(stop, max(start, known + 1 - len(stop))) for stop in self._texts]
        found = [at for stop, after in starts if (at := text.find(stop, after)) >= 0]
        return min(found, default=None)

    def certain(self, text: str, start: int) -> int:
        """How much of a text without any of them cannot be the beginning of one."""
        for at in range(max(start, len(text) - self.longest + 1), len(text)):
            if any(stop.startswith(text[at:]) for stop in self._texts):
                return at
        return len(text)


class Reply:
    """An async iterator of pieces of text; or `await` it, for all of it.

    text    what has been handed out; it is also what the conversation has of this answer, so it
            can be broken off at any piece
    follows what there was of the answer before this part of it, without what turned out to be the
            beginning of a stop text
    ended   None; at the end "stop" (a stop token or text, or all that was allowed is said),
            "length" (max_new_tokens), or "full" (the context)

    After an error or a cancelled step it can be asked again, as a Generation can.
    """

    def __init__(
        self,
        generation: Generation,
        tokenizer: Tokenizer,
        stop: StopStrings,
        stats: ReplyStats,
        why_ended: Callable[[], str],
        check_current: Callable[[Reply], None],
        constraint: Callable[[], Awaitable[Constraint]] | None = None,
    ) -> None:
        self.text = ""
        self.follows = ""
        self.ended: str | None = None
        self.stats = generation.stats = stats
        self._generation = generation
        self._tokenizer = tokenizer
        self._stop = stop
        self._why_ended = why_ended
        self._check_current = check_current
        self._constraint = constraint  # until it is made
        self._stream = tokenizer.stream()
        self._heard = ""  # `text`, and what may be the beginning of a stop text
        self._tail = ""  # the end of `follows`, where a stop text may have begun
        # After each token: how much had been heard, and whether that was all of the token.
        self._marks: list[tuple[int, bool]] = []
        self._cut = False
        self._took_back = False  # whether the stop text began in `follows`

    def follow(self, text: str, tokens: Sequence[int]) -> None:
        """This is more of an answer that begins with that text. What looked like a part of a
        character at its end may become one."""
        certain = self._stream.feed(*tokens)
        self.follows = certain if text.rstrip(REPLACEMENT) == certain else text
        self._tail = self.follows[max(0, len(self.follows) - self._stop.longest + 1) :]

    @property
    def tokens(self) -> list[int]:
        """All that the model has said, also what is beyond a stop text."""
        return self._generation.tokens

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """One for each of the tokens, if they were asked for."""
        return self._generation.logprobs

    @property
    def begun(self) -> bool:
        """Whether there is anything to be remembered."""
        return bool(self.text) or self.ended is not None

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    def __await__(self) -> Generator[Any, None, str]:
        return self._whole().__await__()

    async def _whole(self) -> str:
        async for _ in self:
            pass
        return self.text

    async def __anext__(self) -> str:
        while self.ended is None:
            self._check_current(self)
            if self._constraint is not None:
                self._generation.constrain(await self._constraint())
                self._constraint = None
                self._check_current(self)
            try:
                token = await anext(self._generation)
            except StopAsyncIteration:
                self._check_current(self)
                piece = self._finish()
            else:
                self._check_current(self)
                piece = self._hear(token)
            if piece:
                return piece
        raise StopAsyncIteration

    def _hear(self, token: int) -> str:
        self._heard += self._stream.feed(token)
        self._marks.append((len(self._heard), self._stream.is_whole))
        certain = self._stop.certain(self._tail + self._heard, self._start)
        return self._hand_out(max(certain - len(self._tail), len(self.text)))

    def _finish(self) -> str:
        self._heard += self._stream.flush()
        self.ended = self._why_ended()
        return self._hand_out(len(self._heard))

    @property
    def _start(self) -> int:
        """Where in the tail and what was heard a stop text may begin: behind what was handed out,
        but what was there before may be a part of it."""
        return len(self._tail) + len(self.text) if self.text else 0

    def _hand_out(self, until: int) -> str:
        """What has been heard up to there, or up to a stop text."""
        before = len(self._tail)
        found = self._stop.find(self._tail + self._heard, self._start, before)
        if found is not None:
            until, self._cut, self.ended = max(found - before, 0), True, "stop"
            if found < before:
                self.follows = self.follows[: len(self.follows) - before + found]
                self._heard, self._took_back = "", True
        piece = self._heard[len(self.text) : until]
        self.text += piece
        return piece

    def kept_tokens(self) -> list[int] | None:
        """The tokens of `text`, as the model said them, as far as it goes.

        The end of the text may be within a token; None if no tokens are that text, or if it ends
        before the first of them.
        """
        if self._took_back:
            return None
        tokens = self._generation.tokens
        if self.ended is not None and not self._cut:
            return list(tokens)
        length = len(self.text)
        marks = [(0, True), *self._marks]
        count = max(n for n, (end, is_whole) in enumerate(marks) if is_whole and end <= length)
        rest = self.text[marks[count][0] :]
        kept = [*tokens[:count], *(self._tokenizer.encode(rest, special=False) if rest else ())]
        return kept if self._tokenizer.decode(kept) == self.text else None
