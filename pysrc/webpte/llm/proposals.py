"""Tokens that may come next, guessed cheaply: by the conversation itself, or by a smaller model.

A wrong guess costs time, and never changes an answer: the model checks each guess
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

STREAK = 3  # guesses are tried again after this many tokens in a row that a lookup had guessed


class Proposer(Protocol):
    """Proposer of the tokens that follow a conversation.

    submissions  to the GPU, for all proposals
    broken       the reason why it cannot propose any more, or None
    session      the session of the draft that proposes, or None
    """

    submissions: int
    broken: str | None

    @property
    def session(self) -> KVSession | None: ...

    @property
    def is_open(self) -> bool:
        """Whether the proposer can be called; a closed proposer becomes broken."""

    @property
    def has_guess(self) -> bool:
        """Whether a guess is possible after the tokens that are known."""

    async def catch_up(self, context: Sequence[int]) -> bool:
        """Prepare rounds on the GPU; return whether a guess is possible."""

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        """Return up to `count` tokens, [] if no guess is possible."""

    def watch(self, token: int) -> bool:
        """Record a token that came without a guess; return whether guesses would be right now."""

    def note(self, token: int) -> None:
        """Record a token that a round gave."""


class PromptLookup:
    """Guesses the tokens that followed an earlier occurrence of the conversation's last tokens.

    `webpte.guess_tokens` does the same on the GPU.
    """

    is_open = True

    def __init__(self) -> None:
        self.submissions = 0
        self.broken: str | None = None
        self.session: KVSession | None = None
        self._tokens: list[int] = []
        # tokens to the place after their latest occurrence
        self._after: dict[tuple[int, ...], int] = {}
        self._streak = 0

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        """Copy tokens from the earlier occurrence on; at its end the copy continues with itself."""
        start = self._match_of(context)
        if start is None:
            return []
        copied = self._tokens[start : start + count]
        while len(copied) < count:
            copied.append(copied[len(copied) + start - len(self._tokens)])
        return copied

    @property
    def has_guess(self) -> bool:
        """Whether the last tokens occurred in the conversation before."""
        return self._match() is not None

    async def catch_up(self, context: Sequence[int]) -> bool:
        """Return whether the last tokens occurred in the conversation before."""
        return self._match_of(context) is not None

    def watch(self, token: int) -> bool:
        """Compare a token with the guess that a lookup would have made."""
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
        """Read a conversation, or its new tokens, and return the match of the last tokens."""
        known = len(self._tokens)
        if list(context[:known]) != self._tokens:
            self._tokens, self._after, known = [], {}, 0
        self._read(context[known:])
        self._streak = 0
        return self._match()

    def _match(self) -> int | None:
        """Return the place after an earlier occurrence of the last tokens, or None."""
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
    """Guesses the tokens of a smaller model, with the same sampling settings and the same seed.

    Random numbers belong to a seed, a position and a token, so two models that agree on the
    probabilities sample the same tokens. An error of the draft never becomes an error of the
    answer.
    """

    has_guess = True

    def __init__(self, session: KVSession, settings: SamplerSettings) -> None:
        """Use the draft's KV session; the prefix that it shares with the conversation stays."""
        self.submissions = 0
        self.broken: str | None = None
        self.session = session
        self._settings = SamplerSettings(settings.sampling, settings.seed)

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        """Decode with the draft; return [] if its context is full or if others use it now."""
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
        """Bring all tokens but the last into the draft's cache; return whether they are there."""
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
        """Whether the draft can be called; a closed draft is broken."""
        try:
            call_log_of(self.session.program).check_open()
        except WebpteError as error:
            self._fail(error)
        return self.broken is None

    def _fail(self, error: WebpteError) -> None:
        self.broken = f"the draft {self.session.program.name} failed: {error}"

    def watch(self, token: int) -> bool:
        """Return False: only a run of the draft could find its guess."""
        return False

    def note(self, token: int) -> None:
        """Do nothing: the draft's session has the conversation."""


def draft_session(draft: Program, session: KVSession) -> KVSession:
    """Return a session for a draft of this session's program; raise if it cannot be a draft."""
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
