"""The contents of a program file: methods, signature, operators, constants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from page.shared.html.markup import Html, h, render
from page.shared.html.units import (
    bytes_text,
    count_text,
    ms_text,
    number_text,
    plural,
    shape_text,
    short_op,
)
from page.shared.outputs.figures import bar
from webpte import ConstantInfo, MethodInfo, ScalarInfo, TensorInfo
from webpte.inspection.report import MemoryForecast

SHOWN_OPS = 14
SHOWN_CONSTANTS = 6
_TENSOR_LIMITS = ("maxStorageBufferBindingSize", "maxBufferSize")
LISTED_CONSTANTS = 200  # rows


class Placed(NamedTuple):
    """The device of an operator, and the milliseconds per run that it costs on the CPU."""

    where: str
    host_ms: float = 0.0


def file_card(
    name: str,
    size: int,
    methods: Mapping[str, MethodInfo],
    method: str,
    limits: Mapping[str, int],
    constant_values: Mapping[str, str],
    placed: Mapping[str, Placed],
    *,
    folded: bool = False,
    about: str = "",
) -> Html:
    """Return the card of an open program; `about` is the text of its gallery card.

    `method` is the chosen one, `placed` says where its operators run.
    """
    runnable = [info.name for info in methods.values() if not info.is_constant]
    info = methods.get(method)
    return h(
        "div",
        h("h3", name, class_="file-name", title=name),
        h(
            "p",
            f"{bytes_text(size)} · {plural(len(runnable), 'method')}",
            f" · {plural(len(methods) - len(runnable), 'constant method')}"
            if len(methods) > len(runnable)
            else None,
            class_="soft",
        ),
        h("p", about, class_="note") if about else None,
        _method(info, limits, placed, folded) if info is not None else None,
        _constant_methods(methods, constant_values),
        class_="file",
    )


def _method(
    info: MethodInfo, limits: Mapping[str, int], placed: Mapping[str, Placed], folded: bool
) -> Html:
    return render(
        (
            _signature(info),
            _operators(info, placed, folded),
            _constants(info.constants, limits, folded),
        )
    )


def forecast_view(forecast: MemoryForecast, elsewhere: str = "") -> Html:
    """Return the memory that a program will need, with a warning if it may be too much.

    `elsewhere` is a sentence about the memory that other tabs hold.
    """
    text = f"{forecast}. {elsewhere}".rstrip()
    if forecast.refusals:
        text = f"{text} {forecast.refusals[0]}"
    elif forecast.is_over_budget:
        text = f"{text} A phone may close the page; choose a smaller model, or close other pages."
    return h("p", text, class_="note" if forecast.fits else "notice notice-bad")


def contents_view(
    methods: Mapping[str, MethodInfo],
    limits: Mapping[str, int],
    forecast: MemoryForecast | None = None,
    elsewhere: str = "",
) -> Html:
    """Return the contents of a file that is not loaded: every method, and nothing to click."""
    return render(
        (
            forecast_view(forecast, elsewhere) if forecast is not None else None,
            [
                _method(info, limits, {}, folded=True)
                for info in methods.values()
                if not info.is_constant
            ],
            _constant_methods(methods, {}),
        )
    )


def unloaded_view(name: str, methods: Mapping[str, MethodInfo], limits: Mapping[str, int]) -> Html:
    """Return the contents of a file that could be read, but not loaded."""
    return h(
        "details",
        h("summary", f"What is in {name}"),
        h("div", contents_view(methods, limits), class_="file"),
    )


def type_text(info: TensorInfo | ScalarInfo) -> str:
    """Return "float32 · 3 × 64", or the kind of a plain value."""
    if isinstance(info, ScalarInfo):
        return info.kind
    return f"{info.dtype} · {shape_text(info.shape, info.bounds)}"


def _signature(info: MethodInfo) -> Html:
    def rows(kind: str, infos: Sequence[TensorInfo | ScalarInfo]) -> Html:
        if not infos:
            return h("p", f"No {kind}s.", class_="soft")
        return h(
            "ul",
            [
                h(
                    "li",
                    h("span", item.name, class_="name"),
                    h("span", type_text(item), class_="type"),
                )
                for item in infos
            ],
            class_="signature",
            aria_label=f"{kind}s",
        )

    dynamic = any(getattr(item, "dynamic", False) for item in (*info.inputs, *info.outputs))
    return h(
        "section",
        h("h3", "Signature", h("span", info.name, class_="count")),
        h("p", plural(len(info.inputs), "input"), class_="label"),
        rows("input", info.inputs),
        h("p", plural(len(info.outputs), "output"), class_="label"),
        rows("output", info.outputs),
        h("p", "≤ marks a size that may be smaller from call to call.", class_="note")
        if dynamic
        else None,
    )


def _operators(info: MethodInfo, placed: Mapping[str, Placed], folded: bool) -> Html:
    everything = {
        name: (count, placed.get(name, Placed(where)))
        for where, counts in (
            ("gpu", info.ops),
            ("host", info.kernels_outside),
            ("missing", info.unsupported),
            ("foreign", info.foreign),
        )
        for name, count in counts.items()
    }
    # Missing operators first, then operators on the CPU, then the rest by count.
    order = {"foreign": 0, "missing": 0, "host": 1}
    ranked = sorted(
        everything.items(), key=lambda item: (order.get(item[1][1].where, 2), -item[1][0])
    )
    most = max((count for count, _ in everything.values()), default=1)
    rows = [_operator_row(name, count, place, most) for name, (count, place) in ranked]
    calls = sum(count for count, _ in everything.values())
    shown = rows if len(rows) <= SHOWN_OPS + 2 else rows[:SHOWN_OPS]
    missing = len(info.unsupported)
    return _foldable(
        "Operators",
        f"{plural(len(everything), 'kind')}, {plural(calls, 'call')}" if rows else "none",
        [
            h(
                "p",
                f"{plural(missing, 'operator')} not supported by this version: "
                "the method cannot run as a whole.",
                class_="notice notice-bad",
            )
            if missing
            else None,
            h(
                "p",
                f"Parts of this method were compiled for {' and '.join(info.foreign)}, which only "
                "that backend can run. Take the file for XNNPACK or Vulkan, or export again.",
                class_="notice notice-bad",
            )
            if info.foreign
            else None,
            h("ul", shown, class_="bars"),
            _more(rows[len(shown) :], "bars", "operators"),
        ],
        folded=folded and not missing and not info.foreign,
    )


def _foldable(title: str, count: str, body: object, *, folded: bool) -> Html:
    return h(
        "details",
        h("summary", h("h3", title, h("span", count, class_="count"))),
        body,
        class_="section",
        open=not folded,
    )


_WHERE = {
    "gpu": (None, None),
    "alias": ("free", "Only another view of the same memory: costs nothing"),
    "host": ("NumPy", "Runs on NumPy on the CPU, between two parts on the GPU"),
    "missing": ("not supported", "This version of webpte has no implementation"),
    "foreign": ("other backend", "A delegate: a part of the model, compiled for another runtime"),
}


def _operator_row(name: str, count: int, place: Placed, most: int) -> Html:
    where = place.where
    tag, title = _WHERE[where]
    if tag and place.host_ms:
        tag = f"{tag} {ms_text(place.host_ms)}"
    return h(
        "li",
        h("span", short_op(name), class_="name", title=name),
        h("span", tag, class_=f"tag tag-{where}", title=title) if tag else None,
        h("span", count_text(count), class_="number"),
        bar(max(1.5, 100 * count / most), fill=where),
    )


def _more(rows: Sequence[Html], kind: str, what: str) -> Html | None:
    if not rows:
        return None
    return h(
        "details",
        h("summary", f"{count_text(len(rows))} more {what}"),
        h("ul", rows, class_=kind),
    )


def _constants(
    constants: Sequence[ConstantInfo], limits: Mapping[str, int], folded: bool
) -> Html | None:
    if not constants:
        return h("section", h("h3", "Constants", h("span", "none", class_="count")))
    ranked = sorted(constants, key=lambda item: -item.nbytes)
    total = sum(item.nbytes for item in ranked)
    allowed = min(
        (limits[name] for name in _TENSOR_LIMITS if name in limits),
        default=0,
    )
    rows = [_constant_row(item) for item in ranked]
    shown = rows if len(rows) <= SHOWN_CONSTANTS + 2 else rows[:SHOWN_CONSTANTS]
    hidden = len(rows) - LISTED_CONSTANTS
    return _foldable(
        "Constants",
        f"{plural(len(ranked), 'tensor')}, {bytes_text(total)}",
        [
            _budget(ranked[0].nbytes, allowed) if allowed else None,
            h("ul", shown, class_="constants"),
            _more(rows[len(shown) : LISTED_CONSTANTS], "constants", "constants"),
            h("p", f"and {count_text(hidden)} smaller ones", class_="note") if hidden > 0 else None,
        ],
        folded=folded,
    )


def _budget(largest: int, allowed: int) -> Html:
    """Compare the largest constant with what one binding of this adapter may hold."""
    share = largest / allowed
    if share > 1:
        return h(
            "p",
            f"The largest constant is {bytes_text(largest)}. This adapter takes "
            f"{bytes_text(allowed)} at once, so it is bound in parts where its operators allow it.",
            class_="note",
        )
    share_text = "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"
    return h(
        "p",
        f"largest {bytes_text(largest)}, {share_text} of the {bytes_text(allowed)} "
        "that this adapter takes",
        class_="note",
    )


_HASH = re.compile(r"[0-9a-f]{32,}")


def _constant_row(item: ConstantInfo) -> Html:
    kind = f"{item.dtype} · {shape_text(item.shape)}"
    used = f" · used {item.count} times" if item.count > 1 else ""
    # The exporter names most constants by the hash of their bytes, which is not shown.
    named = bool(item.key) and not _HASH.fullmatch(item.key or "")
    return h(
        "li",
        h("span", item.key if named else kind + used, class_="name", title=item.key or "unnamed"),
        h("span", bytes_text(item.nbytes), class_="number"),
        h("span", kind + used, class_="type") if named else None,
    )


def _constant_methods(methods: Mapping[str, MethodInfo], values: Mapping[str, str]) -> Html | None:
    constant = [info for info in methods.values() if info.is_constant]
    if not constant:
        return None
    return h(
        "section",
        h("h3", "Constant methods", h("span", count_text(len(constant)), class_="count")),
        h(
            "ul",
            [
                h(
                    "li",
                    h("span", info.name, class_="name"),
                    h("span", values.get(info.name) or constant_text(info), class_="type"),
                )
                for info in constant
            ],
            class_="signature",
        ),
    )


def constant_text(info: MethodInfo) -> str:
    """Return the value of a constant method, as far as the file's description has it."""
    return ", ".join(
        number_text(output.value) if isinstance(output, ScalarInfo) else type_text(output)
        for output in info.outputs
    )
