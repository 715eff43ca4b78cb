"""Random damage to files of any format, and JSON with values of unexpected types."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from support.graphs.fuzz import EXTREMES
from support.harness.bounded import begin_file

Random = random.Random

# JSON values, most of which are unexpected wherever they are put.
STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 0.5, -0.0, 1 << 31, 1 << 63, -(1 << 70), 10**400, 1e300),
    *("", "first", "\x00", "..", "\ud800", "x" * 300, "1", "NaN", [], {}, [[]], {"": {}}, [1, "a"]),
    *(float("nan"), float("inf"), [None] * 50, {"name": 5}, [{"name": []}]),
]


def damaged(data: bytes, rng: Random) -> bytes:
    """Apply one to four changes: bits, bytes, numbers, parts removed, doubled or moved, a cut."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(changed) or 1)
        kind = rng.randrange(8)
        if not changed:
            break
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at] = rng.choice([0, 1, 3, 0x22, 0x5B, 0x7B, 0x7F, 0xFF])
        elif kind in (2, 3):
            form = rng.choice(["<H", "<I", "<I", "<Q", "<Q"])
            size = struct.calcsize(form)
            if at + size <= len(changed):
                (old,) = struct.unpack_from(form, changed, at)
                new = rng.choice([*EXTREMES, old + 1, old - 1, old * 2, (1 << 64) - 1, 1 << 62])
                struct.pack_into(form, changed, at, new % (1 << 8 * size))
        elif kind == 4:
            del changed[at : at + rng.choice([1, 2, 8, 40])]
        elif kind == 5:
            changed[at:at] = changed[at : at + rng.choice([1, 4, 16, 100])]
        elif kind == 6:
            other = rng.randrange(len(changed))
            changed[at : at + 8] = changed[other : other + 8]
        else:
            del changed[at:]
    return bytes(changed)


def near_start(data: bytes, rng: Random, head: int) -> bytes:
    """Damage the first bytes, where a format keeps its numbers."""
    return damaged(data[:head], rng) + data[head:]


def damaged_json(content: Any, rng: Random) -> bytes:
    """Exchange, remove, add or nest one to three values, or damage the text."""
    copy = json.loads(json.dumps(content))
    for _ in range(rng.choice([1, 1, 2, 3])):
        places = list(_places(copy))
        if not places:
            break
        where, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind < 3:
            where[key] = deepcopy(rng.choice(STRANGE))
        elif kind == 3:
            del where[key]
        elif kind == 4:
            where[key] = [where[key]] if rng.random() < 0.5 else {"x": where[key]}
        elif isinstance(where, dict):
            where[rng.choice(["", "order", "name", "problem", key + "x"])] = deepcopy(where[key])
        else:
            where.append(deepcopy(where[key]))
    text = json.dumps(copy, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        text = damaged(text, rng)
    if rng.random() < 0.03:
        deep = rng.choice([50, 2000, 200_000])
        text = text.replace(rng.choice([b"1", b'"', b"}"]), b"[" * deep + b"]" * deep, 1)
    if rng.random() < 0.02:
        text = text.replace(b"1", b"1" * 10_000, 1)
    return text


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    entries = (
        list(content.items())
        if isinstance(content, dict)
        else list(enumerate(content))
        if isinstance(content, list)
        else []
    )
    for key, value in entries:
        yield content, key
        yield from _places(value)


def outcomes(
    read: Callable[[bytes], object],
    make: Callable[[Random], bytes],
    times: int,
    typed: type[Exception] | tuple[type[Exception], ...],
    seed: str,
) -> tuple[int, int]:
    """Count mutants that were read, and mutants refused by errors of webpte; others fail."""
    rng = random.Random(seed)
    good = 0
    for at in range(times):
        data = make(rng)
        begin_file()
        try:
            read(data)
            good += 1
        except typed as error:
            _check(error)
        except Exception as error:
            error.add_note(f"mutant {at} of seed {seed!r}: {data[:300]!r}")
            raise
    return good, times - good


def _check(error: BaseException | None) -> None:
    """Check that an error has a message, and is not caused by a lack of memory."""
    assert str(error)
    while error is not None:
        if isinstance(error, MemoryError):
            raise error
        error = error.__cause__
