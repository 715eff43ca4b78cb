"""Guards for the fusions of ExecuTorch's Vulkan exporter: only equivalent graphs are fused.

The exporter's patterns compare operators, but hardly shapes, axes, types and numbers. A refused
match stays unfused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Guard = Callable[[Any], bool]
INT8 = (-128, 127)


def guard_patterns(patterns: Mapping[str, Any]) -> None:
    """Guard the patterns of `executorch.backends.vulkan.patterns`, by name."""
    for name, guard in DETECTED.items():
        guard_detector(patterns[name], guard)
    for name, fused in ROTARY.items():
        guard_rotary(patterns[name], fused)
    for name in ("quantized_linear", "quantized_convolution"):
        guard_weights(patterns[name])


def guard_detector(entry: Any, guard: Guard) -> None:
    original = entry.detector_fn
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def detect(node: Any) -> Any:
        try:
            match = original(node)
        except AssertionError:  # raised by a detector for an unknown graph
            return None
        return match if match is not None and guard(match) else None

    entry.detector_fn = detect


def value_of(node: Any) -> Any:
    """Return the fake tensor of a node; None for other values."""
    import torch

    value = node.meta.get("val") if hasattr(node, "meta") else None
    return value if isinstance(value, torch.Tensor) else None


def nodes_between(last: Any, given: Sequence[Any]) -> Iterator[Any]:
    """Yield the nodes that compute the last node, back to the given nodes."""
    seen, left = set(given), [last]
    while left:
        node = left.pop()
        if node not in seen and node.op == "call_function":
            seen.add(node)
            left += node.all_input_nodes
            yield node


# Norms


def is_rms_norm(match: Any) -> bool:
    """Return whether a norm's weight is a vector of the row's width, and all types are floats.

    The pattern takes any factor as the weight: a gate, a scale per sample, another norm. It skips
    casts, also to integers, and `alpha` of the sum with epsilon.
    """
    from executorch.backends.vulkan.patterns.rms_norm import _extract_eps_value
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    x, weight = value_of(match.input_node), value_of(match.weight_node)
    if x is None or weight is None or x.dim() == 0 or weight.dim() != 1:
        return False
    if not statically_known_true(weight.shape[0] == x.shape[-1]):
        return False
    try:
        _extract_eps_value(match.eps_node)
    except (ValueError, RuntimeError):  # computed, or a parameter
        return False
    steps = list(nodes_between(match.anchor_node, (match.input_node, match.weight_node)))
    values = [x, weight, *(value_of(step) for step in steps)]
    floats = all(value is not None and value.is_floating_point() for value in values)
    return floats and all(step.kwargs.get("alpha", 1) == 1 for step in steps)


# Rotary embeddings


def guard_rotary(entry: Any, fused: str) -> None:
    """Fuse a rotary embedding only if the operator gives the same numbers.

    The pattern ignores all axes, sizes and indices: it also matches heads before tokens, tables per
    sample, and pairs at other places.
    """
    original = entry.create_replacement_fn
    if hasattr(original, "__wrapped__"):
        return
    known: dict[tuple[Any, ...], bool] = {}  # by computation: layers are alike

    @functools.wraps(original)
    def fuse(program: Any, graph_module: Any, match: Any) -> None:
        key = computation_of(match)
        if key not in known:
            known[key] = rotates_alike(match, fused)
        if known[key] and (not fused.endswith("_hf") or are_tables(match)):
            original(program, graph_module, match)

    entry.create_replacement_fn = fuse


def computation_of(match: Any) -> tuple[Any, ...]:
    """Return a key for a match's computation, without the names of its nodes."""
    names = {node: f"input {i}" for i, node in enumerate(match.input_nodes)}
    steps: list[Any] = [str(getattr(value_of(node), "shape", None)) for node in match.input_nodes]

    def named(node: Any) -> str:
        if node not in names and node.op == "call_function" and value_of(node) is not None:
            args = ", ".join(named(arg) if hasattr(arg, "op") else str(arg) for arg in flat(node))
            steps.append(f"{node.target}({args})")
            names[node] = f"step {len(steps)}"
        return names.get(node) or str(node.meta.get("val"))

    return (*[named(node) for node in match.output_nodes], *steps)


def flat(node: Any) -> list[Any]:
    from torch.utils import _pytree as pytree

    leaves: list[Any] = pytree.tree_leaves((node.args, node.kwargs))
    return leaves


def rotates_alike(match: Any, fused: str) -> bool:
    """Return whether the operator gives the match's results on random numbers."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    if len(match.input_nodes) != 4 or len(match.output_nodes) != 2:
        return False
    generator = torch.Generator().manual_seed(0)
    op, more = getattr(torch.ops.et_vk, fused), (0,) if fused.endswith("_hf") else ()
    with unset_fake_temporarily(), torch.no_grad():
        try:
            values = [value_of(node) for node in match.input_nodes]
            given = [
                torch.randn([number_of(n) for n in value.shape], generator=generator)
                for value in values
            ]
            known = dict(zip(match.input_nodes, given, strict=True))
            found = [computed(node, known) for node in match.output_nodes]
            expected = op(*given, *more)
        except Exception:  # any exception: the operator does not take the shapes
            return False
    return all(
        x.shape == y.shape and torch.allclose(x.float(), y.float(), atol=1e-4)
        for x, y in zip(found, expected, strict=True)
    )


def number_of(size: Any) -> int:
    """Return a size, or an example of a dynamic size."""
    return int(size if isinstance(size, int) else size.node.hint)


def computed(node: Any, known: dict[Any, Any]) -> Any:
    """Return a node's result, from the known results of other nodes."""
    import torch

    if node not in known:
        value = node.meta.get("val")
        if isinstance(value, int | torch.SymInt):
            known[node] = number_of(value)
        elif node.op != "call_function":
            raise ValueError(f"{node} is not one of the inputs")
        else:
            args, kwargs = torch.fx.node.map_arg(
                (node.args, dict(node.kwargs)), lambda arg: computed(arg, known)
            )
            known[node] = node.target(*args, **kwargs)
    return known[node]


def are_tables(match: Any) -> bool:
    """Return whether the tables of cosines and sines are the same slice of rows.

    The operator takes the whole tables, and the cosines' position for both.
    """
    slices = [node for node in match.input_nodes[2:4] if "slice_copy" in str(node.target)]
    if not slices:
        return True
    wholes = [value_of(node.args[0]) for node in slices]
    rows = all(
        whole is not None and whole.dim() == 2 and node.args[1] == 0 and len(node.args) < 5
        for node, whole in zip(slices, wholes, strict=True)
    )
    return rows and len(slices) == 2 and slices[0].args[2] == slices[1].args[2]


ROTARY = {"hf_rope": "apply_rotary_emb_hf", "export_llama_rope": "apply_rotary_emb"}


# Quantized operators


def is_int8(*nodes: Any) -> bool:
    """Return whether all operators quantize to or from the whole int8 range, per tensor."""
    import torch

    for node in nodes:
        args: list[Any] = list(node.args)
        numbers = isinstance(args[1], float) and isinstance(args[2], int)
        if not numbers or args[3:6] != [*INT8, torch.int8]:
            return False
    return True


def is_quantized_sum(match: Any) -> bool:
    """Return whether a sum is of int8 and without `alpha`, which the pattern ignores.

    The pattern drops a ReLU, too, which has no effect only if 0 is the smallest number of the
    output.
    """
    both = match.dequantize_input_a_node, match.dequantize_input_b_node
    plain = match.anchor_node.kwargs.get("alpha", 1) == 1
    bounded = match.relu_node is None or match.output_zeros_node == INT8[0]
    return plain and bounded and is_int8(*both, match.quantize_output_node)


def is_quantized_unary(match: Any) -> bool:
    return is_int8(match.dequantize_input_node, match.quantize_output_node)


def is_quantized_linear(match: Any) -> bool:
    """Return whether a linear layer's weights have a scale per row, or per group.

    Its input may be a view of a quantized tensor, if rows stay rows.
    """
    inputs, weight = value_of(match.pattern_input_node), value_of(match.dequantize_weight_node)
    if inputs is None or weight is None or weight.dim() != 2:
        return False
    anchor, name = match.anchor_node, str(match.anchor_node.target)
    bias, matrix = (0, 2) if "addmm" in name else (2, 1)
    turned = turns(anchor.args[matrix], match.dequantize_weight_node)
    if turned != ("linear" not in name) or inputs.shape[-1] != weight.shape[1]:
        return False
    added = anchor.args[bias] if match.bias_node is not None else None
    if added is not match.bias_node or anchor.kwargs or not has_channels_first(match):
        return False
    if match.bias_node is not None and value_of(match.bias_node).dim() != 1:
        return False
    static = match.dequantize_input_node is not None and match.quantize_input_node is None
    if static and match.is_input_static_per_tensor_quantized():
        ends = (match.dequantize_input_node, match.quantize_output_node)
        return is_int8(*(node for node in ends if node is not None))
    return True


def turns(node: Any, weight: Any) -> bool | None:
    """Return whether a node transposes the weight, False for the weight; None for other nodes."""
    if node is weight:
        return False
    swaps = any(name in str(node.target) for name in ("permute_copy", "t_copy", "transpose_copy"))
    return True if swaps and node.args[0] is weight else None


def has_channels_first(match: Any) -> bool:
    """Return whether the scales of weights, if per channel, are per row."""
    node = match.dequantize_weight_node
    return "per_channel.default" not in str(node.target) or node.args[3] == 0


def is_quantized_convolution(match: Any) -> bool:
    """Return whether a convolution is of int8 pictures, with a constant bias or none."""
    weight = value_of(match.weight_node)
    if (
        weight is None
        or weight.dim() != 4
        or match.anchor_node.args[1] is not (match.dequantize_weight_node)
    ):
        return False
    if match.bias_node is not None and match.anchor_node.args[2] is not match.bias_node:
        return False
    depthwise = not match.transposed and weight.shape[1] == 1 and match.groups == weight.shape[0]
    if (depthwise and weight.shape[0] % 4) or not (match.transposed or has_channels_first(match)):
        return False
    return is_int8(match.dequantize_input_node, match.quantize_output_node)


def guard_weights(entry: Any) -> None:
    """Fuse a quantized layer only if its weights' zero points are 0: the kernels ignore them."""
    original = entry.create_replacement_fn
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def fuse(program: Any, graph_module: Any, match: Any) -> None:
        from executorch.backends.transforms.utils import get_param_tensor

        zeros = get_param_tensor(program, match.weight_zeros_node)
        if zeros is None or not zeros.any():
            original(program, graph_module, match)

    entry.create_replacement_fn = fuse


DETECTED: Mapping[str, Guard] = {
    "rms_norm": is_rms_norm,
    "quantized_binary": is_quantized_sum,
    "quantized_unary": is_quantized_unary,
    "quantized_pixel_shuffle": is_quantized_unary,
    "quantized_linear": is_quantized_linear,
    "quantized_convolution": is_quantized_convolution,
}
