"""Batch normalization of an activation, for exports whose batch norm follows the activation.

activation_batch_norm   an element-wise float op, then batch normalization with given statistics
"""

from __future__ import annotations

from webpte.ops.core.args import Args
from webpte.ops.core.fused_call import lower_parts, parts_of, register_fusion
from webpte.ops.core.records import Dispatch
from webpte.ops.elementwise import unary
from webpte.ops.norm.norm import lower_batch_norm

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


register_fusion(ACTIVATION_BATCH_NORM, lower_activation_batch_norm)
