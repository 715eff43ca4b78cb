"""Several calls become one where one kernel does the work of all: fewer dispatches, less memory.

`fuse` is the pass. `core.py` says what a rule may ask and what it must keep to, the other modules
have the rules, one function each. What a fused call is, in shapes, references and kernels, is in
`ops/fused.py` and the families beside it.
"""

from __future__ import annotations

from webpte.fusion.attention import attention_block
from webpte.fusion.convolutions import add_after_conv
from webpte.fusion.core import Rule, apply
from webpte.fusion.elementwise import elementwise_chain
from webpte.fusion.products import add_after_product, gated_products, norm_before_product
from webpte.graph import Graph

__all__ = ["RULES", "fuse"]

# Rules of a row look at a graph together; those of the next one at what is left.
RULES: tuple[tuple[Rule, ...], ...] = (
    (attention_block, gated_products, add_after_product, norm_before_product, add_after_conv),
    (elementwise_chain,),
)


def fuse(graph: Graph) -> Graph:
    """The graph with fused calls; its meaning, its inputs and its outputs stay."""
    for rules in RULES:
        graph = apply(graph, rules)
    return graph
