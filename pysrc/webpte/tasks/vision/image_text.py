"""image-text-to-text: answers questions about pictures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from webpte.errors import InputError
from webpte.llm import Chat, GenerationOptions, Generator
from webpte.llm.prompt import end_tokens
from webpte.tasks.files import CONFIG, PREPROCESSOR, TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.form import PICTURE, Field, TaskForm
from webpte.tasks.language import MAX_NEW_TOKENS, LanguageTask, continues, is_chat, with_answer
from webpte.tasks.task import task
from webpte.tasks.vision.picture_prompts import PicturePrompts
from webpte.tasks.vision.scaling.tiles import pictures_of


@task(
    "image-text-to-text",
    form=TaskForm(
        PICTURE,
        (Field("text", "question", "What is in the picture?", 2, named=True),),
        fixed={"return_full_text": False},
    ),
)
class ImageTextToText(LanguageTask):
    """Answers questions about pictures.

    await task(picture, text="What is it?", return_full_text=False)  # [{"generated_text": ...}]

    chat = [{"role": "user", "content": [
        {"type": "image", "image": picture}, {"type": "text", "text": "What is it?"}]}]
    await task(chat)
    async for piece in task.stream(chat): ...
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, TOKENIZER, PREPROCESSOR)
    wanted: ClassVar[Sequence[str]] = (TOKENIZER_CONFIG,)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self._prompts = self._reader(self._generator)
        self._stops = end_tokens(self.tokenizer, None)

    def _reader(self, generator: Generator) -> PicturePrompts:
        pictures = pictures_of(self.files.table(PREPROCESSOR))
        return PicturePrompts(generator, self.tokenizer, pictures, self.files.table(CONFIG))

    def chat(self, system: str | None = None, **options: Any) -> Chat:
        """Return a conversation: `chat.send("What is it?", pictures=[picture])`.

        Conversation and task share the program's KV cache: each continues its own text and computes
        it again after the other has used it. `options` go to `webpte.llm.Chat`.
        """
        return Chat(self.program, self.tokenizer, system, reader=self._reader, **options)

    async def __call__(
        self,
        images: Any = None,
        *,
        text: Any = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        return_full_text: bool = True,
        **options: Unpack[GenerationOptions],
    ) -> Any:
        """Return [{"input_text", "generated_text"}] for a question; for a list, a list of results.

        images   a picture or a list of them; or, without `text`, a chat or a list of chats
        text     the question, with the model's token for pictures (`<image>`) at the place of each
                 picture; without that token, the pictures and the text become a user's message. Or
                 a chat, or a list of chats; with a list of texts, `images` has a picture, or a list
                 of pictures, for each text
        return_full_text   whether "generated_text" begins with the given text, or all messages of
                           the chat
        options  for `Generator.generate`: temperature, seed, ...
        """
        calls, many = _calls(images, text)
        found = []
        for pictures, said in calls:
            answer: Any = await self._whole(self._answer(pictures, said, max_new_tokens, options))
            if return_full_text:
                answer = said + answer if isinstance(said, str) else with_answer(said, answer)
            found.append([{"input_text": said, "generated_text": answer}])
        return found if many else found[0]

    def stream(
        self,
        images: Any = None,
        *,
        text: Any = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        **options: Unpack[GenerationOptions],
    ) -> AsyncGenerator[str, None]:
        """Return a stream of an answer, piece by piece, from the arguments of a call."""
        calls, many = _calls(images, text)
        if many:
            raise InputError("stream answers one question: give one text, or one chat")
        ((pictures, said),) = calls
        return self._turn.stream(self._answer(pictures, said, max_new_tokens, options))

    async def _answer(
        self, pictures: Sequence[Any], said: Any, count: int, options: GenerationOptions
    ) -> AsyncGenerator[str, None]:
        if isinstance(said, str) and pictures and self._prompts.image not in said:
            parts: list[dict[str, Any]] = [{"type": "image", "image": p} for p in pictures]
            said = [{"role": "user", "content": [*parts, {"type": "text", "text": said}]}]
        if not isinstance(said, str):
            said, pictures = self._prompts.render(said, continues(said))
        prompt = await self._prompts.prompt(said, pictures)
        async for piece in self._pieces(prompt.tokens, count, self._stops, options):
            yield piece


def _calls(images: Any, text: Any) -> tuple[list[tuple[list[Any], Any]], bool]:
    """Return pictures and text, or a chat, for each question, and whether a list was given."""
    if text is None and is_chat(images):
        images, text = None, images
    if is_chat(text):
        if images is not None:
            raise InputError("pictures of a chat are parts of its messages, not an argument")
        many = not isinstance(text[0], Mapping)
        return [([], list(chat)) for chat in (text if many else [text])], many
    if isinstance(text, str):
        return [(_listed(images), text)], False
    if not isinstance(text, list | tuple) or not all(isinstance(one, str) for one in text):
        raise InputError(
            "give a text to the pictures (text=...), or a chat: a list of messages with role and "
            "content"
        )
    given = [None] * len(text) if images is None else images
    if not isinstance(given, list | tuple) or len(given) != len(text):
        raise InputError(f"{len(text)} texts need as many pictures, or lists of pictures")
    return [(_listed(one), said) for one, said in zip(given, text, strict=True)], True


def _listed(images: Any) -> list[Any]:
    if images is None:
        return []
    return list(images) if isinstance(images, list | tuple) else [images]
