"""Repeated blocks in lists of calls."""

from __future__ import annotations

import pytest

from webpte.inspection.report.layers import find_blocks


def blocks(text: str, crossing: dict[int, int] | None = None) -> list[list[str]]:
    """Return the blocks of each group as text; many values cross, except where `crossing` says."""
    counts = [(crossing or {}).get(i, 9 if crossing else 0) for i in range(len(text) + 1)]
    return [
        [text[block.start : block.stop] for block in group.blocks]
        for group in find_blocks(list(text), counts)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("xabcabcabcy", [["abc"] * 3]),
        ("abcdefgh", []),
        ("aaaaaaaaaa", []),  # one repeated call is not a block
        ("abab", []),  # too few to tell
        ("ababab", [["ab"] * 3]),
        ("abcabcabcuvdededede", [["abc"] * 3, ["de"] * 4]),
        ("abcdabceabcd", []),
    ],
)
def test_a_group_for_each_repetition(text: str, found: list[list[str]]) -> None:
    assert blocks(text) == found


def test_blocks_begin_where_least_crosses() -> None:
    text = "xbcabcabcabcay"
    assert blocks(text) == [["bca"] * 4]
    assert blocks(text, {3: 1, 6: 1, 9: 1, 12: 1}) == [["abc"] * 3]


def test_a_first_block_with_more_calls_counts() -> None:
    """The first layer computes numbers that the others only read."""
    cuts = {5: 1, 8: 1, 11: 1, 14: 1}
    assert blocks("eabpcabcabcabcz", cuts) == [["abpc", "abc", "abc", "abc"]]
    assert blocks("eabcabcabcapbcz", {4: 1, 7: 1}) == [["abc", "abc", "abc", "apbc"]]


def test_long_lists_take_no_time() -> None:
    (group,) = find_blocks([*"start", *(list(range(97)) * 32), *"end"], [0] * 3200)
    assert (len(group.blocks), group.period) == (32, 97)
