"""Gives each result and each written buffer of a model a separate value, before it is lowered.

A delegate writes a buffer by computing its new content there. ExecuTorch's exporter refuses, or
confuses, a value that is stored in a buffer and also returned, or stored twice, or only belongs to
another buffer or an input; and a buffer that is read after its new content was computed would be
read too late. Copies (`x * 1`, which no pass of the exporter removes) at the end of the graph
separate the values: first copies of old contents, then of new contents. Models without such values,
KV caches among them, are exported without copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Operators that return their first argument, or whose result the exporter takes for it.
_SAME = frozenset({"clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "contiguous"})
_DESCRIBED = ("val", "tensor_meta", "stack_trace", "nn_module_stack")  # metadata for later passes


def separate_state(exported: Any) -> Any:
    """Return a program of torch.export with copies where they are needed."""
    if not any(_writes(node) for node in exported.graph_module.graph.nodes):
        return exported
    given, exported = exported, exported.run_decompositions({})  # writes become results
    graph, signature = exported.graph_module.graph, exported.graph_signature
    buffers = {target: name for name, target in signature.inputs_to_buffers.items()}
    inputs = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    output = graph.output_node()
    results = list(output.args[0])
    stored = {
        place: inputs[buffers[spec.target]]
        for place, spec in enumerate(signature.output_specs)
        if spec.kind.name == "BUFFER_MUTATION"
    }
    sources = [source_of(node) for node in results]
    written = [sources[place] for place in stored]
    if len(set(written)) == len(written) and not (
        {source for place, source in enumerate(sources) if place not in stored} & {*written}
        or {*sources} & {*stored.values()}
        or {*written} & {*inputs.values()}
    ):
        return given
    # First the reads: a result that is a buffer's old content, a buffer that becomes another's.
    for place, node in enumerate(results):
        source = source_of(node)
        if source in stored.values() or (place in stored and source in inputs.values()):
            results[place] = copied(graph, output, node)
    order = {node: number for number, node in enumerate(graph.nodes)}
    taken = {source_of(node) for place, node in enumerate(results) if place not in stored}
    for place, buffer in stored.items():
        source = source_of(results[place])
        if source in taken or _last_read(buffer, order) > order[source]:
            results[place] = copied(graph, output, results[place])
        taken.add(source)
    for spec, node in zip(signature.output_specs, results, strict=True):
        if hasattr(node, "name"):
            spec.arg = type(spec.arg)(name=node.name)
    output.args = (tuple(results),)
    exported.graph_module.recompile()
    return exported


def _writes(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def starts_with(exported: Any) -> Iterator[tuple[str, Any]]:
    """List the inputs that are written buffers, with their initial values unless zero."""
    signature = exported.graph_signature
    written = set(signature.buffers_to_mutate.values())
    for name, target in signature.inputs_to_buffers.items():
        held = exported.state_dict.get(target, exported.constants.get(target))
        if target in written and held is not None and bool(held.any()):
            yield name, held


def keep_initial_values(exported: Any) -> None:
    """Mark buffers that are written outside of delegates, so that the file gets their values.

    ExecuTorch only writes their shapes. Delegates have their values in either case, and a runtime
    starts with zeros, which the file need not have.
    """
    kept = {name for name, _ in starts_with(exported)}
    for node in exported.graph_module.graph.nodes:
        if node.op == "placeholder" and node.name in kept:
            node.meta["et_init_buffer"] = True


def source_of(node: Any) -> Any:
    """Return the node with a result's value, behind operators that change nothing."""
    while getattr(node, "op", None) == "call_function" and _changes_nothing(node):
        node = node.args[0]
    return node


def _changes_nothing(node: Any) -> bool:
    name = getattr(node.target, "_schema", None) and node.target._schema.name.rpartition("::")[2]
    if name in _SAME:
        return True
    if name in ("view", "reshape", "expand", "_to_copy", "to"):
        before, after = node.args[0].meta.get("val"), node.meta.get("val")
        return (before.shape, before.dtype) == (after.shape, after.dtype)
    return False


def _last_read(node: Any, order: dict[Any, int]) -> int:
    """Return the index of the last operator that reads a buffer, also through views."""
    last = -1
    for reader in node.users:
        if reader.op != "output":
            views = _changes_nothing(reader) or getattr(reader.target, "is_view", False)
            last = max(last, order[reader], _last_read(reader, order) if views else -1)
    return last


def copied(graph: Any, before: Any, node: Any) -> Any:
    """Write a copy of a node's value, which no pass of the exporter removes."""
    import torch

    aten, is_bool = torch.ops.aten, node.meta["val"].dtype == torch.bool
    with graph.inserting_before(before):
        copy = (
            graph.call_function(aten.logical_or.default, (node, node))
            if is_bool
            else graph.call_function(aten.mul.Tensor, (node, 1))
        )
    copy.meta = {key: value for key, value in node.meta.items() if key in _DESCRIBED}
    return copy
