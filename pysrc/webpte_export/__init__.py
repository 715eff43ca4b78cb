"""Exports PyTorch models for webpte, on the host, and checks that they run.

from webpte_export import export

report = export(model, (x,), "out/model")       # writes out/model.pte, out/model.suite, ...
print(report.text())

Exports need PyTorch and ExecuTorch, which `python3 serve.py export` sets up in a separate
environment; importing the package needs neither. docs/use/export.md explains the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webpte_export.errors import ExportError
    from webpte_export.exporter import export
    from webpte_export.llm import export_llm
    from webpte_export.quantize import QUANTIZATIONS
    from webpte_export.report import HostOp, Report

__all__ = ["QUANTIZATIONS", "ExportError", "HostOp", "Report", "export", "export_llm"]

_PLACES = {
    "ExportError": "errors",
    "export": "exporter",
    "export_llm": "llm",
    "QUANTIZATIONS": "quantize",
    "HostOp": "report",
    "Report": "report",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the table of recipes needs no NumPy."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
