"""What is around the sums of a convolution: the counterpart of wgsl/lib/conv/conv_epilogue.wgsl."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from webpte.ops.conv.conv_geometry import Convolution, Pair, read_call
from webpte.ops.core.args import Args, TensorArg
from webpte.ops.gemm.gemm import Types

Bounds = tuple[float, float]

# Of the sums x, and what is beside them: y.
BOUNDED, BOUNDED_SUM = "bounded(x, a, b)", "bounded(x + y, a, b)"


@dataclass(frozen=True)
class Padded:
    """The input without the zeros that the file puts around it, and how many are before it."""

    source: TensorArg
    before: Pair


@dataclass(frozen=True)
class ConvEpilogue:
    """What becomes of the sums: a formula of them, `x`, of what lies beside, `y`, and two numbers.

    That has an element for each of the output's, or (`per_channel`) for each channel. Where it is
    shorter than the output, y is 0 from its end on. `padded`: zeros around the input of the file.
    """

    out: TensorArg
    scalars: Bounds = (-math.inf, math.inf)  # a and b
    formula: str = BOUNDED
    beside: TensorArg | None = None
    per_channel: bool = False
    padded: Padded | None = None

    @property
    def beside_id(self) -> int | None:
        return None if self.beside is None else self.beside.id

    @property
    def length(self) -> int:
        return 0 if self.beside is None else self.beside.numel

    @property
    def types(self) -> Types:
        return (("FORMULA", self.formula),)

    @property
    def override(self) -> tuple[str, float]:
        return "BESIDE", 0 if self.beside is None else 1 + self.per_channel

    @property
    def is_simple(self) -> bool:
        """Whether wgsl/conv/conv_simple.wgsl ends so."""
        plain = self.beside is None or not self.per_channel
        return plain and self.formula == (BOUNDED_SUM if self.beside else BOUNDED)


def read_padded(args: Args, ending: ConvEpilogue) -> Convolution:
    """Zeros around the input are padding, as many on each side as there are."""
    conv = read_call(args)
    if ending.padded is None:
        return conv
    source, before = ending.padded.source, ending.padded.before
    dims = (1, *source.dims[2:])[-2:]
    padding = Pair(conv.padding.h + before.h, conv.padding.w + before.w)
    return replace(conv, in_size=Pair(*dims), padding=padding)
