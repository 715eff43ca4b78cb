"""The input cards, and the question which of them a file is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page.cards.fills import CHOSEN, FILLS
from page.html.fields import choice, labelled
from page.html.markup import Html, h, render
from page.html.units import bytes_text, count_text, number_text, plural, shape_text
from page.inputs.inputs import Input, ScalarInput, TensorInput
from page.npy import Array
from page.outputs.curves import waveform
from page.outputs.pictures import picture, seen
from page.outputs.tensors import first_values, summarise
from page.parts.photo_view import pad, picture_controls
from page.parts.sound_view import sound_controls, text_controls

_MOST_STEPS = 100_000  # of a slider
PREVIEWED = 2_000_000  # elements; a preview must not take longer than the run


def inputs_card(states: Sequence[Input], tokenizer: str = "") -> Html:
    """Return the card of all inputs; `tokenizer` is the name of the tokenizer's file, or ""."""
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
                title="Reset all inputs; otherwise they are kept for this program",
            )
            if states
            else None,
            class_="card-head",
        ),
        h("p", "This method takes no inputs.", class_="soft") if not states else None,
        h("div", [input_card(state, tokenizer) for state in states], class_="inputs"),
        class_="card",
    )


def input_card(state: Input, tokenizer: str = "") -> Html:
    return h(
        "fieldset",
        input_body(state, tokenizer),
        class_="input",
        id=f"input-{state.index}",
        data_drop="npy" if isinstance(state, TensorInput) else None,
        data_input=state.index,
    )


def input_body(state: Input, tokenizer: str = "") -> Html:
    """Return the inside of an input's card, which is redrawn when a choice needs other controls."""
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
            _pins(state),
            _more_controls(state, tokenizer),
            # Where a script shows a camera or a recording: it is left alone when this is drawn.
            h("div", id=f"input-{state.index}-device", class_="device", data_keep="")
            if isinstance(state, TensorInput)
            else None,
            h("div", input_preview(state), id=f"input-{state.index}-preview", aria_live="polite"),
        )
    )


def _meaning(state: Input) -> Html | None:
    told = state.meaning if isinstance(state, TensorInput) else ""
    return h("p", told, class_="note meaning") if told else None


def _pins(state: Input) -> Html | None:
    """Return the sizes that are fixed because a run with others failed."""
    if not isinstance(state, TensorInput) or not state.pinned:
        return None
    return h("ul", [h("li", why) for why in state.pinned.values()], class_="notice notice-warn")


def _more_controls(state: Input, tokenizer: str) -> Html | None:
    """Return the controls that some fills need below the row of controls."""
    if isinstance(state, TensorInput) and state.fill == "typed":
        return _typing(state)
    if isinstance(state, TensorInput) and state.fill in ("picture", "draw"):
        return render((pad(state) if state.fill == "draw" else None, picture_controls(state)))
    if isinstance(state, TensorInput) and state.fill == "sound":
        return sound_controls(state)
    if isinstance(state, TensorInput) and state.fill == "text":
        return text_controls(state, tokenizer)
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
    return h("div", labelled("value", field_), class_="controls")


def _tensor_controls(state: TensorInput) -> Html:
    index = state.index
    fills = {fill: FILLS[fill] for fill in state.fills}
    below = h("input", type="number", min="1", step="1", value=state.below, data_act="below",
              data_input=index, class_="small")  # fmt: skip
    dims = [_dim_control(state, dim) for dim, (low, high) in enumerate(state.bounds) if low != high]
    return h(
        "div",
        choice("input values", fills, state.fill, data_act="fill", data_input=index),
        labelled("below", below) if state.takes_below else None,
        dims,
        _random_controls(state) if state.is_random else None,
        _file_control(state),
        _device_button(state, "camera", "Camera") if state.form is not None else None,
        _device_button(state, "record", "Record") if state.sound is not None else None,
        h(
            "button",
            "Save .npy",
            type="button",
            data_act="save-input",
            data_input=index,
            title="Download the input as an array",
        ),
        class_="controls",
    )


def dim_id(state: TensorInput, dim: int, slider: bool) -> str:
    return f"input-{state.index}-dim-{dim}{'-slider' if slider else ''}"


def _dim_control(state: TensorInput, dim: int) -> Html:
    """Return a number field for a dim, and a slider unless its range is huge."""
    low, high = state.bounds[dim]
    known = {"min": low, "max": high, "step": "1", "value": state.dims[dim], "data_act": "dim",
             "data_input": state.index, "data_dim": dim}  # fmt: skip
    number = h("input", type="number", id=dim_id(state, dim, False), class_="small", **known)
    label = h("span", f"dim {dim} ({low} to {high})", class_="label")
    if high - low > _MOST_STEPS:
        return h("label", label, number)
    slider = h("input", type="range", id=dim_id(state, dim, True), data_slider="1",
               aria_label=f"dim {dim} of {state.name}", **known)  # fmt: skip
    return h("div", h("label", label, number), slider, class_="sized")


def _device_button(state: TensorInput, device: str, text: str) -> Html:
    """Return a button for the camera or microphone; `camera.js` and `sound.js` send a file."""
    longest = ""
    if device == "record" and state.sound is not None and state.sound.frames is None:
        longest = f"{state.bounds[state.sound.time][1] / state.sound_settings.rate:.2f}"
    return h(
        "button",
        text,
        type="button",
        data_device=device,
        data_input=state.index,
        data_longest=longest or None,
    )


def _random_controls(state: TensorInput) -> tuple[Html, Html]:
    known = {"data_input": state.index}
    field_ = h("input", type="number", min="0", step="1", value=state.seed, data_act="seed",
               class_="small", **known)  # fmt: skip
    title = "Draw other random values"
    return (
        labelled("seed", field_),
        h("button", "New values", type="button", data_act="reroll", title=title, **known),
    )


def _file_control(state: TensorInput) -> Html:
    kinds, what = ".npy,.npz,.bin", "Load .npy"
    if state.form is not None:
        kinds, what = f"{kinds},image/*", "Load picture or .npy"
    elif state.sound is not None:
        kinds, what = f"{kinds},audio/*", "Load sound or .npy"
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
    area = h(
        "textarea",
        state.text,
        rows="3",
        spellcheck="false",
        autocomplete="off",
        data_act="typed",
        data_input=state.index,
    )
    return labelled("values: one for all, a list, or nested lists", area, "typing")


def input_preview(state: Input) -> Html:
    """Return the preview of an input, which changes while someone types."""
    if state.error:
        return h("p", state.error, class_="notice notice-bad", role="alert")
    if isinstance(state, ScalarInput):
        return Html("")
    array = state.array()
    where = f"from {state.file_name}" if state.fill in CHOSEN else ""
    facts = [shape_text(array.shape), bytes_text(array.nbytes)]
    if 0 < array.size <= PREVIEWED:
        summary = summarise(array)
        if summary.low is not None and summary.high is not None:
            facts.append(f"{number_text(summary.low)} to {number_text(summary.high)}")
        if summary.nan or summary.inf:
            facts.append(f"{count_text(summary.nan)} NaN, {count_text(summary.inf)} infinite")
    if where:
        facts.append(where)
    if state.fill == "sound" and state.samples is not None:
        facts.append(f"{len(state.samples) / state.sound_settings.rate:.2f} s long")
    return h(
        "div",
        _seen(state, array) or _heard(state, array) or _thumbnail(array),
        _values(state, array),
        h("p", " · ".join(facts), class_="note"),
        h("p", state.note, class_="note") if state.note else None,
        class_="preview",
    )


def loading_view(name: str) -> Html:
    """Return the preview of an input whose file is being read."""
    return h(
        "div",
        h("progress", aria_label=f"Loading {name}"),
        h("span", f"Loading {name}", class_="soft"),
        class_="waiting",
    )


def _values(state: TensorInput, array: Array) -> Html | None:
    if state.is_blank:
        return h("p", "Draw something first.")
    values = first_values(array)
    more = ", …" if array.size > len(values) else ""
    return h("code", ", ".join(values) + more, class_="values") if values else None


def _seen(state: TensorInput, array: Array) -> Html | None:
    if state.fill not in ("picture", "draw") or state.form is None:
        return None
    shown = seen(array, state.form.layout)
    return h("img", src=shown, alt="What the model sees", class_="seen")


def _heard(state: TensorInput, array: Array) -> Html | None:
    if state.fill != "sound" or not array.size:
        return None
    return waveform(array.reshape(-1), f"The sound that goes into {state.name}")


def _thumbnail(array: Array) -> Html | None:
    """Return a small picture if the array looks like an image; heat maps say little here."""
    made = picture(array) if 0 < array.size <= PREVIEWED else None
    if made is None or made.kind != "image":
        return None
    return h("img", src=made.url, alt="The input as an image", class_="thumbnail")


def ask_view(asked: Mapping[int, tuple[str, Mapping[int, str]]]) -> Html:
    """Return questions for files that fit several inputs: (file, input index -> name)."""
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
