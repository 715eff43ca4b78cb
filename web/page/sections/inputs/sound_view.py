"""Controls for an input that is a sound, or a text."""

from __future__ import annotations

from collections.abc import Mapping

from page.shared.html.markup import Html, choice, h, labelled
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.sounds import HIGHEST_RATE, LEVELS, LOWEST_RATE, PARTS


def sound_controls(state: TensorInput) -> Html:
    """Return the controls that say how samples become numbers."""
    settings, form = state.sound_settings, state.sound
    assert form is not None
    fields = [
        _number(state, "rate", "sample rate", settings.rate, LOWEST_RATE, HIGHEST_RATE),
        _choice(state, "part", "use", PARTS, settings.part),
        _choice(state, "level", "loudness", LEVELS, settings.level),
    ]
    if form.frames is not None:
        window = state.dims[form.time]
        hop = settings.hop or window
        fields.append(_number(state, "hop", "hop length", hop, 1, 100 * window))
    return h("div", fields, class_="controls")


def _choice(
    state: TensorInput, name: str, label: str, options: Mapping[str, str], chosen: str
) -> Html:
    return choice(label, options, chosen, **_acting(state, name))


def _number(state: TensorInput, name: str, label: str, value: int, low: int, high: int) -> Html:
    field = h(
        "input",
        type="number",
        min=low,
        max=high,
        step="1",
        value=value,
        **_acting(state, name),
        class_="small",
    )
    return labelled(label, field)


def _acting(state: TensorInput, name: str) -> dict[str, object]:
    return {"data_act": "sound-setting", "data_input": state.index, "data_name": name}


def text_controls(state: TensorInput, tokenizer: str) -> Html:
    """Return the field for a text; `tokenizer` is the name of the tokenizer's file, or ""."""
    given = h(
        "label",
        "Another tokenizer" if tokenizer else "Choose its tokenizer.json",
        h(
            "input",
            type="file",
            accept=".json,.model",
            multiple=True,
            data_act="input-tokenizer",
            data_input=state.index,
            aria_label=f"The tokenizer for {state.name}",
        ),
        class_="button",
    )
    area = h(
        "textarea",
        state.prompt,
        rows="3",
        autocomplete="off",
        data_act="prompt",
        data_input=state.index,
    )
    field = labelled(f"text, in tokens of {tokenizer or 'its tokenizer'}", area, "typing")
    why = "The model's tokenizer.json turns text into token ids."
    return h(
        "div",
        field if tokenizer or state.prompt else h("p", why, class_="note"),
        given,
        class_="worded",
    )
