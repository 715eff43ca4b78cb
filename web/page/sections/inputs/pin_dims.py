"""Search for the dim that a file offers to change, but with which a run fails.

A program with any dynamic dim offers all dims of its inputs, up to the size that each was exported
with: the file does not say which of them are real. A run with a size that cannot change fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from page.core.session import Session
from page.shared.html.units import count_text, shape_text
from page.shared.inputs.inputs import Input, TensorInput
from webpte.engine.dtypes import INT32_MAX
from webpte.errors import ClosedError, DeviceError, IndexRangeError, InputError, WebpteError

_TRIED = 6  # sizes that are put back, each alone, to see whether it was that


@dataclass(frozen=True, eq=False)
class Suspect:
    state: TensorInput
    dim: int
    given: int

    @property
    def exported(self) -> int:
        return self.state.bounds[self.dim][1]

    @property
    def explanation(self) -> str:
        return (
            f"Dim {self.dim} is fixed at {count_text(self.exported)} in this program: a run with "
            f"{count_text(self.given)} failed."
        )


def is_about_sizes(error: Exception) -> bool:
    """Tell whether an error may be about sizes, not about values or the device."""
    other = InputError | IndexRangeError | DeviceError | ClosedError
    return isinstance(error, WebpteError) and not isinstance(error, other)


def suspects(states: Sequence[Input]) -> list[Suspect]:
    """Return the dims that differ from the export, the smallest first: features before lengths."""
    found = [
        Suspect(state, dim, size)
        for state in states
        if isinstance(state, TensorInput)
        for dim, (size, (low, high)) in enumerate(zip(state.dims, state.bounds, strict=True))
        if low != high != INT32_MAX and size != high
    ]
    return sorted(found, key=lambda one: one.exported)


def exported_with(state: TensorInput) -> str:
    highest = [high for _, high in state.bounds]
    return (
        f"The last run failed. The file was exported with {shape_text(highest)} here, and does not "
        "say which of these sizes may change: put those back that the model needs."
    )


async def find_culprit(
    session: Session, method: str, states: Sequence[Input], arrays: Sequence[Any]
) -> Suspect | None:
    """Find the dim that lets the run succeed when it alone has its exported size.

    Nothing is tried on a program that keeps state, which a run would change.
    """
    if session.stateful:
        return None
    for suspect in suspects(states)[:_TRIED]:
        state = suspect.state
        shape = list(np.shape(arrays[state.index]))
        if shape != state.dims:  # something else was set while it ran
            return None
        shape[suspect.dim] = suspect.exported
        tried = [*arrays]
        tried[state.index] = np.zeros(shape, state.dtype)
        try:
            await session.program.run(method, *tried)
        except WebpteError:
            continue
        return suspect
    return None
