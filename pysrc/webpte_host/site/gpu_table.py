"""Writes the table of docs/reference/gpus.md from the results in docs/reference/gpus/.

PYTHONPATH=pysrc python -m webpte_host.site.gpu_table
"""

from __future__ import annotations

from pathlib import Path

from webpte.llm.gpu_figures.result import BenchResult, read_result
from webpte_host.base.layout import ROOT

PAGE, RESULTS = ROOT / "docs/reference/gpus.md", ROOT / "docs/reference/gpus"
_BEGIN, _END = "<!-- results -->\n", "<!-- end of results -->\n"
# Headings, and the beginnings of names of rows; of several variants, the best is taken.
_COLUMNS = (
    ("float32, TFLOP/s", "peak: float32"),
    ("int8, TOP/s", "peak: packed int8"),
    ("memory, GB/s", "peak: memory"),
    ("dispatch, µs", "a dispatch"),
    ("Llama, prompt", "Llama 1B, 2 layers, {}: a prompt"),
    ("Llama, decode", "Llama 1B, 2 layers, {}: decode"),
    ("Qwen3, prompt", "Qwen3 0.6B, 2 layers, {}: a prompt"),
    ("Qwen3, decode", "Qwen3 0.6B, 2 layers, {}: decode"),
    ("ResNet, ms", "ResNet-18, blocks, {}: a call"),
)
_VARIANTS = ("float32", "matrices", "matrices of f16")


def table() -> str:
    """Return the table in Markdown, the fastest memory first."""
    results = [read_result(path.read_text("utf-8")) for path in RESULTS.glob("*.json")]
    results.sort(key=lambda one: -_value(one, "peak: memory"))
    headings = ["device", *(heading for heading, _ in _COLUMNS)]
    rows = [headings, ["---"] * len(headings)]
    rows += [
        [f"{one.adapter}; {_place(one.browser)}; {one.date}", *(_cell(one, n) for _, n in _COLUMNS)]
        for one in results
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _place(browser: str) -> str:
    """Return the browser that a user agent names."""
    for word, name in (("Firefox/", "Firefox"), ("Chrome/", "Chromium"), ("Version/", "Safari")):
        if word in browser:
            return f"{name} {browser.split(word)[1].split('.', maxsplit=1)[0]}"
    return browser


def _value(result: BenchResult, name: str) -> float:
    return next((row.value for row in result.rows if row.name.startswith(name)), 0.0)


def _cell(result: BenchResult, name: str) -> str:
    """Return a figure with its share of the peak; of variants the best, with its label."""
    if "{}" not in name:
        return _number(_value(result, name))
    least = name.endswith("a call")
    found = [
        (row.value if least else -row.value, variant, row)
        for variant in _VARIANTS
        for row in result.rows
        if row.name.startswith(name.format(variant)) and row.value
    ]
    if not found:
        return ""
    _, variant, row = min(found, key=lambda one: one[:2])
    share = "" if row.share is None else f" ({100 * row.share:.0f} %)"
    return _number(row.value) + share + ("" if variant == "float32" else f", {variant}")


def _number(value: float) -> str:
    return f"{value:,.{3 if value < 1 else 2 if value < 10 else 0}f}"


def with_table(text: str) -> str:
    """Return the text of the page with the table."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table()}\n{_END}{after}"


def main(page: Path = PAGE) -> None:
    page.write_text(with_table(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
