"""Cases of attention: every kernel at many sizes, masks and positions in a cache."""

from __future__ import annotations

from collections.abc import Sequence

from support.cases.attention.attention_programs import CacheCase, PlainCase

TOKENS, POSITIONS = (1, 2, 7, 63, 64, 130), (0, 1, 5, 100)
HEADS = ((4, 2), (4, 4), (8, 1), (6, 3))
SIZES = (6, 16, 33, 64, 128)

# Every length at every position, in an order that shrinks and grows, on one program each.
SWEEP_STEPS = [(tokens, at) for at in POSITIONS for tokens in (130, 1, 63, 2, 64, 7)]
SWEEP = [
    CacheCase(heads, key_heads, size, SWEEP_STEPS, positions=256)
    for heads, key_heads in HEADS
    for size in SIZES
]

# A prompt, a second part of it, and words one by one; then from the start.
TALK = [(9, 0), (5, 9), (1, 14), (1, 15), (2, 16), (1, 18), (3, 0), (1, 3)]
LONG = "sdpa_with_kv_cache.default"
BARE = "custom_sdpa.default"

CACHED = [
    CacheCase(4, 2, 16, TALK, label="talk"),
    CacheCase(3, 1, 8, TALK, label="talk three heads"),
    CacheCase(10, 1, 8, TALK, label="ten heads in two tiles of rows"),
    CacheCase(4, 2, 16, TALK, label="not causal", causal=False),
    CacheCase(4, 2, 16, TALK, label="namespaced", op="llama.sdpa_with_kv_cache.default"),
    CacheCase(2, 1, 4, [(1, 0), (1, 1)], positions=2, label="tiny cache"),
    CacheCase(1, 1, 1, [(1, 0), (3, 1), (1, 4)], positions=5, label="all ones"),
    CacheCase(2, 2, 6, [(3, 2), (1, 5)], batch=3, positions=9),
    CacheCase(4, 2, 8, [(40, 2), (1, 42)], batch=2, positions=50),
    CacheCase(4, 2, 16, [(5, 7), (5, 7)], live=False),
    CacheCase(4, 2, 16, [(1, 63), (64, 0), (1, 63)], label="full cache"),
    CacheCase(4, 2, 16, TALK, scale=0.3),
    CacheCase(4, 2, 16, TALK, scale=1, label="scale written as int"),
    CacheCase(2, 1, 256, [(1, 30), (20, 31)], positions=70),
    CacheCase(4, 1, 256, [(1, 130), (8, 131), (1, 139)], positions=150),
    CacheCase(2, 1, 80, [(1, 30), (2, 31), (1, 130)], positions=140),
    CacheCase(2, 1, 260, [(1, 30), (20, 31), (1, 51)], positions=70),
    CacheCase(1, 1, 523, [(2, 3), (1, 5)], positions=9),
    CacheCase(4, 2, 16, [(1, 700), (2, 5), (1, 999)], positions=1000, label="many splits"),
    CacheCase(2, 1, 4, [(1, 4990), (1, 3)], positions=5000, label="more than 64 keys to a split"),
    CacheCase(8, 1, 8, [(9, 500), (3, 0)], positions=600, label="tiles with splits"),
    CacheCase(4, 2, 16, [(5, 7), (1, 3)], cache_inputs=True),
    CacheCase(4, 2, 5, [(5, 7), (1, 3)], cache_inputs=True),
    CacheCase(4, 2, 16, [(40, 7), (1, 3)], cache_inputs=True),
    CacheCase(4, 2, 16, TALK, op=BARE),
    CacheCase(4, 2, 16, TALK, op=f"llama.{BARE}", causal=False),
    CacheCase(4, 2, 7, [(1, 20), (30, 3)], op=BARE),
] + [
    CacheCase(4, 2, 16, TALK, window=1, label="own key alone"),
    CacheCase(4, 2, 16, TALK, window=7),
    CacheCase(3, 1, 8, TALK, window=5, cap=2.5),
    CacheCase(4, 2, 16, TALK, cap=1.5, op=BARE),
    CacheCase(4, 2, 16, TALK, cap=0.25, scale=40.0, label="far beyond the cap"),
    CacheCase(2, 1, 6, TALK, window=3, cap=3.0, op=BARE),
    CacheCase(2, 1, 260, [(1, 30), (20, 31), (1, 51)], positions=70, window=11, cap=5.0),
    CacheCase(4, 2, 64, [(130, 40), (1, 170), (70, 3)], positions=256, window=33, cap=4.0),
    CacheCase(4, 2, 33, [(130, 40), (1, 170), (9, 3)], positions=256, window=50),
    CacheCase(8, 1, 128, [(8, 500), (64, 100), (1, 598)], positions=600, window=200, cap=9.0),
    CacheCase(4, 2, 16, [(1, 700), (2, 5), (1, 999)], positions=1000, window=77),
    CacheCase(4, 2, 16, [(1, 700), (2, 5), (1, 999)], positions=1000, window=5000, cap=2.0),
] + [
    CacheCase(4, 2, size, [(tokens, 7), (1, 12)], op=op, mask=mask, mask_type=kind, causal=causal)
    for tokens, size in ((3, 16), (17, 6))
    for op, mask, kind, causal in (
        (LONG, "SP", "float32", False),
        (LONG, "SN", "float32", False),
        (LONG, "SN", "bool", False),
        (LONG, "SP", "bool", True),
        (LONG, "S1", "float32", True),
        (LONG, "N", "float32", True),
        (LONG, "HSN", "bool", False),
        (LONG, "1HSP", "float32", True),
        (LONG, "11SN", "float32", True),
        (BARE, "SP", "float32", False),
        (BARE, "SN", "bool", True),
    )
] + [
    CacheCase(4, 2, 8, [(3, 4)], batch=2, mask=mask, mask_type="bool", causal=False)
    for mask in ("B1SN", "BHSN", "B11P")
]  # fmt: skip


def plain(
    q: Sequence[int], k: Sequence[int], v: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return tuple(q), tuple(k), tuple(k if v is None else v)


PLAIN = [
    PlainCase([plain((1, 2, 5, 16), (1, 2, 9, 16))]),
    PlainCase([plain((2, 3, 7, 10), (2, 3, 11, 10))]),
    PlainCase([plain((2, 3, 67, 8), (2, 3, 97, 8))], label="tiles"),
    PlainCase([plain((1, 6, 5, 8), (1, 2, 9, 8))], label="shared key heads"),
    PlainCase([plain((1, 6, 50, 7), (1, 3, 33, 7))], label="shared key heads"),
    PlainCase([plain((1, 4, 5, 8), (1, 4, 9, 8), (1, 4, 9, 12))], label="wider values"),
    PlainCase([plain((1, 4, 50, 8), (1, 4, 9, 8), (1, 4, 9, 3))], label="narrower values"),
    PlainCase([plain((1, 1, 40, 8), (1, 1, 9, 8), (1, 1, 9, 300))], label="values in slices"),
    PlainCase([plain((5, 8), (9, 8))], label="rank 2"),
    PlainCase([plain((3, 5, 8), (3, 9, 8))], label="rank 3"),
    PlainCase([plain((2, 3, 2, 5, 8), (2, 3, 2, 9, 8))], label="rank 5"),
    PlainCase([plain((3, 2, 5, 8), (1, 2, 9, 8))], label="one batch of keys for all"),
    PlainCase([plain((1, 2, 5, 8), (3, 2, 9, 8))], label="one batch of queries for all"),
    PlainCase([plain((2, 1, 5, 8), (2, 3, 9, 8))], label="one head of queries for all"),
    PlainCase([plain((1, 2, 1, 8), (1, 2, 1, 8))], label="one key"),
    PlainCase([plain((1, 2, 3, 1), (1, 2, 5, 1))], label="size 1"),
    PlainCase([plain((1, 2, 0, 8), (1, 2, 5, 8))], label="no queries"),
    PlainCase([plain((1, 2, 5, 16), (1, 2, 9, 16))], scale=2.5),
    PlainCase([plain((1, 2, 5, 16), (1, 2, 9, 16))], same=True),
    PlainCase([plain((1, 2, 60, 16), (1, 2, 9, 16))], same=True),
    PlainCase([plain((1, 2, 1, 16), (1, 2, 700, 16))], label="splits"),
    PlainCase(
        [plain((1, 2, s, 12), (1, 2, n, 12)) for s, n in ((70, 90), (1, 3), (7, 90), (70, 2))],
        label="dynamic",
    ),
    PlainCase(
        [plain((2, 2, s, 6), (2, 2, n, 6)) for s, n in ((40, 41), (3, 5), (40, 7))],
        mask=[(2, 1, 40, 41), (2, 1, 3, 5), (2, 1, 40, 7)],
        label="dynamic",
    ),
    *(
        PlainCase([plain((2, 3, s, 8), (2, 3, 9, 8))], mask=[shape], mask_type=kind)
        for s in (5, 40)
        for shape, kind in (
            ((2, 3, s, 9), "float32"),
            ((s, 9), "float32"),
            ((9,), "float32"),
            ((), "float32"),
            ((1, 1, s, 1), "float32"),
            ((3, 1, 9), "float32"),
            ((2, 1, s, 9), "bool"),  # added, as torch adds it: 1 for true
        )
    ),
]

# Of subgroup matrices. Rows that are not whole tiles, keys that are not whole blocks, several
# positions, and keys that are split over workgroups.
MATRIX_CASES = [
    CacheCase(4, 2, 64, [(70, 0), (65, 70), (131, 3)], positions=140),
    CacheCase(2, 1, 64, [(67, 9)], positions=300, window=37, cap=3.0, batch=2),
    CacheCase(3, 1, 128, [(45, 0), (43, 45)], positions=90, mask="SP", causal=False),
]
