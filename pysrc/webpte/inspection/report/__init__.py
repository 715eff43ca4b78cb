"""Results of `Program.graph`, `values`, `compare`, `trace`, `memory` (docs/use/inspecting.md)."""

from __future__ import annotations

from webpte.engine.format.frames import Frame
from webpte.inspection.report.check import Check, WorstElement
from webpte.inspection.report.comparison import (
    CallComparison,
    Comparison,
    FirstMismatch,
    KeptValues,
    NamedArray,
    OutputComparison,
    RunValues,
)
from webpte.inspection.report.difference import ArrayFacts, Difference, ElementWindow, Tolerance
from webpte.inspection.report.forecast import PHONE_BUDGET, MemoryForecast
from webpte.inspection.report.memory import Buffer, MemoryReport, PlacedTensor
from webpte.inspection.report.method_graph import (
    Argument,
    Edge,
    GraphKernel,
    GraphValue,
    LayerGroup,
    MethodGraph,
    Node,
    links,
)
from webpte.inspection.report.report import Report, ReportTable
from webpte.inspection.report.timeline import (
    Rates,
    RowPair,
    TimedStep,
    TimelineRow,
    TimeSpan,
    Trace,
)
from webpte.inspection.report.weight_stats import Histogram, StoredConstant
from webpte.inspection.report.work import Work

__all__ = [
    "PHONE_BUDGET",
    "Argument",
    "ArrayFacts",
    "Buffer",
    "CallComparison",
    "Check",
    "Comparison",
    "Difference",
    "Edge",
    "ElementWindow",
    "FirstMismatch",
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
    "PlacedTensor",
    "Rates",
    "Report",
    "ReportTable",
    "RowPair",
    "RunValues",
    "StoredConstant",
    "TimeSpan",
    "TimedStep",
    "TimelineRow",
    "Tolerance",
    "Trace",
    "Work",
    "WorstElement",
    "links",
]
