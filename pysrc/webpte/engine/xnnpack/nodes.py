"""The kinds of XNNPACK's nodes, and the functions that lower each."""

from __future__ import annotations

from webpte.engine.format.xnnpack import XnnNode
from webpte.engine.xnnpack import elementwise, linear, movement, spatial
from webpte.engine.xnnpack.lowering import Lowering, NodeLowering


def refuse(lowering: Lowering, node: XnnNode) -> None:
    """Lower a node that XNNPACK's own delegate has no kernel for either."""
    lowering.refuse(node, "")


NODES: dict[str, NodeLowering] = {
    **elementwise.NODES,
    **movement.NODES,
    **spatial.NODES,
    **linear.NODES,
    "ScaledDotProductAttention": refuse,
}
