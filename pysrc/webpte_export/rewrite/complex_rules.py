"""Rules for operators of complex numbers, each as operators of pairs of real tensors.

A rule gets the run that calls it (`complex_pairs.py`), and the operator's arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pair:
    """A complex tensor."""

    re: Tensor
    im: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.re.shape


Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}

_REAL_TYPES = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def is_pair(value: Any) -> bool:
    return isinstance(value, Pair)


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


def as_pair(value: Any) -> Pair:
    """Return a number or a real tensor as a pair."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, Tensor):
        return Pair(value, torch.zeros_like(value))
    return Pair(torch.tensor(complex(value).real), torch.tensor(complex(value).imag))


@rule("mul", "multiply")
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


@rule("add", "sub", "rsub", "subtract")
def _add(run: Any, x: Any, y: Any, alpha: Any = 1) -> Any:
    name = run._node.target._schema.name
    if name.endswith("rsub"):
        x, y = y, x
    sign = (
        alpha
        if name.endswith("add")
        else _mul(run, as_pair(-1.0), alpha)
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


@rule("reciprocal")
def _reciprocal(run: Any, x: Pair) -> Pair:
    size = x.re * x.re + x.im * x.im
    return Pair(x.re / size, -x.im / size)


@rule("div", "true_divide", "divide")
def _div(run: Any, x: Any, y: Any) -> Any:
    if isinstance(y, complex):
        return _mul(run, x, 1 / y)
    if not isinstance(y, Pair):
        return Pair(x.re / y, x.im / y)
    return _mul(run, _reciprocal(run, y), x)


@rule("abs")
def _abs(run: Any, x: Pair) -> Tensor:
    return torch.sqrt(x.re * x.re + x.im * x.im)


@rule("angle")
def _angle(run: Any, x: Pair) -> Tensor:
    return torch.atan2(x.im, x.re)


@rule("sgn", "sign")
def _sgn(run: Any, x: Pair) -> Pair:
    size = _abs(run, x)
    safe = torch.where(size == 0, 1.0, size)
    return Pair(x.re / safe, x.im / safe)


@rule("conj", "_conj", "conj_physical", "_conj_physical")
def _conj(run: Any, x: Any) -> Any:
    return Pair(x.re, -x.im) if isinstance(x, Pair) else x


@rule("resolve_conj", "resolve_neg")
def _resolve(run: Any, x: Any) -> Any:
    return x


@rule("real")
def _real(run: Any, x: Pair) -> Tensor:
    return x.re


@rule("imag")
def _imag(run: Any, x: Pair) -> Tensor:
    return x.im


@rule("view_as_real", "view_as_real_copy")
def _view_as_real(run: Any, x: Pair) -> Tensor:
    return torch.stack([x.re, x.im], -1)


@rule("view_as_complex", "view_as_complex_copy")
def _view_as_complex(run: Any, x: Tensor) -> Pair:
    return Pair(x[..., 0], x[..., 1])


@rule("complex")
def _complex(run: Any, re: Tensor, im: Tensor) -> Pair:
    return Pair(*torch.broadcast_tensors(re, im))


@rule("polar")
def _polar(run: Any, size: Tensor, angle: Tensor) -> Pair:
    return Pair(size * torch.cos(angle), size * torch.sin(angle))


@rule("exp")
def _exp(run: Any, x: Pair) -> Pair:
    return _polar(run, torch.exp(x.re), x.im)


@rule("log")
def _log(run: Any, x: Pair) -> Pair:
    return Pair(torch.log(_abs(run, x)), _angle(run, x))


@rule("sqrt")
def _sqrt(run: Any, x: Pair) -> Pair:
    size = _abs(run, x)
    re, im = torch.sqrt((size + x.re).clamp(min=0) / 2), torch.sqrt((size - x.re).clamp(min=0) / 2)
    return Pair(re, torch.where(x.im < 0, -im, im))


@rule("sin")
def _sin(run: Any, x: Pair) -> Pair:
    return Pair(torch.sin(x.re) * torch.cosh(x.im), torch.cos(x.re) * torch.sinh(x.im))


@rule("cos")
def _cos(run: Any, x: Pair) -> Pair:
    return Pair(torch.cos(x.re) * torch.cosh(x.im), -torch.sin(x.re) * torch.sinh(x.im))


@rule("sinh")
def _sinh(run: Any, x: Pair) -> Pair:
    return Pair(torch.sinh(x.re) * torch.cos(x.im), torch.cosh(x.re) * torch.sin(x.im))


@rule("cosh")
def _cosh(run: Any, x: Pair) -> Pair:
    return Pair(torch.cosh(x.re) * torch.cos(x.im), torch.sinh(x.re) * torch.sin(x.im))


@rule("tanh")
def _tanh(run: Any, x: Pair) -> Any:
    return _div(run, _sinh(run, x), _cosh(run, x))


@rule("sigmoid")
def _sigmoid(run: Any, x: Pair) -> Any:
    falling = _exp(run, Pair(-x.re, -x.im))
    return _reciprocal(run, Pair(1 + falling.re, falling.im))


@rule("pow", "square")
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
    return _exp(run, _mul(run, _log(run, as_pair(x)), exponent))


@rule("mm", "bmm", "matmul", "mv", "dot", "vdot")
def _matmul(run: Any, x: Any, y: Any) -> Any:
    def times(a: Tensor, b: Tensor) -> Tensor:
        return torch.matmul(a, b)

    x = _conj(run, x) if run._node.target._schema.name.endswith("vdot") else x
    if not isinstance(x, Pair):
        return Pair(times(x, y.re), times(x, y.im))
    if not isinstance(y, Pair):
        return Pair(times(x.re, y), times(x.im, y))
    return Pair(times(x.re, y.re) - times(x.im, y.im), times(x.re, y.im) + times(x.im, y.re))


@rule("addmm", "baddbmm")
def _addmm(run: Any, bias: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    found = _mul(run, _matmul(run, x, y), alpha)
    return _sum_of(found, _mul(run, as_pair(bias), beta))


@rule("linear")
def _linear(run: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    def turned(w: Any) -> Any:
        return Pair(w.re.mT, w.im.mT) if isinstance(w, Pair) else w.mT

    found = _matmul(run, x, turned(weight))
    return found if bias is None else _sum_of(found, as_pair(bias))


def _sum_of(x: Pair, y: Pair) -> Pair:
    return Pair(x.re + y.re, x.im + y.im)


@rule("prod")
def _prod(run: Any, x: Pair, dim: int = -1, keepdim: bool = False) -> Any:
    first, *others = (Pair(*both) for both in zip(x.re.unbind(dim), x.im.unbind(dim), strict=True))
    for each in others:
        first = _mul(run, first, each)
    return Pair(first.re.unsqueeze(dim), first.im.unsqueeze(dim)) if keepdim else first


@rule("linalg_vector_norm", "norm")
def _norm(run: Any, x: Pair, *args: Any, **kwargs: Any) -> Tensor:
    found: Tensor = run._node.target(_abs(run, x), *args, **kwargs)
    return found


@rule("var", "std")
def _var(run: Any, x: Pair, *args: Any, **kwargs: Any) -> Tensor:
    name = run._node.target._schema.name
    re, im = (torch.var(part, *args, **kwargs) for part in (x.re, x.im))
    return torch.sqrt(re + im) if name.endswith("std") else re + im


@rule("eq", "ne")
def _eq(run: Any, x: Any, y: Any) -> Tensor:
    x, y = as_pair(x), as_pair(y)
    same = (x.re == y.re) & (x.im == y.im)
    return ~same if run._node.target._schema.name.endswith("ne") else same


@rule("isnan", "isinf")
def _either(run: Any, x: Pair) -> Tensor:
    found: Tensor = run._node.target(x.re) | run._node.target(x.im)
    return found


@rule("isfinite")
def _finite(run: Any, x: Pair) -> Tensor:
    return torch.isfinite(x.re) & torch.isfinite(x.im)


@rule("_to_copy", "to", "type_as", "cfloat", "view_dtype")
def _to_copy(run: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    wanted = run._node.meta["val"].dtype
    if not wanted.is_complex:
        return (x.re if isinstance(x, Pair) else x).to(wanted)
    x, wanted = as_pair(x), _REAL_TYPES[wanted]
    return Pair(x.re.to(wanted), x.im.to(wanted))


@rule("zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty", "ones_like", "empty_like")
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


@rule("scalar_tensor")
def _scalar(run: Any, value: Any, **kwargs: Any) -> Pair:
    return as_pair(value)


@rule("copy", "copy_")
def _copy(run: Any, x: Pair, source: Any, *args: Any) -> Pair:
    source = as_pair(source)
    if run._node.target._schema.name.endswith("_"):
        return Pair(x.re.copy_(source.re), x.im.copy_(source.im))
    return Pair(source.re.expand(x.shape).clone(), source.im.expand(x.shape).clone())
