"""What `Program.graph`, `compare`, `trace` and `memory` give: see docs/inspecting.md."""

from __future__ import annotations

from webpte.insight.constants import Histogram, StoredConstant
from webpte.insight.method_graph import (
    Argument,
    Edge,
    GraphValue,
    Kernel,
    LayerGroup,
    MethodGraph,
    Node,
)
from webpte.insight.report import Report, Table

__all__ = [
    "Argument",
    "Edge",
    "GraphValue",
    "Histogram",
    "Kernel",
    "LayerGroup",
    "MethodGraph",
    "Node",
    "Report",
    "StoredConstant",
    "Table",
]
