"""Inputs that were reset and drawings that were cleared, offered back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from page.browser import Browser
from page.inputs.inputs import Input, TensorInput
from page.session.session import Session
from page.session.state import AppState


def offer_reset(stage: AppState, session: Session, draw: Callable[[], None]) -> None:
    """Resets the inputs of the chosen method; what someone had set can be had again."""
    method, before = session.method, session.reset_inputs()
    draw()

    def back() -> None:
        session.restore_inputs(method, before)
        if session is stage.session and session.method == method:
            draw()

    if any(state.touched for state in before):
        stage.undo.offer("Reset the inputs.", back)


def offer_drawing(stage: AppState, state: TensorInput, show: Callable[[TensorInput], None]) -> None:
    """What is on the pad of an input that is about to be cleared."""
    before = copy(state)

    def back() -> None:
        session = stage.session
        if session is not None and state in session.inputs and state.fill == "draw":
            state.adopt(before)  # the very same: results of it are not earlier ones
            show(state)
            paint_pads(stage.browser, [state])

    if before.pixels is not None and before.pixels.any():
        stage.undo.offer(f"Cleared the drawing of {state.name}.", back)


def paint_pads(browser: Browser, states: Sequence[Input]) -> None:
    """Pads are their script's, and new ones are empty: each as its input has it."""
    for state in states:
        drawn = state.pixels if isinstance(state, TensorInput) and state.fill == "draw" else None
        if drawn is not None and drawn.any():
            pixels = {"rows": len(drawn), "columns": drawn.shape[1], "grey": drawn.tobytes()}
            browser.show(paint={f"input-{state.index}-pad": pixels})
