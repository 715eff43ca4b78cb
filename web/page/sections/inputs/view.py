"""The input cards, and the question which of them a file is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page.sections.inputs.photo_view import pad, picture_controls
from page.sections.inputs.sound_view import sound_controls, text_controls
from page.shared.cards.fills import FILLS
from page.shared.html.markup import Html, choice, h, labelled, render
from page.shared.html.units import plural, shape_text
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.shared.inputs.preview import PictureUrl, input_preview, is_simple, png_url

_MOST_STEPS = 100_000  # of a slider
LONGEST_WINDOW = 10  # seconds of a sound that each call of a stream takes


def inputs_card(
    states: Sequence[Input], tokenizer: str = "", picture_url: PictureUrl = png_url
) -> Html:
    """Return the card of all inputs; `tokenizer` is the name of the tokenizer's file, or ""."""
    cards = [(input_card(state, tokenizer, picture_url), _is_hidden(state)) for state in states]
    hidden = [card for card, is_hidden in cards if is_hidden]
    return h(
        "div",
        h(
            "div",
            h(
                "h2",
                "Input" if len(states) == 1 else "Inputs",
                h("span", plural(len(states), "input"), class_="count")
                if len(states) != 1
                else None,
            ),
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
        h("div", [card for card, is_hidden in cards if not is_hidden], class_="inputs"),
        h(
            "details",
            h("summary", f"More inputs ({len(hidden)})"),
            h("div", hidden, class_="inputs"),
            class_="more-controls",
        )
        if hidden
        else None,
        class_="card",
    )


def _is_hidden(state: Input) -> bool:
    return isinstance(state, TensorInput) and state.hidden


def input_card(state: Input, tokenizer: str = "", picture_url: PictureUrl = png_url) -> Html:
    return h(
        "fieldset",
        input_body(state, tokenizer, picture_url),
        class_="input",
        id=f"input-{state.index}",
        data_drop="npy" if isinstance(state, TensorInput) else None,
        data_input=state.index,
    )


def input_body(state: Input, tokenizer: str = "", picture_url: PictureUrl = png_url) -> Html:
    """Return the inside of an input's card, which is redrawn when a choice needs other controls."""
    preview = h(
        "div",
        input_preview(state, picture_url),
        id=f"input-{state.index}-preview",
        aria_live="polite",
    )
    if isinstance(state, ScalarInput):
        return render((_legend(state, state.kind), _scalar_controls(state), preview))
    kind = f"{state.dtype} · {shape_text([high for _, high in state.bounds], state.bounds)}"
    # Where a script shows a camera or a recording: it is left alone when this is drawn.
    device = h("div", id=f"input-{state.index}-device", class_="device", data_keep="")
    meaning = h("p", state.meaning, class_="note meaning") if state.meaning else None
    if is_simple(state):
        return render(
            (
                _legend(state, ""),
                meaning,
                pad(state) if state.fill == "draw" else preview,
                h("div", _media_buttons(state), class_="controls"),
                device,
                preview if state.fill == "draw" else None,
                _pins(state),
                h(
                    "details",
                    h("summary", "Options"),
                    h("p", f"{state.name} · {kind}", class_="type"),
                    h("div", _rule_controls(state), _rare_controls(state), class_="controls"),
                    _more_controls(state, tokenizer),
                    class_="more-controls",
                ),
            )
        )
    controls = (_rule_controls(state), _media_buttons(state))
    more = h(
        "details",
        h("summary", "More"),
        h("div", _rare_controls(state), class_="controls"),
        class_="more-controls",
    )
    return render(
        (
            _legend(state, kind),
            meaning,
            h("div", controls, more, class_="controls"),
            _pins(state),
            pad(state) if state.fill == "draw" else None,
            _more_controls(state, tokenizer),
            device,
            preview,
        )
    )


def _legend(state: Input, kind: str) -> Html:
    """Return the name of an input: the card's, with the file's own in small print."""
    title = state.title if isinstance(state, TensorInput) else ""
    small = None
    if kind:
        small = h("span", f"{state.name} · {kind}" if title else kind, class_="type")
    return h("legend", h("span", title or state.name, class_="title" if title else "name"), small)


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
        return picture_controls(state)
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


def _rule_controls(state: TensorInput) -> tuple[object, ...]:
    """Return the controls that say by which rule an input is filled, and its sizes."""
    index = state.index
    fills = {fill: FILLS[fill] for fill in state.fills}
    below = h("input", type="number", min="1", step="1", value=state.below, data_act="below",
              data_input=index, class_="small")  # fmt: skip
    dims = [_dim_control(state, dim) for dim, (low, high) in enumerate(state.bounds) if low != high]
    return (
        choice("input values", fills, state.fill, data_act="fill", data_input=index),
        labelled("random below", below) if state.takes_below else None,
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
    )


def _rare_controls(state: TensorInput) -> tuple[object, ...]:
    """Return the controls that few people need: they are folded."""
    seed = h("input", type="number", min="0", step="1", value=state.seed, data_act="seed",
             data_input=state.index, class_="small")  # fmt: skip
    return (
        labelled("seed", seed) if state.is_random else None,
        h(
            "button",
            "Save .npy",
            type="button",
            data_act="save-input",
            data_input=state.index,
            title="Download the input as an array",
        ),
    )


def _media_buttons(state: TensorInput) -> tuple[object, ...]:
    return (
        _file_control(state),
        _device_button(state, "camera", "Camera") if state.form is not None else None,
        _device_button(state, "record", "Record") if state.sound is not None else None,
        _device_button(state, "listen", "Live mic") if _can_listen(state) else None,
        _device_button(state, "play", "Play") if state.samples is not None else None,
    )


def _can_listen(state: TensorInput) -> bool:
    """Tell whether a call takes a short part of a sound, so that a stream can be answered."""
    if state.sound is None:
        return False
    window = state.bounds[state.sound.time][1]
    return window <= LONGEST_WINDOW * state.sound_settings.rate


def dim_id(state: TensorInput, dim: int, slider: bool) -> str:
    return f"input-{state.index}-dim-{dim}{'-slider' if slider else ''}"


def _dim_control(state: TensorInput, dim: int) -> Html:
    """Return a number field for a dim, and a slider unless its range is huge."""
    low, high = state.bounds[dim]
    known = {"min": low, "max": high, "step": "1", "value": state.dims[dim], "data_act": "dim",
             "data_input": state.index, "data_dim": dim}  # fmt: skip
    number = h("input", type="number", id=dim_id(state, dim, False), class_="small", **known)
    label = h("span", f"dim {dim} ({low:,} to {high:,})", class_="label")
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
        data_rate=state.sound_settings.rate if device == "listen" else None,
    )


def _file_control(state: TensorInput) -> Html:
    kinds = ".npy,.npz,.bin"
    if state.form is not None:
        kinds = f"{kinds},image/*"
    elif state.sound is not None:
        kinds = f"{kinds},audio/*"
    chosen = h(
        "input",
        type="file",
        accept=kinds,
        multiple=state.form is not None,
        data_act="npy",
        data_input=state.index,
        aria_label=f"A file for {state.name}",
    )
    return h("label", "Choose file", chosen, class_="button", title=f"Takes {kinds}")


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
