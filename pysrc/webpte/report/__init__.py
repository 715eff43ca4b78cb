"""What `Program.graph`, `values`, `compare`, `trace` and `memory` give: see docs/inspecting.md."""

from __future__ import annotations

from webpte.report.comparison import (
    CallComparison,
    Comparison,
    Departure,
    KeptValues,
    NamedArray,
    OutputComparison,
    RunValues,
)
from webpte.report.difference import ArrayFacts, Difference, Tolerance, Window
from webpte.report.memory import Buffer, MemoryReport, Tenant
from webpte.report.method_graph import (
    Argument,
    Edge,
    GraphValue,
    Kernel,
    LayerGroup,
    MethodGraph,
    Node,
)
from webpte.report.report import Report, Table
from webpte.report.timeline import Rates, Row, RowPair, Span, TimedStep, Trace
from webpte.report.weight_stats import Histogram, StoredConstant
from webpte.report.work import Work

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
