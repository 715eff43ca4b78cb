"""JSON schemas by llguidance, which follows grammars with a stack: any depth and size.

Its wheels are for CPython (`webpte[constraints]`). Schemas have the meaning of JSON Schema 2020-12,
but objects are closed (closed_objects.py), their properties come in the schema's order, and JSON is
written as `json.dumps` writes it, as with the automata.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cache, partial
from reprlib import repr as shown
from typing import Any

import numpy as np

from webpte.errors import InputError, TextError, WebpteError
from webpte.llm.constrain.closed_objects import closed
from webpte.llm.constrain.constraint import Allowed
from webpte.llm.constrain.deep_threads import in_deep_thread
from webpte.llm.constrain.json_answer import JsonAnswer
from webpte.llm.constrain.json_values import Schema
from webpte.llm.text import Tokenizer
from webpte.llm.text.tokenizer import engine_errors

INSTALL = (
    "llguidance takes more and larger schemas: in CPython `pip install webpte[constraints]` has it"
)
CHECKED_AT_ONCE = 16_384  # characters of a grammar; such a grammar takes up to some 30 ms
MOST_SECONDS = 30.0  # limit for reading a grammar: some never end
MOST_UNFINISHED = 2  # abandoned grammars that are still being read
_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# Messages of llguidance when it meets its limits while an answer is generated.
_LIMIT = re.compile(r"\bmax is \d|too (complex|large|many)")
_TOO_COMPLEX = ("LexerTooComplex", "ParserTooComplex")
# Bytes of JSON and of the texts around it: a tokenizer that lacks one of these bytes may have no
# token where llguidance expects a fitting token.
_NEEDED = (0x0A, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF5))


@cache
def load_guidance() -> Any | None:
    """Return the library, or None where it is not installed."""
    try:
        import llguidance
    except ImportError:
        return None
    return llguidance


def grammar_of(answer: JsonAnswer) -> str:
    """Return the grammar of an answer; raise InputError for schemas that llguidance does not take.

    A large grammar is checked when it is followed, since that takes a while.
    """
    library = load_guidance()
    assert library is not None, "see load_guidance"
    matcher = library.LLMatcher
    rules = [f"start: {' | '.join(f'form_{n}' for n in range(len(answer.forms)))}"]
    for number, form in enumerate(answer.forms):
        text = _schema_text(form.schema, answer.name)
        alone = _checked(matcher, matcher.grammar_from_json_schema(text), answer.name)
        if len(answer.forms) == 1 and not form.before and not form.after:
            return alone
        parts = [_quoted(form.before), f"json_{number}", _quoted(form.after)]
        rules.append(f"form_{number}: {' '.join(filter(None, parts))}")
        rules.append(f"json_{number}: %json {text}")
    return _checked(matcher, matcher.grammar_from_lark("\n".join(rules)), answer.name)


def _checked(matcher: Any, grammar: str, name: str) -> str:
    if len(grammar) > CHECKED_AT_ONCE:
        return grammar
    with engine_errors("llguidance", f"reading {name}"):
        check = partial(matcher.validate_grammar_with_warnings, grammar)
        wrong, messages = in_deep_thread(check).result()
    if wrong:
        raise InputError(f"{name}: {_first_lines(messages[0])}")
    return grammar


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def _schema_text(schema: Schema, name: str) -> str:
    if not isinstance(schema, Mapping):
        raise InputError(f"{name}: {shown(schema)} is not a schema that describes JSON")
    try:
        return json.dumps({**closed(schema), "x-guidance": _WRITTEN}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {error}") from error


def _first_lines(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return "; ".join(lines[:3]) if lines else "it is not a schema"


class Guide:
    """A tokenizer for llguidance. Loaded by `load`, once per tokenizer."""

    def __init__(self, library: Any, tokenizer: Any, tokens: int) -> None:
        self._library = library
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._unfinished: set[Future[GrammarConstraint]] = set()

    @classmethod
    async def load(cls, tokenizer: Tokenizer) -> Guide | None:
        """Return a guide; None for a tokenizer that lacks tokens for bytes of JSON."""
        library = load_guidance()
        if library is None:
            return None
        pieces = tokenizer.pieces()
        await asyncio.sleep(0)
        alone = {piece[0] for piece in pieces if piece is not None and len(piece) == 1}
        if not alone.issuperset(_NEEDED):
            return None
        words = _TokenizerAdapter(tokenizer, pieces)
        with engine_errors("llguidance", "reading the tokenizer"):
            made = library.LLTokenizer(library.TokenizerWrapper(words), slices=[])
            await asyncio.sleep(0)  # each part takes up to half a second, and holds Python's lock
            made = made.with_slices(library.LLTokenizer.json_slices())
        return cls(library, made, len(pieces))

    async def follow(self, grammar: str, name: str) -> GrammarConstraint:
        """Return the constraint of a grammar; errors use its `name`.

        Raises InputError for a grammar that llguidance does not take, or not within
        MOST_SECONDS.
        """
        self._unfinished = {work for work in self._unfinished if not work.done()}
        if len(self._unfinished) >= MOST_UNFINISHED:
            raise InputError(f"{name}: others are still being read; try again later")
        work = in_deep_thread(partial(self._follow, grammar, name))
        self._unfinished.add(work)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), MOST_SECONDS)
        except TimeoutError:
            told = f"{name} takes more than {MOST_SECONDS:.0f} s to read: make it simpler"
            raise InputError(told) from None

    def _follow(self, grammar: str, name: str) -> GrammarConstraint:
        matcher = self._library.LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise InputError(f"{name}: {_first_lines(matcher.get_error())}")
        made = GrammarConstraint(matcher, self._tokens, name)
        try:
            made.after(())
        except TextError as error:
            raise InputError(f"{name}: nothing fits it, or it is too large ({error})") from error
        return made


class _TokenizerAdapter:
    """The tokens in bytes with their encoder, as llguidance asks for them.

    A token behind all others stands for the end of an answer, for any tokens that end a model's
    answer.
    """

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, pieces: Sequence[bytes | None]) -> None:
        self.tokens = [*(piece or b"" for piece in pieces), b"<end of answer>"]
        self.eos_token_id = len(pieces)
        self.special_token_ids = [
            *(number for number, piece in enumerate(pieces) if not piece),
            self.eos_token_id,
        ]
        self._tokenizer = tokenizer
        self._numbers = {piece: number for number, piece in enumerate(pieces) if piece}
        self._longest = max(map(len, self._numbers))

    def __call__(self, text: bytes) -> list[int]:
        """Return the tokens of a text.

        If the tokenizer adds a space or reads a special token, the result has the longest fitting
        tokens.
        """
        try:
            found = self._tokenizer.encode(text.decode(errors="replace"), special=False)
        except WebpteError:  # llguidance calls this function, and cannot pass the error on
            found = []
        known = [self.tokens[token] for token in found if token < self.eos_token_id]
        return found if b"".join(known) == text and all(known) else self._greedy(text)

    def _greedy(self, text: bytes) -> list[int]:
        found, at = list[int](), 0
        while at < len(text):
            for end in range(min(len(text), at + self._longest), at, -1):
                if text[at:end] in self._numbers:
                    break
            else:
                break  # a byte without a token: the rest is not needed
            found.append(self._numbers[text[at:end]])
            at = end
        return found


class GrammarConstraint:
    """Constrains answers to a grammar. Built by `Guide`."""

    def __init__(self, matcher: Any, tokens: int, name: str) -> None:
        self._matcher, self._tokens, self._name = matcher, tokens, name
        self._consumed: list[int] = []
        self._allowed: Allowed | None = None

    def after(self, generated: Sequence[int]) -> Allowed:
        self._go_to(generated)
        if self._allowed is None:
            mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            self._check("the answer cannot go on")
            bits = np.unpackbits(mask, count=self._tokens, bitorder="little")
            self._allowed = Allowed(np.flatnonzero(bits), bool(self._matcher.is_accepting()))
        return self._allowed

    def _go_to(self, generated: Sequence[int]) -> None:
        """Bring the matcher to the state after these tokens: roll back, then consume."""
        given, known = list(generated), self._consumed
        same = len(known)
        if given[:same] != known:
            pairs = enumerate(zip(given, known, strict=False))
            same = next((n for n, (a, b) in pairs if a != b), min(len(given), len(known)))
            self._matcher.rollback(len(known) - same)
            self._consumed, self._allowed = given[:same], None
        if len(given) > same:
            self._allowed = None
            self._matcher.consume_tokens(given[same:])
            self._check(f"the tokens {given[same:]} do not fit")
            self._consumed = given

    def _check(self, what: str) -> None:
        if self._matcher.is_error():
            reason = _first_lines(self._matcher.get_error())
            if _LIMIT.search(reason) or self._matcher.stop_reason() in _TOO_COMPLEX:
                told = f"{self._name} is too large ({reason}): give it fewer properties or choices"
                raise InputError(told)
            raise TextError(f"{self._name}: {what}: {reason}")
