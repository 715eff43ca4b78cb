"""Shorter inputs for traces on a software adapter, where a long text takes half a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from page.core.session import Session
from page.core.state import AppState
from page.shared.inputs.inputs import Input, TensorInput
from page.views.view import LANGUAGE_MODEL

TOKENS = 32  # enough to see which kernels take their time


@dataclass(frozen=True)
class Shorter:
    """Inputs for a trace; `note` says which of them are shortened."""

    inputs: tuple[Input, ...]
    note: str = ""


def traced_inputs(state: AppState, session: Session) -> Shorter:
    """Return the current inputs, or shorter ones where those would take very long."""
    slow = session.device == "webgpu" and session.program.device_info.software
    if slow and LANGUAGE_MODEL.met(state):
        return _shorter(session.inputs)
    return Shorter(tuple(session.inputs))


def _shorter(states: Sequence[Input]) -> Shorter:
    """Shorten token inputs that nobody has set to 32 tokens, or as few as the bounds allow."""
    found: list[Input] = []
    notes: list[str] = []
    for state in states:
        low, high = _range(state)
        count = min(max(low, TOKENS), high)
        if isinstance(state, TensorInput) and count < high:
            notes.append(
                f"This adapter is software, so {count:,} tokens are traced instead of {high:,}. "
                f"To trace another number, set {state.title or state.name} in Run."
            )
            found.append(replace(state, dims=[*state.dims[:-1], count], _array=None))
        else:
            found.append(state)
    return Shorter(tuple(found), " ".join(notes))


def _range(state: Input) -> tuple[int, int]:
    """Return the range of token counts, up to the current one; (0, 0) for inputs that stay."""
    if not isinstance(state, TensorInput) or not state.takes_text:
        return 0, 0
    if state.touched or state.error or (len(state.bounds) - 1) in state.pinned:
        return 0, 0
    return state.bounds[-1][0], state.dims[-1]
