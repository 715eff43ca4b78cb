"""Computes with small integers as floats, which the GPU does, where no digit can be lost.

ExecuTorch's partitioner leaves sums, cumulative sums and remainders of 64-bit integers to the host.
Where the values in a graph are known to be small (counts of bools, places in a tensor, remainders),
float32 holds all of them exactly, and the operator is written with floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

Bounds = tuple[float, float]

_EXACT = 2**24  # float32 holds all integers up to here
_INTEGERS = (torch.int64, torch.int32, torch.bool)
# Results are some elements of the first argument.
_SELECTIONS = frozenset(
    (
        *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "slice"),
        *("select", "unsqueeze", "squeeze", "clone", "alias", "detach", "flip", "gather", "index"),
        *("index_select", "repeat", "split", "split_with_sizes", "unbind", "chunk", "flatten"),
        *("unfold", "contiguous", "lift_fresh_copy", "amax", "amin", "cummax", "narrow"),
        *("_to_copy", "to", "view_as", "expand_as", "unflatten", "movedim", "sort"),
    )
)
_PLACES = {
    "argmax": None,
    "argmin": None,
    "topk": 1,
    "sort": 1,
    "max": 1,
    "min": 1,
    "argsort": None,
}
_REWRITTEN = frozenset(("sum", "cumsum", "remainder", "floor_divide", "div"))


def with_small_integers(exported: Any) -> Any:
    """Return a program whose sums and remainders of small integers are computed as floats."""
    nodes = exported.graph_module.graph.nodes
    if not any(_is_candidate(node) for node in nodes):
        return exported
    found = exported.run_decompositions({})  # without writes in place
    known = dict(_all_bounds(found))
    small = [
        node
        for node in found.graph_module.graph.nodes
        if _is_candidate(node)
        and all(each in known and _is_small(known[each]) for each in (node.args[0], node))
    ]
    if not small:
        return exported
    for node in small:
        _rewrite(found.graph_module.graph, node)
    found.graph_module.graph.eliminate_dead_code()
    found.graph_module.recompile()
    return found


def _name(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else str(schema.name).removeprefix("aten::")


def _value(node: Any) -> Any:
    return getattr(node, "meta", {}).get("val")


def _is_candidate(node: Any) -> bool:
    if node.op != "call_function" or _name(node) not in _REWRITTEN:
        return False
    value, given = _value(node), _value(node.args[0])
    if not (_is_integer(value) and _is_integer(given)) or value.dtype == torch.bool:
        return False
    if _name(node) == "div" and node.kwargs.get("rounding_mode") != "floor":
        return False
    divides = _name(node) in ("remainder", "floor_divide", "div")
    divisor = node.args[1] if divides else 1
    return type(divisor) is int and 0 < divisor < _EXACT


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _INTEGERS


def _is_small(bounds: Bounds) -> bool:
    return -_EXACT <= bounds[0] <= bounds[1] <= _EXACT


def _all_bounds(exported: Any) -> Iterator[tuple[Any, Bounds]]:
    """Yield the nodes whose values are known to lie between two numbers."""
    signature = exported.graph_signature
    written = set(signature.buffers_to_mutate.values())
    held = {**exported.state_dict, **exported.constants}
    targets = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    limits = {str(symbol): held.upper for symbol, held in exported.range_constraints.items()}
    known: dict[Any, Bounds] = {}
    for node in exported.graph_module.graph.nodes:
        value = _value(node)
        if isinstance(value, torch.Tensor) and value.dtype == torch.bool:
            known[node] = (0, 1)
        elif node.op == "placeholder":
            constant = held.get(targets.get(node.name, ""))
            if _is_integer(constant) and constant.numel() and targets[node.name] not in written:
                known[node] = (int(constant.min()), int(constant.max()))
        elif node.op == "call_function":
            try:
                bounds = _bounds_of(node, known, limits)
            except (ArithmeticError, IndexError, TypeError, ValueError):
                bounds = None
            if bounds is not None and not any(map(math.isnan, bounds)):
                known[node] = bounds
    yield from known.items()


def _bounds_of(node: Any, known: dict[Any, Bounds], limits: dict[str, Any]) -> Bounds | None:
    name, args = _name(node), node.args

    def of(value: Any) -> Bounds:
        if type(value) in (int, float):
            return (value, value)
        return known.get(value, (-math.inf, math.inf))

    if getattr(node.target, "__name__", "") == "getitem":
        source = args[0]
        place = _PLACES.get(_name(source))
        if place is not None and args[1] == place:
            return (0, _most(_value(source.args[0]).shape, limits))
        return of(source)
    given = _value(args[0]) if args else None
    if name in _PLACES and _PLACES[name] is None:
        return (0, _most(given.shape, limits))
    if name == "one_hot" or name in ("zeros", "zeros_like", "new_zeros"):
        return (0, 1)
    if name in ("ones", "ones_like"):
        return (1, 1)
    if name in ("full", "full_like", "scalar_tensor"):
        return of(args[-1] if name != "scalar_tensor" else args[0])
    if name == "arange":
        ends = [of(arg) for arg in args if type(arg) in (int, float)]
        if len(ends) == len(args):
            return (min(0, *(low for low, _ in ends)), max(0, *(high for _, high in ends)))
        return None
    if name in _SELECTIONS:
        return of(args[0]) if args[0] in known else None
    if name in ("cat", "stack"):
        each = [of(part) for part in args[0]]
        return (min(low for low, _ in each), max(high for _, high in each))
    if name in ("where", "scatter", "constant_pad_nd"):
        parts = args[1:3] if name == "where" else (args[0], args[-1])
        (a, b), (c, d) = (of(part) for part in parts)
        return (min(a, c), max(b, d))
    return _arithmetic(name, node, of, limits)


def _arithmetic(
    name: str, node: Any, of: Callable[[Any], Bounds], limits: dict[str, Any]
) -> Bounds | None:
    args = node.args
    a, b = of(args[0])
    if name in ("sum", "cumsum"):
        shape = _value(args[0]).shape
        dims = args[1] if len(args) > 1 and args[1] is not None else range(len(shape))
        count = _most([shape[dim] for dim in ([dims] if isinstance(dims, int) else dims)], limits)
        return (min(a, a * count), max(b, b * count))
    if name in ("neg", "abs"):
        return (-b, -a) if name == "neg" else (0, max(abs(a), abs(b)))
    if name == "clamp":
        low, high = (*args[1:], None, None)[:2]
        low = node.kwargs.get("min", low)
        high = node.kwargs.get("max", high)
        a, b = (a, b) if low is None else (max(a, low), max(b, low))
        return (a, b) if high is None else (min(a, high), min(b, high))
    if len(args) < 2:
        return None
    c, d = of(args[1])
    if name == "add" and "alpha" not in node.kwargs:
        return (a + c, b + d)
    if name == "sub" and "alpha" not in node.kwargs:
        return (a - d, b - c)
    if name == "mul":
        products = [0 if 0 in (x, y) else x * y for x in (a, b) for y in (c, d)]
        return (min(products), max(products))
    if name == "remainder" and c == d > 0:
        return (0, c - 1)
    if name in ("floor_divide", "div") and c == d > 0:
        return (a // c, b // c)
    if name in ("maximum", "minimum"):
        pick = max if name == "maximum" else min
        return (pick(a, c), pick(b, d))
    return None


def _most(shape: Any, limits: dict[str, Any]) -> int:
    """Return an upper bound of a tensor's elements."""
    total = 1
    for size in shape:
        if isinstance(size, int):
            total *= size
        else:
            expression = size.node.expr
            chosen = {s: int(limits[str(s)]) for s in expression.free_symbols}
            total *= int(expression.subs(chosen))
    return total


def _rewrite(graph: Any, node: Any) -> None:
    """Replace a call by calls with floats."""
    aten, (given, *rest) = torch.ops.aten, node.args
    mode = _value(node).fake_mode

    def call(op: Any, *args: Any, **kwargs: Any) -> Any:
        made = graph.call_function(op, args, kwargs)
        values = torch.fx.map_arg((args, kwargs), _value)
        with mode:
            value = op(*values[0], **values[1])
        made.meta = {**node.meta, "val": value}
        return made

    with graph.inserting_before(node):
        floats = call(aten._to_copy.default, given, dtype=torch.float32)
        if _name(node) in ("sum", "cumsum"):
            found = call(node.target, floats, *rest)
        else:
            divisor = float(rest[0])
            quotient = call(aten.floor.default, call(aten.mul.Tensor, floats, 1 / divisor))
            left = call(
                *(aten.sub.Tensor, floats, call(aten.mul.Tensor, quotient, divisor)),
            )
            # The reciprocal is rounded: the quotient may be off by one.
            low = call(aten._to_copy.default, call(aten.lt.Scalar, left, 0.0), dtype=torch.float32)
            high = call(
                *(aten._to_copy.default, call(aten.ge.Scalar, left, divisor)), dtype=torch.float32
            )
            step = call(aten.sub.Tensor, high, low)
            if _name(node) == "remainder":
                moved = call(aten.mul.Tensor, step, divisor)
                found = call(aten.sub.Tensor, left, moved)
            else:
                found = call(aten.add.Tensor, quotient, step)
        found = call(aten._to_copy.default, found, dtype=_value(node).dtype)
    node.replace_all_uses_with(found)
    graph.erase_node(node)
