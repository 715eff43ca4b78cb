"""A convolution call with its fused neighbours: zero padding before, an epilogue after."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from webpte.engine.ops.conv.conv_geometry import Convolution, Pair, read_call
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Binding
from webpte.engine.ops.gemm.lib.epilogue import Epilogue
from webpte.engine.ops.gemm.lib.gemm import Overrides

Bounds = tuple[float, float]

# Formulas with the sums x and the residual y, see wgsl/lib/conv/conv_epilogue.wgsl.
BOUNDED, BOUNDED_SUM = "bounded(x, a, b)", "bounded(x + y, a, b)"
UNBOUNDED: Bounds = (-math.inf, math.inf)


def clamping(bounds: Bounds) -> Epilogue:
    """Return the epilogue that clamps the sums."""
    return Epilogue(formula=BOUNDED, scalars=bounds)


@dataclass(frozen=True)
class PaddedInput:
    """The input before its zero padding, and the number of zeros before each row and column."""

    source: TensorArg
    before: Pair


@dataclass(frozen=True)
class ConvBlock:
    """The arguments of a convolution, its output, its epilogue, and zeros around its input."""

    args: Args
    out: TensorArg
    epilogue: Epilogue
    padded: PaddedInput | None = None

    @property
    def bias(self) -> TensorArg | None:
        return self.args.optional_tensor("bias")

    @property
    def inputs(self) -> tuple[Binding, Binding, Binding]:
        """Bindings of the input, the weight and the bias."""
        source = self.padded.source if self.padded else self.args.tensor("input")
        return source.id, self.args.tensor("weight").id, None if self.bias is None else self.bias.id

    @property
    def stored(self) -> str:
        """Element type of all tensors in memory."""
        given = self.args.tensor("input"), self.args.tensor("weight"), self.bias
        return float_type(self.args, *given, self.epilogue.residual, self.out)

    @property
    def overrides(self) -> Overrides:
        """Override constants of wgsl/lib/conv/conv_epilogue.wgsl."""
        return self.epilogue.override, ("HAS_BIAS", self.bias is not None)

    @property
    def is_simple(self) -> bool:
        """Whether wgsl/conv/conv_simple.wgsl has this epilogue."""
        epilogue = self.epilogue
        plain = epilogue.residual is None or not epilogue.per_row
        return plain and epilogue.formula == (BOUNDED_SUM if epilogue.residual else BOUNDED)

    def geometry(self) -> Convolution:
        """Read the sizes of the convolution; zeros around its input count as padding."""
        conv = read_call(self.args)
        if self.padded is None:
            return conv
        source, before = self.padded.source, self.padded.before
        dims = (1, *source.dims[2:])[-2:]
        padding = Pair(conv.padding.h + before.h, conv.padding.w + before.w)
        return replace(conv, in_size=Pair(*dims), padding=padding)
