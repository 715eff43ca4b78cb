"""Computes linear algebra of weights once, before the export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from webpte_export.rewrite.linalg import LINEAR_ALGEBRA


def fold_linear_algebra(exported: Any) -> Any | None:
    """Return a module with inverses, factors and determinants of constants as buffers, if any."""
    if not any(_is_linear_algebra(node) for node in exported.graph_module.graph.nodes):
        return None
    module = exported.module(check_guards=False)
    graph = module.graph
    written = set(exported.graph_signature.buffers_to_mutate.values())
    values: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target not in written:
            owner, _, last = node.target.rpartition(".")
            found = getattr(module.get_submodule(owner), last)
            if isinstance(found, torch.Tensor):
                values[node] = found.detach()
        elif _depends_on(node, values):
            given = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            with torch.no_grad():
                values[node] = node.target(*given[0], **given[1])
    count = 0
    for node in list(graph.nodes):
        if node not in values or not isinstance(values[node], torch.Tensor):
            continue
        if not _comes_from_linear_algebra(node) or all(user in values for user in node.users):
            continue
        name, count = f"folded_{count}", count + 1
        module.register_buffer(name, values[node].contiguous())
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
    if not count:
        return None
    graph.eliminate_dead_code()
    module.recompile()
    return module


def _is_linear_algebra(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name.removeprefix("aten::") in LINEAR_ALGEBRA


def _depends_on(node: Any, values: Mapping[Any, Any]) -> bool:
    """Return whether a node computes something from known values alone."""
    if node.op != "call_function" or not node.all_input_nodes:
        return False
    schema = getattr(node.target, "_schema", None)
    pure = node.target.__name__ == "getitem" or (schema is not None and not schema.is_mutable)
    return pure and all(each in values for each in node.all_input_nodes)


def _comes_from_linear_algebra(node: Any) -> bool:
    seen, waiting = set(), [node]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            if _is_linear_algebra(each):
                return True
            waiting += each.all_input_nodes
    return False
