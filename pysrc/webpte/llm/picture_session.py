"""A conversation with pictures in a program's KV cache.

The program embeds tokens (`token_embedding`), encodes pictures to rows of the same width
(`vision_encoder`), and decodes either (`text_decoder`). In a conversation, numbers beyond the
vocabulary stand for the rows of pictures: so a conversation with the same pictures has the same
numbers, and its prefix is found in the cache as in conversations without pictures. Rows stay on the
GPU.

Some models see a picture as a grid of patches, so it has as many rows as its size needs. In these
models, tokens and rows also have positions on three axes, which differ from their places in the
cache. A method `rotary_tables` makes the tables of such positions, for all places at once: also for
the places after the last picture, which later tokens will have. So a decode step needs nothing but
its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor, join_rows, with_shape
from webpte.engine.call.info import TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.errors import InputError, UnsupportedError
from webpte.llm.decode.decode_steps import DecodeSteps
from webpte.llm.decode.sampling import SampledToken, SamplerSettings
from webpte.llm.kv_session import KVSession
from webpte.llm.program_signature import (
    ROTARY,
    check_token_ids,
    listed_tokens,
    passed_caches,
    positions_of,
    vision_method,
    vision_of,
)
from webpte.llm.saved import SavedContext
from webpte.program import Program

NUMPY = "numpy"


class LatePixels(Protocol):
    """Pixels that are prepared when the program's `vision_encoder` is about to read them.

    shape, dtype   of the pixels
    key            identifies the picture: equal pictures have equal keys
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
        """Free the memory that `pixels` took."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in conversations with a Generator.

    pixels   input of the program's `vision_encoder`
    tokens   numbers in the place of tokens, one for each of its rows; no tokenizer has them
    grid     the rows and columns of the picture's rows, for models that see a grid of patches
    """

    pixels: np.ndarray | LatePixels
    tokens: tuple[int, ...]
    grid: tuple[int, int] | None = None


class PictureSession(KVSession):
    """A conversation in the KV cache of a program that sees pictures."""

    def __init__(self, program: Program, method: str) -> None:
        super().__init__(program, method)
        self._vision = vision_of(program, method)
        self._passes_caches = bool(passed_caches(program.methods[method]))
        self._positions = positions_of(program, method)
        self._placed: Any = None  # the pictures for which the tables in `given` were made
        self._starts: list[int] = []  # the first number of each picture, in order
        self._end = self.vocabulary  # the first unused number
        self._pictures = WeakValueDictionary[int, Picture]()  # by number
        self._known = WeakValueDictionary[bytes, Picture]()  # by the picture's key
        self._held: tuple[Picture, ...] = ()  # pictures of the context, and new pictures
        self._encoded: dict[Picture, Any] = {}  # rows of pictures, during a prefill
        self._joined: list[Any] = []  # rows joined for the prefill's calls
        self._late: list[LatePixels] = []  # pixels prepared for the prefill
        self._ends_in_picture = False

    def picture(
        self, pixels: np.ndarray | LatePixels, grid: tuple[int, int] | None = None
    ) -> Picture:
        """Return a picture; the same object for the same pixels, as long as something holds it.

        `grid` has the rows and columns that the model sees of the picture, if they depend on its
        size.
        """
        late = hasattr(pixels, "key")
        given: Any = pixels if late else np.ascontiguousarray(pixels)
        count = self._check_picture(given, grid)
        key = given.key if late else blake2b(given.view(np.uint8).data, digest_size=32).digest()
        key += repr(grid).encode()
        known = self._known.get(key)
        if known is None:
            first, number = self._end, len(self._starts)
            self._starts.append(first)
            self._end += count
            kept = given if late else given.copy()
            known = Picture(kept, tuple(range(first, self._end)), grid)
            self._known[key] = self._pictures[number] = known
        self._held = (*self._held, known)
        return known

    def _check_picture(self, array: np.ndarray | LatePixels, grid: tuple[int, int] | None) -> int:
        """Return the number of rows of a picture; raise InputError if the model cannot see it."""
        vision, name = self._vision, self.program.name
        wanted, shape, count = vision.pixels, vision.pixels.shape, vision.rows
        if vision.side:
            rows, columns = (0, 0) if grid is None else grid
            count = rows * columns
            if rows < 1 or columns < 1 or array.shape[:1] != (count,):
                raise InputError(
                    f"{name} sees pictures as a grid: give its rows and columns (grid=...), whose "
                    f"product is the first dim of the pixels, {list(array.shape)}; got {grid}"
                )
            if count > vision.rows:
                raise InputError(
                    f"a picture of {rows} by {columns} rows: {name} takes up to {vision.rows}. "
                    "Make it smaller, or cut it if it is very long or very high"
                )
            shape = (count, *shape[1:])
        elif grid is not None:
            raise InputError(f"{name} sees pictures of one size: they have no grid")
        if array.shape != shape or array.dtype != DTYPES[wanted.dtype].numpy:
            raise InputError(
                f"{name} sees pictures of {wanted}, not {array.dtype} {list(array.shape)}"
            )
        return count

    def check_tokens(self, tokens: Iterable[int]) -> list[int]:
        """Return tokens, and numbers of pictures, as ints; raise InputError for other numbers."""
        listed = listed_tokens(tokens)
        plain = [token for token in listed if not self._is_row(token)]
        check_token_ids(plain, self.vocabulary, self.program.name)
        return [int(token) for token in listed]

    def _is_row(self, token: Any) -> bool:
        """Return whether a number stands for a row of a picture, even of a picture that is gone."""
        is_number = isinstance(token, int | np.integer)
        return is_number and self.vocabulary <= int(token) < self._end

    def _number(self, token: int) -> int:
        """Return the number of a token's picture, or -1."""
        return bisect_right(self._starts, token) - 1 if token >= self.vocabulary else -1

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
            if self._positions is not None:
                with self._alone():
                    await self._make_tables([*self._cached, *numbers])
            sampled = await super().prefill(tokens, settings, allowed)
        finally:
            self._free()
        context = {self._number(token) for token in self._cached}
        kept = (one for one in dict.fromkeys((*self._held, *pictures)))
        self._held = tuple(one for one in kept if self._number(one.tokens[0]) in context)
        return sampled

    async def _make_tables(self, conversation: list[int]) -> None:
        """Make the tables of rotary positions of a conversation, unless they are there already."""
        assert self._positions is not None
        grids = self._grids(conversation)
        wanted = self._log.generation, grids
        if self.given and self._placed == wanted:
            return
        for table in self.given:
            if isinstance(table, GpuTensor):
                table.destroy()
        self.given = ()
        positions = rotary_positions(grids, self._positions.shape[1])
        given = positions.astype(DTYPES[self._positions.dtype].numpy)
        self.given = await self.program.run(ROTARY, given, output=self._place)
        self._placed = wanted

    def _grids(self, conversation: list[int]) -> tuple[tuple[int, int, int], ...]:
        """Return the starts of pictures in a conversation, and their grids; all must be whole.

        The position of a token after a picture depends on the whole picture. The last picture may
        still be on its way.
        """
        found, place = list[tuple[int, int, int]](), 0
        while place < len(conversation):
            token = conversation[place]
            if self._number(token) < 0:
                place += 1
                continue
            picture = self._picture_of(token)
            rows = picture.tokens
            given = tuple(conversation[place : place + len(rows)])
            if given != rows[: len(given)] or picture.grid is None:
                raise InputError(
                    f"a picture of the conversation is not whole (place {place}): positions of "
                    f"what follows it depend on all its {len(rows)} rows, in their order"
                )
            found.append((place, *picture.grid))
            place += len(rows)
        return tuple(found)

    def _chunks(self, tokens: list[int]) -> list[list[int]]:
        """Split tokens into the tokens of each call; the text after the last picture is separate.

        This text goes to the delegate whose steps take the sampled token on the GPU.
        """
        if self._passes_caches:
            return super()._chunks(tokens)
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
        return await self._join(parts), self._places(position, len(tokens)), *self.given

    async def _join(self, parts: Sequence[tuple[Any, int, int]]) -> Any:
        """Return rows of several arrays or tensors (1, rows, width), concatenated."""
        if isinstance(parts[0][0], np.ndarray):
            return np.concatenate([rows[:, at : at + count] for rows, at, count in parts], axis=1)
        self._joined.append(await join_rows(parts))
        return self._joined[-1]

    async def _embed(self, tokens: list[int]) -> Any:
        """Return the embeddings of tokens (1, n, width), on the GPU if there is a GPU."""
        given = np.asarray([tokens], self._dtypes[0])
        assert self._embedding is not None, "the program sees"
        (rows,) = await self.program.run(self._embedding, given, output=self._place)
        self._joined.append(rows)
        return rows

    async def _encode(self, picture: Picture) -> Any:
        """Return the rows of a picture (1, rows, width), on the GPU if there is a GPU."""
        if picture not in self._encoded:
            pixels: Any = picture.pixels
            if not isinstance(pixels, np.ndarray):
                self._late.append(pixels)
                pixels = await pixels.pixels()
            given = [pixels]
            if picture.grid is not None:
                places = patch_places(*picture.grid, self._vision.side)
                info = self.program.methods[self._vision.name].inputs[1]
                assert isinstance(info, TensorInfo), "see vision_of"
                given.append(places.astype(DTYPES[info.dtype].numpy))
            (rows,) = await self.program.run(self._vision.name, *given, output=self._place)
            shape = (1, len(picture.tokens), rows.shape[-1])
            rows = with_shape(rows, shape) if isinstance(rows, GpuTensor) else rows.reshape(shape)
            self._encoded[picture] = rows
        return self._encoded[picture]

    @property
    def _place(self) -> str:
        on_host = self._passes_caches or self.program.device_info.kind == NUMPY
        return NUMPY if on_host else "gpu"

    def _free(self) -> None:
        for rows in (*self._encoded.values(), *self._joined):
            if isinstance(rows, GpuTensor):
                rows.destroy()
        for pixels in self._late:
            pixels.free()
        self._encoded, self._joined, self._late = {}, [], []

    def _history(self, tokens: list[int]) -> list[int]:
        """Return the tokens with other tokens in place of pictures: no picture is penalized."""
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
    return vision_method(program) is not None


def rotary_positions(grids: Sequence[tuple[int, int, int]], context: int) -> np.ndarray:
    """Return the positions (3, context) of the places of a conversation: time, row, column.

    `grids` are the pictures: their starts, rows and columns. Tokens have the same position on all
    axes, in sequence. The rows of a picture begin with the next position; the tokens after the
    picture continue after the largest of its positions. Places without tokens have the positions
    that they will have if no other picture comes.
    """
    found = np.empty((3, context), np.int64)
    place = position = 0
    for start, rows, columns in (*grids, (context, 0, 0)):
        text = min(start, context) - place
        found[:, place : place + text] = np.arange(position, position + text)
        place, position = place + text, position + text
        index = np.arange(min(rows * columns, context - place))
        seen = slice(place, place + len(index))
        found[0, seen] = position
        if len(index):
            found[1, seen] = position + index // columns
            found[2, seen] = position + index % columns
        place, position = seen.stop, position + max(rows, columns)
    return found


def patch_places(rows: int, columns: int, side: int) -> np.ndarray:
    """Return the row and column of each patch, (rows * columns, side * side, 2).

    `side * side` patches, which lie together in a square, become one row of embeddings.
    """
    places = np.moveaxis(np.indices((rows, side, columns, side)), 0, -1)
    both = places[..., [0, 2]] * side + places[..., [1, 3]]
    return both.swapaxes(1, 2).reshape(rows * columns, side * side, 2)
