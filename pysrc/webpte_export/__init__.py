"""Exports PyTorch models for webpte, on the host, and checks that they run.

from webpte_export import export

report = export(model, (x,), "out/model")       # writes out/model.pte, out/model.suite, ...
print(report.text())

Exports need PyTorch and ExecuTorch, which `python3 serve.py export` sets up in a separate
environment; importing the package needs neither. docs/exporting.md explains the rest.
"""

from __future__ import annotations

from webpte_export.errors import ExportError
from webpte_export.exporter import export
from webpte_export.llm import export_llm
from webpte_export.quantize import QUANTIZATIONS
from webpte_export.report import HostOp, Report

__all__ = ["QUANTIZATIONS", "ExportError", "HostOp", "Report", "export", "export_llm"]
