"""Several calls become one where one kernel does the work of all: fewer dispatches, less memory.

`fuse` is the pass. `core.py` says what a rule may ask and what it must keep to, the other modules
have the rules, one function each. What a fused call is, in shapes, references and kernels, is in
`ops/core/fused_call.py` and the families beside it.
"""

from __future__ import annotations

from webpte.graph.graph import Graph
from webpte.rewrite.fusion.attention import attention_block
from webpte.rewrite.fusion.convolutions import convolution_block
from webpte.rewrite.fusion.elementwise import elementwise_chain
from webpte.rewrite.fusion.engine import Rule, apply
from webpte.rewrite.fusion.linear_q4 import add_after_gemm, gated_gemms, norm_before_gemm
from webpte.rewrite.fusion.matmul import activation_after_gemm, gemm_qkv
from webpte.rewrite.fusion.norms import activation_batch_norm
from webpte.rewrite.fusion.softmax_attention import softmax_attention

__all__ = ["RULES", "fuse"]

# Rules of a row look at a graph together; those of the next one at what is left.
RULES: tuple[tuple[Rule, ...], ...] = (
    (
        *(attention_block, softmax_attention),
        *(gated_gemms, add_after_gemm, norm_before_gemm, convolution_block),
        *(activation_after_gemm, gemm_qkv, activation_batch_norm),
    ),
    (elementwise_chain,),
)


def fuse(graph: Graph) -> Graph:
    """The graph with fused calls; its meaning, its inputs and its outputs stay."""
    for rules in RULES:
        graph = apply(graph, rules)
    return graph
