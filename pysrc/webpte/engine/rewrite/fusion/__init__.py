"""Fuses several calls into a call of a single kernel: fewer dispatches, less memory.

`fuse` is the pass. `engine.py` has the queries of the rules and the conditions on matches; the
other modules have the rules, a function each. `ops/core/fused_call.py` defines a fused call; the
`fused_*.py` of the families have the shapes, references and kernels.
"""

from __future__ import annotations

from webpte.engine.graph.graph import Graph
from webpte.engine.rewrite.fusion.attention import attention_block
from webpte.engine.rewrite.fusion.computed_row import computed_row
from webpte.engine.rewrite.fusion.convolutions import convolution_block
from webpte.engine.rewrite.fusion.elementwise import elementwise_chain
from webpte.engine.rewrite.fusion.engine import Rule, apply
from webpte.engine.rewrite.fusion.heads import head_attention
from webpte.engine.rewrite.fusion.linear_epilogue import linear_epilogue
from webpte.engine.rewrite.fusion.linear_q4 import add_after_gemm, gated_gemms, norm_before_gemm
from webpte.engine.rewrite.fusion.matmul import activation_after_gemm, gemm_qkv
from webpte.engine.rewrite.fusion.norms import activation_batch_norm, add_after_norm
from webpte.engine.rewrite.fusion.softmax_attention import softmax_attention

__all__ = ["RULES", "fuse"]

# The rules of a row are applied together; the next row sees their result.
RULES: tuple[tuple[Rule, ...], ...] = (
    (
        *(computed_row, head_attention, attention_block, softmax_attention),
        *(gated_gemms, linear_epilogue, add_after_gemm, norm_before_gemm, convolution_block),
        *(activation_after_gemm, gemm_qkv, activation_batch_norm, add_after_norm),
    ),
    (elementwise_chain,),
)


def fuse(graph: Graph) -> Graph:
    """Return the graph with fused calls and the same results, inputs and outputs."""
    for rules in RULES:
        graph = apply(graph, rules)
    return graph
