"""Proves conditions on changing sizes that torch.export cannot prove, by trying all sizes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch

_MOST_TRIALS = 20_000


def holds_for_all_sizes(exported: Any) -> bool:
    """Return whether the conditions that a program asserts hold for all of its sizes.

    torch.export asserts a condition on sizes that it cannot prove, if requested.
    """
    ranges = exported.range_constraints
    for node in exported.graph.nodes:
        if node.target != torch.ops.aten._assert_scalar.default:
            continue
        value = getattr(node.args[0], "meta", {}).get("val")
        if not isinstance(value, torch.SymBool):
            return False
        condition = value.node.expr
        symbols = sorted(condition.free_symbols, key=str)
        if any(symbol not in ranges for symbol in symbols):
            return False
        sizes = [range(int(ranges[s].lower), int(ranges[s].upper) + 1) for s in symbols]
        if math.prod(map(len, sizes)) > _MOST_TRIALS:
            return False
        for chosen in product(*sizes):
            # An undecided condition is neither true nor false.
            if condition.subs(dict(zip(symbols, chosen, strict=True))) != True:  # noqa: E712
                return False
    return True
