"""Signatures of operators: the names and kinds of their arguments.

A signature reads like a function's:

    "self: tensor, dims: ints?, keepdim: bool = False -> tensor"

    tensor   a tensor             number   int, float or bool; a SymInt counts as its live value
    int      an integer, likewise; an integral double counts, as the exporter merges 1 and 1.0
    ints     a list of integers, SymInt members by their live values
    bool, str, floats, bools
    tensors  a list of tensors, null members as None
    live     an int or SymInt that the kernel reads from a uniform: a new value needs no relowering
    any      ignored (dtype, layout, device: the output tensor has all that matters)

A `?` allows null, `= value` allows the argument to be absent. After the arrow stands the kind of
the call's last id: `tensor`, `tensors` for several outputs, `symint`, or `any` for a dummy.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_PARAMETER = re.compile(r"^(\w+): (\w+)(\?)?(?: = (.+))?$")
_KINDS = {"tensor", "number", "int", "ints", "bool", "str", "floats", "bools"} | {
    "tensors",
    "live",
    "any",
}


@dataclass(frozen=True)
class Parameter:
    """One declared argument."""

    name: str
    kind: str
    nullable: bool
    optional: bool
    default: Any

    @property
    def decides(self) -> bool:
        """Whether a new value needs a new lowering, not just a new uniform."""
        return self.kind not in ("live", "any")


@dataclass(frozen=True)
class Signature:
    """The declared arguments of an op, and the kind of its output."""

    parameters: tuple[Parameter, ...]
    output: str

    @cached_property
    def positions(self) -> dict[str, int]:
        return {parameter.name: i for i, parameter in enumerate(self.parameters)}

    @cached_property
    def required(self) -> int:
        return sum(not parameter.optional for parameter in self.parameters)


def parse_signature(text: str) -> Signature:
    """Parse a declaration; raise ValueError, at import, where it is malformed."""
    inputs, _, output = text.partition(" -> ")
    parameters = []
    for part in filter(None, (part.strip() for part in inputs.split(","))):
        match = _PARAMETER.match(part)
        if match is None or match[2] not in _KINDS:
            raise ValueError(f"not a parameter declaration: {part!r} in {text!r}")
        default = ast.literal_eval(match[4]) if match[4] else None
        parameters.append(
            Parameter(match[1], match[2], bool(match[3]), match[4] is not None, default)
        )
    if output not in {"tensor", "tensors", "symint", "any"}:
        raise ValueError(f"no output in {text!r}")
    return Signature(tuple(parameters), output)
