"""GEMVs that compute their row: the sum of a residual and an RMS norm.

Every workgroup computes the row, and the first one also writes it for other calls. That saves a
dispatch for each norm after attention or after an MLP (Gemma, OLMo). The counterpart of
wgsl/lib/gemm/gemv_computed_row.wgsl. A kernel that multiplies by three matrices needs all storage
buffers of a device, so its gains are uniforms; elsewhere gains are storage, because invocations
wait for each other when they read different places of a uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import FusedStep, Part, is_view, lower_parts, single_steps
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import Gemm, GemmKernel
from webpte.engine.ops.gemm.lib.prologue import Prologue, quantizes_x
from webpte.engine.ops.norm.fused_norm import (
    RMS_NORM,
    NormedSum,
    norm_add_dispatches,
    normed_sum_of,
)

MOST_INNER = 16384  # floats of a gain, which is bound as a uniform of at most 64 KB

Fused = Callable[[Args, list[Part], NormedSum], list[Dispatch] | None]
Steps = Callable[[Args, list[Part]], list[FusedStep]]


def leading_row(args: Args, parts: Sequence[Part]) -> int:
    """Count the leading parts that compute a row and output it; 0 for other beginnings."""
    kept = {out.id for out in args.outs}
    if parts[0][0].name != RMS_NORM:
        return 0
    for index, (op, part) in enumerate(parts[1:-1], 1):
        if part.outs[0].id in kept:
            return index + 1
        if not is_view(op, part):
            return 0
    return 0


def takes_row(
    row: NormedSum, gemm: Gemm, norm: Prologue | None, target: Target, storage_buffers: int
) -> bool:
    """Return whether a GEMV can compute this row: a single row of floats that is not too long."""
    if quantizes_x(norm):
        return False
    tensors = (row.x, row.gain, row.residual, row.out)
    floats = all(tensor.dtype.wgsl == "f32" for tensor in tensors) and gemm.stored == "f32"
    whole = row.out.numel == row.gain.numel == gemm.k and gemm.k <= MOST_INNER
    return floats and whole and gemm.m == 1 and target.storage_buffers >= storage_buffers


def row_kernel(kernel: GemmKernel, norm: Prologue) -> GemmKernel:
    """Return the variant of a GEMV kernel that computes its row."""
    row = norm.row
    assert row is not None, "see takes_row"
    gain = norm.gain or row.gain  # the kernel binds a gain even if it does not use it
    read = (row.x.id, row.residual.id, row.gain.id, gain.id)
    operands = (*read, *kernel.operands[2:], row.out.id)
    return replace(kernel, name=f"{kernel.name}_row", operands=operands)


def with_row(norm: Prologue | None, row: NormedSum | None, x: TensorArg) -> Prologue | None:
    """Return the prologue of a GEMV, with the row if the GEMV computes its row."""
    return norm if row is None else replace(norm or Prologue(x), row=row)


def lower_with_row(args: Args, parts: list[Part], fused: Fused, steps: Steps) -> list[Dispatch]:
    """Lower a row and the parts after it: by `fused` at once, or the row and then the `steps`."""
    count = leading_row(args, parts)
    if not count:
        return lower_parts(args, steps(args, parts))
    begin = count
    while is_view(*parts[begin]):
        begin += 1
    before, rest = parts[:count], parts[begin:]
    row = normed_sum_of(before)
    if row is not None and (found := fused(args, rest, row)) is not None:
        return found
    views = single_steps(parts[count:begin])
    first = FusedStep(tuple(before), norm_add_dispatches)
    return lower_parts(args, [first, *views, *steps(args, rest)])
