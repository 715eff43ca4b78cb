"""A conversation in text: messages in, pieces of text out, and the cache always fits to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Unpack

from webpte.errors import ChatTemplateError, ContextError, InputError
from webpte.llm.constrain.constraint import Constraint, OneOf
from webpte.llm.constrain.expression import Expression
from webpte.llm.constrain.grammar import Matching
from webpte.llm.constrain.json_schema import json_of
from webpte.llm.constrain.regex import expression_of
from webpte.llm.constrain.vocabulary import Vocabulary
from webpte.llm.generation import Generation, GenerationOptions, Generator
from webpte.llm.prompt import Prompt, PromptMaker, Said, Turn
from webpte.llm.reply import Reply, ReplyStats, StopStrings
from webpte.runtime.program import Program
from webpte.text import ChatTemplate, Message, Tokenizer, check_fits

MAX_NEW_TOKENS = 512
WHEN_FULL = ("error", "slide")
# An answer is given room for as many tokens as it may have, but no more than this part of the
# context. Where messages are dropped for that, so much of it becomes free: dropping computes what
# stays anew, so it has to last for a few answers.
ROOM = 4


class ReplyOptions(GenerationOptions, total=False):
    """How an answer is made.

    stop         texts that end an answer, and are no part of it, besides those of the Chat
    stop_tokens  tokens that do, likewise
    choices      texts, of which the answer is to be one
    regex        an expression that all of the answer is to match; see `Grammars.regex`
    schema       a JSON schema, of which the answer is to be JSON; see `Grammars.schema`
    """

    stop: Collection[str]
    stop_tokens: Collection[int]
    choices: Sequence[str] | None
    regex: str | None
    schema: Mapping[str, Any] | None


class Chat:
    """A conversation with one program, in messages.

    `messages` are all there is to it: what the program's cache holds follows from them. So an
    answer may be broken off, fail or be cancelled, the program may be recovered or used by others
    in between, and messages may be changed; the next answer is that to the messages as they are,
    and costs what is not in the cache.
    """

    def __init__(
        self,
        program: Program,
        tokenizer: Tokenizer,
        system: str | None = None,
        *,
        template: ChatTemplate | None = None,
        variables: Mapping[str, Any] | None = None,
        stop: Collection[str] = (),
        stop_tokens: Collection[int] = (),
        when_full: str = "error",
        method: str = "forward",
    ) -> None:
        """
        system     the message before all others
        template   in place of the tokenizer's own; `variables` are what it takes besides messages
        stop, stop_tokens   end an answer; so do the program's own and the template's
        when_full  what to do with messages that the context does not hold: "error", or "slide":
                   go on without the oldest ones, from the first question that leaves room
        """
        if when_full not in WHEN_FULL:
            raise InputError(f"when_full is one of {', '.join(WHEN_FULL)}, not {when_full!r}")
        template = template or tokenizer.template
        if template is None:
            raise ChatTemplateError(
                "the tokenizer has no chat template: load it with its tokenizer_config.json "
                "(config=...), or give the Chat one (template=await ChatTemplate.load(...))"
            )
        check_fits(tokenizer, program, method)
        self._generator = Generator(program, method)
        self._tokenizer = tokenizer
        self._prompts = PromptMaker(tokenizer, template, variables or {})
        self._stop = tuple(stop)
        StopStrings(stop)  # says so at once if they are none
        self._stop_tokens = frozenset(stop_tokens) | self._ends()
        self._when_full = when_full
        self._turns: tuple[Turn, ...] = () if system is None else (Turn("system", system),)
        self._prompt = Prompt("", (), 0)  # what the reply follows
        self._question = 0  # how many of its tokens come before the answer
        self._reply: Reply | None = None
        self._begun: Turn | None = None  # the answer that the reply goes on with
        self._dropped = 0
        self._vocabulary: Vocabulary | None = None
        self._asked: tuple[int, ReplyOptions] = MAX_NEW_TOKENS, {}

    def _ends(self) -> frozenset[int]:
        """Tokens that end every answer, as far as the tokenizer and its template know."""
        eos = self._tokenizer.special.get("eos_token")
        known = {self._prompts.turn_end(), self._tokenizer.id_of(eos) if eos else None}
        return frozenset(token for token in known if token is not None)

    # The messages

    @property
    def messages(self) -> list[dict[str, str]]:
        """All of them, the answer that is being made among them as far as it is. A copy: to change
        messages, assign to it, or use what is below."""
        return [turn.message for turn in self._all_turns()]

    @messages.setter
    def messages(self, messages: Iterable[Message]) -> None:
        known = self._all_turns()
        turns = [Turn(str(message["role"]), str(message["content"])) for message in messages]
        for index, (old, new) in enumerate(zip(known, turns, strict=False)):
            if old.message == new.message:
                turns[index] = old
        self._change(turns)

    def undo(self) -> str:
        """Take back the last question, and its answer; returns the question."""
        turns = self._all_turns()
        index = _last_question(turns)
        self._change(turns[:index])
        return turns[index].content

    def edit(self, index: int, text: str) -> None:
        """Change a message. Those after it were said to another, and go; but the system's message
        changes alone."""
        turns = self._all_turns()
        if not -len(turns) <= index < len(turns):
            raise InputError(f"there are {len(turns)} messages, and none has the number {index}")
        index %= len(turns)
        role = turns[index].role
        after = turns[index + 1 :] if role == "system" else ()
        self._change([*turns[:index], Turn(role, text), *after])

    def _change(self, turns: Sequence[Turn]) -> None:
        self._turns, self._reply, self._begun, self._dropped = tuple(turns), None, None, 0

    def _all_turns(self) -> tuple[Turn, ...]:
        """With the last answer, as far as it is."""
        reply, begun = self._reply, self._begun
        if reply is None or not reply.begun:
            return self._turns if begun is None else (*self._turns, begun)
        kept = reply.kept_tokens()
        said = None
        if kept is not None:
            said = Said(self._prompt.text, (*self._prompt.tokens, *kept), self._question)
        return *self._turns, Turn("assistant", reply.follows + reply.text, said)

    # Answers

    def send(
        self, text: str, max_new_tokens: int = MAX_NEW_TOKENS, **options: Unpack[ReplyOptions]
    ) -> Reply:
        """Ask something. The answer is made as it is iterated; one that is not at its end is broken
        off there.

        If it is never asked for, or fails, the question stays: `regenerate` answers it, `undo`
        takes it back.
        """
        return self._answer([*self._all_turns(), Turn("user", text)], max_new_tokens, options)

    def regenerate(
        self, max_new_tokens: int | None = None, **options: Unpack[ReplyOptions]
    ) -> Reply:
        """Another answer to the last question, as the last one was asked for but for the options
        given here."""
        turns = self._all_turns()
        count, before = self._asked
        changed: ReplyOptions = {**before, **options}
        turns = turns[: _last_question(turns) + 1]
        return self._answer(turns, count if max_new_tokens is None else max_new_tokens, changed)

    def go_on(self, max_new_tokens: int | None = None, **options: Unpack[ReplyOptions]) -> Reply:
        """More of the last answer, as it was asked for but for the options given here, and without
        what all of it had to be (`choices`, ...). What comes is added to that message; the reply
        has the new part alone."""
        *turns, last = self._all_turns() or (None,)
        if last is None or last.role != "assistant":
            raise InputError("there is no answer to go on with: the last message is none")
        count, before = self._asked
        free: ReplyOptions = {"choices": None, "regex": None, "schema": None, "constraint": None}
        changed: ReplyOptions = {**before, **free, **options}
        count = count if max_new_tokens is None else max_new_tokens
        return self._answer(turns, count, changed, last)

    def _answer(
        self,
        turns: Sequence[Turn],
        max_new_tokens: int,
        options: ReplyOptions,
        begun: Turn | None = None,
    ) -> Reply:
        """To the last of the turns; `begun` is what there is of the answer already."""
        given: dict[str, Any] = dict(options)
        stop = StopStrings((*self._stop, *_texts(given.pop("stop", ()))))
        ends = self._stop_tokens | set(given.pop("stop_tokens", ()))
        wanted = self._wanted(given)
        prompt, question, dropped = self._fitting(turns, begun, max_new_tokens)
        generation = self._generator.generate(prompt.tokens, max_new_tokens, stop=ends, **given)
        stats = ReplyStats(**asdict(generation.stats))
        stats.retokenized, stats.dropped = prompt.retokenized, dropped
        why = partial(self._why_ended, prompt, generation, max_new_tokens)
        # Nothing fails from here on: the conversation is either as it was, or goes on.
        self._turns, self._prompt, self._dropped = tuple(turns), prompt, dropped
        self._question = question
        self._asked, self._begun = (max_new_tokens, options), begun
        self._reply = Reply(
            generation, self._tokenizer, stop, stats, why, self._check_current, wanted
        )
        if begun is not None:
            self._reply.follow(begun.content, prompt.tokens[question:])
        return self._reply

    def _wanted(self, given: dict[str, Any]) -> Callable[[], Awaitable[Constraint]] | None:
        """Take a constraint that takes time to prepare out of the options."""
        asked = {name: given.pop(name, None) for name in ("choices", "regex", "schema")}
        asked["constraint"] = given.get("constraint")
        names = [name for name, value in asked.items() if value is not None]
        if len(names) > 1:
            raise InputError(f"one of {', '.join(names)} can be kept to, not several")
        if asked["choices"] is not None:
            given["constraint"] = OneOf.of_texts(asked["choices"], self._tokenizer)
        regex, schema = asked["regex"], asked["schema"]
        if regex is None and schema is None:
            return None
        # What is wrong with them is told before anything changes.
        expression = expression_of(regex) if regex is not None else json_of(schema)
        name = "the schema" if regex is None else f"the regex {regex!r}"
        return partial(self._matching, expression, name)

    async def _matching(self, expression: Expression, name: str) -> Constraint:
        if self._vocabulary is None:
            self._vocabulary = await Vocabulary.of(self._tokenizer.pieces())
        return await Matching.of(expression, self._vocabulary, name)

    def _check_current(self, reply: Reply) -> None:
        if self._reply is not reply:
            raise ContextError(
                "this answer ended when the Chat began another, or when its messages were changed"
            )

    def _why_ended(self, prompt: Prompt, generation: Generation, max_new_tokens: int) -> str:
        """A stop token is in the Generator's context, but not among the tokens."""
        said = len(generation.tokens)
        stopped = len(self._generator.context) > len(prompt.tokens) + said
        if generation.is_complete or stopped:
            return "stop"
        return "length" if said >= max_new_tokens else "full"

    # A full context

    def _fitting(
        self, turns: Sequence[Turn], begun: Turn | None, max_new_tokens: int
    ) -> tuple[Prompt, int, int]:
        """The prompt with what there is of the answer, how many of its tokens come before that, and
        how many old messages are not in it."""
        most, dropped = self._generator.max_context, self._dropped
        prompt, question = self._with(turns, begun, dropped)
        if most is None:
            return prompt, question, dropped
        if self._when_full == "slide":
            free = min(max_new_tokens, most // ROOM)
            while len(prompt.tokens) + free > most:
                start = _next_question(turns, dropped)
                if start is None:
                    break
                dropped, free = start, most // ROOM
                prompt, question = self._with(turns, begun, dropped)
        if len(prompt.tokens) > most:
            answer = "" if begun is None else " and its answer"
            advice = (
                f"the last question{answer} alone is too long"
                if self._when_full == "slide"
                else 'undo() or edit() messages, or make the Chat with when_full="slide"'
            )
            raise InputError(
                f"the conversation has {len(prompt.tokens)} tokens, over the {most} that the "
                f"program's context holds: {advice}"
            )
        return prompt, question, dropped

    def _with(self, turns: Sequence[Turn], begun: Turn | None, dropped: int) -> tuple[Prompt, int]:
        """The prompt without so many messages, and how long it is without the begun answer."""
        prompt = self._prompts.prompt(_without(turns, dropped))
        return self._prompts.go_on(prompt, begun), len(prompt.tokens)


def _texts(stop: Collection[str]) -> Collection[str]:
    StopStrings(stop)
    return stop


def _first(turns: Sequence[Turn]) -> int:
    """Where messages begin that can be dropped."""
    return 1 if turns and turns[0].role == "system" else 0


def _without(turns: Sequence[Turn], dropped: int) -> list[Turn]:
    first = _first(turns)
    return [*turns[:first], *turns[first + dropped :]]


def _next_question(turns: Sequence[Turn], dropped: int) -> int | None:
    """How many to drop so that the conversation begins with the question after its first one."""
    rest = turns[_first(turns) :]
    later = (n for n in range(dropped + 1, len(rest)) if rest[n].role == "user")
    return next(later, None)


def _last_question(turns: Sequence[Turn]) -> int:
    for index in range(len(turns) - 1, -1, -1):
        if turns[index].role == "user":
            return index
    raise InputError("nothing has been asked yet")
