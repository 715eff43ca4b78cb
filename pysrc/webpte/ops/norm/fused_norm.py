"""Batch normalization of what an element-wise op gives, for exports whose norm is behind it.

bent_norm   an element-wise op of floats, then batch normalization with given statistics
"""

from __future__ import annotations

from webpte.ops.core.args import Args
from webpte.ops.core.fused_call import lower_parts, parts_of, register_fusion
from webpte.ops.core.records import Dispatch
from webpte.ops.elementwise import unary
from webpte.ops.norm.norm import lower_batch_norm

BENT_NORM = "webpte.bent_norm"
BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"
ACTIVATIONS = frozenset({*unary.FLOAT_UNARY, unary.GELU_NAME})


def lower_bent_norm(args: Args) -> list[Dispatch]:
    (op, bend), (_, norm) = parts_of(args)
    found = unary.float_formula(op.name, bend)
    assert found is not None, "see ACTIVATIONS"
    given = bend.tensor("self")
    if given.dtype != bend.out.dtype:
        return lower_parts(args)
    return lower_batch_norm(norm, given, *found)


register_fusion(BENT_NORM, lower_bent_norm)
