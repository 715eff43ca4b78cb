"""Rewrites complex numbers of a graph to pairs of real tensors.

A graph of torch.export is run once more, node by node, with `Pair` objects in the place of complex
tensors, and is exported again. Complex inputs and outputs of the program are real tensors whose
last dim holds the real and the imaginary part, as by `torch.view_as_real`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from webpte_export.errors import ExportError
from webpte_export.failures import explained, line_of, places_in
from webpte_export.rewrite.arguments import with_signature
from webpte_export.rewrite.fourier import Array, Fourier


@dataclass(frozen=True)
class Pair:
    """A complex tensor."""

    re: Tensor
    im: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.re.shape


Rule = Callable[..., Any]
_RULES: dict[str, Rule] = {}

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
_REAL_TYPES = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


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
        if name in _RULES:
            return _RULES[name](self, *args, **kwargs)
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

            found, named = pytree.tree_map(of, (given, kwargs), is_leaf=_is_pair)
            if name == "as_strided":
                found[0] = found[0].contiguous()
            return _ANY_STRIDES.get(target, target)(*found, **named)

        re, im = part("real"), part("imag")
        if isinstance(re, list | tuple):
            return [Pair(*both) for both in zip(re, im, strict=True)]
        return Pair(re, im)


def _is_pair(value: Any) -> bool:
    return isinstance(value, Pair)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return add


def _pair(value: Any) -> Pair:
    """Return a number or a real tensor as a pair."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, Tensor):
        return Pair(value, torch.zeros_like(value))
    return Pair(torch.tensor(complex(value).real), torch.tensor(complex(value).imag))


@_rule("mul", "multiply")
def _mul(run: Any, x: Any, y: Any) -> Any:
    if not isinstance(x, Pair):
        x, y = y, x
    if not isinstance(x, Pair):  # a real tensor and a complex number
        x, y = (y, x) if isinstance(x, complex) else (x, y)
        return Pair(x * y.real, x * y.imag)
    if isinstance(y, complex):
        return Pair(x.re * y.real - x.im * y.imag, x.re * y.imag + x.im * y.real)
    if not isinstance(y, Pair):
        return Pair(x.re * y, x.im * y)
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


@_rule("add", "sub", "rsub", "subtract")
def _add(run: Any, x: Any, y: Any, alpha: Any = 1) -> Any:
    name = run._node.target._schema.name
    if name.endswith("rsub"):
        x, y = y, x
    sign = (
        alpha
        if name.endswith("add")
        else _mul(run, _pair(-1.0), alpha)
        if isinstance(alpha, complex)
        else -alpha
    )

    def parts(value: Any) -> tuple[Any, Any]:
        if isinstance(value, Pair):
            return value.re, value.im
        return (
            (value, None)
            if isinstance(value, Tensor)
            else (
                complex(value).real,
                complex(value).imag,
            )
        )

    (a, b), (c, d) = parts(x), parts(y)
    re = a + sign * c
    if b is None:
        im = sign * d + torch.zeros_like(re)
    elif d is None:
        im = b + torch.zeros_like(re)
    else:
        im = b + sign * d
    return Pair(re, im if isinstance(im, Tensor) else torch.full_like(re, im))


@_rule("reciprocal")
def _reciprocal(run: Any, x: Pair) -> Pair:
    size = x.re * x.re + x.im * x.im
    return Pair(x.re / size, -x.im / size)


@_rule("div", "true_divide", "divide")
def _div(run: Any, x: Any, y: Any) -> Any:
    if isinstance(y, complex):
        return _mul(run, x, 1 / y)
    if not isinstance(y, Pair):
        return Pair(x.re / y, x.im / y)
    return _mul(run, _reciprocal(run, y), x)


@_rule("abs")
def _abs(run: Any, x: Pair) -> Tensor:
    return torch.sqrt(x.re * x.re + x.im * x.im)


@_rule("angle")
def _angle(run: Any, x: Pair) -> Tensor:
    return torch.atan2(x.im, x.re)


@_rule("sgn", "sign")
def _sgn(run: Any, x: Pair) -> Pair:
    size = _abs(run, x)
    safe = torch.where(size == 0, 1.0, size)
    return Pair(x.re / safe, x.im / safe)


@_rule("conj", "_conj", "conj_physical", "_conj_physical")
def _conj(run: Any, x: Any) -> Any:
    return Pair(x.re, -x.im) if isinstance(x, Pair) else x


@_rule("resolve_conj", "resolve_neg")
def _resolve(run: Any, x: Any) -> Any:
    return x


@_rule("real")
def _real(run: Any, x: Pair) -> Tensor:
    return x.re


@_rule("imag")
def _imag(run: Any, x: Pair) -> Tensor:
    return x.im


@_rule("view_as_real", "view_as_real_copy")
def _view_as_real(run: Any, x: Pair) -> Tensor:
    return torch.stack([x.re, x.im], -1)


@_rule("view_as_complex", "view_as_complex_copy")
def _view_as_complex(run: Any, x: Tensor) -> Pair:
    return Pair(x[..., 0], x[..., 1])


@_rule("complex")
def _complex(run: Any, re: Tensor, im: Tensor) -> Pair:
    return Pair(*torch.broadcast_tensors(re, im))


@_rule("polar")
def _polar(run: Any, size: Tensor, angle: Tensor) -> Pair:
    return Pair(size * torch.cos(angle), size * torch.sin(angle))


@_rule("exp")
def _exp(run: Any, x: Pair) -> Pair:
    return _polar(run, torch.exp(x.re), x.im)


@_rule("log")
def _log(run: Any, x: Pair) -> Pair:
    return Pair(torch.log(_abs(run, x)), _angle(run, x))


@_rule("sqrt")
def _sqrt(run: Any, x: Pair) -> Pair:
    size = _abs(run, x)
    re, im = torch.sqrt((size + x.re).clamp(min=0) / 2), torch.sqrt((size - x.re).clamp(min=0) / 2)
    return Pair(re, torch.where(x.im < 0, -im, im))


@_rule("sin")
def _sin(run: Any, x: Pair) -> Pair:
    return Pair(torch.sin(x.re) * torch.cosh(x.im), torch.cos(x.re) * torch.sinh(x.im))


@_rule("cos")
def _cos(run: Any, x: Pair) -> Pair:
    return Pair(torch.cos(x.re) * torch.cosh(x.im), -torch.sin(x.re) * torch.sinh(x.im))


@_rule("sinh")
def _sinh(run: Any, x: Pair) -> Pair:
    return Pair(torch.sinh(x.re) * torch.cos(x.im), torch.cosh(x.re) * torch.sin(x.im))


@_rule("cosh")
def _cosh(run: Any, x: Pair) -> Pair:
    return Pair(torch.cosh(x.re) * torch.cos(x.im), torch.sinh(x.re) * torch.sin(x.im))


@_rule("tanh")
def _tanh(run: Any, x: Pair) -> Any:
    return _div(run, _sinh(run, x), _cosh(run, x))


@_rule("sigmoid")
def _sigmoid(run: Any, x: Pair) -> Any:
    falling = _exp(run, Pair(-x.re, -x.im))
    return _reciprocal(run, Pair(1 + falling.re, falling.im))


@_rule("pow", "square")
def _pow(run: Any, x: Any, exponent: Any = 2) -> Any:
    if isinstance(exponent, int | float) and float(exponent).is_integer() and abs(exponent) <= 16:
        count = abs(int(exponent))
        base, found = x, None
        while count:
            if count % 2:
                found = base if found is None else _mul(run, found, base)
            base, count = _mul(run, base, base), count // 2
        if found is None:
            return Pair(torch.ones_like(x.re), torch.zeros_like(x.re))
        return _reciprocal(run, found) if exponent < 0 else found
    return _exp(run, _mul(run, _log(run, _pair(x)), exponent))


@_rule("mm", "bmm", "matmul", "mv", "dot", "vdot")
def _matmul(run: Any, x: Any, y: Any) -> Any:
    def times(a: Tensor, b: Tensor) -> Tensor:
        return torch.matmul(a, b)

    x = _conj(run, x) if run._node.target._schema.name.endswith("vdot") else x
    if not isinstance(x, Pair):
        return Pair(times(x, y.re), times(x, y.im))
    if not isinstance(y, Pair):
        return Pair(times(x.re, y), times(x.im, y))
    return Pair(times(x.re, y.re) - times(x.im, y.im), times(x.re, y.im) + times(x.im, y.re))


@_rule("addmm", "baddbmm")
def _addmm(run: Any, bias: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    found = _mul(run, _matmul(run, x, y), alpha)
    return _sum_of(found, _mul(run, _pair(bias), beta))


@_rule("linear")
def _linear(run: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    def turned(w: Any) -> Any:
        return Pair(w.re.mT, w.im.mT) if isinstance(w, Pair) else w.mT

    found = _matmul(run, x, turned(weight))
    return found if bias is None else _sum_of(found, _pair(bias))


def _sum_of(x: Pair, y: Pair) -> Pair:
    return Pair(x.re + y.re, x.im + y.im)


@_rule("prod")
def _prod(run: Any, x: Pair, dim: int = -1, keepdim: bool = False) -> Any:
    first, *others = (Pair(*both) for both in zip(x.re.unbind(dim), x.im.unbind(dim), strict=True))
    for each in others:
        first = _mul(run, first, each)
    return Pair(first.re.unsqueeze(dim), first.im.unsqueeze(dim)) if keepdim else first


@_rule("linalg_vector_norm", "norm")
def _norm(run: Any, x: Pair, *args: Any, **kwargs: Any) -> Tensor:
    found: Tensor = run._node.target(_abs(run, x), *args, **kwargs)
    return found


@_rule("var", "std")
def _var(run: Any, x: Pair, *args: Any, **kwargs: Any) -> Tensor:
    name = run._node.target._schema.name
    re, im = (torch.var(part, *args, **kwargs) for part in (x.re, x.im))
    return torch.sqrt(re + im) if name.endswith("std") else re + im


@_rule("eq", "ne")
def _eq(run: Any, x: Any, y: Any) -> Tensor:
    x, y = _pair(x), _pair(y)
    same = (x.re == y.re) & (x.im == y.im)
    return ~same if run._node.target._schema.name.endswith("ne") else same


@_rule("isnan", "isinf")
def _either(run: Any, x: Pair) -> Tensor:
    found: Tensor = run._node.target(x.re) | run._node.target(x.im)
    return found


@_rule("isfinite")
def _finite(run: Any, x: Pair) -> Tensor:
    return torch.isfinite(x.re) & torch.isfinite(x.im)


@_rule("_to_copy", "to", "type_as", "cfloat", "view_dtype")
def _to_copy(run: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    wanted = run._node.meta["val"].dtype
    if not wanted.is_complex:
        return (x.re if isinstance(x, Pair) else x).to(wanted)
    x, wanted = _pair(x), _REAL_TYPES[wanted]
    return Pair(x.re.to(wanted), x.im.to(wanted))


@_rule("zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty", "ones_like", "empty_like")
def _created(run: Any, *args: Any, **kwargs: Any) -> Pair:
    name, value = run._node.target._schema.name, run._node.meta["val"]
    given = args[0] if isinstance(args[0], Pair | Tensor) else None
    shape = (
        given.shape
        if given is not None and name.endswith("_like")
        else args[1 if given is not None else 0]
    )
    dtype = _REAL_TYPES[value.dtype]
    make = torch.ones if "ones" in name else torch.zeros
    return Pair(make(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))


@_rule("scalar_tensor")
def _scalar(run: Any, value: Any, **kwargs: Any) -> Pair:
    return _pair(value)


@_rule("copy", "copy_")
def _copy(run: Any, x: Pair, source: Any, *args: Any) -> Pair:
    source = _pair(source)
    if run._node.target._schema.name.endswith("_"):
        return Pair(x.re.copy_(source.re), x.im.copy_(source.im))
    return Pair(source.re.expand(x.shape).clone(), source.im.expand(x.shape).clone())


def _moved(x: Any, dim: int) -> Any:
    if isinstance(x, Pair):
        return Pair(x.re.movedim(dim, -1), x.im.movedim(dim, -1))
    return x.movedim(dim, -1)


def _scaled(run: Any, x: Any, norm: int, sizes: Sequence[int]) -> Any:
    """Apply the normalization of a transform: 0 for none, 1 by the root of n, 2 by n."""
    n = float(np.prod(sizes))
    factor = (1.0, n**-0.5, 1 / n)[norm]
    if norm == 0:
        return x
    return Pair(x.re * factor, x.im * factor) if isinstance(x, Pair) else x * factor


def _c2c(run: Any, x: Any, dims: Sequence[int], sign: int) -> Any:
    for dim in dims:
        moved = _moved(x, dim)
        given = (moved.re, moved.im) if isinstance(moved, Pair) else (moved, None)
        a, b = run.fourier.transform(*given, sign)
        x = Pair(a.movedim(-1, dim), b.movedim(-1, dim))
    return x


def _static(run: Any, sizes: Sequence[Any]) -> None:
    if not all(isinstance(size, int) for size in sizes):
        raise run.refusal(
            "a Fourier transform is along a dim of changing size.",
            "Give it a fixed size: pad the signal, or cut it into frames of one length (stft).",
        )


@_rule("_fft_c2c")
def _fft_c2c(run: Any, x: Any, dims: Sequence[int], norm: int, forward: bool) -> Any:
    sizes = [x.shape[dim] for dim in dims]
    _static(run, sizes)
    return _scaled(run, _c2c(run, x, dims, -1 if forward else 1), norm, sizes)


@_rule("_fft_r2c")
def _fft_r2c(run: Any, x: Tensor, dims: Sequence[int], norm: int, onesided: bool) -> Any:
    sizes = [x.shape[dim] for dim in dims]
    _static(run, sizes)
    last = dims[-1]
    kept = sizes[-1] // 2 + 1 if onesided else sizes[-1]
    a, b = run.fourier.transform(x.movedim(last, -1), None, -1, kept)
    found = Pair(a.movedim(-1, last), b.movedim(-1, last))
    return _scaled(run, _c2c(run, found, dims[:-1], -1), norm, sizes)


@_rule("_fft_c2r")
def _fft_c2r(run: Any, x: Any, dims: Sequence[int], norm: int, size: int) -> Any:
    last = dims[-1]
    sizes = [*(x.shape[dim] for dim in dims[:-1]), size]
    _static(run, sizes)
    moved = _moved(_c2c(run, _pair(x), dims[:-1], 1), last)
    found = run.fourier.to_real(moved.re, moved.im, size).movedim(-1, last)
    return _scaled(run, found, norm, sizes)


def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Invert torch.stft: frames are transformed, windowed, and added where they overlap.

    PyTorch's own looks at values (whether the window's overlap is 0 somewhere).
    """
    win_length = n_fft if win_length is None else win_length
    hop_length = win_length // 4 if hop_length is None else hop_length
    if window is None:
        window = torch.ones(win_length)
    side = (n_fft - win_length) // 2
    window = torch.nn.functional.pad(window, (side, n_fft - win_length - side))
    frames = x.transpose(-1, -2)
    norm = "ortho" if normalized else "backward"
    if onesided is False or return_complex:
        parts = torch.fft.ifft(frames, n=n_fft, norm=norm).real
    else:
        parts = torch.fft.irfft(frames, n=n_fft, norm=norm)
    batched = parts if parts.dim() == 3 else parts.unsqueeze(0)
    weight = torch.diag(window).unsqueeze(1)  # (n_fft, 1, n_fft)
    added = torch.conv_transpose1d(batched.transpose(1, 2), weight, stride=hop_length)
    squares = torch.diag(window * window).unsqueeze(1)
    ones = torch.ones_like(batched[:1].transpose(1, 2))
    overlap = torch.conv_transpose1d(ones, squares, stride=hop_length)
    start = n_fft // 2 if center else 0
    total = added.shape[-1]
    end = total - (n_fft // 2 if center else 0) if length is None else start + length
    found = added[..., start : min(end, total)] / overlap[..., start : min(end, total)]
    if length is not None and end > total:
        found = torch.nn.functional.pad(found, (0, end - total))
    found = found[:, 0]
    return found if parts.dim() == 3 else found[0]


def without_complex(
    exported: Any, module: Any, inputs: tuple[Any, ...], again: Callable[[Any, Any], Any]
) -> Any:
    """Return a program without complex numbers; `again` exports a module with inputs."""
    with explained("torch.export", "the complex numbers cannot be written as pairs", exported):
        paired, given = with_pairs(exported, module, inputs)
        return again(paired, given)
