"""Prompts with pictures: messages or a text, as tokens and the rows of pictures between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.engine.open.threads import in_thread
from webpte.errors import InputError
from webpte.llm import Generator, Picture
from webpte.llm.prompt import PromptPicture
from webpte.llm.text import ChatTemplate, Tokenizer
from webpte.tasks.language import render_chat
from webpte.tasks.vision.pictures import checked_picture, picture_of
from webpte.tasks.vision.scaling.preparer import LateTiles, PicturePreparer
from webpte.tasks.vision.scaling.tiles import Pictures, TileLayout

Array = np.ndarray
_SOURCES = ("image", "url", "path", "base64")  # keys of pictures in parts of messages


@dataclass(frozen=True)
class PicturePrompt:
    """A prompt: its tokens, of texts and of pictures, and the pictures."""

    tokens: list[int]
    pictures: tuple[PromptPicture, ...]


class PicturePrompts:
    """Makes the prompts of a model.

    image   the text of the token at a picture's place
    """

    def __init__(
        self,
        generator: Generator,
        tokenizer: Tokenizer,
        pictures: Pictures,
        config: Table,
        template: ChatTemplate | None = None,
    ) -> None:
        self._generator, self._tokenizer, self._pictures = generator, tokenizer, pictures
        self._preparer = PicturePreparer(generator.program)
        self._template = template or tokenizer.template
        known = [config.content.get(f"image_token_{name}") for name in ("id", "index")]
        number = next((one for one in known if type(one) is int), None)
        image = None if number is None else tokenizer.token_of(number)
        if number is None or image is None:
            raise InputError(f"{config.name} names no token for pictures (image_token_id)")
        self._number, self.image = number, image

    def render(
        self, messages: Sequence[Mapping[str, Any]], continued: bool = False, /, **variables: Any
    ) -> tuple[str, list[Any]]:
        """Return the text of a chat, and its unchanged pictures in order.

        Pictures are parts of a message's content: {"type": "image", "image": picture}. A chat that
        is `continued` ends within its last message.
        """
        parts, pictures = _checked(messages)
        return render_chat(self._template, parts, continued, **variables), pictures

    async def prompt(
        self, text: str, pictures: Sequence[Any], *, special: bool = True
    ) -> PicturePrompt:
        """Return the tokens of a text in which `image` stands for each picture.

        special   whether to add the tokens that the model expects around a text, unless the text
                  begins with them
        """
        between = text.split(self.image)
        if len(between) != len(pictures) + 1:
            raise InputError(
                f"the text has {self.image} {len(between) - 1} times; pictures that were given: "
                f"{len(pictures)}"
            )
        seen = []
        for one in pictures:
            if isinstance(one, PromptPicture):
                seen.append(one)
                continue
            late = await in_thread(self._late, await picture_of(one))
            seen.append(self._placed(*late))
        return PicturePrompt(await in_thread(self.encode, text, seen, special), tuple(seen))

    def see(self, pixels: Array) -> PromptPicture:
        """Return a picture (height, width, 3) of bytes for prompts, which prepare it."""
        return self._placed(*self._late(pixels))

    def _late(self, pixels: Array) -> tuple[Array, TileLayout, LateTiles]:
        """Return a copy of a picture, with its form for the model, which is prepared later."""
        given = np.array(checked_picture(pixels), order="C")
        layout = self._pictures.layout(*given.shape[:2])
        return given, layout, LateTiles(self._preparer, layout.steps, given)

    def _placed(self, given: Array, layout: TileLayout, late: LateTiles) -> PromptPicture:
        """Give a picture its rows in the conversation."""
        parts = tuple(self._generator.picture(tile, layout.grid) for tile in late.tiles)
        text = self._pictures.text(layout, self.image, len(parts[0].tokens))
        return PromptPicture(given, text, parts)

    def encode(self, text: str, pictures: Sequence[PromptPicture], special: bool) -> list[int]:
        """Return the tokens of a text in which `image` stands for each picture."""
        between = text.split(self.image)
        pairs = zip(pictures, between[1:], strict=True)
        whole = between[0] + "".join(one.text + after for one, after in pairs)
        first = self._tokenizer.special.get("bos_token")
        added = special and not (first and whole.startswith(first))
        frames = [part for one in pictures for part in one.parts]
        return self._with_rows(self._tokenizer.encode(whole, special=added), frames)

    def _with_rows(self, tokens: list[int], frames: Sequence[Picture]) -> list[int]:
        """Return the tokens with rows of pictures in their places."""
        rows = iter([number for frame in frames for number in frame.tokens])
        runs = groupby(tokens, lambda one: one == self._number)
        places = accumulate(len(list(run)) for is_row, run in runs if is_row)
        ends = list(accumulate(len(frame.tokens) for frame in frames))
        found = list(places)
        if found[-1:] != ends[-1:] or not set(found) <= set(ends):
            raise InputError(
                f"the tokenizer makes {(found or [0])[-1]} tokens {self.image} of {len(frames)} "
                f"pictures with {(ends or [0])[-1]} rows in all: it is another model's"
            )
        return [next(rows) if token == self._number else token for token in tokens]


def _checked(messages: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return messages as templates take them, and the pictures in them."""
    found: list[dict[str, Any]] = []
    pictures: list[Any] = []
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, Sequence) or not content:
            raise InputError(
                f"message {index} has no content: a text, or a list of parts of type text and image"
            )
        parts = [_part(part, f"message {index}", pictures) for part in content]
        found.append({**message, "content": parts})
    if not found:
        raise InputError("a chat has a message or more")
    return found, pictures


def _part(part: Any, where: str, pictures: list[Any]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    given = [part[key] for key in _SOURCES if key in part] if kind == "image" else []
    if len(given) != 1:
        raise InputError(
            f'{where}: a part is {{"type": "text", "text": ...}} or '
            f'{{"type": "image", "image": picture}}, not {str(part)[:80]}'
        )
    pictures.append(given[0])
    return {"type": "image"}
