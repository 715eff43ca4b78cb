"""docs/reference/gpus.md has the figures of all results that lie beside it."""

from __future__ import annotations

from webpte.llm.gpu_figures.result import read_result
from webpte_host.site.gpu_table import PAGE, RESULTS, with_table


def test_the_table_is_made_of_the_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_table(text)
    assert text.count("TFLOP/s") == 1
    results = [read_result(path.read_text("utf-8")) for path in RESULTS.glob("*.json")]
    assert len(results) > 1
    assert all(f"| {one.adapter}; " in text for one in results)
