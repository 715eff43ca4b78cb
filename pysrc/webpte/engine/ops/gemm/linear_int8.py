"""Linear layers with weights of 4 or 8 bits and many rows, multiplied in integers.

    linear_q4_codes   rounds the rows of x to codes of 8 bits
    linear_q4_int8    the GEMM, by packed dot products; the sums of 32 k are exact

Where the operator rounds x, with a scale and a zero per row, these are its own numbers. With
`int8_products`, an option, x of other operators is rounded in blocks of 32 values, each of which
has a scale by which its largest value becomes 127.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Dispatch, Scratch, ceil_div, fold_grid
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import (
    Gemm,
    GemmKernel,
    TileConfig,
    fastest_configs,
    split_k_dispatches,
    tuned_config,
)
from webpte.engine.ops.gemm.lib.packed_weights import BYTES, LOW_FIRST, PackedWeights

BLOCK = 32  # values of k in a step of the GEMM
NAME, CODES = "linear_q4_int8", "linear_q4_codes"
KEPT = ("FORMAT", "GROUP_SIZE", "SCALES_ALIGNED")  # override constants of the tiled kernel


@dataclass(frozen=True)
class Int8TileConfig(TileConfig):
    """The constants of wgsl/lib/gemm/int8_step.wgsl; `speed` as in `TileConfig`."""

    k_step: ClassVar[int] = BLOCK


INT8_TILE_CONFIGS = (
    Int8TileConfig(16, 16, 2, 2, 67.0),
    Int8TileConfig(8, 16, 2, 2, 70.0),
    Int8TileConfig(8, 8, 2, 2, 80.0),
    Int8TileConfig(8, 8, 1, 1, 58.0),
)


def takes_integers(gemm: Gemm, weights: PackedWeights, rounded: bool, target: Target) -> bool:
    """Return whether the integer kernels take a GEMM: whole blocks of k, each with one scale.

    `rounded`: the operator rounds x.
    """
    wanted = target.packed_dot and not target.software if rounded else target.int8_products
    blocks = gemm.k % BLOCK == 0 and weights.group % BLOCK == 0 and gemm.batches == 1
    return wanted and blocks and weights.format in ((LOW_FIRST,) if rounded else (LOW_FIRST, BYTES))


def integer_dispatches(kernel: GemmKernel, gemm: Gemm, out: int, target: Target) -> list[Dispatch]:
    """Return the rounding of x and the GEMM, with the bindings of the tiled `kernel`."""
    if gemm.empty:
        return []
    in_bytes = ("FORMAT", BYTES) in kernel.overrides
    x, scale, zero, *weights = kernel.operands
    per_block = scale is None
    codes = Scratch("codes of x", target.scratch_bytes(gemm.m * gemm.k))
    count = gemm.m * (gemm.k // BLOCK if per_block else 2)
    numbers = Scratch("numbers of codes", target.scratch_bytes(4 * count))
    blocks = ("BLOCKS", per_block)
    inverted = (pair for pair in kernel.overrides if pair[0] == "INVERTED")
    rounding = Dispatch(
        kernel=CODES,
        bindings=(x, scale, zero, codes, numbers),
        params=gemm.params(1, 1),
        grid=fold_grid(ceil_div(gemm.m * gemm.k // BLOCK, WORKGROUP_SIZE)),
        types=(*kernel.types, *gemm.types(gemm.stored)),
        overrides=(blocks, ("NIBBLES", not in_bytes), *inverted),
    )
    kept = [pair for pair in kernel.overrides if pair[0] in KEPT]
    multiply = replace(
        kernel,
        name=NAME,
        operands=(codes, numbers, *weights),
        types=(("WEIGHT_WORDS", str(BLOCK // (4 if in_bytes else 8))),),
        overrides=(*kept, blocks),
    )
    return [rounding, *split_k_dispatches(multiply, gemm, out, _config(gemm.plain, target), target)]


def _config(gemm: Gemm, target: Target) -> tuple[Int8TileConfig, int]:
    default = fastest_configs(gemm, INT8_TILE_CONFIGS, target.adapter)[0]
    shape_class = f"m{1 << (gemm.m - 1).bit_length()} n{gemm.n} k{gemm.k}"
    return tuned_config(NAME, shape_class, gemm, default, INT8_TILE_CONFIGS, target)


def rounded_once(dispatches: Sequence[Dispatch]) -> list[Dispatch]:
    """Leave out the rounding of an x that was rounded last: linear layers of one x share codes."""
    kept = list[Dispatch]()
    last: Dispatch | None = None
    for dispatch in dispatches:
        if dispatch.kernel == CODES:
            if last is not None and _rounds_alike(dispatch, last):
                continue
            last = dispatch
        elif last is not None and _may_change(dispatch, last):
            last = None
        kept.append(dispatch)
    return kept


def _rounds_alike(one: Dispatch, other: Dispatch) -> bool:
    """Compare roundings except for the number of columns, which the kernel ignores."""
    return replace(one, params=b"") == replace(other, params=b"")


def _may_change(dispatch: Dispatch, rounding: Dispatch) -> bool:
    """Return whether a dispatch binds x, its scales or its zeros."""
    read = [binding for binding in rounding.bindings[:3] if binding is not None]
    return any(binding in read for binding in dispatch.bindings)
