"""PyTorch's and ExecuTorch's steps of an export: a module becomes a graph, graphs a program."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from webpte_export.check_export import check_readable
from webpte_export.errors import ExportError
from webpte_export.failures import explained
from webpte_export.layer_names import recorded_weights
from webpte_export.loops import separate_rounds
from webpte_export.state import keep_initial_values, separate_state

_NO_LIMIT = 2**30
_QUANTIZED = ("torchao.dequantize_affine.default", "torchao.quantize_affine.default")


def _distinct(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy tensors that are passed more than once: torch.export takes them for a single input."""
    import torch
    from torch.utils._pytree import tree_map

    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return leaf.clone()

    found: tuple[Any, ...] = tree_map(own, inputs)
    return found


def torch_export(module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any, strict: bool) -> Any:
    import torch
    from torch._dynamo.exc import UserError

    from webpte_export.experts import SmallTopK
    from webpte_export.rewrite.example import with_unlike_sizes
    from webpte_export.rewrite.guards import conditions_by_trial, prove_conditions

    def export(given: tuple[Any, ...], **options: Any) -> Any:
        with conditions_by_trial(), nullcontext() if strict else SmallTopK():
            return torch.export.export(
                *(module, _distinct(given)),
                dynamic_shapes=dynamic_shapes,
                strict=strict,
                **options,
            )

    def export_or_prove(given: tuple[Any, ...]) -> Any:
        try:
            return export(given)
        except UserError:  # the sizes may be right, and only not proven
            with suppress(Exception):
                found = export(given, prefer_deferred_runtime_asserts_over_guards=True)
                if prove_conditions(found):
                    return found
            raise

    unlike = with_unlike_sizes(module, inputs, dynamic_shapes)
    if unlike is not None:
        with suppress(Exception):  # the given sizes say more in a message
            return export_or_prove(unlike)
    with explained("torch.export", f"torch.export cannot export {type(module).__name__}"):
        return export_or_prove(inputs)


def runnable_form(
    exported: Any, module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any, strict: bool
) -> Any:
    """Return a program without operators that no program has, where others can take their place."""
    from webpte_export.rewrite.complex_pairs import has_complex, without_complex
    from webpte_export.rewrite.constants import fold_linear_algebra
    from webpte_export.rewrite.control_flow import without_control_flow
    from webpte_export.rewrite.decompositions import decomposed, drop_assertions
    from webpte_export.rewrite.small_integers import with_small_integers

    _check_bounds(exported)
    drop_assertions(exported)
    folded = fold_linear_algebra(exported)
    if folded is not None:
        exported = torch_export(folded, inputs, dynamic_shapes, strict)
    written = without_control_flow(exported, module)
    if written is not None:
        exported = torch_export(written, inputs, dynamic_shapes, False)
    if has_complex(exported):

        def again(paired: Any, given: tuple[Any, ...]) -> Any:
            return torch_export(paired, given, dynamic_shapes, strict)

        exported = without_complex(exported, module, inputs, again)
    refused = "an operator of the model cannot be written with others"
    with explained("torch.export", refused, exported):
        return with_small_integers(decomposed(exported))


def _check_bounds(exported: Any) -> None:
    """Refuse sizes without an upper bound before minutes are spent."""
    nodes = exported.graph_module.graph.nodes
    given, ranges = set(exported.graph_signature.user_inputs), exported.range_constraints
    for node in nodes:
        value = node.meta.get("val")
        sizes = value.shape if node.name in given and hasattr(value, "shape") else ()
        for dim, size in enumerate(sizes):
            symbols = () if isinstance(size, int) else size.node.expr.free_symbols
            if any(symbol not in ranges or ranges[symbol].upper >= 2**31 for symbol in symbols):
                raise ExportError(
                    f"dim {dim} of the input {node.name!r} has no upper bound, but memory is "
                    "allocated for the largest size. Give it one in dynamic_shapes: "
                    'Dim("name", min=1, max=...), in the place of Dim("name"), Dim.AUTO and others.'
                )


def order_rows(exported: Any) -> None:
    """Let linear layers read contiguous rows, also after operations such as a transposition.

    PyTorch decomposes layers of other rows, for example of a transposed tensor, into a product for
    each batch with a copy of the weight. These products have no quantized operator, and ExecuTorch
    then leaves out the quantization of activations.
    """
    import torch

    aten, graph = torch.ops.aten, exported.graph_module.graph
    for layer in graph.find_nodes(op="call_function", target=aten.linear.default):
        made = layer.args[0]
        while str(made.target) in _QUANTIZED:
            made = made.args[0]
        value = made.meta["val"]
        if value.dim() < 3 or value.is_contiguous():
            continue
        order = {"memory_format": torch.contiguous_format}
        with graph.inserting_after(made):
            copy = graph.call_function(aten.clone.default, (made,), order)
        copy.meta = {**made.meta, "val": value.clone(**order)}
        made.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
    exported.graph_module.recompile()


def lower(
    exported: Mapping[str, Any],
    half: bool,
    metadata: Mapping[str, Any] | None,
    naming: Callable[[Mapping[str, str]], dict[str, str]] | None,
) -> tuple[bytes, str | None]:
    """Return a program, and the reason if it has no delegates.

    Where ExecuTorch's partitioner fails, or writes what webpte cannot read, the program consists of
    portable kernels, most of which the runtime moves to the GPU.
    """
    try:
        return _lowered(exported, half, metadata, naming, delegates=True), None
    except ExportError as error:
        if half or naming is not None or any(map(_is_quantized, exported.values())):
            raise  # only delegates have these
        try:
            data = _lowered(exported, half, metadata, naming, delegates=False)
        except Exception:  # the first failure says more
            raise error from None
        return data, (error.details or str(error)).strip().splitlines()[0]


def _is_quantized(exported: Any) -> bool:
    own = ("torchao", "quantized", "et_vk", "llama", "_weight_int8pack_mm")
    names = (str(node.target) for node in exported.graph_module.graph.nodes)
    return any(name.startswith(own) or own[-1] in name for name in names)


def _lowered(
    exported: Mapping[str, Any],
    half: bool,
    metadata: Mapping[str, Any] | None,
    naming: Callable[[Mapping[str, str]], dict[str, str]] | None,
    *,
    delegates: bool,
) -> bytes:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from webpte_export.rewrite.operators import runnable

    # WebGPU's buffers do not have the limits of Vulkan's images.
    options: dict[str, Any] = {"texture_limits": (_NO_LIMIT,) * 3}
    if half:
        options["force_fp16"] = True
    for program in exported.values():
        order_rows(program)
        separate_rounds(program)
    exported = {name: separate_state(program) for name, program in exported.items()}
    # Otherwise a mutated buffer is an extra output, and the file does not name the buffer.
    in_place = options | {"alias_buffer_mutations": True}
    with explained("ExecuTorch", "ExecuTorch cannot lower the model", *exported.values()):
        with recorded_weights() as weights:
            lowered = to_edge_transform_and_lower(
                exported,
                partitioner={
                    name: []
                    if not delegates
                    else [
                        VulkanPartitioner(
                            in_place if method.graph_signature.buffers_to_mutate else options
                        )
                    ]
                    for name, method in exported.items()
                },
                constant_methods=dict(metadata) if metadata else None,
                compile_config=EdgeCompileConfig(_core_aten_ops_exception_list=[*runnable()]),
            )
        if naming is not None:
            # The hashes are not known before.
            lowered._config_methods = {**(lowered._config_methods or {}), **naming(weights)}
        for name in exported:
            keep_initial_values(lowered.exported_program(name))
        data: bytes = lowered.to_executorch().buffer
    with explained("webpte", "webpte cannot read the program that ExecuTorch wrote"):
        check_readable(data)
    return data


@contextmanager
def quiet_logs() -> Iterator[dict[str, set[str]]]:
    """The partitioner's reasons for operators that it rejects, collected from its log."""
    found: dict[str, set[str]] = defaultdict(set)

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _, _, why = record.getMessage().partition("[Vulkan Partitioner] Due to [")
            reason, _, call = why.rpartition("], skipping ")
            if match := _OVERLOAD.search(call):
                found[match["op"]].add(reason)

    root, listener = logging.getLogger(), Listener(logging.INFO)
    level, others = root.level, root.handlers[:]
    root.addHandler(listener)
    root.setLevel(logging.INFO)
    for handler in others:  # no other output of the log is wanted
        root.removeHandler(handler)
    try:
        yield found
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
        for handler in others:
            root.addHandler(handler)


_OVERLOAD = re.compile(r"\b(?P<op>\w+\.\w+)\.\w+")
