"""Results of `Program.graph`, `values`, `compare`, `trace` and `memory`: see docs/inspecting.md."""

from __future__ import annotations

from webpte.format.frames import Frame
from webpte.report.check import Check, WorstElement
from webpte.report.comparison import (
    CallComparison,
    Comparison,
    Departure,
    KeptValues,
    NamedArray,
    OutputComparison,
    RunValues,
)
from webpte.report.difference import ArrayFacts, Difference, ElementWindow, Tolerance
from webpte.report.forecast import PHONE_BUDGET, MemoryForecast
from webpte.report.memory import Buffer, MemoryReport, Tenant
from webpte.report.method_graph import (
    Argument,
    Edge,
    GraphKernel,
    GraphValue,
    LayerGroup,
    MethodGraph,
    Node,
    links,
)
from webpte.report.report import Report, ReportTable
from webpte.report.timeline import Rates, RowPair, TimedStep, TimelineRow, TimeSpan, Trace
from webpte.report.weight_stats import Histogram, StoredConstant
from webpte.report.work import Work

__all__ = [
    "PHONE_BUDGET",
    "Argument",
    "ArrayFacts",
    "Buffer",
    "CallComparison",
    "Check",
    "Comparison",
    "Departure",
    "Difference",
    "Edge",
    "ElementWindow",
    "Frame",
    "GraphKernel",
    "GraphValue",
    "Histogram",
    "KeptValues",
    "LayerGroup",
    "MemoryForecast",
    "MemoryReport",
    "MethodGraph",
    "NamedArray",
    "Node",
    "OutputComparison",
    "Rates",
    "Report",
    "ReportTable",
    "RowPair",
    "RunValues",
    "StoredConstant",
    "Tenant",
    "TimeSpan",
    "TimedStep",
    "TimelineRow",
    "Tolerance",
    "Trace",
    "Work",
    "WorstElement",
    "links",
]
