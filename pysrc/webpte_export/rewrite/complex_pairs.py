"""Rewrites complex numbers of a graph to pairs of real tensors.

A graph of torch.export is run once more, node by node, with `Pair` objects in the place of complex
tensors, and is exported again. Complex inputs and outputs of the program are real tensors whose
last dim holds the real and the imaginary part, as by `torch.view_as_real`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from webpte_export.errors import ExportError
from webpte_export.failures import explained, line_of, places_in
from webpte_export.rewrite.arguments import with_signature
from webpte_export.rewrite.complex_fourier import istft
from webpte_export.rewrite.complex_rules import RULES, Pair, is_pair
from webpte_export.rewrite.fourier import Array, Fourier

# Operators that move elements, or whose results are sums of elements: done for each part.
_BOTH = frozenset(
    (
        *("alias", "as_strided", "broadcast_to", "cat", "chunk", "clone", "contiguous", "cumsum"),
        *("detach", "diagonal", "diff", "embedding", "expand", "expand_as", "flatten", "flip"),
        *("gather", "index", "index_add", "index_copy", "index_put", "index_select", "lift_fresh"),
        *("lift_fresh_copy", "mean", "movedim", "narrow", "neg", "permute", "repeat", "reshape"),
        *("roll", "scatter", "scatter_add", "select", "select_scatter", "slice", "slice_scatter"),
        *("split", "split_with_sizes", "squeeze", "stack", "sum", "swapaxes", "t", "tile"),
        *("transpose", "tril", "triu", "unbind", "unflatten", "unfold", "unsqueeze", "view"),
        *("view_as", "where", "_unsafe_view", "_reshape_alias", "diagonal_scatter"),
        *("take_along_dim", "zeros_like"),
    )
)
# Of these arguments, complex numbers count; other numbers are sizes and indices.
_NUMBERS = {"masked_fill": 2, "constant_pad_nd": 2, "full": 1, "full_like": 1, "fill": 1}


def has_complex(exported: Any) -> bool:
    return any(
        _is_complex(value)
        for node in exported.graph_module.graph.nodes
        for value in pytree.tree_leaves(node.meta.get("val"))
    )


def _is_complex(value: Any) -> bool:
    return isinstance(getattr(value, "dtype", None), torch.dtype) and value.dtype.is_complex


def as_real(value: Any) -> Any:
    """Return a complex tensor in the form in which programs take and return it."""
    return torch.view_as_real(value.resolve_conj()) if _is_complex(value) else value


def with_pairs(exported: Any, module: Any, inputs: tuple[Any, ...]) -> tuple[nn.Module, Any]:
    """Return a module without complex numbers for a program, and its inputs."""
    decomposed = exported.run_decompositions(_decompositions())
    made = with_signature(Paired, inspect.signature(module.forward))
    found: nn.Module = made(decomposed)
    given = pytree.tree_map(as_real, inputs)
    # The first run makes the tables, for the sizes of the inputs, which a traced run could not.
    state = {name: value.clone() for name, value in found.named_buffers()}
    with torch.no_grad():
        found(*copy.deepcopy(given))
        for name, value in state.items():
            found.get_buffer(name).copy_(value)
    return found, given


def _decompositions() -> dict[Any, Any]:
    """Return decompositions of the composite operators that no delegate has."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import ops_not_to_decompose

    aten, known = torch.ops.aten, torch.export.default_decompositions().materialize()
    kept = {*ops_not_to_decompose, aten.scaled_dot_product_attention.default}
    table = {op: how for op, how in known.items() if _is_composite(op) and op not in kept}
    return table | {aten.istft.default: istft}


def _is_composite(op: Any) -> bool:
    kind = torch._C.DispatchKey.CompositeImplicitAutograd
    return isinstance(op, torch._ops.OpOverload) and op.has_kernel_for_dispatch_key(kind)


class Paired(nn.Module):
    """Runs a program's graph with pairs of real tensors."""

    def __init__(self, exported: Any) -> None:
        super().__init__()
        self.graph_module = exported.module(check_guards=False)
        self._out = exported.call_spec.out_spec
        placeholders = self.graph_module.graph.find_nodes(op="placeholder")
        self._complex_inputs = [_is_complex(node.meta.get("val")) for node in placeholders]
        for name, value in _tensors(self.graph_module):
            if _is_complex(value):
                for part in ("real", "imag"):
                    data = getattr(value.detach(), part).clone()
                    self.register_buffer(f"{_flat(name)}_{part}", data)
                owner, _, last = name.rpartition(".")
                delattr(self.graph_module.get_submodule(owner), last)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        flat = pytree.tree_leaves((args, kwargs))
        given = [
            Pair(value[..., 0], value[..., 1]) if is_pair else value
            for value, is_pair in zip(flat, self._complex_inputs, strict=True)
        ]
        results = _Interpreter(self).run(*given, enable_io_processing=False)
        return pytree.tree_unflatten([_joined(one) for one in results], self._out)

    def part(self, name: str) -> Pair | None:
        """Return a complex tensor of the graph's module."""
        if not hasattr(self, f"{_flat(name)}_real"):
            return None
        return Pair(getattr(self, f"{_flat(name)}_real"), getattr(self, f"{_flat(name)}_imag"))

    def table(self, name: str, dtype: torch.dtype, make: Callable[[], Array]) -> Tensor:
        """Return a constant, made at its first use."""
        name = f"table_{name}_{str(dtype).rpartition('.')[2]}"
        if not hasattr(self, name):
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(make())).to(dtype))
        found: Tensor = getattr(self, name)
        return found


def _joined(value: Any) -> Any:
    return torch.stack([value.re, value.im], -1) if isinstance(value, Pair) else value


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    """List parameters, buffers, and constants that are plain attributes."""
    found = [*module.named_parameters(), *module.named_buffers()]
    for prefix, each in module.named_modules():
        plain = ((name, value) for name, value in vars(each).items() if isinstance(value, Tensor))
        found += [(f"{prefix}.{name}" if prefix else name, value) for name, value in plain]
    return found


def _flat(name: str) -> str:
    return "pair_" + name.replace(".", "_")


# Rewritten values may have other strides than the graph's.
_ANY_STRIDES = {
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, owner: Paired) -> None:
        super().__init__(owner.graph_module, garbage_collect_values=False)
        self._owner = owner
        self._node: Any = None
        self.fourier = Fourier(owner.table)

    def run_node(self, n: Any) -> Any:
        self._node = n
        return super().run_node(n)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = self._owner.part(target)
        return found if found is not None else super().get_attr(target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        found = self._node.meta.get("val")
        if not (
            any(isinstance(leaf, Pair | complex) for leaf in leaves)
            or any(map(_is_complex, pytree.tree_leaves(found)))
        ):
            if target is torch.ops.aten.as_strided.default:
                args = (args[0].contiguous(), *args[1:])
            return super().call_function(_ANY_STRIDES.get(target, target), args, kwargs)
        name = getattr(target, "_schema", None) and target._schema.name.partition("::")[2]
        name = str(name or getattr(target, "__name__", target))
        if name in RULES:
            return RULES[name](self, *args, **kwargs)
        if name in _BOTH or name in _NUMBERS:
            return self._each_part(target, name, args, kwargs)
        raise self.refusal(
            f"the export has no {name!r} of complex numbers.",
            "Compute it with the real and the imaginary part (x.real, x.imag).",
        )

    def refusal(self, what: str, do: str) -> ExportError:
        """Return an error that names the line of the node that is run."""
        line = line_of(places_in(self._node.meta.get("stack_trace") or ""))
        return ExportError("\n".join([what, *([f"  {line}"] if line else []), do]))

    def _each_part(self, target: Any, name: str, args: Any, kwargs: Any) -> Any:
        number = _NUMBERS.get(name)
        kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}

        def part(which: str) -> Any:
            given = list(args)
            if number is not None and len(given) > number:
                given[number] = (
                    getattr(complex(given[number]), which)
                    if not isinstance(given[number], Pair | Tensor)
                    else given[number]
                )

            def of(leaf: Any) -> Any:
                if isinstance(leaf, Pair):
                    return leaf.re if which == "real" else leaf.im
                is_value = isinstance(leaf, Tensor) and leaf.dtype.is_floating_point
                return torch.zeros_like(leaf) if is_value and which == "imag" else leaf

            found, named = pytree.tree_map(of, (given, kwargs), is_leaf=is_pair)
            if name == "as_strided":
                found[0] = found[0].contiguous()
            return _ANY_STRIDES.get(target, target)(*found, **named)

        re, im = part("real"), part("imag")
        if isinstance(re, list | tuple):
            return [Pair(*both) for both in zip(re, im, strict=True)]
        return Pair(re, im)


def without_complex(
    exported: Any, module: Any, inputs: tuple[Any, ...], again: Callable[[Any, Any], Any]
) -> Any:
    """Return a program without complex numbers; `again` exports a module with inputs."""
    with explained("torch.export", "the complex numbers cannot be written as pairs", exported):
        paired, given = with_pairs(exported, module, inputs)
        return again(paired, given)
