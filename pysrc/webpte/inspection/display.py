"""Tables of programs for notebooks; the results of `inspection` have tables already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.inspection.report.report import ReportTable


def program_table(name: str, methods: Mapping[str, MethodInfo]) -> ReportTable:
    """Build the table of a program's methods: inputs, outputs and sizes."""
    rows = [
        (
            method.name,
            _values(method.inputs),
            _values(method.outputs),
            sum(method.ops.values()) + sum(method.kernels_outside.values()),
            method.constant_bytes,
        )
        for method in methods.values()
    ]
    return ReportTable(name, ("method", "inputs", "outputs", "calls", "bytes of constants"), rows)


def _values(values: Sequence[TensorInfo | ScalarInfo]) -> str:
    return ", ".join(map(str, values)) or "none"
