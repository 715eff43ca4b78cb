"""Rewrites a decoder's graph, between PyTorch's export and ExecuTorch's, into the usual form.

- A linear layer with a sliced result (queries, keys and values, or gate and up) becomes a linear
  layer for each slice.
- A rotary embedding of a part of each head becomes an embedding of whole heads, whose operator
  copies the rest.
- A sum of attention, MLP and residual is added up in the order in which they are computed.
- The bias of a layer norm before linear layers becomes a part of their biases.
- Factors of 1 are dropped.

The results stay the same, except for rounding by the order of sums.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from webpte_export.errors import ExportError
from webpte_export.layer_names import WeightChanges

_LINEAR = torch.ops.aten.linear.default
_LAYER_NORM = torch.ops.aten.layer_norm.default
_ADD, _MUL = torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor
_TRANSPOSE, _SLICE = torch.ops.aten.transpose.int, torch.ops.aten.slice.Tensor
_CAT = torch.ops.aten.cat.default
_COPIES = (torch.ops.aten.clone.default, torch.ops.aten.dropout.default)
_VIEWS = (torch.ops.aten.view.default, torch.ops.aten.reshape.default)
_SPLITS = (torch.ops.aten.split.Tensor, torch.ops.aten.split_with_sizes.default)


def simplify_graph(module: GraphModule) -> GraphModule:
    """Rewrite a graph in place, and return it."""
    passes: tuple[Callable[[GraphModule], None], ...] = (
        drop_factors_of_one,
        rotate_whole_heads,
        split_linears,
        move_norm_biases,
        add_in_order,
    )
    for rewrite in passes:
        rewrite(module)
        module.graph.eliminate_dead_code()
    _drop_unused(module)
    module.graph.lint()
    module.recompile()
    return module


def rewritten(module: GraphModule) -> GraphModule:
    """Rewrite a graph, and remove double transposes, around which operators do not fuse."""
    from executorch.extension.llm.export.export_passes import RemoveRedundantTransposes

    simple = simplify_graph(module)
    found: GraphModule = RemoveRedundantTransposes()(simple).graph_module
    return WeightChanges.of(simple).keep(found)


def _drop_unused(module: GraphModule) -> None:
    """Drop the weights without readers: the file would contain them."""
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    everything = (module.named_parameters, module.named_buffers)
    names = [name for named in everything for name, _ in named(remove_duplicate=False)]
    for name in names:
        if name not in used:
            owner, _, last = name.rpartition(".")
            delattr(module.get_submodule(owner), last)


def _shape(node: Node) -> Any:
    return node.meta["val"].shape


def _is_last_dim(node: Node, dim: int) -> bool:
    return dim in (-1, len(_shape(node)) - 1)


# Factors of 1


def drop_factors_of_one(module: GraphModule) -> None:
    """Replace x * 1 by x."""
    for node in list(module.graph.nodes):
        if node.target is _MUL and isinstance(node.args[0], Node) and node.args[1] == 1:
            node.replace_all_uses_with(node.args[0])


# Linear layers with several results


@dataclass(frozen=True)
class _Slice:
    """A node that is a slice of the last dim of another node, and its place there."""

    node: Node
    begin: int
    end: int


def split_linears(module: GraphModule) -> None:
    """Replace a linear layer by a layer for each slice of its result."""
    for linear in list(module.graph.nodes):
        if linear.target is not _LINEAR or not isinstance(_shape(linear)[-1], int):
            continue
        whole, groups = linear, 1
        heads = _heads_of(linear)
        if heads is not None:
            whole, groups = heads
        slices = _slices_of(whole)
        if slices and _cover(slices, _shape(whole)[-1]):
            _split(module, linear, whole, groups, slices)


def _heads_of(linear: Node) -> tuple[Node, int] | None:
    """Return the heads of a result's view, and their number, if only the heads are read."""
    node = linear
    if len(node.users) != 1 or (view := next(iter(node.users))).target not in _VIEWS:
        return None
    if len(_shape(view)) != 4 or len(view.users) != 1:
        return None
    heads = _shape(view)[2]
    turned = next(iter(view.users))
    whole = turned if turned.target is _TRANSPOSE and turned.args[1:] == (1, 2) else view
    return (whole, heads) if isinstance(heads, int) else None


def _slices_of(node: Node) -> list[_Slice]:
    """Return the slices of the last dim that are all uses of a node; empty for other uses."""
    found, width = list[_Slice](), _shape(node)[-1]
    for user in node.users:
        if user.target is _SLICE:
            given: list[Any] = [*user.args[1:]]
            ends = given[1:3]
            if not given or not all(end is None or isinstance(end, int) for end in ends):
                return []
            first, last = (*ends, None, None)[:2]
            begin, end, _ = slice(first, last).indices(width)
            if not _is_last_dim(node, given[0]) or (given[3:] or [1]) != [1]:
                return []
            found.append(_Slice(user, begin, end))
        elif user.target in _SPLITS:
            dim = user.args[2] if len(user.args) > 2 else user.kwargs.get("dim", 0)
            if not _is_last_dim(node, dim):
                return []
            places = [0]
            for part in user.meta["val"]:
                places.append(places[-1] + part.shape[-1])
            for item in user.users:
                if item.target is not operator.getitem:
                    return []
                index: Any = item.args[1]
                found.append(_Slice(item, places[index], places[index + 1]))
        else:
            return []
    return found


def _cover(slices: list[_Slice], width: int) -> bool:
    """Return whether slices are several, and together each element once."""
    ends = sorted((one.begin, one.end) for one in slices)
    joined = all(a[1] == b[0] for a, b in pairwise(ends))
    return len(ends) > 1 and ends[0][0] == 0 and ends[-1][1] == width and joined


def _split(
    module: GraphModule, linear: Node, whole: Node, groups: int, slices: list[_Slice]
) -> None:
    """Replace a linear layer by a layer per slice, with the slice's rows of the weights."""
    graph, (x, weight, *rest) = module.graph, linear.args
    weights = [weight, *(bias for bias in rest if bias is not None)]
    if not all(_is_cut(module, node) for node in weights):
        return
    rows = torch.arange(_shape(linear)[-1]).reshape(groups, -1)
    for one in slices:
        own = rows[:, one.begin : one.end].reshape(-1)
        with graph.inserting_before(linear):
            parts = [_rows_of(module, node, own) for node in weights]
            _note_rows(module, weight, parts[0], (groups, one.begin, one.end))
            result = graph.call_function(_LINEAR, (x, *parts))
        _with_value(result, (*_shape(linear)[:-1], len(own)), linear)
        if whole is not linear:
            result = _as_heads(graph, linear, whole, groups, result, len(own) // groups)
        one.node.replace_all_uses_with(result)


def _note_rows(module: GraphModule, whole: Any, part: Any, rows: tuple[int, int, int]) -> None:
    """Record weights that are row slices of another weight."""
    changes, name = WeightChanges.of(module), _weight_name(whole)
    if name in changes.rows:
        raise ExportError(f"{name} is split twice, which is not expected.")
    changes.rows[_weight_name(part)] = name, rows


def _weight_name(node: Any) -> str:
    """Return the name of a constant, or of a dequantized constant."""
    return str(node.target) if node.op == "get_attr" else _weight_name(node.args[0])


def _as_heads(graph: Graph, linear: Node, whole: Node, heads: int, part: Node, width: int) -> Node:
    """View a part as heads, in their original order."""
    view = whole if whole.target in _VIEWS else whole.args[0]
    assert isinstance(view, Node)
    sizes = list(view.args[1])
    with graph.inserting_before(whole):
        result = graph.call_function(view.target, (part, [*sizes[:2], heads, width]))
        _with_value(result, (*_shape(view)[:2], heads, width), linear)
        if whole is not view:
            result = graph.call_function(_TRANSPOSE, (result, 1, 2))
            _with_value(result, (_shape(view)[0], heads, _shape(view)[1], width), linear)
    return result


def _with_value(node: Node, shape: tuple[Any, ...], like: Node) -> None:
    node.meta["val"] = like.meta["val"].new_empty(shape)


def _is_cut(module: GraphModule, node: Any) -> bool:
    """Return whether a node is a constant with a dim of rows, dequantized or not."""
    if not isinstance(node, Node):
        return False
    if node.op == "get_attr":
        return _attribute(module, str(node.target)).dim() > 0
    given = [argument for argument in node.args if isinstance(argument, Node)]
    dequantized = node.op == "call_function" and "dequantize" in str(node.target)
    return dequantized and all(argument.op == "get_attr" for argument in given)


def _rows_of(module: GraphModule, node: Node, rows: torch.Tensor) -> Node:
    """Copy the nodes that compute weights, for some rows. Constants with fewer rows stay whole."""
    graph, count = module.graph, _shape(node)[0]

    def cut(constant: Node) -> Node:
        array = _attribute(module, str(constant.target))
        if array.dim() == 0 or array.shape[0] != count:
            return constant
        name = f"split_{sum(1 for _ in module.buffers())}"
        module.register_buffer(name, array.detach()[rows].contiguous())
        return graph.get_attr(name)

    if node.op == "get_attr":
        return cut(node)
    args = tuple(cut(one) if isinstance(one, Node) else one for one in node.args)
    return graph.call_function(node.target, args, dict(node.kwargs))


def _attribute(module: Any, path: str) -> torch.Tensor:
    for name in path.split("."):
        module = getattr(module, name)
    assert isinstance(module, torch.Tensor)
    return module


# Layer norms


def move_norm_biases(module: GraphModule) -> None:
    """Add the effect of a layer norm's bias on the next linear layers to their biases."""
    for norm in list(module.graph.nodes):
        if norm.target is not _LAYER_NORM or len(norm.args) < 4 or norm.args[3] is None:
            continue
        bias, linears = norm.args[3], list(norm.users)
        alone = all(user.target is _LINEAR and user.args[1] is not norm for user in linears)
        if not linears or not alone or bias.op != "get_attr" or norm.args[2] is None:
            continue
        if not all(
            _is_cut(module, one) for user in linears for one in user.args[1:] if one is not None
        ):
            continue
        for linear in linears:
            _add_to_bias(module, linear, _attribute(module, str(bias.target)))
        norm.args = (*norm.args[:3], None, *norm.args[4:])


def _add_to_bias(module: GraphModule, linear: Node, shift: torch.Tensor) -> None:
    """Add a linear layer's result for `shift` to its bias."""
    x, weight, *rest = linear.args
    WeightChanges.of(module).shifts[_weight_name(weight)] = shift
    with torch.no_grad():
        moved = torch.nn.functional.linear(shift, _constant(module, weight))
        if rest and rest[0] is not None:
            moved = moved + _constant(module, rest[0])
    name = f"moved_{sum(1 for _ in module.buffers())}"
    module.register_buffer(name, moved.detach().contiguous())
    with module.graph.inserting_before(linear):
        linear.args = (x, weight, module.graph.get_attr(name))


def _constant(module: GraphModule, node: Any) -> torch.Tensor:
    """Return the value of a constant, or of a dequantized one."""
    if node.op == "get_attr":
        return _attribute(module, str(node.target))
    args = [_constant(module, one) if isinstance(one, Node) else one for one in node.args]
    result: torch.Tensor = node.target(*args, **node.kwargs)
    return result


# Rotary embedding


def rotate_whole_heads(module: GraphModule) -> None:
    """Replace cat(rotated(x[..., :n]), x[..., n:]) by the operator for whole heads."""
    rotation = torch.ops.et_vk.apply_rotary_emb_hf.default
    for rope in list(module.graph.nodes):
        if rope.target is not rotation:
            continue
        ends = [_end_of(rope, i) for i in (0, 1)]
        if ends[0] is None or ends[1] is None:
            continue
        graph = module.graph
        with graph.inserting_before(rope):
            whole = [
                graph.call_function(_TRANSPOSE, (end.args[0][1].args[0], 1, 2)) for end in ends
            ]
            for node, end in zip(whole, ends, strict=True):
                node.meta["val"] = end.meta["val"].transpose(1, 2)
            turned = graph.call_function(rotation, (*whole, *rope.args[2:]))
            turned.meta["val"] = tuple(node.meta["val"] for node in whole)
            for i, end in enumerate(ends):
                item = graph.call_function(operator.getitem, (turned, i))
                item.meta["val"] = whole[i].meta["val"]
                back = graph.call_function(_TRANSPOSE, (item, 1, 2))
                back.meta["val"] = end.meta["val"]
                end.replace_all_uses_with(back)


def _end_of(rope: Node, index: int) -> Any:
    """Return the node that joins a rotation's result with the rest of each head."""
    before = rope.args[index]
    item = next((user for user in rope.users if user.args[1] == index), None)
    if item is None or len(item.users) != 1:
        return None
    back = next(iter(item.users))
    if back.target is not _TRANSPOSE or back.args[1:] != (1, 2) or len(back.users) != 1:
        return None
    join = next(iter(back.users))
    if not isinstance(before, Node) or before.target is not _TRANSPOSE or join.target is not _CAT:
        return None
    part = before.args[0]
    both, dim = join.args[0], join.args[1] if len(join.args) > 1 else 0
    if not isinstance(both, list | tuple) or len(both) != 2 or both[0] is not back:
        return None
    rest = both[1]
    if not isinstance(part, Node) or part.target is not _SLICE or rest.target is not _SLICE:
        return None
    if before.args[1:] != (1, 2) or part.args[0] is not rest.args[0] or not _is_last_dim(join, dim):
        return None
    width = _shape(part)[-1]
    begins = [slices.args[2] if len(slices.args) > 2 else 0 for slices in (part, rest)]
    whole = _shape(part)[-1] + _shape(rest)[-1] == _shape(part.args[0])[-1]
    return join if whole and begins == [0, width] else None


# Sums


def add_in_order(module: GraphModule) -> None:
    """Replace (a + b) + r, for two linear layers a and b, by b + (a + r), the later one last."""
    places = {node: i for i, node in enumerate(module.graph.nodes)}
    for outer in list(module.graph.nodes):
        if outer.target is not _ADD or len(outer.args) != 2 or outer.kwargs:
            continue
        inner, rest = outer.args
        if not isinstance(inner, Node) or not isinstance(rest, Node) or inner.target is not _ADD:
            continue
        if len(inner.args) != 2 or inner.kwargs or len(inner.users) != 1:
            continue
        terms = [term for term in inner.args if _is_of_linear(term)]
        if len(terms) != 2 or _is_of_linear(rest) or _shape(rest) != _shape(outer):
            continue
        first, last = sorted(terms, key=lambda term: places.get(term, 0))
        with module.graph.inserting_before(outer):
            early = module.graph.call_function(_ADD, (first, rest))
            early.meta["val"] = outer.meta["val"]
            late = module.graph.call_function(_ADD, (last, early))
            late.meta["val"] = outer.meta["val"]
        outer.replace_all_uses_with(late)


def _is_of_linear(node: Any) -> bool:
    """Return whether a node is a linear layer's result, or a copy of such a result."""
    while isinstance(node, Node) and node.target in _COPIES:
        node = node.args[0]
    return isinstance(node, Node) and node.target is _LINEAR
