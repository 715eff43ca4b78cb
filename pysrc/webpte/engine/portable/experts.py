"""The mixture of experts with quantized weights, as ExecuTorch's kernels take it.

The weights are constants of the file, whose layout depends on the machine that exported it. The GPU
cannot raise, so a call runs there only with weights that were checked before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from webpte.engine.ops.experts.moe_numpy import check_headers
from webpte.engine.ops.experts.quantized_moe import NAMES, SIZES
from webpte.engine.portable.registry import register_op
from webpte.errors import UnsupportedError

PACKED = NAMES[3:]
BYTES = frozenset({"uint8", "int8"})


def check_packing(constants: Mapping[str, np.ndarray]) -> None:
    """Raise for weights that are not constants, or in an unknown layout."""
    for name in PACKED:
        if name not in constants:
            raise UnsupportedError(f"{name} is no constant: the host checks how it is packed")
        packed = constants[name]
        if packed.ndim == 2 and packed.shape[1] >= 8:  # other shapes raise elsewhere
            check_headers(packed)


register_op(
    "llama::quantized_moe_ffn.out",
    ", ".join((*NAMES, *SIZES, "score_func", "route_scale")),
    "webpte.quantized_moe.default",
    notes="`webpte.quantized_moe.default`",
    heavy=True,
    apart=dict.fromkeys(PACKED, BYTES),
    check=check_packing,
)
