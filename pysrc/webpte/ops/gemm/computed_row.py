"""GEMVs that compute their row: a norm that other calls read, too, or its sum with a residual.

Every workgroup computes the row, and the first one also writes it for the other calls. That saves
a dispatch for each norm after attention or after an MLP (Gemma, OLMo), and for a norm that both
attention and the MLP read (Phi, Cohere). The counterpart of wgsl/lib/gemm/gemv_computed_row.wgsl.
Gains are bound as uniforms, because a kernel that multiplies by three matrices binds as many
storage buffers as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from webpte.ops.core.args import Args, TensorArg
from webpte.ops.core.fused_call import FusedStep, Part, is_view, lower_parts, single_steps
from webpte.ops.core.records import Dispatch
from webpte.ops.core.target import Target
from webpte.ops.gemm.gemm import Gemm, GemmKernel
from webpte.ops.gemm.prologue import Prologue
from webpte.ops.norm.fused_norm import (
    ADD,
    LAYER_NORM,
    RMS_NORM,
    NormedRows,
    norm_add_dispatches,
    normed_sum_of,
)

MOST_INNER = 16384  # floats of a gain, which is bound as a uniform of at most 64 KB

Fused = Callable[[Args, list[Part], NormedRows], list[Dispatch] | None]
Steps = Callable[[Args, list[Part]], list[FusedStep]]


def leading_row(args: Args, parts: Sequence[Part]) -> int:
    """Return how many parts compute a row that is an output, too; 0 if they begin otherwise."""
    kept = {out.id for out in args.outs}
    if parts[0][0].name not in (RMS_NORM, LAYER_NORM):
        return 0
    for index, (op, part) in enumerate(parts[:-1]):
        if part.outs[0].id in kept:
            return index + 1
        if index and not is_view(op, part):
            return 0
    return 0


def normed_row_of(parts: Sequence[Part]) -> NormedRows | None:
    """Return the row of a norm, or of a norm, views and an addition."""
    (op, norm), (last, _) = parts[0], parts[-1]
    if last.name == ADD:
        return normed_sum_of(parts)
    gain, eps = norm.tensor("weight"), norm.number("eps")
    centered, out = op.name == LAYER_NORM, parts[-1][1].outs[0]
    return NormedRows(norm.tensor("input"), gain, eps, None, out, centered)


def row_dispatches(parts: Sequence[Part]) -> list[Dispatch] | None:
    """Return the dispatches that compute a row alone; None: the parts run one after the other."""
    (op, norm), (last, view) = parts[0], parts[-1]
    if last.name == ADD:
        return norm_add_dispatches(parts)
    moved = {norm.outs[0].id: view.outs[0].id}  # views are its memory under other shapes
    return [
        replace(d, bindings=tuple(moved.get(b, b) if isinstance(b, int) else b for b in d.bindings))
        for d in op.lower(norm)
    ]


def takes_row(row: NormedRows, gemm: Gemm, target: Target, storage_buffers: int) -> bool:
    """Return whether a GEMV computes this row: it is the only one, of floats, and not too long."""
    tensors = [t for t in (row.x, row.gain, row.residual, row.out) if t is not None]
    floats = all(tensor.dtype.wgsl == "f32" for tensor in tensors) and gemm.stored == "f32"
    whole = row.out.numel == row.gain.numel == gemm.k and gemm.k <= MOST_INNER
    return floats and whole and gemm.m == 1 and target.storage_buffers >= storage_buffers


def row_kernel(kernel: GemmKernel, norm: Prologue) -> GemmKernel:
    """Return the variant of a GEMV kernel that computes its row."""
    row = norm.row
    assert row is not None, "see takes_row"
    residual = None if row.residual is None else row.residual.id
    gain = norm.gain or row.gain  # one that is not used is bound all the same
    operands = (row.x.id, residual, row.gain.id, gain.id, *kernel.operands[2:], row.out.id)
    made = (("ROW_CENTERED", row.centered), ("ROW_ADDED", row.residual is not None))
    name, overrides = f"{kernel.name}_row", (*kernel.overrides, *made)
    return replace(kernel, name=name, operands=operands, overrides=overrides)


def with_row(norm: Prologue | None, row: NormedRows | None, x: TensorArg) -> Prologue | None:
    """Return the prologue of a GEMV that computes its row, if it does."""
    return norm if row is None else replace(norm or Prologue(x), row=row)


def lower_with_row(args: Args, parts: list[Part], fused: Fused, steps: Steps) -> list[Dispatch]:
    """Lower a row and what follows: by `fused` at once, or the row and then the `steps`."""
    count = leading_row(args, parts)
    if not count:
        return lower_parts(args, steps(args, parts))
    begin = count
    while is_view(*parts[begin]):
        begin += 1
    before, rest = parts[:count], parts[begin:]
    row = normed_row_of(before)
    if row is not None and (found := fused(args, rest, row)) is not None:
        return found
    views = single_steps(parts[count:begin])
    return lower_parts(args, [FusedStep(tuple(before), row_dispatches), *views, *steps(args, rest)])
