"""Measures how far PyTorch's results move by rounding: no export can be more accurate.

Dynamic quantization rounds activations to 256 levels. For an activation between two levels, the
order of a sum decides the level, which changes the results by thousands of times a float's
rounding. So the tolerance is measured: by the same calls, with errors of the size of rounding at
every linear layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import numpy as np

from webpte_export.suite_writer import Call, Tolerance

_DYNAMIC = ("8da4w",)  # quantizations of weights and activations
_RUNS = 4
_RELATIVE = 1e-6  # per element, as a sum of thousands of products varies with its order
_MARGIN = 2.0  # a few runs do not meet the largest difference

Eager = Callable[[Any, Sequence[tuple[Any, ...]]], list[Call]]


class Method(Protocol):
    """A method to export: its module, its calls, and optionally its tolerance."""

    @property
    def module(self) -> Any: ...

    @property
    def calls(self) -> Sequence[tuple[Any, ...]]: ...

    @property
    def tolerance(self) -> Tolerance | None: ...


def tolerances(
    methods: Mapping[str, Method],
    expected: Mapping[str, Sequence[Call]],
    usual: Tolerance,
    quantize: str | None,
    eager: Eager,
) -> dict[str, Tolerance]:
    """Return the tolerance of each method: its own, or the default, wider if necessary.

    expected   PyTorch's results; `eager` computes them from a module and its calls
    """
    return {
        name: method.tolerance
        or (_measured(method, expected[name], usual, eager) if quantize in _DYNAMIC else usual)
        for name, method in methods.items()
    }


def _measured(
    method: Method, expected: Sequence[Call], usual: Tolerance, eager: Eager
) -> Tolerance:
    farthest = 0.0
    for seed in range(_RUNS):
        with rounded_otherwise(method.module, seed):
            farthest = max(farthest, distance(expected, eager(method.module, method.calls)))
    return Tolerance(max(usual.atol, _MARGIN * farthest), usual.rtol)


@contextmanager
def rounded_otherwise(module: Any, seed: int) -> Iterator[None]:
    """Change the input of every linear layer by errors of the size of rounding."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def change(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        x, *others = given
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        return (x * (1 + _RELATIVE * noise), *others)

    with ExitStack() as hooks:
        for one in module.modules():
            if isinstance(one, torch.nn.Linear):
                hooks.callback(one.register_forward_pre_hook(change).remove)
        yield


def distance(expected: Sequence[Call], found: Sequence[Call]) -> float:
    """Return the largest finite difference between two results of the same calls."""
    farthest = 0.0
    for call, again in zip(expected, found, strict=True):
        for one, other in zip(call.expected, again.expected, strict=True):
            if one is not None and other is not None and one.dtype.kind == "f":
                finite = np.isfinite(one) & np.isfinite(other)
                apart = np.abs(one[finite] - other[finite])
                farthest = max(farthest, float(np.max(apart, initial=0.0)))
    return farthest
