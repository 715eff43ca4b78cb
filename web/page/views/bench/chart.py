"""The picture of a result: a bar for each work, as long as its share of the device's peak."""

from __future__ import annotations

from collections.abc import Sequence

from page.shared.html.markup import Html, h
from webpte.llm.gpu_figures.result import BenchResult


def shares_chart(results: Sequence[BenchResult]) -> Html | None:
    """Return bars by work, one for each result; None without a share."""
    names = dict.fromkeys(
        row.name for result in results for row in result.rows if row.share is not None
    )
    if not names:
        return None
    bars = [
        (
            h("dt", name),
            h(
                "dd",
                *(
                    _bar(share, result.adapter)
                    for result in results
                    if (share := _share(result, name)) is not None
                ),
            ),
        )
        for name in names
    ]
    told = "Share of the device's peak: compute, or memory in decoding"
    return h("figure", h("dl", *bars), h("figcaption", told), class_="bench-shares")


def _share(result: BenchResult, name: str) -> float | None:
    return next((row.share for row in result.rows if row.name == name), None)


def _bar(share: float, device: str) -> Html:
    told = f"{100 * share:.0f} %"
    bar = h("meter", min=0, max=1, value=f"{min(share, 1):.4f}", aria_label=f"{device}: {told}")
    return h("span", bar, told, class_="bench-bar")
