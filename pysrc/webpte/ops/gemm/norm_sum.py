"""GEMVs whose row is a sum with a normalized value: residual + norm(x).

Every workgroup computes the sum, and the first one also writes it for the calls that read it
later: one dispatch less for each norm after attention or after an MLP. The counterpart of
wgsl/lib/gemm/gemv_sum_row.wgsl. Gains are bound as uniforms, because a kernel that multiplies by
three matrices binds as many storage buffers as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from webpte.ops.core.args import Args, TensorArg
from webpte.ops.core.fused_call import FusedStep, Part, is_view, lower_parts
from webpte.ops.core.records import Dispatch
from webpte.ops.core.target import Target
from webpte.ops.gemm.gemm import Gemm, GemmKernel
from webpte.ops.gemm.prologue import Prologue
from webpte.ops.norm.fused_norm import (
    ADD,
    RMS_NORM,
    NormSum,
    norm_add_dispatches,
    norm_sum_of,
)

MOST_INNER = 16384  # floats of a gain, which is bound as a uniform of at most 64 KB

Fused = Callable[[Args, list[Part], NormSum], list[Dispatch] | None]
Steps = Callable[[Args, list[Part]], list[FusedStep]]


def leading_sum(parts: Sequence[Part]) -> int:
    """Return how many parts come up to a sum with a normalized value; 0 if they begin otherwise."""
    if not parts or parts[0][0].name != RMS_NORM:
        return 0
    for index, (op, part) in enumerate(parts[1:], start=1):
        if op.name == ADD:
            return index + 1
        if not is_view(op, part):
            return 0
    return 0


def takes_sum(total: NormSum, gemm: Gemm, target: Target, storage_buffers: int) -> bool:
    """Return whether a GEMV computes this sum: one row of floats, and small enough."""
    tensors = (total.x, total.gain, total.residual, total.out)
    floats = all(tensor.dtype.wgsl == "f32" for tensor in tensors) and gemm.stored == "f32"
    whole = total.out.numel == total.gain.numel == gemm.k and gemm.k <= MOST_INNER
    return floats and whole and gemm.m == 1 and target.storage_buffers >= storage_buffers


def sum_kernel(kernel: GemmKernel, norm: Prologue) -> GemmKernel:
    """Return the variant of a GEMV kernel that computes its row."""
    total = norm.total
    assert total is not None, "see takes_sum"
    gain = norm.gain or total.gain  # one that is not used is bound all the same
    row = (total.x.id, total.residual.id, total.gain.id, gain.id)
    return replace(
        kernel, name=f"{kernel.name}_sum", operands=(*row, *kernel.operands[2:], total.out.id)
    )


def with_total(norm: Prologue | None, total: NormSum | None, x: TensorArg) -> Prologue | None:
    """Return the prologue of a GEMV whose row is a sum, if there is one."""
    return norm if total is None else replace(norm or Prologue(x), total=total)


def lower_with_sum(
    args: Args,
    parts: list[Part],
    fused: Fused,
    steps: Steps,
) -> list[Dispatch]:
    """Lower a sum and what follows: by `fused` at once, or the sum and then the `steps`."""
    count = leading_sum(parts)
    before, rest = parts[:count], parts[count:]
    while rest and is_view(*rest[0]):  # views of the sum
        before, rest = [*before, rest[0]], rest[1:]
    if not count:
        return lower_parts(args, steps(args, parts))
    total = norm_sum_of(parts[:count])
    if total is not None and (found := fused(args, rest, total)) is not None:
        return found
    first = FusedStep(tuple(before), lambda _: norm_add_dispatches(parts[:count]))
    return lower_parts(args, [first, *steps(args, rest)])
