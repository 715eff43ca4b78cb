"""Lists the operators beyond Core ATen that webpte has kernels for."""

from __future__ import annotations

import functools
from typing import Any

import torch

from webpte.engine.portable import kernel_names


@functools.cache
def runnable() -> tuple[Any, ...]:
    """Return PyTorch's operators that a kernel of webpte computes, outside of delegates or inside.

    The file names the operator's variant with `out`.
    """
    from executorch.exir.operator.convert import to_out_variant

    kernels = {*kernel_names()}
    packets = {name.partition("::")[2].partition(".")[0] for name in kernels if "aten::" in name}
    found = []
    for packet in sorted(packets):
        for overload in _overloads(packet):
            if overload._schema.is_mutable:
                continue
            try:
                out, _ = to_out_variant(overload)
            except (RuntimeError, AssertionError, AttributeError):
                continue
            if out.name() in kernels:
                found.append(overload)
    return tuple(found)


def _overloads(packet: str) -> list[Any]:
    operator = getattr(torch.ops.aten, packet, None)
    return [] if operator is None else [getattr(operator, name) for name in operator.overloads()]
