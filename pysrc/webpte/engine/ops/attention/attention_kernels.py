"""The kernels of an `Attention`; attention_choice.py chooses among them.

Few queries use `attention_flash_split`, which splits the keys over workgroups and writes new keys
and values to the cache on the way. Many queries use the tiles of `attention_flash`, or, if heads
are so small that their queries fit into shared memory, the tiles of `attention_flash_small_heads`;
attention_matrix.py uses subgroup matrices. All kernels read the position from its uniform, so grids
and splits follow from the size of the cache, never from the live position. After a split,
`attention_flash_reduce` adds up the parts. A software adapter gets plain loops:
`attention_naive_logits` writes the logits of some rows, `attention_naive_values` the weighted
values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.ops.attention.cache_packing import CachePacking
from webpte.engine.ops.attention.cache_write_kernels import (
    Heads,
    Position,
    lower_packing,
    lower_update,
)
from webpte.engine.ops.core.args import TensorArg
from webpte.engine.ops.core.quads import QUAD, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.row_reduction import power_of_two
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.shapes import Dims

Overrides = tuple[tuple[str, float], ...]

# Constants of the kernels.
TILE_ROWS, LANES, STAGE, TILE_KEYS, MAX_COLUMNS = 64, 8, 480, 32, 8
SPLIT_SIZE, SPLIT_ROWS, MAX_SPLIT_HEAD, MAX_SPLITS = 256, 4, 256, 64
REDUCE_SIZE = 256
BLOCK_HEAD, BLOCK_BYTES = 64, 32768
NO_MASK, ADDED, BOOLEAN = range(3)
# Constants that a single naive kernel has.
LOGITS_ONLY, VALUES_ONLY = ("HEAD", "MASK"), ("VALUE_HEAD",)

FEW_ROWS = 32  # rows of a key head for which splitting the keys beats tiles
KEYS_PER_SPLIT = {  # for kernels with a fixed number of keys per step
    "attention_flash": 128,
    "attention_flash_small_heads": 128,
    "attention_matrix": 256,
}
# Workgroups that fill a GPU of 132 cores; more would only make the reduction longer.
WORKGROUPS = {
    "attention_flash_split": 512,
    "attention_flash_split_rope": 512,
    "attention_flash_split_heads": 512,
    "slot_attention": 512,
    "attention_flash": 256,
    "attention_flash_small_heads": 256,
    "attention_matrix": 256,
}
# Shares that the GEMV behind attention adds up: splits, keys of the cache, columns of a workgroup,
# numbers that its workgroups read on 132 cores, and elements of a head. Measured: Qwen3-0.6B (4
# million) and smaller models gain 2 to 12 % of a step, Llama-3.2-1B (8 million) loses up to 11 %.
# Gemma-3-1B has so few heads, of 256 elements, that it needs more splits: it loses up to 13 %.
MOST_MERGED, MERGED_KEYS, MERGED_COLUMNS, MOST_MERGED_NUMBERS = 16, 4096, 8, 5 << 20
MOST_MERGED_HEAD = 128
MOST_CANDIDATES = 4  # numbers of splits near the default
LOGIT_BYTES = 1 << 24  # most bytes of logits at once on a software adapter
ITEM_BYTES = {"f32": 4, "f16": 2}
FLOATS = "floats"  # unpacked keys and values: see `Attention.cache_format`


@dataclass(frozen=True)
class Mask:
    """A mask with its strides between batches, heads, tokens and keys."""

    tensor: TensorArg
    strides: Dims
    boolean: bool


@dataclass(frozen=True)
class Attention:
    """A single attention call; `new` keys and values are written to the caches `k` and `v`."""

    q: Heads
    k: Heads
    v: Heads
    out: Heads
    keys: int  # plus the position if `follows`
    follows: bool
    causal: bool
    scale: float
    position: Position
    mask: Mask | None
    new: tuple[Heads, Heads] | None = None
    stored: str = "f32"  # element type in memory: f32 or f16
    packing: CachePacking | None = None  # None: floats; else strides of `k` and `v` count units
    # params of attention_flash_split_rope.wgsl
    rotary: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    window: int = 0  # keys that a query sees, including its own; 0: no limit
    cap: float = 0  # c of c * tanh(logit / c); 0: logits unchanged
    target: Target = GPU
    width: int = 0  # columns of the linear layer that reads the output next, if known

    @property
    def cache_format(self) -> str:
        """Name of the files in wgsl/lib/attention/cache/ that read keys and values."""
        return FLOATS if self.packing is None else self.packing.wgsl

    @property
    def mask_id(self) -> int | None:
        return None if self.mask is None else self.mask.tensor.id

    @property
    def mask_type(self) -> str:
        return "f32" if self.mask is None else self.mask.tensor.dtype.wgsl

    @property
    def key_heads(self) -> int:
        return max(self.k.sizes[1], self.v.sizes[1])

    @property
    def group(self) -> int:
        """Number of query heads per key head."""
        return self.out.sizes[1] // self.key_heads

    @property
    def rows(self) -> int:
        """Number of queries of one key head."""
        return self.out.sizes[2] * self.group


def update_cache(call: Attention) -> list[Dispatch]:
    if call.new is None:
        return []
    pairs = list(zip(call.new, (call.k, call.v), strict=True))
    if call.packing is not None:
        how = call.packing, call.stored, call.position
        return [lower_packing(new, cache, *how) for new, cache in pairs]
    itemsize = ITEM_BYTES[call.stored]
    return [lower_update(new, cache, itemsize, call.position) for new, cache in pairs]


def fits_small_heads(call: Attention, target: Target) -> bool:
    """Return whether `attention_flash_small_heads` takes a call: heads fit shared memory."""
    sizes = call.q.sizes[3], call.v.sizes[3]
    whole = all(0 < size <= BLOCK_HEAD and size % 4 == 0 for size in sizes)
    return whole and target.shared_bytes >= BLOCK_BYTES


def lower_small_heads(call: Attention) -> list[Dispatch]:
    return attention_dispatches(
        call,
        "attention_flash_small_heads",
        bindings=(call.q.id, call.k.id, call.v.id),
        tiles=ceil_div(call.rows, TILE_ROWS),
    )


def lower_flash(call: Attention) -> list[Dispatch]:
    quads = ceil_div(call.v.sizes[3], 4)
    columns = min(ceil_div(quads, LANES), MAX_COLUMNS)
    values = TILE_KEYS
    while values * columns * LANES > STAGE:
        values //= 2
    slices = ceil_div(quads, columns * LANES)
    return attention_dispatches(
        call,
        "attention_flash",
        bindings=(call.q.id, call.k.id, call.v.id),
        tiles=ceil_div(call.rows, TILE_ROWS),
        types=(("COLUMNS", str(columns)), ("VALUES", str(values))),
        constants=(("SLICES", slices),),
        slices=slices,
    )


def writes_cache(call: Attention) -> bool:
    """Return whether `attention_flash_split` takes a call and writes its new keys to the cache."""
    size, value_size = call.q.sizes[3], call.v.sizes[3]
    small = max(size, value_size) <= MAX_SPLIT_HEAD and call.rows <= FEW_ROWS
    # Two workgroups cannot write a quad that two heads share.
    return small and size % 4 == 0 and value_size % 4 == 0


def split_lanes(call: Attention) -> int:
    """Return how many invocations share a key; each reads up to four quads of the key at once."""
    quads = ceil_div(call.q.sizes[3], QUAD)
    return 4 if quads <= 16 else 8 if quads <= 32 else 16


def lower_split(
    call: Attention,
    new: tuple[Heads, Heads] | None,
    kernel: str = "attention_flash_split",
    bindings: tuple[Binding, ...] | None = None,
) -> list[Dispatch]:
    """Lower attention with split keys; `bindings` default to queries, new keys and new values."""
    if bindings is None:
        new_ids = (None, None) if new is None else (new[0].id, new[1].id)
        bindings = (call.q.id, *new_ids)
    return attention_dispatches(
        call,
        kernel,
        bindings=(*bindings, call.k.id, call.v.id),
        tiles=ceil_div(call.rows, SPLIT_ROWS),
        types=(
            ("CACHE", "read" if new is None else "read_write"),
            ("NEW", "none" if new is None else call.cache_format),
            ("LANES", str(split_lanes(call))),
            ("QUADS", str(ceil_div(call.q.sizes[3], 4))),
        ),
        constants=(("HAS_NEW", int(new is not None)),),
        new=None if new is None else new[0],
    )


def attention_dispatches(
    call: Attention,
    kernel: str,
    *,
    bindings: tuple[Binding, ...],
    tiles: int,
    types: tuple[tuple[str, str], ...] = (),
    constants: Overrides = (),
    slices: int = 1,
    new: Heads | None = None,
    width: int = 0,
) -> list[Dispatch]:
    """Build an attention kernel's dispatch and, if it splits the keys, the reduction."""
    batch, heads, tokens, value_size = call.out.sizes
    jobs = batch * call.key_heads * tiles * slices
    splits = choose_splits(call, kernel, jobs)
    lines = batch * tokens * heads * splits
    stats = scratch("attention_stats", lines * 8)
    values: Binding = call.out.id if splits == 1 else scratch("attention", lines * value_size * 4)
    params = pack_params(call, jobs * splits, tiles, splits, new, (0, 0, width))
    attention = Dispatch(
        kernel=kernel,
        bindings=(*bindings, call.mask_id, values, stats, call.position),
        params=params,
        grid=fold_grid(jobs * splits),
        types=(
            *types,
            ("FLOAT", call.stored),
            ("CACHE_FORMAT", call.cache_format),
            ("MASK_TYPE", call.mask_type),
            ("OUT", call.stored if splits == 1 else "f32"),
        ),
        overrides=(*overrides(call), *constants),
    )
    if splits == 1:
        return [attention]
    reduction = Dispatch(
        kernel="attention_flash_reduce",
        bindings=(values, stats, call.out.id),
        params=pack("8I", lines // splits, tokens, heads, splits, *call.out.strides, 0),
        grid=fold_grid(lines // splits),
        types=(
            ("FLOAT", call.stored),
            ("SPLITS", str(splits)),
            ("STEPS", str(ceil_div(splits, max(1, REDUCE_SIZE // value_size)))),
        ),
        overrides=(("VALUE_HEAD", value_size),),
        mergeable=merges_in_gemv(call, splits),
    )
    return [attention, reduction]


def choose_splits(call: Attention, kernel: str, jobs: int) -> int:
    """Return the number of workgroups that share the keys: the tuned number, or the default."""
    each = KEYS_PER_SPLIT.get(kernel, SPLIT_SIZE // split_lanes(call))
    most = min(MAX_SPLITS, ceil_div(call.k.sizes[2], each))
    wanted = call.target.adapter.workgroups(WORKGROUPS[kernel])
    default = max(1, min(most, ceil_div(wanted, jobs)))
    few = call.k.sizes[2] <= MERGED_KEYS and call.v.sizes[3] <= MOST_MERGED_HEAD
    if call.width and few and merges_in_gemv(call, MOST_MERGED):
        default, most = min(default, MOST_MERGED), min(most, MOST_MERGED)
    if not call.target.wants_candidates:
        return default
    others = [1 << i for i in range(most.bit_length())]
    near = sorted(others, key=lambda n: abs(math.log2(n / default)))[:MOST_CANDIDATES]
    candidates = {f"{n} splits": n for n in (default, *near)}
    sizes = f"{call.q.sizes[3]}+{call.v.sizes[3]} {call.stored}"
    sizes += f" {call.cache_format}" * (call.packing is not None)
    shape_class = f"{kernel} jobs{power_of_two(jobs)} keys{call.k.sizes[2]} size{sizes}"
    return call.target.choice("attention", shape_class, f"{default} splits", candidates)


def merges_in_gemv(call: Attention, splits: int) -> bool:
    """Return whether the GEMV behind adds up so many shares faster than another dispatch.

    Each of its workgroups reads the whole row from every split. A GEMV of unknown width has as many
    columns as the row.
    """
    one, row = call.out.sizes[0] * call.out.sizes[2] == 1, call.out.sizes[1] * call.v.sizes[3]
    numbers = ceil_div(call.width or row, MERGED_COLUMNS) * row * splits
    few = numbers <= call.target.adapter.workgroups(MOST_MERGED_NUMBERS)
    return one and few and splits <= MOST_MERGED


def pack_params(
    call: Attention,
    workgroups: int = 0,
    tiles: int = 1,
    splits: int = 1,
    new: Heads | None = None,
    lines: tuple[int, int, int] = (0, 0, 0),
) -> bytes:
    """Pack params of lib/attention/attention.wgsl; `lines`: the first, their number and length."""
    return pack(
        "7If33If",
        *(workgroups, call.out.sizes[2], call.key_heads, tiles, splits, call.keys, call.follows),
        call.scale,
        *(*call.q.strides, 0, *call.k.strides, 0, *call.v.strides, 0, *call.out.strides, 0),
        *((0,) * 4 if call.mask is None else call.mask.strides),
        *((0,) * 4 if new is None else (*new.strides, ceil_div(new.sizes[3], QUAD))),
        *lines,
        *call.rotary,
        *(call.window, call.cap),
    )


def overrides(call: Attention) -> Overrides:
    mask = call.mask
    return (
        ("GROUP", call.group),
        ("HEAD", call.q.sizes[3]),
        ("VALUE_HEAD", call.v.sizes[3]),
        ("CAUSAL", int(call.causal)),
        ("MASK", NO_MASK if mask is None else BOOLEAN if mask.boolean else ADDED),
    )


def without(pairs: Overrides, names: tuple[str, ...]) -> Overrides:
    return tuple(pair for pair in pairs if pair[0] not in names)


def lower_simple(call: Attention) -> list[Dispatch]:
    """Lower for a software adapter; each step takes as many lines as a buffer holds logits."""
    batch, heads, tokens, value_size = call.out.sizes
    width = call.k.sizes[2] if call.follows else call.keys
    every = batch * heads * tokens
    most = min(LOGIT_BYTES, call.target.binding_bytes)
    at_once = min(every, max(1, most // max(4 * width, 1)))
    logits = scratch("attention_naive_logits", at_once * width * 4)
    dispatches = []
    for first in range(0, every, at_once):
        lines = min(at_once, every - first)
        params = pack_params(call, lines=(first, lines, width))
        if width:
            dispatches.append(simple_logits(call, logits, params, lines * ceil_div(width, 4)))
        quads = lines * ceil_div(value_size, 4)
        dispatches.append(
            Dispatch(
                kernel="attention_naive_values",
                bindings=(logits, call.v.id, call.out.id, call.position),
                params=params,
                grid=quad_grid(quads),
                types=(("FLOAT", call.stored), ("CACHE_FORMAT", call.cache_format)),
                overrides=without(overrides(call), LOGITS_ONLY),
            )
        )
    return dispatches


def simple_logits(call: Attention, logits: Scratch, params: bytes, quads: int) -> Dispatch:
    return Dispatch(
        kernel="attention_naive_logits",
        bindings=(call.q.id, call.k.id, call.mask_id, logits, call.position),
        params=params,
        grid=quad_grid(quads),
        types=(
            ("FLOAT", call.stored),
            ("CACHE_FORMAT", call.cache_format),
            ("MASK_TYPE", call.mask_type),
        ),
        overrides=without(overrides(call), VALUES_ONLY),
    )


def scratch(key: str, nbytes: int) -> Scratch:
    """Return scratch memory of 2^n bytes, so that prompts of similar length share it."""
    return Scratch(key, 1 << max(nbytes - 1, 15).bit_length())
