"""Methods with state, on separate delegates, to compare with NumPy."""

from __future__ import annotations

from support.graphs.stitching import counting, logcumsumexp, method, plus
from support.write.pte_writer import MethodWriter


def stateful() -> MethodWriter:
    """Write a delegate whose state changes with each call."""
    m = method((4,))
    m.outputs(counting(m, m.input_values[0]))
    return m


def several() -> MethodWriter:
    """Write two delegates with state, and a host kernel between them."""
    m = method((4,))
    first = counting(m, m.input_values[0])
    m.outputs(plus(m, counting(m, logcumsumexp(m, first)), first))
    return m
