"""A conversation with pictures in a program's KV cache.

The program embeds tokens (`token_embedding`), encodes pictures to rows of the same width
(`vision_encoder`), and decodes either (`text_decoder`). In a conversation, numbers beyond the
vocabulary stand for the rows of pictures: so one with the same pictures has the same numbers, and
its prefix is found in the cache as that of any other. Rows stay on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from webpte.dtypes import DTYPES
from webpte.errors import InputError, UnsupportedError
from webpte.llm.kv_session import KVSession
from webpte.llm.program_signature import EMBEDDING, VISION, check_token_ids
from webpte.llm.saved import SavedContext
from webpte.runtime.base.gpu_tensor import GpuTensor, join_rows, with_shape
from webpte.runtime.base.info import TensorInfo
from webpte.runtime.decode.decode_steps import DecodeSteps
from webpte.runtime.decode.sampling import SampledToken, SamplerSettings
from webpte.runtime.program import Program

NUMPY = "numpy"


class LatePixels(Protocol):
    """Pixels that are prepared when the program's `vision_encoder` is about to read them.

    shape, dtype   those of the pixels
    key            says what they show: equal ones have equal keys
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def key(self) -> bytes: ...

    async def pixels(self) -> np.ndarray | GpuTensor:
        """Return the pixels, in memory or on the program's GPU, where they stay until `free`."""
        ...

    def free(self) -> None:
        """Free the memory of what `pixels` returned."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in conversations with one Generator.

    pixels   as the program's `vision_encoder` takes it
    tokens   numbers in the place of tokens, one for each of its rows; no tokenizer has them
    """

    pixels: np.ndarray | LatePixels
    tokens: tuple[int, ...]


class PictureSession(KVSession):
    """A conversation in the KV cache of a program that sees pictures.

    rows   the number of rows that a picture is encoded to
    """

    def __init__(self, program: Program, method: str) -> None:
        super().__init__(program, method)
        self._pixels, self.rows = _vision_of(program, method)
        self._pictures = WeakValueDictionary[int, Picture]()  # by number
        self._known = WeakValueDictionary[bytes, Picture]()  # by what they show
        self._made = 0
        self._held: tuple[Picture, ...] = ()  # those of the context, and new ones
        self._encoded: dict[Picture, Any] = {}  # rows of pictures, during a prefill
        self._joined: list[Any] = []  # what its calls were given
        self._late: list[LatePixels] = []  # pixels that were prepared for it
        self._ends_in_picture = False

    def picture(self, pixels: np.ndarray | LatePixels) -> Picture:
        """Return a picture; the same one for the same pixels, as long as something holds it."""
        late = hasattr(pixels, "key")
        given: Any = pixels if late else np.ascontiguousarray(pixels)
        wanted = self._pixels
        if given.shape != wanted.shape or given.dtype != DTYPES[wanted.dtype].numpy:
            raise InputError(
                f"{self.program.name} sees pictures of {wanted}, not {given.dtype} "
                f"{list(given.shape)}"
            )
        key = given.key if late else blake2b(given.view(np.uint8).data, digest_size=32).digest()
        known = self._known.get(key)
        if known is None:
            first = self.vocabulary + self._made * self.rows
            kept = given if late else given.copy()
            known = Picture(kept, tuple(range(first, first + self.rows)))
            self._known[key] = self._pictures[self._made] = known
            self._made += 1
        self._held = (*self._held, known)
        return known

    def check_tokens(self, tokens: Iterable[int]) -> list[int]:
        """Return tokens, and numbers of pictures, as ints; raise InputError for others."""
        listed = list(tokens)
        plain = [token for token in listed if not self._is_row(token)]
        check_token_ids(plain, self.vocabulary, self.program.name)
        return [int(token) for token in listed]

    def _is_row(self, token: Any) -> bool:
        """Return whether a number stands for a row of a picture that there is or was."""
        most = self.vocabulary + self._made * self.rows
        is_number = isinstance(token, int | np.integer)
        return is_number and self.vocabulary <= int(token) < most

    def _number(self, token: int) -> int:
        """Return the number of a token's picture, or -1."""
        return (token - self.vocabulary) // self.rows if token >= self.vocabulary else -1

    def _picture_of(self, token: int) -> Picture:
        found = self._pictures.get(self._number(token))
        if found is None:
            raise InputError(
                "a picture of the conversation is gone: keep what `picture` returned, or call it "
                "again and put its new tokens into the conversation"
            )
        return found

    async def prefill(
        self, tokens: list[int], settings: SamplerSettings, allowed: np.ndarray | None = None
    ) -> SampledToken:
        numbers = [*self._pending, *tokens]
        pictures = [self._picture_of(token) for token in numbers if self._number(token) >= 0]
        self._ends_in_picture = bool(numbers) and self._number(numbers[-1]) >= 0
        try:
            sampled = await super().prefill(tokens, settings, allowed)
        finally:
            self._free()
        context = {self._number(token) for token in self._cached}
        kept = (one for one in dict.fromkeys((*self._held, *pictures)))
        self._held = tuple(one for one in kept if self._number(one.tokens[0]) in context)
        return sampled

    def _chunks(self, tokens: list[int]) -> list[list[int]]:
        """Split tokens into those of each call; the text after the last picture is apart.

        That goes to the delegate whose steps take the sampled token on the GPU.
        """
        plain = next((n for n, one in enumerate(reversed(tokens)) if self._number(one) >= 0), None)
        split = 0 if plain is None else len(tokens) - plain
        return [*super()._chunks(tokens[:split]), *super()._chunks(tokens[split:])]

    async def _inputs(self, tokens: Sequence[int], position: int) -> tuple[Any, ...]:
        text = [token for token in tokens if self._number(token) < 0]
        if len(text) == len(tokens):
            return await super()._inputs(tokens, position)
        embedded = await self._embed(text) if text else None
        parts, read = list[tuple[Any, int, int]](), 0
        for number, run in groupby(tokens, key=self._number):
            first, *rest = run
            if number < 0:
                parts.append((embedded, read, 1 + len(rest)))
                read += 1 + len(rest)
            else:
                picture = self._picture_of(first)
                rows = await self._encode(picture)
                parts.append((rows, first - picture.tokens[0], 1 + len(rest)))
        return await self._join(parts), self._places(position, len(tokens))

    async def _join(self, parts: Sequence[tuple[Any, int, int]]) -> Any:
        """Return rows of several arrays or tensors (1, rows, width), one after the other."""
        if isinstance(parts[0][0], np.ndarray):
            return np.concatenate([rows[:, at : at + count] for rows, at, count in parts], axis=1)
        self._joined.append(await join_rows(parts))
        return self._joined[-1]

    async def _embed(self, tokens: list[int]) -> Any:
        """Return the embeddings of tokens (1, n, width), on the GPU where there is one."""
        given = np.asarray([tokens], self._dtypes[0])
        (rows,) = await self.program.run(EMBEDDING, given, output=self._place)
        self._joined.append(rows)
        return rows

    async def _encode(self, picture: Picture) -> Any:
        """Return the rows of a picture (1, rows, width), on the GPU where there is one."""
        if picture not in self._encoded:
            pixels = picture.pixels
            if not isinstance(pixels, np.ndarray):
                self._late.append(pixels)
                pixels = await pixels.pixels()
            (rows,) = await self.program.run(VISION, pixels, output=self._place)
            shape = (1, self.rows, rows.shape[-1])
            rows = with_shape(rows, shape) if isinstance(rows, GpuTensor) else rows.reshape(shape)
            self._encoded[picture] = rows
        return self._encoded[picture]

    @property
    def _place(self) -> str:
        return NUMPY if self.program.device_info.kind == NUMPY else "gpu"

    def _free(self) -> None:
        for rows in (*self._encoded.values(), *self._joined):
            if isinstance(rows, GpuTensor):
                rows.destroy()
        for pixels in self._late:
            pixels.free()
        self._encoded, self._joined, self._late = {}, [], []

    def _history(self, tokens: list[int]) -> list[int]:
        """Return the tokens with others of them in the place of pictures: none is penalized."""
        plain = next((token for token in tokens if self._number(token) < 0), 0)
        found = []
        for token in tokens:
            plain = token if self._number(token) < 0 else plain
            found.append(plain)
        return found

    def steps(self, settings: SamplerSettings, masked: bool = False) -> DecodeSteps | str:
        if self._ends_in_picture:  # another delegate has sampled the token
            return "the prompt ends with a picture"
        return super().steps(settings, masked)

    async def save(self, *, or_empty: bool = False) -> SavedContext:
        if any(self._number(token) >= 0 for token in self.context):
            raise UnsupportedError("a conversation with pictures cannot be saved")
        return await super().save(or_empty=or_empty)


def session_of(program: Program, method: str) -> KVSession:
    """Return a session of a language model, with pictures if it sees them."""
    return PictureSession(program, method) if sees(program) else KVSession(program, method)


def sees(program: Program) -> bool:
    """Return whether a language model takes pictures, too."""
    return VISION in program.methods and EMBEDDING in program.methods


def _vision_of(program: Program, method: str) -> tuple[TensorInfo, int]:
    """Return what the vision encoder takes, and the rows it gives; raises InputError."""
    info = program.methods[VISION]
    given = info.inputs[0] if len(info.inputs) == 1 else None
    rows = info.outputs[0] if len(info.outputs) == 1 else None
    wanted = program.methods[method].inputs[0]
    if (
        not isinstance(given, TensorInfo)
        or not isinstance(rows, TensorInfo)
        or not isinstance(wanted, TensorInfo)
        or given.dynamic
        or rows.dynamic
        or len(rows.shape) not in (2, 3)
        or (len(rows.shape) == 3 and rows.shape[0] != 1)
        or (rows.dtype, rows.shape[-1]) != (wanted.dtype, wanted.shape[-1])
    ):
        raise InputError(
            f"{program.name}: {VISION} takes {'; '.join(map(str, info.inputs))} and gives "
            f"{'; '.join(map(str, info.outputs))}; it should take one picture, and give rows of "
            f"embeddings as {method} takes them ({wanted})"
        )
    return given, rows.shape[-2]
