"""Words by which people search operators: their names, and other common names."""

from __future__ import annotations

import re

_ALSO = (
    (re.compile(r"(?:^|[._])(?:add|b|baddb)?mm(?:$|[._])|linear|gemm"), "linear matmul"),
    (re.compile(r"sdpa|softmax_attention"), "attention"),
    (re.compile(r"(?:rms|layer|batch|group)_norm"), "normalization"),
    (re.compile(r"(?:^|\.)(?:relu|gelu|silu|hardtanh|hardswish|leaky_relu|elu)"), "activation"),
    (re.compile(r"(?:^|\.)(?:view|reshape|permute|transpose|squeeze|unsqueeze)"), "reshape"),
)


def operator_words(op: str) -> str:
    """Return an operator's name in small letters, with other words for it."""
    name = op.lower()
    return " ".join([name, *(words for pattern, words in _ALSO if pattern.search(name))])
