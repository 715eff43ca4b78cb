"""What `Program.graph`, `values`, `compare`, `trace` and `memory` give: see docs/inspecting.md."""

from __future__ import annotations

from webpte.insight.comparison import (
    CallComparison,
    Comparison,
    Departure,
    KeptValues,
    NamedArray,
    OutputComparison,
    RunValues,
)
from webpte.insight.constants import Histogram, StoredConstant
from webpte.insight.difference import ArrayFacts, Difference, Tolerance, Window
from webpte.insight.memory import Buffer, MemoryReport, Tenant
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
from webpte.insight.timeline import Rates, Row, RowPair, Span, TimedStep, Trace
from webpte.insight.work import Work

__all__ = [
    "Argument",
    "ArrayFacts",
    "Buffer",
    "CallComparison",
    "Comparison",
    "Departure",
    "Difference",
    "Edge",
    "GraphValue",
    "Histogram",
    "KeptValues",
    "Kernel",
    "LayerGroup",
    "MemoryReport",
    "MethodGraph",
    "NamedArray",
    "Node",
    "OutputComparison",
    "Rates",
    "Report",
    "Row",
    "RowPair",
    "RunValues",
    "Span",
    "StoredConstant",
    "Table",
    "Tenant",
    "TimedStep",
    "Tolerance",
    "Trace",
    "Window",
    "Work",
]
