"""docs/use/inspecting.md: the names in it exist. tests/unit/docs runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

import webpte

DOCUMENT = (Path(__file__).parents[4] / "docs/use/inspecting.md").read_text(encoding="utf-8")


def test_every_attribute_in_the_text_exists() -> None:
    types = {
        "graph": webpte.report.MethodGraph,
        "values": webpte.report.RunValues,
        "comparison": webpte.report.Comparison,
        "trace": webpte.report.Trace,
        "memory": webpte.report.MemoryReport,
        "program": webpte.Program,
    }
    named = re.findall(r"`(\w+)\.(\w+)", DOCUMENT)
    found = [(owner, name) for owner, name in named if owner in types]
    assert len(found) > 5
    for owner, name in found:
        fields = getattr(types[owner], "__dataclass_fields__", {})
        assert name in fields or hasattr(types[owner], name), (owner, name)
