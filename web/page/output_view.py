"""The output cards and the strip of program statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from page.compare import Comparison
from page.markup import Html, h
from page.npy import Array
from page.pictures import picture
from page.scores import Score, rank
from page.tensors import COPY_LIMIT, Grid, grid, histogram, summarise
from page.units import bytes_text, count_text, number_text, plural, shape_text
from webpte import Stats

_CHART = (192, 56)  # viewBox of the histogram


@dataclass(frozen=True, eq=False)
class Output:
    """One result: an array, or a plain number."""

    index: int
    name: str
    value: Any

    @property
    def array(self) -> Array:
        return np.asarray(self.value)

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, np.ndarray)


def outputs_card(
    outputs: Sequence[Output],
    labels: Mapping[int, Sequence[str]] | None = None,
    meanings: Sequence[str] = (),
) -> Html:
    """`labels`: by output, of its last dim; `meanings`: in order, as a card tells them."""
    known = labels or {}
    told = [*meanings, *[""] * len(outputs)]
    return h(
        "div",
        h(
            "div",
            h("h2", "Outputs"),
            h("span", plural(len(outputs), "output"), class_="count"),
            class_="card-head",
        ),
        h("div", id="outputs-age", aria_live="polite"),
        h(
            "div",
            [output_card(one, known.get(one.index, ()), told[one.index]) for one in outputs],
            class_="outputs",
        ),
        class_="card",
    )


def age_view(reasons: Sequence[str]) -> Html:
    """What the results are of, where that is not what is set on the page now."""
    if not reasons:
        return Html("")
    return h(
        "p",
        h("strong", "Earlier results: "),
        "; ".join(reasons),
        ". Run again for new ones.",
        class_="notice notice-warn",
    )


def unknown_state_view(reason: str) -> Html:
    """Why NumPy cannot follow the program, and how it could again."""
    return h(
        "div",
        h(
            "p",
            "This cannot be checked: the program keeps state from call to call, and "
            f"{reason}, so NumPy cannot be brought to the same state. Start its state over, then "
            "run and check.",
        ),
        h("button", "Start over", type="button", data_act="recover"),
        class_="notice notice-warn",
    )


def output_card(output: Output, labels: Sequence[str] = (), meaning: str = "") -> Html:
    array = output.array
    kind = f"{array.dtype.name} · {shape_text(array.shape)}" if output.is_tensor else "number"
    return h(
        "section",
        h(
            "div",
            h("h3", h("span", output.name, class_="name"), h("span", kind, class_="type")),
            _actions(output, array),
            class_="output-head",
        ),
        h("p", meaning, class_="note") if meaning else None,
        _facts(array) if output.is_tensor else h("p", number_text(output.value), class_="big"),
        h("div", id=f"output-{output.index}-compare", aria_live="polite"),
        h("div", _pictures(array, labels), _values(array), class_="output-body")
        if output.is_tensor
        else None,
        class_="output",
        data_drop="compare",
        data_output=output.index,
    )


def _actions(output: Output, array: Array) -> Html:
    index = output.index
    return h(
        "div",
        h(
            "button",
            "Copy",
            type="button",
            data_act="copy",
            data_output=index,
            disabled=array.size > COPY_LIMIT,
            title="Copy all values as JSON"
            if array.size <= COPY_LIMIT
            else f"More than {count_text(COPY_LIMIT)} values: download instead",
        ),
        h("button", "Download .npy", type="button", data_act="download", data_output=index),
        h(
            "label",
            "Compare with .npy",
            h(
                "input",
                type="file",
                accept=".npy",
                data_act="compare",
                data_output=index,
                aria_label=f"A .npy file with the expected values of {output.name}",
            ),
            class_="button",
        ),
        class_="controls",
    )


def _facts(array: Array) -> Html:
    summary = summarise(array)

    def fact(label: str, value: object) -> Html:
        return h("div", h("dt", label), h("dd", "-" if value is None else number_text(value)))

    bad = None
    if summary.nan or summary.inf:
        bad = h(
            "p",
            f"{count_text(summary.nan)} NaN and {count_text(summary.inf)} infinite of "
            f"{plural(summary.count, 'value')}; the figures are over the others.",
            class_="notice notice-warn",
        )
    return h(
        "div",
        h(
            "dl",
            fact("min", summary.low),
            fact("max", summary.high),
            fact("mean", summary.mean),
            fact("std", summary.std),
            h("div", h("dt", "values"), h("dd", count_text(summary.count))),
            h("div", h("dt", "size"), h("dd", bytes_text(summary.nbytes))),
            class_="facts",
        ),
        bad,
    )


def _pictures(array: Array, labels: Sequence[str]) -> Html | None:
    shown = [_scores(array, labels), _picture(array), _histogram(array)]
    if not any(shown):
        return None
    return h("div", shown, class_="pictures")


def _picture(array: Array) -> Html | None:
    made = picture(array)
    if made is None:
        return None
    return h(
        "figure",
        h(
            "img",
            src=made.url,
            width=made.width,
            height=made.height,
            alt=f"{made.kind} of the output, {made.width} by {made.height} pixels",
            class_=f"picture {'wide' if made.width >= made.height else 'tall'}",
        ),
        h("figcaption", f"{made.kind[0].upper()}{made.kind[1:]}: {made.caption}"),
    )


def _scores(array: Array, labels: Sequence[str]) -> Html | None:
    ranking = rank(array, labels)
    if ranking is None:
        return None
    more = f", and {count_text(ranking.more)} more" if ranking.more else ""
    return h(
        "figure",
        h("ol", [_score(score) for score in ranking.scores], class_="largest"),
        h("figcaption", ranking.caption + more),
    )


def _score(score: Score) -> Html:
    share = score.share
    return h(
        "li",
        h("code", score.where or f"[{score.at}]"),
        h("span", score.label, class_="label-name") if score.label else None,
        h("span", number_text(score.value) if share is None else f"{100 * share:.1f} %",
          class_="number", title=number_text(score.value)),
        h(
            "svg",
            h("rect", width="100%", height="4", rx="2", class_="rail"),
            h("rect", width=f"{100 * share:.1f}%", height="4", rx="2", class_="fill fill-gpu"),
            width="100%",
            height="4",
            aria_hidden="true",
        )
        if share is not None
        else None,
    )  # fmt: skip


def _histogram(array: Array) -> Html | None:
    spread = histogram(array)
    if spread is None or array.size < 8:
        return None
    width, height = _CHART
    most = max(spread.counts)
    step = width / len(spread.counts)
    bars = [
        h(
            "rect",
            x=f"{index * step:.2f}",
            # A bin that holds anything stays visible, however tall its neighbour is.
            y=f"{height - max(1.0, height * count / most):.2f}",
            width=f"{step - 0.6:.2f}",
            height=f"{max(1.0, height * count / most):.2f}",
        )
        for index, count in enumerate(spread.counts)
        if count
    ]
    return h(
        "figure",
        h(
            "svg",
            bars,
            viewBox=f"0 0 {width} {height}",
            preserveAspectRatio="none",
            class_="histogram",
            role="img",
            aria_label=f"Histogram from {number_text(spread.low)} to {number_text(spread.high)}",
        ),
        h(
            "figcaption",
            h("span", number_text(spread.low)),
            h("span", "Distribution"),
            h("span", number_text(spread.high)),
            class_="ends",
        ),
    )


def _values(array: Array) -> Html | None:
    table = grid(array)
    if not table.rows:
        return h("p", "This output is empty.", class_="soft")
    return h(
        "div",
        h(
            "table",
            [_value_row(line, table) for line in table.rows],
            h("tr", [h("td", "⋮") for _ in table.rows[0]]) if table.more_rows else None,
            class_="grid",
        ),
        h("p", f"at {table.where} of the leading dimensions", class_="note")
        if table.where
        else None,
        class_="grid-box",
        tabindex="0",
        role="region",
        aria_label="First values",
    )


def _value_row(line: Sequence[str], table: Grid) -> Html:
    return h("tr", [h("td", text) for text in line], h("td", "…") if table.more_columns else None)


def comparison_view(result: Comparison) -> Html:
    if result.problem:
        return h(
            "p", f"Not comparable with {result.against}: {result.problem}.",
            class_="notice notice-bad",
        )  # fmt: skip
    gaps = (
        f"largest difference {number_text(result.max_abs)} absolute, "
        f"{number_text(result.max_rel)} relative"
    )
    if result.agrees:
        return h("p", f"Agrees with {result.against}: {gaps}.", class_="notice notice-good")
    return h(
        "p",
        f"Differs from {result.against} in {count_text(result.wrong)} of "
        f"{plural(result.count, 'value')}: {gaps}, worst at {list(result.worst)}.",
        class_="notice notice-bad",
    )


def stats_strip(stats: Stats, where: str) -> Html:
    figures = (
        ("runs on", where),
        ("GPU buffers", count_text(stats.buffers)),
        ("GPU memory", bytes_text(stats.buffer_bytes)),
        ("dispatches", count_text(stats.dispatches)),
        ("pipelines", count_text(stats.pipelines)),
        ("prepack transfers", count_text(stats.prepack_transfers)),
        ("calls into JS", count_text(stats.interop_calls)),
        ("executions", count_text(stats.executions)),
    )
    return h(
        "dl",
        [h("div", h("dt", label), h("dd", value)) for label, value in figures],
        class_="stats",
        aria_label="Program statistics",
    )
