"""Answers that match a regular expression, or are JSON that fits a schema."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from webpte.errors import InputError, TextError
from webpte.llm.constrain.automaton import ByteAutomaton
from webpte.llm.constrain.constraint import Allowed, Constraint
from webpte.llm.constrain.expression import Expression
from webpte.llm.constrain.guidance import INSTALL, Guide, grammar_of, load_guidance
from webpte.llm.constrain.json_answer import JsonAnswer, JsonForm
from webpte.llm.constrain.regex import expression_of
from webpte.llm.constrain.vocabulary import Vocabulary
from webpte.llm.text import Tokenizer

STATES_KEPT = 256  # states with cached tokens


class Matching:
    """Constrains answers to full matches of an expression. Built by `Grammars`."""

    def __init__(self, automaton: ByteAutomaton, vocabulary: Vocabulary, ends: np.ndarray) -> None:
        """`ends` are the states from which tokens are known to lead to an accepting state."""
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._allowed: dict[int, Allowed] = {}
        self._ends = ends
        self._stuck = np.zeros_like(ends)  # states from which tokens do not

    def after(self, generated: Sequence[int]) -> Allowed:
        state = self._automaton.start
        for token in generated:
            state = self._automaton.after(state, self._vocabulary.pieces[token] or b"")
        if state not in self._allowed:
            if len(self._allowed) >= STATES_KEPT:
                self._allowed.clear()
            tokens, targets = self._vocabulary.next_tokens(self._automaton, state)
            for target in np.nonzero(np.bincount(targets))[0].tolist():
                self._can_end(target)
            kept = tokens[~self._stuck[targets]]
            self._allowed[state] = Allowed(kept, bool(self._automaton.accepts[state]))
        return self._allowed[state]

    def _can_end(self, state: int) -> bool:
        """Return whether tokens lead from a state to an accepting state, and cache the result."""
        seen, waiting = {state}, [state]
        for one in waiting:
            if self._ends[one]:
                self._ends[state] = True
                return True
            _, targets = self._vocabulary.next_tokens(self._automaton, one)
            new = set(np.nonzero(np.bincount(targets[~self._stuck[targets]]))[0].tolist()) - seen
            seen |= new
            waiting += sorted(new, key=lambda target: not self._ends[target])
        self._stuck[waiting] = True
        return False


async def compile_matching(expression: Expression, vocabulary: Vocabulary, name: str) -> Matching:
    """Compile an expression; errors use its `name`.

    Raises InputError if it is too large or matches nothing, TextError if the tokenizer has no
    tokens for it.
    """
    automaton = await ByteAutomaton.of(expression, name)
    # Some bytes may be in no token, unless they are tokens by themselves.
    matching = Matching(automaton, vocabulary, await automaton.ended_by(vocabulary.alone))
    if not matching._can_end(automaton.start):
        raise TextError(f"{name}: the tokenizer has no tokens for any text that matches")
    return matching


class Grammars:
    """Builds constraints for the tokens of a tokenizer. Loaded by `load`."""

    def __init__(self, grammars: LazyGrammars) -> None:
        self._grammars = grammars

    @classmethod
    async def load(cls, tokenizer: Tokenizer) -> Grammars:
        grammars = LazyGrammars(tokenizer)
        await grammars.vocabulary()
        return cls(grammars)

    async def regex(self, pattern: str) -> Matching:
        """Constrain answers to a pattern of Python's `re`, which the whole answer must match.

        Raises InputError if an automaton cannot match it (regex.py), or would be too large.
        """
        return await self._grammars.matching(expression_of(pattern), f"the regex {pattern!r}")

    async def schema(self, schema: Mapping[str, Any]) -> Constraint:
        """Constrain answers to JSON of a schema.

        llguidance does it if it is installed (guidance.py), else an automaton: json_schema.py lists
        the keywords that it supports.
        """
        return await self._grammars.json(JsonAnswer((JsonForm(schema),)))()


class LazyGrammars:
    """Builds constraints for a tokenizer; its tokens are read for the first constraint.

    Regular expressions become automata. JSON goes to llguidance if it is installed; schemas that it
    does not support, and tokenizers that lack bytes, go to the automata.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._vocabulary: Vocabulary | None = None
        self._guide: Guide | None = None
        self._has_guide: bool | None = None  # None until tried

    async def vocabulary(self) -> Vocabulary:
        """Return the tokens, read on first use."""
        if self._vocabulary is None:
            self._vocabulary = await Vocabulary.of(self._tokenizer.pieces())
        return self._vocabulary

    async def guide(self) -> Guide | None:
        """Return llguidance's view of the tokenizer, made on first use; None without llguidance."""
        if self._has_guide is None:
            self._guide = await Guide.load(self._tokenizer)
            self._has_guide = self._guide is not None
        return self._guide

    async def matching(self, expression: Expression, name: str) -> Matching:
        """Constrain answers to an expression; errors use its `name`."""
        return await compile_matching(expression, await self.vocabulary(), name)

    def json(self, answer: JsonAnswer) -> Callable[[], Coroutine[Any, Any, Constraint]]:
        """Return a constraint's builder; raise InputError at once for unsupported schemas."""
        refused: InputError | None = None
        if load_guidance() is not None and self._has_guide is not False:
            try:
                return partial(self._follow, grammar_of(answer), answer)
            except InputError as error:
                refused = error
        try:
            return partial(self._match, answer.expression(), answer.name)
        except InputError as error:
            raise refused or _hinted(error) from error

    async def _follow(self, grammar: str, answer: JsonAnswer) -> Constraint:
        guide = await self.guide()
        if guide is None:
            return await self._match(answer.expression(), answer.name)
        try:
            return await guide.follow(grammar, answer.name)
        except InputError as refused:
            try:
                return await self._match(answer.expression(), answer.name)
            except InputError as error:
                raise refused from error

    async def _match(self, expression: Expression, name: str) -> Constraint:
        try:
            return await self.matching(expression, name)
        except InputError as error:
            raise _hinted(error) from error


def _hinted(error: InputError) -> InputError:
    """Return the error of an automaton, with a hint to a missing library that supports more."""
    return error if load_guidance() is not None else InputError(f"{error} ({INSTALL})")
