"""Markup of a comparison: the verdict, the first mismatched call, expected outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from page.shared.html.markup import Html, h, labelled
from page.shared.html.tables import scrolled
from page.shared.html.units import count_text, number_text, plural, shape_text
from page.shared.npy import Array
from page.views.compare.calls import Act, is_off
from page.views.compare.diff_map import diff_map, gaps_of
from page.views.compare.drift_chart import drift_chart
from page.views.compare.expected import Expected
from page.views.compare.settings import ABSOLUTE, RELATIVE, CompareSettings
from webpte.inspection.report import (
    CallComparison,
    Comparison,
    Difference,
    ElementWindow,
    FirstMismatch,
    NamedArray,
    OutputComparison,
    Tolerance,
)

PROGRESS = "compare-progress"
ON_NUMPY = (
    "NumPy is the reference, so there is nothing to compare call by call. NaN, infinities and "
    "expected outputs are still checked. To check a GPU, choose WebGPU as the device."
)


def form_card(
    settings: CompareSettings, expected: Sequence[Expected], act: Act, *, busy: bool, comparing:
    bool, on_numpy: bool, progress: Html | None,
) -> Html:  # fmt: skip
    """Return the form: tolerances, files of expected outputs, and the button."""
    return h(
        "section",
        h("h2", "Compare with NumPy"),
        h("p", ON_NUMPY, class_="notice notice-warn") if on_numpy else h(
            "p",
            "Runs the method once with the current inputs, call by call, and computes each call "
            "in NumPy from the inputs that it had on the device. Caches keep their values.",
            class_="note",
        ),
        h(
            "form",
            _tolerance("rtol", RELATIVE, settings.rtol),
            _tolerance("atol", ABSOLUTE, settings.atol),
            h(
                "label",
                h("input", type="checkbox", name="drift", checked=settings.drift),
                h("span", "Also measure the drift (takes twice as long)"),
                class_="inline",
                title="Also run the whole method in NumPy, to see how differences add up",
            ),
            h(
                "button",
                "Compare",
                type="submit",
                class_="primary",
                aria_disabled="true" if busy else None,
            ),
            h("button", "Stop", type="button", data_act=act("stop"))
            if comparing and not on_numpy
            else None,
            class_="controls",
            data_act=act("compare"),
        ),
        h("div", progress, id=PROGRESS),
        _expected_files(expected, act),
        class_="card compare-form",
    )  # fmt: skip


def _tolerance(name: str, title: str, text: str) -> Html:
    field = h(
        "input",
        type="text",
        name=name,
        value=text,
        class_="small",
        inputmode="decimal",
        autocomplete="off",
        spellcheck="false",
    )
    return labelled(title, field)


def _expected_files(expected: Sequence[Expected], act: Act) -> Html:
    choose = h(
        "label",
        "Choose expected outputs",
        h("input", type="file", accept=".npy,.npz", multiple=True, data_act=act("expected")),
        class_="button",
    )
    leave = h("button", "Clear expected outputs", type="button", data_act=act("unexpect"))
    files = [
        h("li", h("span", one.output, class_="name"), f" as in {one.file}, ",
          h("span", f"{one.array.dtype.name} {shape_text(one.array.shape)}", class_="type"))
        for one in expected
    ]  # fmt: skip
    return h(
        "div",
        h("p", "Choose or drop .npy or .npz files with the expected outputs.",
          class_="note"),
        h("ul", files, aria_label="Expected outputs") if files else None,
        h("div", choose, leave if files else None, class_="controls"),
        class_="compare-expected",
        id="compare-expected",
        data_drop=act("expected"),
    )  # fmt: skip


def progress_view(done: int, total: int) -> Html:
    told = f"{count_text(done)} of {plural(total, 'call')}" if total else "starting"
    return h(
        "div",
        h("progress", value=done or None, max=total or None, aria_label="Comparing"),
        h("span", told, class_="note"),
        class_="compare-progress",
    )


def verdict_card(found: Comparison, device: str, age: str, act: Act) -> Html:
    """Return the verdict in one line, and the figures."""
    own = [call for call in found.calls if call.own is not None]
    off = sum(map(is_off, own))
    wrong = sum(not one.difference.agrees for one in found.outputs)
    told = []
    if own:
        told.append(
            f"{count_text(off)} of {plural(len(own), 'call')} mismatched" if off
            else f"All {plural(len(own), 'call')} on {device} match NumPy"
        )  # fmt: skip
    if found.outputs:
        told.append(
            f"{count_text(wrong)} of {plural(len(found.outputs), 'output')} not as expected"
            if wrong
            else "every output as expected"
        )
    line = "; ".join(told) or "Nothing to compare"
    mood = "bad" if off or wrong else "good" if told else "warn"
    return h(
        "section",
        h(
            "div",
            h("h2", "Results"),
            h("button", "Save as JSON", type="button", class_="quiet", data_act=act("save")),
            class_="card-head",
        ),
        h("p", age, class_="notice notice-warn") if age else None,
        h("p", line, class_=f"notice notice-{mood}", role="status"),
        [_arises(*each) for each in (("NaN", found.first_nan), ("Infinity", found.first_infinity))],
        _tiles(found),
        drift_chart(found),
        class_="card compare-verdict",
    )


def _arises(what: str, call: CallComparison | None) -> Html | None:
    if call is None:
        return None
    count = call.nans if what == "NaN" else call.infinities
    layer = f" in {call.layer}" if call.layer else ""
    return h(
        "p",
        f"{what} first appears in call {call.node}{layer}, ",
        h("code", call.label),
        f": {plural(count, 'element')} of its output, none of its inputs.",
        class_="notice notice-warn",
    )


def _tiles(found: Comparison) -> Html | None:
    tiles = []
    pairs = [(call, call.own) for call in found.calls if call.own is not None]
    if pairs:
        tiles.append(_tile("largest difference of a call", *_most(pairs)))
    drifts = [(call, call.drift) for call in found.calls if call.drift is not None]
    if drifts:
        tiles.append(_tile("largest drift", *_most(drifts)))
        tiles.append(_tile("final drift", *drifts[-1]))
    return h("div", tiles, class_="tiles") if tiles else None


def _most(pairs: Sequence[tuple[CallComparison, Difference]]) -> tuple[CallComparison, Difference]:
    return max(pairs, key=lambda pair: pair[1].max_abs)


def _tile(title: str, call: CallComparison, off: Difference) -> Html:
    return h(
        "div",
        h("span", title, class_="label"),
        h("strong", f"{off.max_abs:.3g}".replace("inf", "∞")),
        h("span", f"call {call.node}, {call.op}", class_="note"),
        class_="tile",
    )


# ---- arrays that differ


def mismatch_card(first: FirstMismatch, tolerance: Tolerance, device: str) -> Html:
    own = first.call.own
    assert own is not None  # it is off
    return h(
        "section",
        h("h2", "First mismatched call"),
        h(
            "p",
            h("span", first.call.op, class_="name"),
            f" (call {first.call.node}{f', {first.call.layer}' if first.call.layer else ''}) ",
            f"gives the tensor “{first.output}”. {_off_text(own)}",
        ),
        h(
            "p",
            "All calls before it match, and NumPy computed it from the same inputs, so this call "
            f"differs. Its kernel is in the view Graph, call {first.call.node}; if it fuses "
            "several calls, Options(fuse=False) shows which of them. If the difference "
            "is as small as rounding, use larger tolerances.",
            class_="note",
        ),
        _closer(first.actual, first.wanted, own, first.around, tolerance, (device, "NumPy")),
        h("h3", "Inputs of this call"),
        h("ul", [_given(one) for one in first.inputs], class_="compare-given"),
        class_="card compare-first",
    )


def output_card(one: OutputComparison, file: str, tolerance: Tolerance, device: str) -> Html:
    off = one.difference
    told = f"As expected: largest difference {number_text(off.max_abs)}."
    if not off.agrees:
        told = _off_text(off)
    mood = "good" if off.agrees else "bad"
    names = (device, "expected")
    return h(
        "section",
        h("h2", one.name, h("span", f"against {file}", class_="count")),
        h("p", told, class_=f"notice notice-{mood}"),
        None if off.agrees else _closer(one.actual, one.wanted, off, one.around, tolerance, names),
        class_="card compare-first",
    )


def _off_text(off: Difference) -> str:
    if off.problem:
        return f"The shapes differ: {off.problem}."
    where = f" at {list(off.worst)}" if off.worst else ""
    return (
        f"{count_text(off.wrong)} of {plural(off.count, 'element')} beyond the tolerance; largest "
        f"difference {number_text(off.max_abs)}{where}."
    )


def _closer(
    actual: Array,
    wanted: Array,
    off: Difference,
    around: ElementWindow | None,
    tolerance: Tolerance,
    names: tuple[str, str],
) -> Html:
    tables = None
    if around is not None and not off.problem:
        values = [_values(around, off.worst, tolerance, at, names) for at in (0, 1)]
        tables = h("div", values, class_="compare-values")
    return h("div", diff_map(actual, wanted, off.worst), tables, class_="compare-closer")


def _values(
    around: ElementWindow,
    worst: tuple[int, ...],
    tolerance: Tolerance,
    at: int,
    names: tuple[str, str],
) -> Html:
    """Return the elements of one of the arrays, with mismatches marked."""
    one, two = (np.atleast_2d(np.array(values)) for values in (around.actual, around.wanted))
    wide = two.astype(np.float64)
    allowed = np.where(np.isfinite(wide), tolerance.atol + tolerance.rtol * np.abs(wide), 0.0)
    off = gaps_of(one, two) > allowed
    start = (0, 0, *around.start)[-2:]
    center = tuple(index - first for index, first in zip((0, 0, *worst)[-2:], start, strict=True))
    shown = (one, two)[at]
    columns = [h("th", start[1] + column, scope="col") for column in range(shown.shape[1])]
    rows = [
        h(
            "tr",
            h("th", start[0] + row, scope="row"),
            [_cell(value, bool(off[row, column]), (row, column) == center)
             for column, value in enumerate(line.tolist())],
        )
        for row, line in enumerate(shown)
    ]  # fmt: skip
    lead = f", at {list(around.start[:-2])}" if len(around.start) > 2 else ""
    return scrolled(
        f"Values around the worst element: {names[at]}",
        h(
            "table",
            h("caption", f"{names[at]}{lead}", class_="note"),
            h("thead", h("tr", h("td"), columns)),
            h("tbody", rows),
            class_="grid",
        ),
    )


def _cell(value: Any, off: bool, worst: bool) -> Html:
    # All the digits that float32 has: fewer may look alike on both sides.
    precise = isinstance(value, float) and np.isfinite(value)
    text = f"{value:.9g}" if precise else number_text(value)
    kind = "compare-worst" if worst else "compare-bad" if off else None
    return h("td", h("strong", text) if off or worst else text, class_=kind)


def _given(one: NamedArray) -> Html:
    facts = one.facts
    strange = ""
    if facts.nans or facts.infinities:
        strange = f", {count_text(facts.nans)} NaN, {count_text(facts.infinities)} infinite"
    return h(
        "li",
        h("span", one.key, class_="name"),
        h("span", f"{facts.dtype} {shape_text(facts.shape)}", class_="type"),
        h(
            "span",
            f"{number_text(facts.low)} to {number_text(facts.high)}, mean "
            f"{number_text(facts.mean)}{strange}",
        ),
    )
