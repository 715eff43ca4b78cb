"""Helpers of the families that move elements: units, packed axes, scalars as bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.dtypes import DType
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import fits_int32, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, SymIntUniform, ceil_div, pack
from webpte.errors import GraphError, UnsupportedError

MAX_AXES = 16  # also in wgsl/move/strided.wgsl, pad.wgsl and indexing.wgsl
BYTES_PER_WORD = 4

NO_INDEX = pack("4i", 0, 0, 0, 0)  # bound if there is no live index


@dataclass(frozen=True)
class Unit:
    """The unit that an invocation moves: `elements` at once, or `parts` of a word in turn.

    See wgsl/lib/move_units.wgsl.
    """

    elements: int
    wgsl: str
    parts: int = 1


def widest_unit(dtype: DType, divides: Callable[[int], bool]) -> Unit:
    """Return the widest unit for which `divides` is true: all runs and offsets are multiples."""
    for nbytes, wgsl in ((16, "vec4<u32>"), (BYTES_PER_WORD, "u32")):
        elements = nbytes // dtype.storage.itemsize
        if elements == 1 or divides(elements):
            return Unit(elements, wgsl)
    return Unit(1, "u32", parts=BYTES_PER_WORD // dtype.storage.itemsize)


def move(
    kernel: str, bindings: tuple[Binding, ...], unit: Unit, numel: int, params: bytes
) -> Dispatch:
    """Build a dispatch of a kernel with wgsl/lib/move_units.wgsl over `numel` output elements.

    The kernel's params begin with the numbers of units and of elements.
    """
    units = ceil_div(numel, unit.elements * unit.parts)
    return Dispatch(
        kernel=kernel,
        bindings=bindings,
        params=pack("2I", units, numel) + params,
        grid=quad_grid(units),
        types=(("UNIT", unit.wgsl),),
        overrides=(("PARTS", unit.parts),),
    )


def pack_rows(args: Args, rows: Sequence[Sequence[int]]) -> bytes:
    """Pack axes for the kernels: MAX_AXES rows of vec4<i32>, outermost first."""
    if len(rows) > MAX_AXES:
        raise UnsupportedError(
            f"{args.call}: {len(rows)} axes are left after merging; the kernels take {MAX_AXES}"
        )
    words = [word for row in rows for word in [*row, 0, 0, 0][:4]]
    return pack(f"{4 * MAX_AXES}i", *words, *[0] * (4 * MAX_AXES - len(words)))


def check_same_type(args: Args, *dtypes: DType) -> None:
    """Check that all tensors have the same stored type, because elements move unchanged."""
    stored = {dtype.stored for dtype in (*dtypes, args.outs[0].dtype)}
    if len(stored) > 1:
        raise GraphError(f"{args.call}: keeps the element type, but the file mixes {stored}")


def symint_of(args: Args, name: str) -> SymIntUniform | None:
    """Return the uniform of an `int` argument that is a SymInt, else None."""
    value = args.optional_number(name)
    if value is None or not fits_int32(value):
        return None
    uniform = args.uniform(name)
    return uniform if isinstance(uniform, SymIntUniform) else None


def scalar_as(args: Args, value: float, dtype: DType) -> float | int:
    """Convert a scalar to a dtype as torch does: integers truncate, bools become 0 or 1.

    A negative scalar is allowed for an unsigned type and wraps.
    """
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if dtype.name == "bool":
        return int(value != 0)
    limits = np.iinfo(dtype.storage.numpy)
    low = limits.min or -limits.max
    if not low <= value <= limits.max:
        raise GraphError(f"{args.call}: {value} does not fit into {dtype.storage.name}")
    return int(value)


def scalar_bits(args: Args, value: float, dtype: DType) -> int:
    """Return a word of copies of a scalar's stored bits: one, two (f16) or four (bytes)."""
    exact = scalar_as(args, value, dtype)
    with np.errstate(over="ignore"):
        stored = np.array(exact, dtype.storage.numpy if dtype.is_float else np.int32)
    nbytes = dtype.storage.itemsize
    return int.from_bytes(stored.tobytes()[:nbytes] * (BYTES_PER_WORD // nbytes), "little")
