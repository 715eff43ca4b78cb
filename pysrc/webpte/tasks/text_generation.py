"""text-generation: continues texts, and answers chats, by a language model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

from webpte.errors import InputError, OutOfMemoryError, UnsupportedError
from webpte.llm import Chat, GenerationOptions, Reply, Scheduler
from webpte.llm.prompt import PromptMaker, end_tokens
from webpte.llm.reply import StopStrings, stats_of
from webpte.llm.scheduler import SLOTS
from webpte.tasks.encoder import checked_text
from webpte.tasks.files import TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.language import (
    MAX_NEW_TOKENS,
    LanguageTask,
    continues,
    is_chat,
    render_chat,
    with_answer,
)
from webpte.tasks.task import task

# Options of answers that do not share their steps with others.
_ALONE = ("steps_ahead", "pace", "logprobs", "top", "constraint", "speculate")
_ROUNDED = 64  # tokens: kernels are compiled for a length of the KV caches


@dataclass(frozen=True)
class _AskedText:
    """A text or chat to answer, as tokens.

    stops    tokens that end the answer
    before   text and tokens to continue, if any
    """

    tokens: list[int]
    stops: Collection[int]
    before: tuple[str, Sequence[int]]


@task("text-generation", view="chat")
class TextGeneration(LanguageTask):
    """Continues texts, and answers chats.

    await task("Once upon", max_new_tokens=20)       # [{"generated_text": "Once upon a time ..."}]
    await task([{"role": "user", "content": "Who?"}])       # the chat with its answer
    async for piece in task.stream("Once upon"): ...
    """

    needed: ClassVar[Sequence[str]] = (TOKENIZER,)
    wanted: ClassVar[Sequence[str]] = (TOKENIZER_CONFIG,)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        template = self.tokenizer.template
        prompts = None if template is None else PromptMaker(self.tokenizer, template, {})
        self._in_parts = prompts is not None and prompts.in_parts
        self._stops = end_tokens(self.tokenizer, None)
        self._chat_stops = end_tokens(self.tokenizer, prompts)
        self._is_alone = False  # whether the program is known to give a single answer at a time

    def chat(self, system: str | None = None, **options: Any) -> Chat:
        """Return a conversation: `await chat.send("Who?")`.

        Conversation and task share the program's KV cache: each continues its own text and computes
        it again after the other has used it. `options` go to `webpte.llm.Chat`.
        """
        return Chat(self.program, self.tokenizer, system, **options)

    async def __call__(
        self,
        text_inputs: Any,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        return_full_text: bool = True,
        **options: Unpack[GenerationOptions],
    ) -> Any:
        """Return [{"generated_text"}] for a text or a chat; for a list, a list of results.

        text_inputs   a text, a chat (a list of messages with role and content), or a list of
                      either, which are answered at once if the program allows it, with the same
                      results. The answer of a chat that ends with the assistant is continued
        return_full_text   whether "generated_text" begins with the given text, or all messages of
                           the chat; otherwise it is the new text
        options       for `Generator.generate`: temperature, seed, ...
        """
        given, many = _inputs(text_inputs)
        answers = await self._answers(list(map(self._prompt, given)), max_new_tokens, options)
        found = []
        for one, new in zip(given, answers, strict=True):
            answer: Any = new
            if return_full_text:
                answer = one + new if isinstance(one, str) else with_answer(one, new)
            found.append([{"generated_text": answer}])
        return found if many else found[0]

    def stream(
        self,
        text_inputs: Any,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        **options: Unpack[GenerationOptions],
    ) -> AsyncGenerator[str, None]:
        """Return a stream of the text after a text, or of an answer, piece by piece."""
        given, many = _inputs(text_inputs)
        if many:
            raise InputError("stream gives one answer: give one text, or one chat")
        return self._turn.stream(self._answer(self._prompt(given[0]), max_new_tokens, options))

    def _answer(
        self, prompt: _AskedText, count: int, options: GenerationOptions
    ) -> AsyncGenerator[str, None]:
        return self._pieces(prompt.tokens, count, prompt.stops, options, prompt.before)

    async def _answers(
        self, prompts: Sequence[_AskedText], count: int, options: GenerationOptions
    ) -> list[str]:
        """Return answers, which share the steps of the model if it allows that."""
        if len(prompts) > 1 and not self._is_alone and self._can_share(prompts, options):
            async with self._turn.taken():
                found = await self._together(prompts, count, options)
            if found is not None:
                return found
        return [await self._whole(self._answer(one, count, options)) for one in prompts]

    def _can_share(self, prompts: Sequence[_AskedText], options: GenerationOptions) -> bool:
        """Return whether a scheduler takes the options and prompts, if they are valid."""
        most = self._generator.max_context
        fit = most is not None and all(1 <= len(one.tokens) <= most for one in prompts)
        return fit and not any(options.get(name) for name in _ALONE)

    async def _together(
        self, prompts: Sequence[_AskedText], count: int, options: GenerationOptions
    ) -> list[str] | None:
        """Return answers that are generated at once; None if the program does not allow it.

        The KV caches are as short as the answers allow, and are freed afterwards.
        """
        longest = max(len(one.tokens) for one in prompts) + max(count, 0)
        context = min(-(-longest // _ROUNDED) * _ROUNDED, self._generator.max_context or longest)
        slots = min(len(prompts), SLOTS)
        sampling: dict[str, Any] = {
            name: value for name, value in options.items() if name not in _ALONE
        }
        async with Scheduler(self.program, slots, max_context=context) as scheduler:
            try:
                await scheduler.prepare()
            except UnsupportedError:
                self._is_alone = True
                return None
            except OutOfMemoryError:
                return None
            replies = []
            for one in prompts:  # all answers continue, in any order of awaiting
                answer = scheduler.submit(one.tokens, count, stop=one.stops, **sampling)
                stats, stops = stats_of(answer), StopStrings(())
                replies.append(Reply(answer, self.tokenizer, stops, stats, continued=one.before))
            return [await reply for reply in replies]

    def _prompt(self, given: Any) -> _AskedText:
        """Return the tokens of a text or a chat, and the tokens that end its answer."""
        if isinstance(given, str):
            tokens = self.tokenizer.encode(given)
            return _AskedText(tokens, self._stops, (given, tokens))
        messages = [self._message(one, at) for at, one in enumerate(given)]
        continued = continues(messages)
        text = render_chat(self.tokenizer.template, messages, continued)
        tokens = self.tokenizer.encode(text, special=False)
        return _AskedText(tokens, self._chat_stops, (text, tokens) if continued else ("", []))

    def _message(self, message: Any, at: int) -> Mapping[str, Any]:
        """Return a message in a template's form: with a text, or with a list of parts."""
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InputError(f"message {at} is not a table with role and content")
        content = message.get("content")
        if content is None and message.get("tool_calls"):
            return message
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(parts, list | tuple) or not all(map(_is_text, parts)):
            raise InputError(
                f"message {at}: its content is a text, or a list of parts of type text; the task "
                "image-text-to-text takes pictures, too"
            )
        if self._in_parts:
            return {**message, "content": list(parts)}
        return {**message, "content": "".join(part["text"] for part in parts)}


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    )


def _inputs(given: Any) -> tuple[list[Any], bool]:
    """Return texts and chats as a list, and whether a list was given."""
    if is_chat(given):
        many = not isinstance(given[0], Mapping)
        return [list(chat) for chat in (given if many else [given])], many
    if isinstance(given, list | tuple):
        return [checked_text(text) for text in given], True
    return [checked_text(given)], False
