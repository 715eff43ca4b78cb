"""Linear layers with weights of 4 or 8 bits and subgroup matrices: see subgroup_matrix.py.

linear_q4_split_f16         splits the rows of x into f16, with exponents of rows and columns
linear_q4_subgroup_matrix   the GEMM, which unpacks weights to f16 as it loads them
"""

from __future__ import annotations

from dataclasses import replace

from webpte.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.ops.core.target import Target
from webpte.ops.gemm.gemm import Gemm, GemmKernel, Overrides
from webpte.ops.gemm.packed_weights import BYTES, Quantized
from webpte.ops.gemm.subgroup_matrix import exponents_memory, matrix_dispatches, split_f16_memory

COLUMNS = 8  # of a workgroup of wgsl/gemm/linear_q4_split_f16.wgsl

# Codes of 4 bits are up to 8, those of 8 bits up to 128: either times a scale below twice this
# power of two is at most 2^15, near the largest f16.
SCALE_POWER, SCALE_POWER_OF_BYTES = 11, 7
# The override constants of the two kernels.
OF_X, OF_WEIGHTS = ("QUANTIZED", "X_ALIGNED"), ("FORMAT", "GROUP_SIZE")


def matrix_linear(
    kernel: GemmKernel, weights: Quantized, gemm: Gemm, out: int, target: Target
) -> list[Dispatch]:
    """Return the split into f16 and the GEMM, with the bindings of the tiled `kernel`."""
    *of_x, packed, scales = kernel.operands
    power = SCALE_POWER_OF_BYTES if weights.format == BYTES else SCALE_POWER
    split = Dispatch(
        kernel="linear_q4_split_f16",
        bindings=(*of_x, scales, split_f16_memory(gemm, gemm.m), exponents_memory(gemm)),
        params=gemm.params(1, 1) + kernel.params + pack("I", power),
        grid=fold_grid(gemm.m + ceil_div(gemm.n, COLUMNS)),
        types=(*kernel.types, *gemm.types(gemm.stored)),
        overrides=_select(kernel, OF_X),
    )
    multiply = replace(
        kernel,
        name="linear_q4_subgroup_matrix",
        operands=(packed, scales),
        types=(),
        overrides=(*_select(kernel, OF_WEIGHTS), ("WHOLE_WORDS", weights.in_words)),
    )
    # Codes times scales are no f16, even if the tensors are stored as such.
    parts = 1 if target.half_products else 2
    return matrix_dispatches(split, multiply, parts, gemm, out, target)


def _select(kernel: GemmKernel, names: tuple[str, ...]) -> Overrides:
    return tuple(pair for pair in kernel.overrides if pair[0] in names)
