"""Proves conditions on changing sizes that torch.export cannot prove, by trying all sizes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch

_MOST_TRIALS = 20_000


@contextmanager
def conditions_by_trial() -> Iterator[None]:
    """Decide conditions that PyTorch cannot decide, but that are the same for all allowed sizes.

    `s * min(32, 32 * s) == 32 * s` is such a condition: PyTorch would take it for a limit of `s`,
    and refuse the sizes.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    original = ShapeEnv._maybe_evaluate_static

    @functools.wraps(original)
    def evaluate(self: Any, expr: Any, **options: Any) -> Any:
        found = original(self, expr, **options)
        usual = not any(options.values())
        return _same_for_all(self, expr) if found is None and usual else found

    ShapeEnv._maybe_evaluate_static = evaluate
    try:
        yield
    finally:
        ShapeEnv._maybe_evaluate_static = original


def _same_for_all(env: Any, condition: Any) -> Any:
    """Return the value of a condition on sizes of inputs if all sizes give the same, else None."""
    import sympy

    if not isinstance(condition, sympy.logic.boolalg.Boolean):
        return None
    symbols = sorted(condition.free_symbols, key=str)
    if not symbols or any(symbol not in env.backed_var_to_val for symbol in symbols):
        return None
    first = None
    for values in _sizes([env.var_to_range[symbol] for symbol in symbols]):
        value = condition.xreplace(dict(zip(symbols, map(sympy.Integer, values), strict=True)))
        first = value if first is None else first
        if value not in (sympy.true, sympy.false) or value != first:
            return None
    return first


def _sizes(ranges: list[Any]) -> Iterator[tuple[int, ...]]:
    """List all combinations of sizes; none if there are too many."""
    import sympy

    if not all(isinstance(end, int | sympy.Integer) for s in ranges for end in (s.lower, s.upper)):
        return iter(())
    spans = [range(int(span.lower), int(span.upper) + 1) for span in ranges]
    return product(*spans) if math.prod(map(len, spans)) <= _MOST_TRIALS else iter(())


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
        each = list(_sizes([ranges[symbol] for symbol in symbols]))
        if not each:
            return False
        for chosen in each:
            # An undecided condition is neither true nor false.
            if condition.subs(dict(zip(symbols, chosen, strict=True))) != True:  # noqa: E712
                return False
    return True
