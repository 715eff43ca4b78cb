"""The kinds of XNNPACK's nodes, and the functions that lower each."""

from __future__ import annotations

from webpte.engine.xnnpack import elementwise, linear, movement, products, spatial
from webpte.engine.xnnpack.lowering import NodeLowering

NODES: dict[str, NodeLowering] = {
    **elementwise.NODES,
    **movement.NODES,
    **spatial.NODES,
    **linear.NODES,
    **products.NODES,
}
