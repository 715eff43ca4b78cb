"""Normalizations fused with their neighbours.

activation_batch_norm   an element-wise float op, then batch normalization with given statistics
norm_add                an RMS norm, then the sum with a residual
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import Part, lower_parts, parts_of, register_fusion
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.elementwise import unary
from webpte.engine.ops.norm.norm import lower_batch_norm, lower_rms_norm

NORM_ADD = "webpte.norm_add"
ADD, RMS_NORM = "aten.add.Tensor", "et_vk.rms_norm.default"
LAYER_NORM = "aten.native_layer_norm.default"
ACTIVATION_BATCH_NORM = "webpte.activation_batch_norm"
BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"


def lower_activation_batch_norm(args: Args) -> list[Dispatch]:
    """Lower an activation and the batch normalization after it."""
    (op, activation), (_, norm) = parts_of(args)
    found = unary.float_formula(op.name, activation)
    assert found is not None, "see unary.ACTIVATIONS"
    given = activation.tensor("self")
    if given.dtype != activation.out.dtype:
        return lower_parts(args)
    return lower_batch_norm(norm, given, *found)


@dataclass(frozen=True)
class NormedSum:
    """The sum of an RMS norm and a residual: out = residual + x / rms(x) * gain."""

    x: TensorArg
    gain: TensorArg
    eps: float
    residual: TensorArg
    out: TensorArg


def normed_sum_of(parts: Sequence[Part]) -> NormedSum | None:
    """Return the sum of a norm and a residual; None if the addition broadcasts or promotes."""
    (_, norm), (_, addition) = parts[0], parts[-1]
    made = {part.out.id for _, part in parts}
    both = addition.tensor("self"), addition.tensor("other")
    residual = next(tensor for tensor in both if tensor.id not in made)
    sizes = {tensor.numel for tensor in (norm.out, residual, addition.out)}
    types = {tensor.dtype for tensor in (norm.out, residual, addition.out)}
    if len(sizes) > 1 or len(types) > 1:
        return None
    gain, eps = norm.tensor("weight"), norm.number("eps")
    return NormedSum(norm.tensor("input"), gain, eps, residual, addition.out)


def norm_add_dispatches(parts: Sequence[Part]) -> list[Dispatch] | None:
    """Return a dispatch for a norm, views and an addition, or None if no kernel takes them."""
    total = normed_sum_of(parts)
    return None if total is None else lower_rms_norm(parts[0][1], total.residual, total.out)


def lower_norm_add(args: Args) -> list[Dispatch]:
    """Lower an RMS norm and the sum with a residual."""
    found = norm_add_dispatches(list(parts_of(args)))
    return lower_parts(args) if found is None else found


register_fusion(ACTIVATION_BATCH_NORM, lower_activation_batch_norm)
register_fusion(NORM_ADD, lower_norm_add)
