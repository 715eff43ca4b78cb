"""The input cards, and the question which of them a file is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page.inputs import FILLS, Input, ScalarInput, TensorInput
from page.markup import Html, h, render
from page.npy import Array
from page.photo_view import pad, picture_controls
from page.pictures import picture, seen
from page.tensors import first_values, summarise
from page.units import bytes_text, count_text, number_text, plural, shape_text

PREVIEWED = 2_000_000  # elements; a preview must not take longer than the run


def inputs_card(states: Sequence[Input]) -> Html:
    return h(
        "div",
        h(
            "div",
            h("h2", "Inputs", h("span", plural(len(states), "input"), class_="count")),
            h(
                "button",
                "Reset",
                type="button",
                class_="quiet",
                data_act="reset-inputs",
                title="Forget what was set: it is remembered for this program otherwise",
            )
            if states
            else None,
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
            _meaning(state),
            controls,
            _more_controls(state),
            h("div", input_preview(state), id=f"input-{state.index}-preview", aria_live="polite"),
        )
    )


def _meaning(state: Input) -> Html | None:
    told = state.meaning if isinstance(state, TensorInput) else ""
    return h("p", told, class_="note meaning") if told else None


def _more_controls(state: Input) -> Html | None:
    """What some fills need beside the row of controls."""
    if isinstance(state, TensorInput) and state.fill == "typed":
        return _typing(state)
    if isinstance(state, TensorInput) and state.fill in ("picture", "draw"):
        return render((pad(state) if state.fill == "draw" else None, picture_controls(state)))
    return None


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
        h("option", FILLS[fill], value=fill, selected=fill == state.fill) for fill in state.fills
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
        _random_controls(state) if state.is_random else None,
        _file_control(state),
        h(
            "button",
            "Save .npy",
            type="button",
            data_act="save-input",
            data_input=index,
            title="Download what goes into the program",
        ),
        class_="controls",
    )


def _random_controls(state: TensorInput) -> tuple[Html, Html]:
    known = {"data_input": state.index}
    field_ = h("input", type="number", min="0", step="1", value=state.seed, data_act="seed",
               class_="small", **known)  # fmt: skip
    title = "Draw other random values"
    return (
        h("label", h("span", "seed", class_="label"), field_),
        h("button", "New values", type="button", data_act="reroll", title=title, **known),
    )


def _file_control(state: TensorInput) -> Html:
    kinds, what = (".npy,.npz", "Load .npy")
    if state.form is not None:
        kinds, what = f"{kinds},image/*", "Load picture or .npy"
    chosen = h(
        "input",
        type="file",
        accept=kinds,
        data_act="npy",
        data_input=state.index,
        aria_label=f"A file for {state.name}",
    )
    return h("label", what, chosen, class_="button")


def _typing(state: TensorInput) -> Html:
    return h(
        "label",
        h("span", "values: one for all, a list, or nested lists", class_="label"),
        h(
            "textarea",
            state.text,
            rows="3",
            spellcheck="false",
            autocomplete="off",
            data_act="typed",
            data_input=state.index,
        ),
        class_="typing",
    )


def input_preview(state: Input) -> Html:
    """What the input holds now: the part of the card that changes while someone types."""
    if state.error:
        return h("p", state.error, class_="notice notice-bad", role="alert")
    if isinstance(state, ScalarInput):
        return Html("")
    array = state.array()
    where = f"from {state.file_name}" if state.fill in ("file", "picture") else ""
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
        _seen(state, array) or _thumbnail(array),
        h("code", ", ".join(values) + (", …" if array.size > len(values) else ""), class_="values")
        if values
        else None,
        h("p", " · ".join(facts), class_="note"),
        class_="preview",
    )


def _seen(state: TensorInput, array: Array) -> Html | None:
    if state.fill not in ("picture", "draw") or state.form is None:
        return None
    shown = seen(array, state.form.layout)
    return h("img", src=shown, alt="What the model sees", class_="seen")


def _thumbnail(array: Array) -> Html | None:
    """A small picture of what looks like an image; a heat map of anything else says little here."""
    made = picture(array) if 0 < array.size <= PREVIEWED else None
    if made is None or made.kind != "image":
        return None
    return h("img", src=made.url, alt="The input as an image", class_="thumbnail")


def ask_view(asked: Mapping[int, tuple[str, Mapping[int, str]]]) -> Html:
    """Files that fit several inputs: question -> (file, input index -> input name)."""
    if not asked:
        return Html("")
    return h(
        "div",
        [_question(number, name, fits) for number, (name, fits) in asked.items()],
        class_="card ask",
        role="group",
        aria_label="Which input is a file for?",
    )


def _question(number: int, name: str, fits: Mapping[int, str]) -> Html:
    return h(
        "div",
        h("p", "Which input is ", h("strong", name), " for?"),
        h(
            "div",
            [
                h("button", label, type="button", data_act="place", data_file=number,
                  data_input=index)
                for index, label in fits.items()
            ],
            h("button", "None", type="button", class_="quiet", data_act="leave", data_file=number),
            class_="controls",
        ),
    )  # fmt: skip
