"""Methods with a mixture of experts outside of delegates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from support.cases.experts.quantized_moe_cases import Moe
from support.write.pte_writer import MethodWriter

KERNEL = "llama::quantized_moe_ffn.out"


def moe_method(moe: Moe, most: int, packed: Sequence[np.ndarray] | None = None) -> MethodWriter:
    """Write a method of up to `most` tokens; inputs are x and, of no constants, the weights."""
    m = MethodWriter()
    dims = (most, moe.dim)
    x, out = m.tensor(dims, dynamic=True), m.tensor(dims, dynamic=True)
    _, gate, bias, *weights = moe.arguments(moe.tokens(0))[:5]
    constants = [m.tensor(array.shape, data=array) for array in (gate, bias)]
    if packed is None:
        tensors = [m.tensor(w.shape, str(w.dtype)) for w in weights]
        m.inputs(x, *tensors)
    else:
        tensors = [m.tensor(w.shape, str(w.dtype), data=w) for w in packed]
        m.inputs(x)
    m.kernel(KERNEL, x, *constants, *tensors, *moe.scalars, out, out)
    m.outputs(out)
    return m
