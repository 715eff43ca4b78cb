"""Fuses several calls into a call of a single kernel: fewer dispatches, less memory.

`fuse` is the pass. `engine.py` has the queries of the rules and the conditions on matches; each
other module adds its rules by `@rule`. `ops/core/fused_call.py` defines a fused call; the
`fused_*.py` of the families have the shapes, references and kernels.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from webpte.engine.graph.graph import Graph
from webpte.engine.rewrite.fusion.engine import apply, rounds

__all__ = ["fuse"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def fuse(graph: Graph) -> Graph:
    """Return the graph with fused calls and the same results, inputs and outputs."""
    for rules in rounds():
        graph = apply(graph, rules)
    return graph
