"""Arrays, pictures and drawings that inputs were given, remembered if they are small."""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from page.inputs.inputs import TensorInput
from page.npy import Array, NpyError, read_npy, write_npy

MOST_BYTES = 128 << 10  # browsers remember a few megabytes for all of a site


def written_file(state: TensorInput) -> dict[str, Any]:
    """{} for what is neither from a file nor drawn, or is large."""
    if state.fill in ("picture", "draw"):
        array = state.pixels
    elif state.fill == "file":
        array = state.array()
    else:
        return {}
    if array is None or state.error or array.nbytes > MOST_BYTES:
        return {}
    data = b64encode(write_npy(array)).decode()
    return {"file": {"as": state.fill, "name": state.file_name, "npy": data}}


def restore_file(state: TensorInput, written: Mapping[str, Any]) -> None:
    """What does not fit any more is left out."""
    file = written.get("file")
    if not file:
        return
    name = str(file["name"])
    with contextlib.suppress(NpyError):
        array = read_npy(b64decode(file["npy"]), name)
        if file["as"] == "picture":
            state.take_picture(array, name)
        elif file["as"] == "draw":
            _restore_drawing(state, array)
        else:
            state.take_array(array, name)
        state.touched = True


def _restore_drawing(state: TensorInput, grey: Array) -> None:
    """(height, width) uint8: the pad has the size again that it was drawn at."""
    form = state.form
    if form is None or "draw" not in state.fills or grey.dtype != np.uint8 or grey.ndim != 2:
        raise NpyError(f"{state.name} takes no such drawing")
    sizes = dict(zip((form.rows, form.columns), grey.shape, strict=True))
    if any(not state.bounds[dim][0] <= size <= state.bounds[dim][1] for dim, size in sizes.items()):
        raise NpyError(f"the drawing has another size than {state.name} can have")
    for dim, size in sizes.items():
        state.dims[dim] = size
    state.take_drawing(grey)
