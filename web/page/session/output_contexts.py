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
    return [
        OutputContext(
            output,
            session.labels.get(output.index, ()),
            told[output.index] if output.index < len(told) else CardValue(),
            backdrop,
            size,
            [other for other in results.outputs if other is not output],
            picture_url,
        )
        for output in results.outputs
    ]


def _backdrop(session: Session) -> tuple[Array | None, tuple[int, int]]:
    """Return the input picture of the run, as the model saw it, and the input's size."""
    results = session.shown
    if results is None or not results.calls:
        return None, (0, 0)
    if results.backdrop is None:
        results.backdrop = (None, (0, 0))
        for state, array in zip(session.inputs, results.calls[-1].inputs, strict=True):
            form = state.form if isinstance(state, TensorInput) else None
            if form is not None and isinstance(array, np.ndarray) and array.size:
                assert isinstance(state, TensorInput)
                known = state.fill in ("picture", "draw")
                scale = state.settings.mean_std if known else None
                pixels = seen_pixels(array, form.layout, BACKDROP, scale)
                if state.settings.order == "BGR":
                    pixels = pixels[:, :, ::-1]
                size = (array.shape[form.rows], array.shape[form.columns])
                results.backdrop = (pixels, size)
                break
    return results.backdrop
