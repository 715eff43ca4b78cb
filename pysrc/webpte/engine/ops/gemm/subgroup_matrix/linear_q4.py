"""Linear layers with weights of 4 or 8 bits and subgroup matrices: see tiles.py.

linear_q4_split_f16         splits the rows of x into f16, with exponents of rows and columns
linear_q4_subgroup_matrix   the GEMM, which unpacks weights to f16 as it loads them
linear_q4_multi_matrix      the GEMM of two or three linear layers of the same x
gemm_split_k_sum_qkv        adds up the parts of k of three linear layers, with biases
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from webpte.engine.ops.core.args import TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.lib.gemm import (
    Gemm,
    GemmKernel,
    Overrides,
    split_k_of,
    split_k_scratch,
    tiled_dispatch,
)
from webpte.engine.ops.gemm.lib.packed_weights import BYTES, PackedWeights
from webpte.engine.ops.gemm.subgroup_matrix.tiles import (
    MatrixConfig,
    exponents_memory,
    f16_parts,
    matrix_dispatches,
    split_f16_memory,
    tuned_matrix_tile_config,
    with_parts,
)

COLUMNS = 8  # per workgroup of wgsl/gemm/subgroup_matrix/linear_q4_split_f16.wgsl
MULTI = "linear_q4_multi_matrix"
MOST_WEIGHTS = 3
STORAGE_BUFFERS = 9  # buffers in wgsl/gemm/subgroup_matrix/linear_q4_multi_matrix.wgsl
NOWHERE = 0xFFFFFFFF  # first column of absent weights

# Codes of 4 bits are up to 8, codes of 8 bits up to 128: a code times a scale below 2 to this power
# is at most 2^15, near the largest f16.
SCALE_POWER, SCALE_POWER_OF_BYTES = 11, 7


def matrix_linear(
    kernel: GemmKernel, weights: PackedWeights, gemm: Gemm, out: int, target: Target
) -> list[Dispatch]:
    """Return the split into f16 and the GEMM, with the bindings of the tiled `kernel`."""
    joined = JoinedLinears(kernel, (weights,), (gemm,), target)
    multiply = replace(
        kernel,
        name="linear_q4_subgroup_matrix",
        operands=kernel.operands[-2:],
        types=(),
        overrides=(*weights.unit_overrides, ("WHOLE_WORDS", weights.in_words)),
    )
    split = joined.split(gemm, joined.matrices((0,)))
    return matrix_dispatches(split, multiply, joined.b_parts, gemm, out, target)


@dataclass(frozen=True)
class JoinedLinears:
    """Linear layers with the same x, format and groups, and the first layer's tiled `kernel`."""

    kernel: GemmKernel
    weights: tuple[PackedWeights, ...]
    gemms: tuple[Gemm, ...]
    target: Target

    @property
    def whole(self) -> Gemm:
        """The GEMM of all columns."""
        first = self.gemms[0]
        return Gemm(first.m, sum(gemm.n for gemm in self.gemms), first.k, stored=first.stored)

    @property
    def b_parts(self) -> int:
        """The number of f16 terms per weight; a code times a scale does not fit a single f16."""
        return 1 if self.target.half_products else 2

    @property
    def _overrides_of_x(self) -> Overrides:
        """The override constants of the tiled kernel that say how x is stored and rounded."""
        of_weights = dict(self.weights[0].overrides)
        return tuple(pair for pair in self.kernel.overrides if pair[0] not in of_weights)

    def matrices(self, begins: Sequence[int]) -> bytes:
        """Pack the table of weights: columns, first column, stride of scales, has a bias."""
        table = list[int]()
        for weights, gemm, begin in zip(self.weights, self.gemms, begins, strict=True):
            table += [gemm.n, begin, weights.scale_stride, int(gemm.addend is not None)]
        for _ in range(MOST_WEIGHTS - len(self.weights)):
            table += [0, NOWHERE, 0, 0]
        return pack("12I", *table)

    def split(self, gemm: Gemm, matrices: bytes, interleaved: bool = False) -> Dispatch:
        """Return the split of x into f16, with the exponents of all columns of `gemm`."""
        first = self.weights[0]
        power = SCALE_POWER_OF_BYTES if first.format == BYTES else SCALE_POWER
        scales = [weights.scales.id for weights in self.weights]
        absent = [None] * (MOST_WEIGHTS - len(scales))
        memory = (split_f16_memory(gemm, gemm.m), exponents_memory(gemm))
        return Dispatch(
            kernel="linear_q4_split_f16",
            bindings=(*self.kernel.operands[:-2], *scales, *absent, *memory),
            params=gemm.params(1, 1) + self.kernel.params + matrices + pack("I", power),
            grid=fold_grid(gemm.m + ceil_div(gemm.n, COLUMNS)),
            types=(*self.kernel.types, *gemm.types(gemm.stored)),
            overrides=(*self._overrides_of_x, ("INTERLEAVED", interleaved)),
        )

    def multiply(
        self, split: Dispatch, matrices: bytes, write: tuple[tuple[str, str], ...]
    ) -> tuple[Dispatch, GemmKernel]:
        """Return the split and the GEMM of all weights; `write` names its output code."""
        operands = [id for w in self.weights for id in (w.tensor.id, w.scales.id)]
        absent = [None] * (2 * MOST_WEIGHTS - len(operands))
        interleaved = [pair for pair in split.overrides if pair[0] == "INTERLEAVED"]
        kernel = GemmKernel(
            name=MULTI,
            operands=(*operands, *absent),
            types=write,
            overrides=(*self.weights[0].unit_overrides, *interleaved),
            params=self.kernel.params + matrices,
        )
        return with_parts(
            split, kernel, self.b_parts, f16_parts(self.gemms[0], self.target), self.target
        )

    def config(self, whole: bool) -> MatrixConfig:
        """Return the tiles and the number of parts of k; `whole`: k is not split."""
        name = f"{MULTI}_gated" if whole else MULTI
        return tuned_matrix_tile_config(name, self.whole, self.target, whole)


def matrix_qkv(joined: JoinedLinears, outs: Sequence[Binding]) -> list[Dispatch]:
    """Return three linear layers: the split, the GEMM, and a sum that writes their outputs.

    A single output gets the three results as adjacent f32 rows.
    """
    tiling, wanted = joined.config(whole=False)
    begins, columns = list[int](), 0
    for gemm in joined.gemms:
        begins.append(columns)
        columns += tiling.columns * ceil_div(gemm.n, tiling.columns)
    whole, matrices = replace(joined.whole, n=columns), joined.matrices(begins)
    split, kernel = joined.multiply(joined.split(whole, matrices), matrices, (("WRITE", "joined"),))
    k_parts, k_part = split_k_of(whole, (tiling, wanted), joined.target)
    parts = split_k_scratch(whole, k_parts, joined.target)
    multiply = tiled_dispatch(kernel, whole, tiling, (k_parts, k_part), (parts,), "f32")
    addends = [gemm.addend_id for gemm in joined.gemms]
    sums = Dispatch(
        kernel="gemm_split_k_sum_qkv",
        bindings=(parts, *addends, *outs),
        params=whole.params(1, 1, k_parts) + matrices,
        grid=fold_grid(ceil_div(whole.m * whole.n, WORKGROUP_SIZE)),
        types=(*whole.types(whole.stored), ("OUTPUTS", "together" if len(outs) == 1 else "apart")),
    )
    return [split, multiply, sums]


def matrix_gated(joined: JoinedLinears, gate: str, out: TensorArg) -> list[Dispatch]:
    """Return a GEMM of two linear layers: the formula of the first layer times the second."""
    tiling, _ = joined.config(whole=True)
    whole = replace(joined.whole, n=tiling.columns * ceil_div(joined.whole.n, tiling.columns))
    matrices = joined.matrices((0, 0))
    before = joined.split(whole, matrices, interleaved=True)
    split, kernel = joined.multiply(before, matrices, (("WRITE", "gated"), ("GATE", gate)))
    _, k_part = split_k_of(whole, (tiling, 1), joined.target)
    return [
        split,
        tiled_dispatch(kernel, whole, tiling, (1, k_part), (out.id,), whole.stored),
    ]
