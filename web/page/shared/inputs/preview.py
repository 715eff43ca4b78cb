"""The preview of an input: a picture, a wave or its first values, and its numbers."""

from __future__ import annotations

from collections.abc import Callable

from page.shared.cards.fills import CHOSEN
from page.shared.html.markup import Html, h
from page.shared.html.units import bytes_text, count_text, number_text, shape_text
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.shared.npy import Array
from page.shared.outputs.curves import waveform
from page.shared.outputs.figures import zoomed
from page.shared.outputs.pictures import data_url, picture, png_rgb, seen_pixels
from page.shared.outputs.tensors import first_values, summarise

PREVIEWED = 500_000  # elements; a preview must not take longer than the run
SEEN_SIDE = 512  # pixels of a picture's preview
SMALL_SIDE = 128  # of a picture no larger than this, people want to see the pixels

PictureUrl = Callable[[Array], str]  # returns an address for pixels (height, width, 3) uint8


def png_url(pixels: Array) -> str:
    return data_url(png_rgb(pixels))


def is_simple(state: Input) -> bool:
    """Tell whether a card describes the input, and it is set by a drawing, a picture or a sound:
    then all other controls are folded."""
    if not isinstance(state, TensorInput) or not (state.title or state.meaning):
        return False
    return state.fill in ("draw", "picture", "sound") or is_awaiting(state)


def is_awaiting(state: TensorInput) -> bool:
    """Tell whether an example is on its way: its place is kept, so that nothing moves."""
    return state.awaits_picture and not state.touched and state.fill not in CHOSEN


def input_preview(state: Input, picture_url: PictureUrl = png_url) -> Html:
    """Return the preview of an input, which changes while someone types."""
    if state.error:
        return h("p", state.error, class_="notice notice-bad", role="alert")
    if isinstance(state, ScalarInput):
        return Html("")
    if is_awaiting(state) and is_simple(state):
        numbers = h("details", h("summary", "Numbers"), class_="more-controls")
        coming = h("p", "Loading the example …", class_="soft seen-coming")
        return h("div", coming, numbers, class_="simple-preview")
    array = state.array()
    facts = h("p", " · ".join(_facts(state, array)), class_="note")
    told = [text for text in (_scaled(state), state.note) if text]
    note = h("p", " ".join(told), class_="note") if told else None
    if not is_simple(state):
        seen = _seen(state, array, picture_url) or _heard(state, array) or _thumbnail(array)
        return h("div", seen, _values(state, array), facts, note, class_="preview")
    empty = h("p", "Draw something first.", class_="soft drawn-none") if state.is_blank else None
    shown = _heard(state, array) if state.fill == "sound" else None
    if state.fill == "picture":
        shown = _seen(state, array, picture_url)
    folded = _seen(state, array, picture_url) if state.fill == "draw" else None
    return h(
        "div",
        shown or empty,
        note,
        h(
            "details",
            h("summary", "Numbers"),
            h("div", folded, _values(state, array), facts, class_="preview"),
            class_="more-controls",
        ),
        class_="simple-preview",
    )


def _scaled(state: TensorInput) -> str:
    """Say how a picture was scaled; empty if it was not."""
    if state.fill != "picture" or state.photo is None or state.form is None:
        return ""
    photo, form = state.photo, state.form
    tiled = state.tiled_size
    taken = state.dims[form.columns], state.dims[form.rows]
    if tiled is not None:
        taken = tiled[1], tiled[0]
        if (photo.width, photo.height) == taken:
            return f"{count_text(photo.width)} × {count_text(photo.height)} pixels, in tiles."
    if (photo.width, photo.height) == taken:
        return ""
    before, after = (
        f"{count_text(width)} × {count_text(height)}"
        for width, height in ((photo.width, photo.height), taken)
    )
    return f"{before} pixels, scaled to {after} for this model{', in tiles' if tiled else ''}."


def _facts(state: TensorInput, array: Array) -> list[str]:
    facts = [shape_text(array.shape), bytes_text(array.nbytes)]
    if 0 < array.size <= PREVIEWED:
        summary = summarise(array)
        if summary.low is not None and summary.high is not None:
            facts.append(f"{number_text(summary.low)} to {number_text(summary.high)}")
        if summary.nan or summary.inf:
            facts.append(f"{count_text(summary.nan)} NaN, {count_text(summary.inf)} infinite")
    if state.fill in CHOSEN:
        facts.append(f"from {state.file_name}")
    if state.fill == "sound" and state.samples is not None:
        facts.append(f"{len(state.samples) / state.sound_settings.rate:.2f} s long")
    return facts


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


def _seen(state: TensorInput, array: Array, picture_url: PictureUrl) -> Html | None:
    if state.fill not in ("picture", "draw") or state.form is None:
        return None
    pixels = input_pixels(state, SEEN_SIDE)
    height, width = pixels.shape[:2]
    kind = "seen" if max(pixels.shape) < SMALL_SIDE else "seen smooth"
    image = h("img", src=picture_url(pixels), alt="What the model sees", class_=kind,
              width=width, height=height)  # fmt: skip
    if state.fill == "draw":
        return image
    whole = state.dims[state.form.rows], state.dims[state.form.columns]
    return zoomed(
        image,
        zoom_id(state),
        f"The picture in {state.title or state.name}",
        "zoom-seen",
        data_shape=f"{width / height:.4f}",
        data_full="full-input" if (height, width) != whole else None,
        data_input=state.index,
    )


def zoom_id(state: TensorInput) -> str:
    return f"input-{state.index}-zoom"


def input_pixels(state: TensorInput, side: int) -> Array:
    """Return a picture in an input, as the model sees it: (height, width, 3) uint8, no side over
    `side`."""
    assert state.form is not None
    pixels = seen_pixels(state.array(), state.form.layout, side, state.settings.mean_std)
    return pixels[:, :, ::-1] if state.settings.order == "BGR" else pixels


def _heard(state: TensorInput, array: Array) -> Html | None:
    if state.fill != "sound" or not array.size:
        return None
    # Frames overlap: one after the other they would be another sound.
    in_frames = state.sound is not None and state.sound.frames is not None
    samples = state.samples if in_frames and state.samples is not None else array.reshape(-1)
    return waveform(samples, f"The sound that goes into {state.name}")


def _thumbnail(array: Array) -> Html | None:
    """Return a small picture if the array looks like an image; heat maps say little here."""
    made = picture(array) if 0 < array.size <= PREVIEWED else None
    if made is None or made.kind != "image":
        return None
    return h("img", src=made.url, alt="The input as an image", class_="thumbnail")
