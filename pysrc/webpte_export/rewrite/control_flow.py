"""Writes branches and loops of torch with other operators, where that is cheap.

A delegate has neither branches nor loops; in the middle of a model they stop the GPU:

- `torch.cond` with small branches computes both of them, and selects;
- `scan`, `map`, and a `while_loop` whose rounds do not depend on inputs, are unrolled.

Others stay: large branches become jumps, and long loops and loops until a value is reached run on
the host (see `webpte_export.loops`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves, tree_map

_MOST_CALLS = 1500  # operators of an unrolled loop
_MOST_PRODUCTS = 1 << 24  # multiplications in branches, of which half are not needed
_MOST_ELEMENTS = 64  # of constants that decide the number of rounds

_OPS = torch.ops.higher_order
_PRODUCTS = ("mm", "matmul", "linear", "conv", "attention", "einsum")


def without_control_flow(exported: Any, original: nn.Module) -> nn.Module | None:
    """Return a module without the branches and loops that are cheap to write out, if any.

    `original` is the module whose arguments it takes.
    """
    if not any(map(_is_control_flow, exported.graph_module.graph.nodes)):
        return None
    module = exported.module(check_guards=False)
    if not any(_rounds(node) for node in module.graph.nodes):
        return None
    return _Written(module, inspect.signature(original.forward))


class _Written(nn.Module):
    """A graph that runs without its cheap branches and loops, with the same parameters."""

    def __init__(self, module: GraphModule, arguments: inspect.Signature) -> None:
        super().__init__()
        self._parameters, self._buffers = module._parameters, module._buffers
        self._modules = module._modules

        def forward(*args: Any) -> Any:
            with preserve_node_meta():
                return _Run(module).run(*args)

        forward.__signature__ = arguments  # type: ignore[attr-defined]
        self.forward = forward


class _Run(Interpreter):
    """A run of a graph, which PyTorch records."""

    def run_node(self, n: Node) -> Any:
        rounds = _rounds(n)
        if rounds is None:
            return super().run_node(n)
        with self._set_current_node(n):
            args, _ = self.fetch_args_kwargs_from_env(n)
        return _WRITERS[n.target](rounds, *args)


def _is_control_flow(node: Node) -> bool:
    return node.target in _WRITERS


def _run(graph: GraphModule, *inputs: Any) -> list[Any]:
    return list(_Run(graph).run(*inputs, enable_io_processing=False))


def _branch(_rounds: int, condition: Tensor, yes: Any, no: Any, given: Sequence[Any]) -> Any:
    chosen = condition.reshape(())
    pairs = zip(_run(yes, *given), _run(no, *given), strict=True)
    return tuple(a if a is b else torch.where(chosen, a, b) for a, b in pairs)


def _scan(rounds: int, body: Any, carried: Any, rows: Any, more: Any) -> Any:
    state, count, each = list(carried), len(carried), []
    for number in range(rounds):
        found = _run(body, *state, *(row.select(0, number) for row in rows), *more)
        state = found[:count]
        each.append(found[count:])
    return (*state, *(torch.stack(column) for column in zip(*each, strict=True)))


def _map(rounds: int, body: Any, rows: Any, more: Any) -> Any:
    return _scan(rounds, body, (), rows, more)


def _while(rounds: int, _condition: Any, body: Any, carried: Any, more: Any) -> Any:
    state = list(carried)
    for _ in range(rounds):
        state = _run(body, *state, *more)
    return tuple(state)


_WRITERS: dict[Any, Any] = {
    _OPS.cond: _branch,
    _OPS.scan: _scan,
    _OPS.map_impl: _map,
    _OPS.while_loop: _while,
}


def _rounds(node: Node) -> int | None:
    """Return how often the body of a loop is written, 1 for branches; None if it stays."""
    if not _is_control_flow(node):
        return None
    graphs = [graph for arg in node.args if (graph := _graph_of(arg)) is not None]
    calls = [_calls(graph) for graph in graphs]
    if None in calls:
        return None
    if node.target is _OPS.cond:
        alike = _is_tensor(node.args[0]) and _return_alike(*graphs)
        cheap = alike and sum(map(_products, graphs)) <= _MOST_PRODUCTS
        return 1 if cheap and sum(calls) <= _MOST_CALLS else None  # type: ignore[arg-type]
    most = _MOST_CALLS // max(1, calls[-1] or 0)
    if node.target is _OPS.while_loop:
        return _rounds_of_while(node, most)
    (first, *_) = node.args[1] if node.target is _OPS.map_impl else node.args[2]
    count = first.meta["val"].shape[0]
    return count if isinstance(count, int) and 0 < count <= most else None


def _graph_of(arg: Any) -> GraphModule | None:
    if not isinstance(arg, Node) or arg.op != "get_attr":
        return None
    found = getattr(arg.graph.owning_module, str(arg.target), None)
    return found if isinstance(found, GraphModule) else None


def _is_tensor(arg: Any) -> bool:
    return isinstance(arg, Node) and isinstance(arg.meta.get("val"), Tensor)


def _return_alike(yes: GraphModule, no: GraphModule) -> bool:
    """Return whether two branches return tensors of equal sizes and types."""
    pairs = zip(*(graph.graph.output_node().args[0] for graph in (yes, no)), strict=True)
    for each in pairs:
        if not all(map(_is_tensor, each)):
            return False
        a, b = (result.meta["val"] for result in each)
        if (str(a.shape), a.dtype) != (str(b.shape), b.dtype):
            return False
    return True


def _calls(graph: GraphModule) -> int | None:
    """Count the operators of a graph once it is written out; None if a part of it stays."""
    count = 0
    for node in graph.graph.nodes:
        if _is_control_flow(node):
            rounds = _rounds(node)
            if rounds is None:
                return None
            inner = (_calls(found) for arg in node.args if (found := _graph_of(arg)) is not None)
            count += rounds * sum(each or 0 for each in inner)
        count += node.op == "call_function"
    return count


def _products(graph: GraphModule) -> float:
    """Estimate the multiplications of a graph."""
    total = 0.0
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        inner = 1.0
        if any(part in str(node.target) for part in _PRODUCTS):
            shapes = [_shape(arg) for arg in node.all_input_nodes]
            inner = max((math.prod(shape[1:]) for shape in shapes if len(shape) > 1), default=1)
        total += math.prod(_shape(node)) * inner
    return total


def _shape(node: Node) -> list[int]:
    """Return the sizes of a node's tensor; the example has the sizes that change."""
    value = node.meta.get("val")
    sizes = value.shape if isinstance(value, Tensor) else ()
    return [size if isinstance(size, int) else int(size.node.hint or 1) for size in sizes]


class _Unknown:
    """A value that depends on inputs."""


_UNKNOWN = _Unknown()


class _Known(Interpreter):
    """A run of a graph with the values that are known before."""

    def run_node(self, n: Node) -> Any:
        if n.op in ("placeholder", "output", "get_attr"):
            return super().run_node(n)
        args = self.fetch_args_kwargs_from_env(n)
        unknown = any(leaf is _UNKNOWN for leaf in tree_leaves(args))
        return _UNKNOWN if unknown or _is_control_flow(n) else super().run_node(n)


def _rounds_of_while(node: Node, most: int) -> int | None:
    condition, body, carried, more = node.args
    state = [_constant(arg) for arg in carried]
    fixed = [_constant(arg) for arg in more]
    for count in range(most + 1):
        (going,) = tree_leaves(_known(condition, *state, *fixed))
        if going is _UNKNOWN:
            return None
        if not bool(going):
            return count or None
        state = list(_known(body, *state, *fixed))
    return None


def _known(arg: Any, *values: Any) -> Any:
    graph = _graph_of(arg)
    assert graph is not None
    with torch.no_grad():
        return _Known(graph).run(*values, enable_io_processing=False)


def _constant(arg: Any) -> Any:
    """Return the value of a small constant of a graph."""
    if not isinstance(arg, Node):
        return arg
    if math.prod(_shape(arg)) > _MOST_ELEMENTS:
        return _UNKNOWN
    if arg.op == "get_attr":
        found = arg.graph.owning_module
        for name in str(arg.target).split("."):
            found = getattr(found, name)
        written = any(map(_writes, arg.users))
        return _UNKNOWN if isinstance(found, nn.Parameter) or written else found
    if arg.op != "call_function" or not hasattr(arg.target, "_schema") or _writes(arg):
        return _UNKNOWN
    args, kwargs = tree_map(_constant, (arg.args, arg.kwargs))
    if any(leaf is _UNKNOWN for leaf in tree_leaves((args, kwargs))):
        return _UNKNOWN
    with torch.no_grad():
        return arg.target(*args, **kwargs)


def _writes(node: Node) -> bool:
    """Return whether an operator changes a value; `detach_`, beside each constant, does not."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable and schema.name != "aten::detach_"
