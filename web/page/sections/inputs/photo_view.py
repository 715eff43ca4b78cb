"""Controls for an input that is a picture or a drawing."""

from __future__ import annotations

from collections.abc import Mapping

from page.shared.html.markup import Html, choice, h, labelled
from page.shared.html.units import number_text
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.photos import FITS, ORDERS, SCALES

_ORDERS = {order: order for order in ORDERS}
_PAD_SIDE = 280  # CSS pixels of its longer side


def pad(state: TensorInput) -> Html:
    """Return a pad with a pen as thick as two pixels of the model; `pad.js` draws on it.

    Its content belongs to the script, so a redraw of the card leaves it alone.
    """
    assert state.form is not None
    rows, columns = state.dims[state.form.rows], state.dims[state.form.columns]
    scale = _PAD_SIDE / max(rows, columns)
    canvas = h(
        "canvas",
        width=round(columns * scale),
        height=round(rows * scale),
        class_="pad",
        role="application",
        tabindex="0",
        aria_label=f"Drawing pad for {state.title or state.name}",
        aria_describedby=f"input-{state.index}-pad-keys",
        data_act="draw",
        data_input=state.index,
        data_rows=rows,
        data_columns=columns,
    )
    keys = "Draw here. Keys: arrows move the pen, Space puts it down or lifts it, Delete clears."
    return h(
        "div",
        h("div", canvas, h("span", class_="pad-pen", hidden=True), id=f"input-{state.index}-pad",
          class_="pad-box", data_keep=""),
        h(
            "div",
            h("button", "Clear", type="button", data_act="clear-drawing", data_input=state.index),
            h("p", keys, class_="note", id=f"input-{state.index}-pad-keys"),
            class_="pad-side",
        ),
        class_="drawing",
    )  # fmt: skip


def picture_controls(state: TensorInput) -> Html:
    """Return the controls that say how pixels are scaled to numbers."""
    assert state.form is not None
    settings = state.settings
    fields = [_choice(state, "fit", "size", FITS, settings.fit)] if state.fill == "picture" else []
    if state.form.channels == 3:
        fields.append(_choice(state, "order", "channels", _ORDERS, settings.order))
    fields.append(_choice(state, "scale", "scale pixels to", SCALES, settings.scale))
    if settings.scale == "own":
        fields.append(_numbers(state, "mean", settings.mean or (0,)))
        fields.append(_numbers(state, "std", settings.std or (1,)))
    return h("div", fields, class_="controls")


def _choice(
    state: TensorInput, name: str, label: str, options: Mapping[str, str], chosen: str
) -> Html:
    return choice(label, options, chosen, **_acting(state, name))


def _numbers(state: TensorInput, name: str, values: tuple[float, ...]) -> Html:
    field = h(
        "input",
        type="text",
        inputmode="decimal",
        autocomplete="off",
        value=" ".join(number_text(float(value)) for value in values),
        **_acting(state, name),
        class_="numbers",
    )
    return labelled(name, field)


def _acting(state: TensorInput, name: str) -> dict[str, object]:
    return {"data_act": "picture-setting", "data_input": state.index, "data_name": name}
