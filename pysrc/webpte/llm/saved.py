"""A conversation as bytes: a `.npz` archive with its tokens, its messages and its KV caches.

    head       JSON: format, version, the hash of the program, tokens, messages
    cache_0, cache_1, ..   the positions of each KV cache that hold the tokens, unconverted

The archive has a checksum for each of these. It may come from anywhere, so nothing in it is
trusted: an archive whose sizes and types differ from the program's caches is refused with an
InputError.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.engine.files.arrays import MAX_BYTES, read_npz
from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import InputError
from webpte.llm.decode.cache_state import CacheLayout

FORMAT, VERSION = "webpte conversation", 1
NAME = "the saved conversation"
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SavedContext:
    """Tokens with their KV caches. `program` is the hash of the program that computed them.

    The caches hold all tokens but the `pending` tokens. `extra` is the Chat's own data, as JSON.
    """

    program: str
    tokens: tuple[int, ...]
    pending: tuple[int, ...]
    caches: tuple[Array, ...]
    extra: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Write the archive."""
        nbytes = sum(cache.nbytes for cache in self.caches)
        if nbytes > MAX_BYTES:
            raise InputError(
                f"a conversation of {nbytes:,} bytes is too large to save: at most {MAX_BYTES:,} "
                'are read; load the program with kv_cache="int8", or a shorter context'
            )
        head = {
            "format": FORMAT,
            "version": VERSION,
            "program": self.program,
            "tokens": list(self.tokens),
            "pending": list(self.pending),
            **self.extra,
        }
        text = np.frombuffer(json.dumps(head).encode(), np.uint8)
        named = {f"cache_{index}": cache for index, cache in enumerate(self.caches)}
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, head=text, **named)
        return file.getvalue()


def read_saved(data: bytes) -> tuple[SavedContext, Table]:
    """Read an archive; return its context, and its head, which has the Chat's own data."""
    arrays = read_npz(bytes(data), NAME)
    head = arrays.pop("head", None)
    if head is None or head.dtype != np.uint8 or head.ndim != 1:
        raise InputError(f"{NAME} is an archive of something else: it lacks the head")
    table = parse_table(head.tobytes(), f"the head of {NAME}", InputError)
    if table.text("format", "") != FORMAT:
        raise InputError(f"{NAME} is an archive of something else: its head is not ours")
    version = table.integer("version")
    if version != VERSION:
        raise InputError(
            f"{NAME} has version {version}, and this webpte reads {VERSION}: open it with the "
            "version of webpte that saved it"
        )
    names = [f"cache_{index}" for index in range(len(arrays))]
    if set(names) != arrays.keys():
        raise InputError(f"{NAME} has other arrays than caches: {', '.join(sorted(arrays))}")
    saved = SavedContext(
        table.text("program"),
        integers(table, "tokens"),
        integers(table, "pending"),
        tuple(arrays[name] for name in names),
    )
    return saved, table


def integers(table: Table, key: str) -> tuple[int, ...]:
    """Return a list of integers of a JSON object."""
    found = table.listed(key)
    for value in found:
        if type(value) is not int:
            raise InputError(f"{table.name}: {key} must be integers, got {value!r}")
    return tuple(found)


def check_layout(saved: SavedContext, layout: Sequence[CacheLayout]) -> None:
    """Raise InputError unless the caches of a conversation can be written to a program's caches."""
    if len(saved.caches) != len(layout):
        raise InputError(f"{NAME} has {len(saved.caches)} KV caches, and the program {len(layout)}")
    count = len(saved.tokens)
    for index, (cache, own) in enumerate(zip(saved.caches, layout, strict=True)):
        if count > own.positions:
            raise InputError(
                f"{NAME} has {count} tokens, and the KV cache of the program holds "
                f"{own.positions}: load it with a larger max_context"
            )
        kept, shape = (cache.dtype.name, cache.shape), (count, *own.dims)
        if kept != (own.dtype, shape):
            raise InputError(
                f"KV cache {index} of {NAME} is {kept[0]} {list(kept[1])}, and that of the "
                f"program {own.dtype} {list(shape)}: load the program with the kv_cache that it "
                "was saved with"
            )
