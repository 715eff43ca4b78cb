"""The values of constant methods, for the description of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page.shared.html.units import number_text, shape_text
from page.shared.outputs.renderers.base import Output
from webpte import MethodInfo, Program, TensorInfo


async def read_constant_methods(
    methods: Mapping[str, MethodInfo], program: Program
) -> dict[str, str]:
    """Read constant methods that return tensors, which the description does not hold."""
    found = {}
    for info in methods.values():
        if info.is_constant and any(isinstance(out, TensorInfo) for out in info.outputs):
            try:
                values = await program.run(info.name)
            except Exception as error:
                found[info.name] = f"could not be read: {error}"
            else:
                found[info.name] = ", ".join(map(_value_text, values))
    return found


def _value_text(value: Any) -> str:
    """Return the value of a constant method, shortened."""
    array = Output(0, "", value).array
    if array.size == 1:
        return number_text(array.reshape(-1)[0].item())
    return f"{array.dtype.name} · {shape_text(array.shape)}"
