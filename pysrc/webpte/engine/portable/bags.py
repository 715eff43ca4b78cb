"""The kernel of embedding bags, which are described in ops/move/embedding_bag.py."""

from __future__ import annotations

from webpte.engine.ops.move.embedding_bag import embedding_bag
from webpte.engine.portable.registry import INDICES, register

register(
    "aten::_embedding_bag.out",
    "weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, "
    "include_last_offset, padding_idx",
    embedding_bag,
    outputs=4,
    op="aten._embedding_bag.default",
    apart=dict.fromkeys(("indices", "offsets", "out1", "out2", "out3"), INDICES),
)
