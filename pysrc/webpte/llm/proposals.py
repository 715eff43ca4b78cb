"""Tokens that may come next, guessed cheaply: by the conversation itself, or by a smaller model.

A guess costs time if it is wrong, and never changes an answer: the model checks each one
(`speculation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from webpte.engine.ops.sampling.guess_tokens import GRAMS
from webpte.errors import ContextError, InputError, VocabularyError, WebpteError
from webpte.llm.decode.sampling import SamplerSettings
from webpte.llm.decode_loop import DecodeLoop
from webpte.llm.kv_session import KVSession
from webpte.llm.program_signature import numbers_of
from webpte.program import Program, call_log_of

STREAK = 3  # tokens in a row that a lookup would have guessed: guesses are worth a try


class Proposer(Protocol):
    """Proposes the tokens that follow a conversation.

    submissions  to the GPU, for all proposals
    broken       the reason why it cannot propose any more, or None
    session      of the draft that proposes, if one does
    """

    submissions: int
    broken: str | None

    @property
    def session(self) -> KVSession | None: ...

    @property
    def is_open(self) -> bool:
        """Whether it can be called; if not, it is broken."""

    @property
    def has_guess(self) -> bool:
        """Whether there is something to guess from after the tokens that are known."""

    async def catch_up(self, context: Sequence[int]) -> bool:
        """Prepare rounds on the GPU; tell whether there is something to guess from."""

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        """Return up to `count` tokens; none where there is nothing to guess from."""

    def watch(self, token: int) -> bool:
        """Note a token that came without a guess; tell whether guesses would be right now."""

    def note(self, token: int) -> None:
        """Note a token that came of a round."""


class PromptLookup:
    """Proposes what followed the last tokens when they were in the conversation before.

    `webpte.guess_tokens` does the same on the GPU.
    """

    is_open = True

    def __init__(self) -> None:
        self.submissions = 0
        self.broken: str | None = None
        self.session: KVSession | None = None
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # tokens to the place after the latest such
        self._streak = 0

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        """Copy what followed; a copy that reaches the end continues with what it has copied."""
        start = self._match_of(context)
        if start is None:
            return []
        copied = self._tokens[start : start + count]
        while len(copied) < count:
            copied.append(copied[len(copied) + start - len(self._tokens)])
        return copied

    @property
    def has_guess(self) -> bool:
        """Whether the last tokens were in the conversation before."""
        return self._match() is not None

    async def catch_up(self, context: Sequence[int]) -> bool:
        """Tell whether the last tokens were in the conversation before."""
        return self._match_of(context) is not None

    def watch(self, token: int) -> bool:
        """Compare a token with what would have been its guess."""
        if not self._tokens:
            return False
        start = self._match()
        right = start is not None and self._tokens[start] == token
        self._streak = self._streak + 1 if right else 0
        self._read([token])
        return self._streak >= STREAK

    def note(self, token: int) -> None:
        """Add a token to the conversation."""
        self._read([token])

    def _match_of(self, context: Sequence[int]) -> int | None:
        """Read a conversation, or what is new of it, and return its match."""
        known = len(self._tokens)
        if list(context[:known]) != self._tokens:
            self._tokens, self._after, known = [], {}, 0
        self._read(context[known:])
        self._streak = 0
        return self._match()

    def _match(self) -> int | None:
        """Return the place after the last tokens where they were before, if they were."""
        for length in GRAMS:
            start = self._after.get(tuple(self._tokens[-length:]))
            if start is not None:
                return start
        return None

    def _read(self, tokens: Sequence[int]) -> None:
        known = len(self._tokens)
        self._tokens += tokens
        for end in range(known, len(self._tokens)):
            for length in GRAMS:
                if end >= length:
                    self._after[tuple(self._tokens[end - length : end])] = end


class DraftModel:
    """Proposes what a smaller model says, with the same sampling settings and the same seed.

    Random numbers belong to a seed, a position and a token, so two models that agree on the
    probabilities sample the same tokens. An error of the draft never becomes one of the answer.
    """

    has_guess = True

    def __init__(self, session: KVSession, settings: SamplerSettings) -> None:
        """`session` is the draft's KV session; the prefix it shares with the conversation stays."""
        self.submissions = 0
        self.broken: str | None = None
        self.session = session
        self._settings = SamplerSettings(settings.sampling, settings.seed)

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        """Decode with the draft; nothing where its context is full or others use it now."""
        session = self.session
        most = session.max_context
        if most is not None and len(context) + count > most:
            return []
        loop = DecodeLoop(session, self._settings, count, count)
        found: list[int] = []
        try:
            rest = session.reuse_prefix(list(context))
            while len(found) < count:
                sampled = await loop.next_token(rest, count - len(found))
                rest = []
                session.append([sampled.token])
                found.append(sampled.token)
        except ContextError:  # another caller of the draft came in between
            return []
        except WebpteError as error:
            self._fail(error)
            return []
        finally:
            self.submissions += 1 + loop.submissions
        return found

    async def catch_up(self, context: Sequence[int]) -> bool:
        """Bring all tokens but the last into the draft's cache; tell whether they are there."""
        session = self.session
        if session.max_context is not None and len(context) > session.max_context:
            return False
        try:
            *rest, _ = session.reuse_prefix(list(context))
            if rest or session.pending:
                self.submissions += 1
                await session.prefill(rest, self._settings)
        except ContextError:  # another caller of the draft came in between
            return False
        except WebpteError as error:
            self._fail(error)
            return False
        return True

    @property
    def is_open(self) -> bool:
        """Whether the draft can be called; if it was closed, it is broken."""
        try:
            call_log_of(self.session.program).check_open()
        except WebpteError as error:
            self._fail(error)
        return self.broken is None

    def _fail(self, error: WebpteError) -> None:
        self.broken = f"the draft {self.session.program.name} failed: {error}"

    def watch(self, token: int) -> bool:
        """Tell nothing: to know what it would say, the draft would have to run."""
        return False

    def note(self, token: int) -> None:
        """Do nothing: its session has the conversation."""


def draft_session(draft: Program, session: KVSession) -> KVSession:
    """Return a session for a draft of this session's program; raise if it cannot be one."""
    program = session.program
    if draft is program:
        raise InputError(
            f"speculate: {draft.name} cannot be its own draft; load a smaller model, or give "
            '"lookup"'
        )
    found = KVSession(draft)
    begins = [numbers_of(one, "get_bos_id") for one in (draft, program)]
    if found.vocabulary != session.vocabulary or (all(begins) and begins[0] != begins[1]):
        raise VocabularyError(
            f"speculate: {draft.name} has another vocabulary than {program.name} "
            f"({found.vocabulary} and {session.vocabulary} tokens, first tokens {begins[0]} and "
            f"{begins[1]}); a draft needs the same tokenizer"
        )
    return found
