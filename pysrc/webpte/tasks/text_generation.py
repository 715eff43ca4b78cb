"""text-generation: continues texts, and answers chats, by a language model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from webpte.errors import InputError
from webpte.llm import Chat, GenerationOptions
from webpte.llm.prompt import PromptMaker, end_tokens
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


@task("text-generation")
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

    def chat(self, system: str | None = None, **options: Any) -> Chat:
        """Return a conversation: `await chat.send("Who?")`.

        It has the program's KV cache, which the task uses, too: each continues its own conversation
        and computes it again if the other came between. `options` are those of `webpte.llm.Chat`.
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
        """Return [{"generated_text"}] for a text or a chat; for a list, a list of those.

        text_inputs   a text, a chat (a list of messages with role and content), or a list of
                      either. The answer of a chat that ends with the assistant is continued
        return_full_text   whether "generated_text" begins with what was given: the text, or all
                           messages of the chat; otherwise it is the new text
        options       those of `Generator.generate`: temperature, seed, ...
        """
        given, many = _inputs(text_inputs)
        found = []
        for one in given:
            answer: Any = await self._whole(self._answer(one, max_new_tokens, options))
            if return_full_text:
                answer = one + answer if isinstance(one, str) else with_answer(one, answer)
            found.append([{"generated_text": answer}])
        return found if many else found[0]

    def stream(
        self,
        text_inputs: Any,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        **options: Unpack[GenerationOptions],
    ) -> AsyncGenerator[str, None]:
        """Return a stream of what follows one text, or of one answer, piece by piece."""
        given, many = _inputs(text_inputs)
        if many:
            raise InputError("stream gives one answer: give one text, or one chat")
        return self._turn.stream(self._answer(given[0], max_new_tokens, options))

    async def _answer(
        self, given: Any, count: int, options: GenerationOptions
    ) -> AsyncGenerator[str, None]:
        if isinstance(given, str):
            tokens = self.tokenizer.encode(given)
            stops, before = self._stops, (given, tokens)
        else:
            messages = [self._message(one, at) for at, one in enumerate(given)]
            continued = continues(messages)
            text = render_chat(self.tokenizer.template, messages, continued)
            tokens = self.tokenizer.encode(text, special=False)
            stops, before = self._chat_stops, (text, tokens) if continued else ("", [])
        async for piece in self._pieces(tokens, count, stops, options, before):
            yield piece

    def _message(self, message: Any, at: int) -> Mapping[str, Any]:
        """Return a message as the template takes it: with a text, or with a list of parts."""
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
