"""Proves conditions on changing sizes that torch.export cannot prove, by trying all sizes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch

_MOST_TRIALS = 20_000


def prove_conditions(exported: Any) -> bool:
    """Remove the conditions that a program asserts; return whether they hold for all sizes.

    torch.export asserts a condition on sizes that it cannot prove, if requested.
    """
    graph = exported.graph_module.graph
    if not _hold(exported):
        return False
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        graph.erase_node(node)
    graph.eliminate_dead_code()
    for node in graph.find_nodes(op="placeholder"):
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None:  # later decompositions would assert them again
            mode.shape_env.deferred_runtime_asserts.clear()
    exported.graph_module.recompile()
    return True


def _hold(exported: Any) -> bool:
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
