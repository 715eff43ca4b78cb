"""The outputs of a session with all that renderers need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from page.core.session import Backdrop, Session
from page.shared.cards.cards import CardValue
from page.shared.inputs.inputs import TensorInput
from page.shared.npy import Array
from page.shared.outputs.pictures import seen_pixels
from page.shared.outputs.renderers.base import OutputContext

BACKDROP = 1024  # pixels of its longer side


def contexts_of(session: Session, picture_url: Callable[[Array], str]) -> list[OutputContext]:
    """Return the context of each output that is shown, in order."""
    results = session.shown
    if results is None:
        return []
    card = session.source.card
    told = card.outputs if card is not None else ()
    if results.backdrop is None:
        results.backdrop = input_picture(session, BACKDROP)
    seen = results.backdrop
    row_seconds = _frame_seconds(session)
    return [
        OutputContext(
            output,
            session.labels.get(output.index, ()),
            told[output.index] if output.index < len(told) else CardValue(),
            seen.pixels,
            seen.size,
            [other for other in results.outputs if other is not output],
            picture_url,
            row_seconds,
            seen.photo,
        )
        for output in results.outputs
    ]


def _frame_seconds(session: Session) -> float:
    """Return the time from frame to frame of the sound that was answered; 0 without one."""
    for state in session.inputs:
        if isinstance(state, TensorInput) and state.fill == "sound" and state.sound is not None:
            settings = state.sound_settings
            if state.sound.frames is not None and settings.hop:
                return settings.hop / settings.rate
    return 0.0


def input_picture(session: Session, side: int) -> Backdrop:
    """Return the input picture of the last run with no side over `side`."""
    results = session.shown
    calls = results.calls if results is not None else ()
    for state, array in zip(session.inputs, calls[-1].inputs if calls else (), strict=False):
        form = state.form if isinstance(state, TensorInput) else None
        if form is not None and isinstance(array, np.ndarray) and array.size:
            assert isinstance(state, TensorInput)
            known = state.fill in ("picture", "draw")
            scale = state.settings.mean_std if known else None
            pixels = seen_pixels(array, form.layout, side, scale)
            if state.settings.order == "BGR":
                pixels = pixels[:, :, ::-1]
            size = array.shape[form.rows], array.shape[form.columns]
            assert results is not None
            is_current = results.held == session.held() and state.fill == "picture"
            photo = state.photo if is_current else None
            loaded = (photo.height, photo.width) if photo is not None else (0, 0)
            return Backdrop(pixels, size, loaded)
    return Backdrop()
