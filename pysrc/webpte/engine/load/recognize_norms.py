"""Recognizes RMS norms that a file writes out: x * rsqrt(mean(x * x) + eps) * weight.

Delegates of XNNPACK have no operator for a norm, so its mean runs between two delegates.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.format.vulkan import DoubleValue
from webpte.engine.graph.graph import Call, Graph
from webpte.engine.load.recognizer import VIEWS, Recognizer
from webpte.engine.ops.norm.fused_norm import RMS_NORM
from webpte.engine.ops.norm.norm import UNSCALED_RMS_NORM
from webpte.engine.shapes import numel

ADD, MUL, MEAN = "aten.add.Tensor", "aten.mul.Tensor", "aten.mean.dim"
RSQRT, SQUARE, POW = "aten.rsqrt.default", "aten.square.default", "aten.pow.Tensor_Scalar"
MOST_EPSILON = 1e-2


def has_norms(graph: Graph) -> bool:
    """Return whether a graph has calls that `NormRecognizer` may replace."""
    return {RSQRT, MEAN, MUL} <= {call.name for call in graph.calls}


class NormRecognizer(Recognizer):
    """A recognizer of RMS norms over the last dim, with a weight or without."""

    def visit(self, call: Call) -> None:
        """Replace the product of x and the reciprocal of its root mean square."""
        if call.name != MUL:
            return
        for x, factor in (call.args[:2], call.args[1::-1]):
            epsilon = self._epsilon(x, factor)
            if epsilon is not None:
                self._replace(call, x, epsilon)
                return

    def _replace(self, call: Call, x: int, epsilon: float) -> None:
        eps = self.add(DoubleValue(epsilon))
        scaled = self.only_reader(call.args[-1], MUL)
        weight = None if scaled is None else self._weight(scaled, call.args[-1])
        if scaled is None or weight is None:
            made = (x, eps, call.args[-1])
            self.replaced[call.index] = replace(call, name=UNSCALED_RMS_NORM, args=made)
            return
        self.replaced[call.index] = None
        args = (x, weight, eps, scaled.args[-1])
        self.replaced[scaled.index] = replace(scaled, name=RMS_NORM, args=args)

    def _weight(self, scaled: Call, normal: int) -> int | None:
        """Return the constant vector by which a norm is multiplied."""
        others = [value_id for value_id in scaled.args[:2] if value_id != normal]
        if len(others) != 1 or self.dims(scaled.args[-1]) != self.dims(normal):
            return None
        weight = self.graph.tensor(others[0])
        vector = weight.dims == self.dims(normal)[-1:]
        alike = weight.dtype == self.graph.tensor(normal).dtype
        return weight.id if vector and alike and weight.constant is not None else None

    def _epsilon(self, x: int, factor: int) -> float | None:
        """Return the epsilon of a factor that is the reciprocal of the root mean square of x."""
        rsqrt = self.writer(factor, RSQRT)
        total = None if rsqrt is None else self.writer(rsqrt.args[0], ADD)
        if total is None or not self.is_plain_sum(total) or not self.is_steady(x):
            return None
        epsilon = mean = None
        for term, other in (total.args[:2], total.args[1::-1]):
            if (number := self.number(term)) is not None:
                epsilon, mean = number, other
        if mean is None or epsilon is None or not 0 < epsilon <= MOST_EPSILON:
            return None
        while (view := self.writer(mean, *VIEWS)) is not None:
            mean = view.args[0]
        averaged = self.writer(mean, MEAN)
        if averaged is None or not self._over_rows(averaged, x, factor):
            return None
        return epsilon if self._is_square(averaged.args[0], x) else None

    def _over_rows(self, mean: Call, x: int, factor: int) -> bool:
        """Return whether a mean is over the last dim of x, and broadcasts with x."""
        rank = len(self.dims(x))
        axes = self.ints(mean.args[1])
        rows = (*self.dims(x)[:-1], 1) if rank else ()
        sums = numel(self.dims(mean.args[-1])) == numel(rows) and self.dims(factor) == rows
        return rank > 0 and sums and axes is not None and [a % rank for a in axes] == [rank - 1]

    def _is_square(self, value_id: int, x: int) -> bool:
        call = self.writer(value_id, MUL, SQUARE, POW)
        if call is None or call.args[0] != x:
            return False
        if call.name == POW:
            exponent = self.graph.value(call.args[1])
            return getattr(exponent, "value", None) == 2
        return call.name == SQUARE or call.args[1] == x
