"""The table from operator names to their definitions.

A family module calls `register` once per table row; importing `ops` imports every family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte.engine.graph.graph import Call, Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch, RelowerGuard, SymIntBound
from webpte.engine.ops.core.signature import Signature, parse_signature
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.shapes import Dims

ShapeFunction = Callable[[Args], Sequence[Dims]]
Lowering = Callable[[Args], Sequence[Dispatch]]
Bounds = Callable[[Args], Sequence[SymIntBound]]
Guards = Callable[[Args], Sequence[RelowerGuard]]
Reference = Callable[[Args], np.ndarray | Sequence[np.ndarray]]
ScalarFunction = Callable[[Args], int]


def no_bounds(args: Args) -> list[SymIntBound]:
    return []


def _nothing(args: Args) -> list[Any]:
    return []


@dataclass(frozen=True)
class OpDef:
    """A single operator.

    shape       returns live output dims, one entry per output; checks the inputs' shapes
    lower       returns the dispatches at the live state; pure
    bounds      returns ranges of live SymInts, for kernels and for the reference alike
    guards      returns at most one guard under which new SymInt values need no relowering
    reference   computes the op in NumPy: oracle of the tests, and implementation for device="numpy"
    alias_of    name of the tensor argument whose memory the output may share (a flat view)
    mutates     names of the tensor arguments that the op writes to (references write in place)
    scalar      computes, on the host, the value of an op that yields a SymInt; no dispatches
    """

    name: str
    signature: Signature
    shape: ShapeFunction
    lower: Lowering
    reference: Reference
    alias_of: str | None = None
    mutates: tuple[str, ...] = field(default=())
    scalar: ScalarFunction | None = None
    bounds: Bounds = no_bounds
    guards: Guards = _nothing

    def bind(
        self,
        call: Call,
        graph: Graph,
        live: LiveState,
        arrays: dict[int, np.ndarray] | None = None,
        target: Target = GPU,
    ) -> Args:
        """Return the arguments of a call to this operator."""
        return Args(self.signature, call, graph, live, arrays, target)


# Namespaces that older exporters left out.
NAMESPACES = ("quantized_decomposed", "torchao", "et_vk")

_REGISTRY: dict[str, OpDef] = {}
_FUSED: dict[str, OpDef] = {}


def register(
    name: str,
    signature: str,
    *,
    shape: ShapeFunction,
    lower: Lowering,
    reference: Reference,
    alias_of: str | None = None,
    mutates: tuple[str, ...] = (),
    bounds: Bounds = no_bounds,
    guards: Guards = _nothing,
) -> None:
    """Add an operator; a name can be registered once."""
    if name in _REGISTRY:
        raise ValueError(f"{name} is registered twice")
    parsed = parse_signature(signature)
    _REGISTRY[name] = OpDef(
        name,
        parsed,
        shape,
        lower,
        reference,
        alias_of,
        mutates,
        bounds=bounds,
        guards=guards,
    )


def register_scalar(name: str, signature: str, scalar: ScalarFunction) -> None:
    """Add an operator that yields a SymInt."""
    if name in _REGISTRY:
        raise ValueError(f"{name} is registered twice")
    _REGISTRY[name] = OpDef(
        name, parse_signature(signature), _nothing, _nothing, _nothing, scalar=scalar
    )


def register_fused(name: str, definition: OpDef) -> None:
    """Add the definition of a fused call's name; files cannot name it."""
    if name in _FUSED:
        raise ValueError(f"{name} is registered twice")
    _FUSED[name] = definition


def definition_of(call: Call) -> OpDef | None:
    """Return the definition of a call's operator, fused or not; None for an unknown operator."""
    return _FUSED.get(call.name) if call.parts else lookup(call.name)


def lookup(name: str) -> OpDef | None:
    """Return the definition of an operator, or None.

    Exporters drop the namespace of raw torch ops (`update_cache.default`); the namespaced form
    (`llama.update_cache.default`) names the same op. ExecuTorch 0.6 and 0.7 dropped the namespace
    of other ops, too (`quantize_per_tensor.default`).
    """
    found = _REGISTRY.get(name) or _REGISTRY.get(name.partition(".")[2])
    if found is None:
        named = (_REGISTRY.get(f"{namespace}.{name}") for namespace in NAMESPACES)
        return next(filter(None, named), None)
    return found


def registered_names() -> list[str]:
    return sorted(_REGISTRY)
