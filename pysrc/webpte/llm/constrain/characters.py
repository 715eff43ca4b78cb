"""Sets of characters, as ranges of code points and as the bytes that spell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

Ranges = tuple[tuple[int, int], ...]  # sorted, with gaps between them; both ends belong to a range
ByteRanges = tuple[tuple[int, int], ...]  # a range for each byte of a spelling

LAST = 0x10FFFF
# No text in UTF-8 has surrogates.
ALL: Ranges = ((0, 0xD7FF), (0xE000, LAST))

END = -1  # in place of a node's number: the spelling ends here


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Join ranges, which may overlap."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(one for ranges in sets for one in ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return tuple(joined)


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Subtract a set from another."""
    left: list[tuple[int, int]] = []
    taken = iter((*others, (LAST + 1, LAST + 1)))
    start, end = next(taken)
    for first, high in ranges:
        low = first
        while low <= high:
            while end < low:
                start, end = next(taken)
            if low < start:
                left.append((low, min(high, start - 1)))
            low = end + 1 if start <= high else high + 1
    return tuple(left)


def common(ranges: Ranges, others: Ranges) -> Ranges:
    """Intersect two sets."""
    return without(ranges, without(ranges, others))


def of_text(characters: str) -> Ranges:
    return union((ord(one), ord(one)) for one in characters)


def utf8(ranges: Ranges) -> list[ByteRanges]:
    """Return the UTF-8 of a set of characters as products of byte ranges.

    No two products overlap: where they agree up to a byte, their ranges for that byte are either
    equal or disjoint.
    """
    spelled: list[ByteRanges] = []
    parts = [part for one in common(ranges, ALL) for part in _of_one_length(*one)]
    while parts:
        low, high = parts.pop()
        cut = _uneven(low, high)
        if cut is None:
            spelled.append(tuple(zip(chr(low).encode(), chr(high).encode(), strict=True)))
        else:
            parts += [(low, cut - 1), (cut, high)]
    return spelled


def _of_one_length(low: int, high: int) -> Iterable[tuple[int, int]]:
    for start, end in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, LAST)):
        if low <= end and high >= start:
            yield max(low, start), min(high, end)


def _uneven(low: int, high: int) -> int | None:
    """Return where to split a range so that every byte after the first difference is free."""
    for bits in (6, 12, 18) if low > 0x7F else ():
        rest = (1 << bits) - 1
        if low & ~rest == high & ~rest:
            break
        if low & rest:
            return (low | rest) + 1
        if high & rest != rest:
            return high & ~rest
    return None


class Spelling:
    """Spellings of a character: a tree of bytes whose equal branches are shared.

    `nodes[n]` are disjoint (lowest byte, highest byte, next node or END); the last node is the
    start.
    """

    def __init__(self, spelled: Sequence[ByteRanges]) -> None:
        self._spelled = tuple(sorted(set(spelled)))

    @classmethod
    def of(cls, ranges: Ranges) -> Spelling:
        return _spelling(ranges)

    def with_more(self, spelled: Sequence[ByteRanges]) -> Spelling:
        """Add spellings of other characters."""
        return Spelling((*self._spelled, *spelled))

    @cached_property
    def nodes(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        known: dict[tuple[tuple[int, int, int], ...], int] = {}

        def add(spelled: Sequence[ByteRanges]) -> int:
            branches: dict[tuple[int, int], list[ByteRanges]] = {}
            for first, *rest in spelled:
                branches.setdefault(first, []).append(tuple(rest))
            node = tuple(
                (*first, add(rest) if rest[0] else END) for first, rest in branches.items()
            )
            return known.setdefault(node, len(known))

        add(self._spelled)
        return tuple(known)


@lru_cache(maxsize=256)
def _spelling(ranges: Ranges) -> Spelling:
    return Spelling(utf8(ranges))
