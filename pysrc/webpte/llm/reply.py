"""An answer of a chat, as text that comes piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from webpte.errors import ContextError, InputError
from webpte.llm.batched_generation import BatchedGeneration
from webpte.llm.constrain.constraint import Constraint
from webpte.llm.generation import Generation, GenerationStats, constrain
from webpte.llm.logprobs import TokenLogprob
from webpte.llm.text import Tokenizer
from webpte.llm.text.tokenizer import REPLACEMENT


@dataclass
class ReplyStats(GenerationStats):
    """Statistics of an answer, and of the conversation before it.

    retokenized  earlier answers with other tokens than the model generated, because the chat
                 template changes them or they were given as text; the tokens from the first of
                 these answers on are computed again
    dropped      messages that the model does not see any more, because the context was full
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
        """Return the start of the first stop text that ends after character `known`."""
        starts = [(stop, max(start, known + 1 - len(stop))) for stop in self._texts]
        found = [at for stop, after in starts if (at := text.find(stop, after)) >= 0]
        return min(found, default=None)

    def certain(self, text: str, start: int) -> int:
        """Return the length of the text before a possible beginning of a stop text."""
        for at in range(max(start, len(text) - self.longest + 1), len(text)):
            if any(stop.startswith(text[at:]) for stop in self._texts):
                return at
        return len(text)


class Reply:
    """An async iterator of pieces of text; `await` it for the whole text.

    text    the pieces so far; the conversation has the same text, so the answer can be broken off
            after any piece
    prefix  the part of the answer before this reply, which `Chat.continue_` continues; without an
            end that turned out to be the beginning of a stop text
    ended   None; at the end "stop" (a stop token or text, or all allowed text is generated),
            "length" (max_new_tokens), or "full" (the context)

    After an error or a cancelled step, the same piece can be requested again.
    """

    def __init__(
        self,
        generation: Generation | BatchedGeneration,
        tokenizer: Tokenizer,
        stop: StopStrings,
        stats: ReplyStats,
        constraint: Callable[[], Awaitable[Constraint]] | None = None,
        continued: tuple[str, Sequence[int]] = ("", ()),
    ) -> None:
        """Begin a reply, without a call of the model.

        constraint  builds the answer's constraint when the answer begins
        continued   text and tokens with which the answer begins; a part of a character at the
                    end of the tokens may be completed by this reply
        """
        self.text = ""
        self.ended: str | None = None
        self.stats = generation.stats = stats
        self._generation = generation
        self._tokenizer = tokenizer
        self._stop = stop
        self._constraint = constraint  # None once the constraint is built
        self._stream = tokenizer.stream()
        self._decoded = ""  # `text`, followed by a possible beginning of a stop text
        before, tokens = continued
        certain = self._stream.feed(*tokens)
        self.prefix = certain if before.rstrip(REPLACEMENT) == certain else before
        # The end of `prefix`, where a stop text may have begun.
        self._tail = self.prefix[max(0, len(self.prefix) - stop.longest + 1) :]
        # After each token: the length of `_decoded`, and whether that was the whole token.
        self._marks: list[tuple[int, bool]] = []
        self._cut = False
        self._cut_prefix = False  # whether the stop text began in `prefix`
        self._is_replaced = False

    @property
    def tokens(self) -> list[int]:
        """All tokens that the model generated, also the tokens after a stop text."""
        return self._generation.tokens

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """One for each of the tokens, if they were requested."""
        return self._generation.logprobs

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
            self._check_current()
            if self._constraint is not None:
                assert isinstance(self._generation, Generation), "a scheduler takes no constraint"
                constrain(self._generation, await self._constraint())
                self._constraint = None
                self._check_current()
            try:
                token = await anext(self._generation)
            except StopAsyncIteration:
                self._check_current()
                piece = self._finish()
            else:
                self._check_current()
                piece = self._append(token)
            if piece:
                return piece
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop generating, and let others use the model."""
        if isinstance(self._generation, BatchedGeneration):
            self._generation.cancel()

    def _check_current(self) -> None:
        if self._is_replaced:
            raise ContextError(
                "this answer ended when the Chat began another, or when its messages were changed"
            )

    def _append(self, token: int) -> str:
        """Decode a token; return the text that is certain now."""
        self._decoded += self._stream.feed(token)
        self._marks.append((len(self._decoded), self._stream.is_whole))
        certain = self._stop.certain(self._tail + self._decoded, self._start)
        return self._emit(max(certain - len(self._tail), len(self.text)))

    def _finish(self) -> str:
        """Return the text that was held back."""
        self._decoded += self._stream.flush()
        self.ended = self._generation.why_ended
        return self._emit(len(self._decoded))

    @property
    def _start(self) -> int:
        """The first place in `_tail` and `_decoded` where a stop text may begin.

        A stop text begins after the emitted text; before any text is emitted, also in the prefix.
        """
        return len(self._tail) + len(self.text) if self.text else 0

    def _emit(self, until: int) -> str:
        """Add decoded text up to a place, or up to a stop text, to `text`, and return it."""
        before = len(self._tail)
        found = self._stop.find(self._tail + self._decoded, self._start, before)
        if found is not None:
            until, self._cut, self.ended = max(found - before, 0), True, "stop"
            if found < before:
                self.prefix = self.prefix[: len(self.prefix) - before + found]
                self._decoded, self._cut_prefix = "", True
        piece = self._decoded[len(self.text) : until]
        self.text += piece
        return piece

    def _kept_tokens(self) -> list[int] | None:
        if self._cut_prefix:
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


# The Chat's access to replies: no part of the public API


def stats_of(
    generation: Generation | BatchedGeneration, retokenized: int = 0, dropped: int = 0
) -> ReplyStats:
    """Return the statistics with which a reply begins."""
    known = asdict(generation.stats)
    return ReplyStats(**known, retokenized=retokenized, dropped=dropped)


def has_output(reply: Reply) -> bool:
    """Return whether the conversation has any text of a reply."""
    return bool(reply.text) or reply.ended is not None


def kept_tokens(reply: Reply) -> list[int] | None:
    """Return the tokens of a reply's text, as far as possible as the model generated them.

    The end of the text may be inside of a token: that part is encoded again. Returns None if no
    tokens decode to the text, or if the text ends before the first token.
    """
    return reply._kept_tokens()


def mark_replaced(reply: Reply) -> None:
    """End a reply for good: the Chat has begun another reply, or its messages were changed."""
    reply._is_replaced = True
