"""The input cards and the run bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from page.inputs import FILLS, Input, ScalarInput, TensorInput, fills_for
from page.markup import Html, h, render
from page.npy import Array
from page.pictures import picture
from page.tensors import first_values, summarise
from page.units import bytes_text, count_text, ms_text, number_text, plural, shape_text

PREVIEWED = 2_000_000  # elements; a preview must not take longer than the run


def inputs_card(states: Sequence[Input]) -> Html:
    return h(
        "div",
        h(
            "div",
            h("h2", "Inputs"),
            h("span", plural(len(states), "input"), class_="count"),
            class_="card-head",
        ),
        h("p", "This method takes no inputs.", class_="soft") if not states else None,
        h("div", [input_card(state) for state in states], class_="inputs"),
        class_="card",
    )


def input_card(state: Input) -> Html:
    return h(
        "fieldset",
        input_body(state),
        class_="input",
        id=f"input-{state.index}",
        data_drop="npy" if isinstance(state, TensorInput) else None,
        data_input=state.index,
    )


def input_body(state: Input) -> Html:
    """The inside of the card, drawn again when a choice brings other controls."""
    if isinstance(state, ScalarInput):
        controls, kind = _scalar_controls(state), state.kind
    else:
        controls = _tensor_controls(state)
        highest = [high for _, high in state.bounds]
        kind = f"{state.dtype} · {shape_text(highest, state.bounds)}"
    return render(
        (
            h("legend", h("span", state.name, class_="name"), h("span", kind, class_="type")),
            controls,
            h("div", input_preview(state), id=f"input-{state.index}-preview", aria_live="polite"),
        )
    )


def _scalar_controls(state: ScalarInput) -> Html | None:
    known = {"data_act": "scalar", "data_input": state.index}
    if state.kind == "None":
        return None
    if state.kind == "bool":
        words = ("true", "false")
        field_ = h("select", [h("option", w, selected=(w == "true") == state.value) for w in words],
                   **known)  # fmt: skip
    elif state.kind == "str":
        field_ = h("input", type="text", value=state.value, **known)
    else:
        step = "any" if state.kind == "float" else "1"
        field_ = h("input", type="number", step=step, value=state.value, class_="small", **known)
    return h("div", h("label", h("span", "value", class_="label"), field_), class_="controls")


def _tensor_controls(state: TensorInput) -> Html:
    index = state.index
    options = [
        h("option", FILLS[fill], value=fill, selected=fill == state.fill)
        for fill in fills_for(state.dtype)
    ]
    dims = [
        h(
            "label",
            h("span", f"dim {dim} ({low} to {high})", class_="label"),
            h(
                "input",
                type="number",
                min=low,
                max=high,
                step="1",
                value=state.dims[dim],
                data_act="dim",
                data_input=index,
                data_dim=dim,
                class_="small",
            ),
        )
        for dim, (low, high) in enumerate(state.bounds)
        if low != high
    ]
    return h(
        "div",
        h(
            "label",
            h("span", "fill", class_="label"),
            h("select", options, data_act="fill", data_input=index),
        ),
        h(
            "label",
            h("span", "below", class_="label"),
            h(
                "input",
                type="number",
                min="1",
                step="1",
                value=state.below,
                data_act="below",
                data_input=index,
                class_="small",
            ),
        )
        if state.takes_below
        else None,
        dims,
        h(
            "button",
            "New values",
            type="button",
            data_act="reroll",
            data_input=index,
            title="Draw other random values",
        )
        if state.is_random
        else None,
        h(
            "label",
            "Load .npy",
            h(
                "input",
                type="file",
                accept=".npy",
                data_act="npy",
                data_input=index,
                aria_label=f"A .npy file for {state.name}",
            ),
            class_="button",
        ),
        class_="controls",
    )


def input_preview(state: Input) -> Html:
    """What the input holds now: the part of the card that changes while someone types."""
    if state.error:
        return h("p", state.error, class_="notice notice-bad", role="alert")
    if isinstance(state, ScalarInput):
        return Html("")
    array = state.array()
    where = f"from {state.file_name}" if state.fill == "file" else ""
    facts = [shape_text(array.shape), bytes_text(array.nbytes)]
    if 0 < array.size <= PREVIEWED:
        summary = summarise(array)
        if summary.low is not None and summary.high is not None:
            facts.append(f"{number_text(summary.low)} to {number_text(summary.high)}")
        if summary.nan or summary.inf:
            facts.append(f"{count_text(summary.nan)} NaN, {count_text(summary.inf)} infinite")
    if where:
        facts.append(where)
    values = first_values(array)
    return h(
        "div",
        _thumbnail(array),
        h("code", ", ".join(values) + (", …" if array.size > len(values) else ""), class_="values")
        if values
        else None,
        h("p", " · ".join(facts), class_="note"),
        class_="preview",
    )


def _thumbnail(array: Array) -> Html | None:
    """A small picture of what looks like an image; a heat map of anything else says little here."""
    made = picture(array) if 0 < array.size <= PREVIEWED else None
    if made is None or made.kind != "image":
        return None
    return h("img", src=made.url, alt="The input as an image", class_="thumbnail")


@dataclass
class Timing:
    """The times of one program, in milliseconds."""

    load: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)  # of the load
    first: float | None = None
    repeats: list[float] = field(default_factory=list)
    wanted: int = 0

    @property
    def median(self) -> float | None:
        return median(self.repeats) if self.repeats else None


def run_card(
    *,
    running: bool,
    why_not: str,
    repeats: int,
    devices: Mapping[str, str],
    device: str,
    has_outputs: bool,
    can_profile: bool,
) -> Html:
    """The buttons. `why_not` says why there is nothing to run."""
    return h(
        "form",
        h(
            "div",
            h("button", "Cancel", type="button", class_="primary", data_act="cancel")
            if running
            else h(
                "button",
                "Run",
                h("kbd", "Ctrl ⏎", aria_hidden="true"),
                type="submit",
                class_="primary",
                disabled=bool(why_not),
                aria_keyshortcuts="Control+Enter",
            ),
            h(
                "label",
                h("span", "then repeat", class_="label"),
                h(
                    "input",
                    type="number",
                    name="repeats",
                    min="0",
                    max="10000",
                    step="1",
                    value=repeats,
                    class_="small",
                ),
                h("span", "times", class_="label"),
                class_="inline",
            ),
            h(
                "label",
                h("span", "on", class_="label"),
                h(
                    "select",
                    [
                        h("option", label, value=key, selected=key == device)
                        for key, label in devices.items()
                    ],
                    data_act="device",
                    disabled=running,
                    aria_label="Run on",
                ),
                class_="inline",
            )
            if len(devices) > 1
            else None,
            h(
                "button",
                "Check against NumPy",
                type="button",
                data_act="check",
                disabled=running,
                title="Run the same inputs on the NumPy reference and compare every output",
            )
            if has_outputs and device != "numpy"
            else None,
            h(
                "button",
                "Time the kernels",
                type="button",
                data_act="profile",
                disabled=running,
                title="Run once more with a timestamp around every dispatch",
            )
            if has_outputs and can_profile
            else None,
            class_="controls",
        ),
        h("p", why_not, class_="soft") if why_not else None,
        data_act="run",
        id="run-form",
    )


def timing_strip(timing: Timing, running: bool) -> Html:
    if timing.load is None and timing.first is None:
        return Html("")
    done = len(timing.repeats)
    steady = timing.median
    return h(
        "div",
        _tile("Load", timing.load, _stages_text(timing.stages)),
        _tile("First run", timing.first, "one-time work included"),
        _tile(
            "Steady state",
            steady,
            f"median of {count_text(done)}, best {ms_text(min(timing.repeats))}"
            if steady is not None
            else "median of the repeats",
        ),
        _spark(timing.repeats),
        h(
            "div",
            h("progress", max=timing.wanted, value=done, aria_label="Repeats"),
            h("span", f"{count_text(done)} of {count_text(timing.wanted)}", class_="soft"),
            class_="repeating",
        )
        if running and timing.wanted
        else None,
        class_="tiles",
    )


def _stages_text(stages: Mapping[str, float]) -> str:
    told = [f"{stage} {ms_text(spent)}" for stage, spent in stages.items() if spent >= 1]
    return ", ".join(told) or "read, compile, constants"


def _tile(label: str, value: float | None, note: str) -> Html:
    return h(
        "div",
        h("span", label, class_="label"),
        h("strong", "-" if value is None else ms_text(value), class_=None if value else "soft"),
        h("span", note, class_="note"),
        class_="tile",
    )


def _spark(times: Sequence[float]) -> Html | None:
    """One bar per repeat: a slow start or a hiccup shows at once."""
    if len(times) < 3:
        return None
    shown = times[-60:]
    top = max(shown)
    bars = [
        h(
            "rect",
            x=f"{index * 4}",
            y=f"{36 - 36 * value / top:.1f}",
            width="3",
            height=f"{36 * value / top:.1f}",
        )
        for index, value in enumerate(shown)
    ]
    return h(
        "svg",
        bars,
        viewBox=f"0 0 {4 * len(shown)} 36",
        preserveAspectRatio="none",
        class_="spark",
        role="img",
        aria_label=f"Times of the last {len(shown)} repeats, up to {ms_text(top)}",
    )
