"""A conversation in text: messages in, pieces of text out; the KV cache follows the messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from webpte.errors import ChatTemplateError, InputError
from webpte.llm.constrain.constraint import Constraint, OneOf
from webpte.llm.constrain.grammar import LazyGrammars
from webpte.llm.constrain.json_answer import JsonAnswer, JsonForm
from webpte.llm.constrain.regex import expression_of
from webpte.llm.generation import (
    GenerationOptions,
    Generator,
    restore_context,
    save_context,
)
from webpte.llm.prompt import (
    GeneratedSpan,
    PictureReader,
    Prompt,
    PromptMaker,
    PromptPicture,
    Turn,
    end_tokens,
)
from webpte.llm.reply import Reply, StopStrings, has_output, kept_tokens, mark_replaced, stats_of
from webpte.llm.saved import read_saved
from webpte.llm.saved_turns import turns_from_json, turns_to_json
from webpte.llm.text import ChatTemplate, Message, Tokenizer, check_fits
from webpte.program import Program

MAX_NEW_TOKENS = 512
WHEN_FULL = ("error", "slide")
# An answer gets room for max_new_tokens, but for at most this part of the context. If messages are
# dropped for an answer, this part of the context becomes free: the remaining messages are then
# computed again, so the room has to last for a few answers.
ROOM = 4


class ReplyOptions(GenerationOptions, total=False):
    """Options of an answer in text.

    stop         texts that end an answer and are not part of it, besides the stop texts of the Chat
    stop_tokens  tokens that end an answer, besides the stop tokens of the Chat
    choices      texts, one of which the answer has to be
    regex        an expression that the whole answer has to match; see `Grammars.regex`
    schema       a JSON schema of which the answer has to be a valid instance; see `Grammars.schema`
    """

    stop: Collection[str]
    stop_tokens: Collection[int]
    choices: Sequence[str] | None
    regex: str | None
    schema: Mapping[str, Any] | None


class Chat:
    """A conversation with a program, in messages.

    `messages` are its only state: the contents of the KV cache follow from them. So an answer may
    be broken off, fail or be cancelled, the program may be recovered or used by others in between,
    and messages may be changed: the next answer is the answer to the messages at that time, and
    only tokens that are not in the cache are computed.
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
        reader: Callable[[Generator], PictureReader] | None = None,
    ) -> None:
        """Begin an empty conversation.

        system     the message before all others
        template   a chat template in place of the tokenizer's own; `variables` are its input
                   besides messages
        stop, stop_tokens   end an answer, besides the stop tokens of the program and the template
        when_full  the reaction when the context cannot hold all messages: "error", or "slide": drop
                   the oldest messages, up to the first question that leaves room
        reader     makes a reader of pictures, for a model that sees; the task image-text-to-text
                   has `chat()`, which gives it
        """
        if when_full not in WHEN_FULL:
            raise InputError(f"when_full is one of {', '.join(WHEN_FULL)}, not {when_full!r}")
        template = template or tokenizer.template
        if template is None:
            raise ChatTemplateError(
                "the tokenizer has no chat template: load it with its tokenizer_config.json "
                "(config=...), or give the Chat one (template=await ChatTemplate.load(...))"
            )
        self._generator = Generator(program, method)
        check_fits(tokenizer, program, self._generator.method)
        self._tokenizer = tokenizer
        self._reader = None if reader is None else reader(self._generator)
        self._prompts = PromptMaker(tokenizer, template, variables or {}, self._reader)
        self._stop = tuple(stop)
        StopStrings(stop)  # raises at once if the stop texts are invalid
        self._stop_tokens = frozenset(stop_tokens) | end_tokens(tokenizer, self._prompts)
        self._when_full = when_full
        self._turns: tuple[Turn, ...] = () if system is None else (Turn("system", system),)
        self._grammars = LazyGrammars(tokenizer)
        self._prompt = Prompt("", (), 0)  # the prompt of the reply
        self._question = 0  # the number of the prompt's tokens before the answer
        self._reply: Reply | None = None
        self._continued: Turn | None = None  # the answer that the reply continues
        self._dropped = 0
        self._requested: tuple[int, ReplyOptions] = MAX_NEW_TOKENS, {}

    # The messages

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages, with their `pictures`, and with the current answer as far as it has come.

        The list is a copy: to change messages, assign to `messages`, or call `undo` or `edit`.
        """
        return [turn.message for turn in self._all_turns()]

    @messages.setter
    def messages(self, messages: Iterable[Message]) -> None:
        known = self._all_turns()
        turns = [
            Turn(
                str(message["role"]),
                str(message["content"]),
                pictures=self._seen(message.get("pictures", ())),
            )
            for message in messages
        ]
        for index, (old, new) in enumerate(zip(known, turns, strict=False)):
            if old.says_the_same(new):
                turns[index] = old
        self._change(turns)

    def undo(self) -> str:
        """Remove the last question and its answer; return the question."""
        turns = self._all_turns()
        index = _last_question(turns)
        self._change(turns[:index])
        return turns[index].content

    def edit(self, index: int, text: str) -> None:
        """Change a message, and remove the messages after it, unless it is the system message."""
        turns = self._all_turns()
        if not -len(turns) <= index < len(turns):
            raise InputError(f"there is no message {index}: there are {len(turns)} messages")
        index %= len(turns)
        role, pictures = turns[index].role, turns[index].pictures
        after = turns[index + 1 :] if role == "system" else ()
        self._change([*turns[:index], Turn(role, text, pictures=pictures), *after])

    def _seen(self, pictures: Sequence[Any]) -> tuple[PromptPicture, ...]:
        """Prepare pictures for a message."""
        if self._reader is None and len(pictures):
            raise InputError("this chat takes no pictures: open image-text-to-text, and its chat()")
        return tuple(self._reader.see(picture) for picture in pictures) if self._reader else ()

    def _change(self, turns: Sequence[Turn]) -> None:
        self._set_reply(None)
        self._turns, self._continued, self._dropped = tuple(turns), None, 0

    def _set_reply(self, reply: Reply | None) -> None:
        if self._reply is not None:
            mark_replaced(self._reply)
        self._reply = reply

    def _all_turns(self) -> tuple[Turn, ...]:
        """Return the turns with the current answer, as far as it has come."""
        reply, continued = self._reply, self._continued
        if reply is None or not has_output(reply):
            return self._turns if continued is None else (*self._turns, continued)
        kept = kept_tokens(reply)
        span = None
        if kept is not None:
            tokens = (*self._prompt.tokens, *kept)
            span = GeneratedSpan(self._prompt.text, tokens, self._question)
        return *self._turns, Turn("assistant", reply.prefix + reply.text, span)

    # Saving

    async def save(self) -> bytes:
        """Return the conversation with the contents of the KV cache, for `restore`.

        If another caller has used the cache, the messages are saved without it.
        """
        saved = await save_context(self._generator, or_empty=True)
        extra = turns_to_json(self._all_turns(), self._dropped, (*saved.tokens, *saved.pending))
        return replace(saved, extra=extra).to_bytes()

    async def restore(self, data: bytes) -> None:
        """Continue a conversation that was saved with the same program, on any device.

        Options of answers are not saved. Data that is damaged, or of another program, is refused
        with an InputError, and the conversation does not change.
        """
        saved, head = read_saved(data)
        turns, dropped = turns_from_json(head, (*saved.tokens, *saved.pending))
        await restore_context(self._generator, saved)
        self._change(turns)
        self._dropped = dropped

    # Answers

    def send(
        self,
        text: str,
        max_new_tokens: int = MAX_NEW_TOKENS,
        *,
        pictures: Sequence[Any] = (),
        **options: Unpack[ReplyOptions],
    ) -> Reply:
        """Add a question; return its answer, which is generated as it is iterated.

        `pictures` are arrays (height, width, 3) of bytes, which come before the text. A previous
        answer that has not ended is broken off. If the new answer is never iterated, or fails, the
        question stays: `regenerate` answers it, `undo` removes it.
        """
        turn = Turn("user", text, pictures=self._seen(pictures))
        return self._answer([*self._all_turns(), turn], max_new_tokens, options)

    def regenerate(
        self, max_new_tokens: int | None = None, **options: Unpack[ReplyOptions]
    ) -> Reply:
        """Answer the last question again, with the last answer's options, updated by `options`."""
        turns = self._all_turns()
        count, before = self._requested
        changed: ReplyOptions = {**before, **options}
        turns = turns[: _last_question(turns) + 1]
        return self._answer(turns, count if max_new_tokens is None else max_new_tokens, changed)

    def continue_(
        self, max_new_tokens: int | None = None, **options: Unpack[ReplyOptions]
    ) -> Reply:
        """Continue the last answer, with its options but for constraints, updated by `options`.

        The text is added to the last message; the reply has only the new part.
        """
        *turns, last = self._all_turns() or (None,)
        if last is None or last.role != "assistant":
            raise InputError("there is no answer to continue: the last message is not one")
        count, before = self._requested
        free: ReplyOptions = {"choices": None, "regex": None, "schema": None, "constraint": None}
        changed: ReplyOptions = {**before, **free, **options}
        count = count if max_new_tokens is None else max_new_tokens
        return self._answer(turns, count, changed, last)

    def _answer(
        self,
        turns: Sequence[Turn],
        max_new_tokens: int,
        options: ReplyOptions,
        continued: Turn | None = None,
    ) -> Reply:
        """Answer the last of the turns; `continued` is the beginning of the answer, if any."""
        given: dict[str, Any] = dict(options)
        stop = StopStrings((*self._stop, *_texts(given.pop("stop", ()))))
        ends = self._stop_tokens | set(given.pop("stop_tokens", ()))
        constraint = self._take_constraint(given)
        prompt, question, dropped = self._fit(turns, continued, max_new_tokens)
        generation = self._generator.generate(prompt.tokens, max_new_tokens, stop=ends, **given)
        stats = stats_of(generation, prompt.retokenized, dropped)
        begun = ("", ()) if continued is None else (continued.content, prompt.tokens[question:])
        reply = Reply(generation, self._tokenizer, stop, stats, constraint, begun)
        # No step fails from here on: the conversation is either unchanged, or has the new turn.
        self._set_reply(reply)
        self._turns, self._prompt, self._dropped = tuple(turns), prompt, dropped
        self._question = question
        self._requested, self._continued = (max_new_tokens, options), continued
        return reply

    def _take_constraint(self, given: dict[str, Any]) -> Callable[[], Awaitable[Constraint]] | None:
        """Remove `choices`, `regex` and `schema` from the options.

        Choices become the option `constraint` at once; a regex or schema takes time to compile, so
        a function that compiles it is returned.
        """
        wanted = {name: given.pop(name, None) for name in ("choices", "regex", "schema")}
        wanted["constraint"] = given.get("constraint")
        names = [name for name, value in wanted.items() if value is not None]
        if len(names) > 1:
            raise InputError(f"give one of {', '.join(names)}: an answer has one constraint")
        if wanted["choices"] is not None:
            given["constraint"] = OneOf.of_texts(wanted["choices"], self._tokenizer)
        regex, schema = wanted["regex"], wanted["schema"]
        if regex is None and schema is None:
            return None
        # Parsed here, so that errors in the regex or schema are raised before anything changes.
        if regex is None:
            return self._grammars.json(JsonAnswer((JsonForm(schema),)))
        return partial(self._grammars.matching, expression_of(regex), f"the regex {regex!r}")

    # A full context

    def has_room(self, text: str, max_new_tokens: int = MAX_NEW_TOKENS) -> bool:
        """Return whether the context can hold a question and its answer.

        Long answers count with the part of the context that `send` would make free for them.
        """
        most = self._generator.max_context
        if most is None:
            return True
        try:
            turns = [*self._all_turns(), Turn("user", text)]
            prompt, _, _ = self._fit(turns, None, max_new_tokens)
        except InputError:
            return False
        return len(prompt.tokens) + min(max_new_tokens, most // ROOM) <= most

    def _fit(
        self, turns: Sequence[Turn], continued: Turn | None, max_new_tokens: int
    ) -> tuple[Prompt, int, int]:
        """Return a prompt that fits the context, and its length before the answer.

        The prompt has the beginning of the answer. The third number counts the old messages that
        were dropped to make the prompt fit.
        """
        most, dropped = self._generator.max_context, self._dropped
        prompt, question = self._prompt_without(turns, continued, dropped)
        if most is None:
            return prompt, question, dropped
        if self._when_full == "slide":
            free = min(max_new_tokens, most // ROOM)
            while len(prompt.tokens) + free > most:
                start = _next_question(turns, dropped)
                if start is None:
                    break
                dropped, free = start, most // ROOM
                prompt, question = self._prompt_without(turns, continued, dropped)
        if len(prompt.tokens) > most:
            answer = "" if continued is None else " and its answer"
            advice = (
                f"the last question{answer} alone is too long"
                if self._when_full == "slide"
                else 'undo() or edit() messages, or make the Chat with when_full="slide"'
            )
            if any(turn.pictures for turn in turns):
                advice += ", or send fewer pictures, or smaller ones"
            raise InputError(
                f"the conversation has {len(prompt.tokens)} tokens, over the {most} that the "
                f"program's context holds: {advice}"
            )
        return prompt, question, dropped

    def _prompt_without(
        self, turns: Sequence[Turn], continued: Turn | None, dropped: int
    ) -> tuple[Prompt, int]:
        """Return the prompt without the oldest messages, and its length before the answer."""
        prompt = self._prompts.prompt(_without(turns, dropped))
        return self._prompts.continue_(prompt, continued), len(prompt.tokens)


def _texts(stop: Collection[str]) -> Collection[str]:
    StopStrings(stop)
    return stop


def _first(turns: Sequence[Turn]) -> int:
    """Return the index of the first message that can be dropped."""
    return 1 if turns and turns[0].role == "system" else 0


def _without(turns: Sequence[Turn], dropped: int) -> list[Turn]:
    first = _first(turns)
    return [*turns[:first], *turns[first + dropped :]]


def _next_question(turns: Sequence[Turn], dropped: int) -> int | None:
    """Return the number of messages to drop to begin with the second question, or None."""
    rest = turns[_first(turns) :]
    later = (n for n in range(dropped + 1, len(rest)) if rest[n].role == "user")
    return next(later, None)


def _last_question(turns: Sequence[Turn]) -> int:
    for index in range(len(turns) - 1, -1, -1):
        if turns[index].role == "user":
            return index
    raise InputError("there is no question yet: call send() first")
