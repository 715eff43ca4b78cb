"""The outputs of a session with all that renderers need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from page.cards.cards import CardValue
from page.inputs.inputs import TensorInput
from page.npy import Array
from page.outputs.pictures import seen_pixels
from page.outputs.renderers.base import OutputContext
from page.session.session import Session

BACKDROP = 1024  # pixels of its longer side


def contexts_of(session: Session, picture_url: Callable[[Array], str]) -> list[OutputContext]:
    """Return the context of each output that is shown, in order."""
    results = session.shown
    if results is None:
        return []
    card = session.source.card
    told = card.outputs if card is not None else ()
    backdrop, size = _backdrop(session)
    row_seconds = _frame_seconds(session)
    return [
        OutputContext(
            output,
            session.labels.get(output.index, ()),
            told[output.index] if output.index < len(told) else CardValue(),
            backdrop,
            size,
            [other for other in results.outputs if other is not output],
            picture_url,
            row_seconds,
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


def _backdrop(session: Session) -> tuple[Array | None, tuple[int, int]]:
    """Return the input picture of the run, as the model saw it, and the input's size."""
    results = session.shown
    if results is None:
        return None, (0, 0)
    if results.backdrop is None:
        results.backdrop = input_picture(session, BACKDROP)
    return results.backdrop


def input_picture(session: Session, side: int) -> tuple[Array | None, tuple[int, int]]:
    """Return the input picture of the last run with no side over `side`, and the input's size."""
    calls = session.shown.calls if session.shown is not None else ()
    for state, array in zip(session.inputs, calls[-1].inputs if calls else (), strict=False):
        form = state.form if isinstance(state, TensorInput) else None
        if form is not None and isinstance(array, np.ndarray) and array.size:
            assert isinstance(state, TensorInput)
            known = state.fill in ("picture", "draw")
            scale = state.settings.mean_std if known else None
            pixels = seen_pixels(array, form.layout, side, scale)
            if state.settings.order == "BGR":
                pixels = pixels[:, :, ::-1]
            return pixels, (array.shape[form.rows], array.shape[form.columns])
    return None, (0, 0)
