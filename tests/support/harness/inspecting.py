"""Programs for tests that look at single calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from webpte import Options
from webpte.engine.gpu.simulated.emulation import EmulatedCall

# Without fusion, every call is a separate kernel.
APART: dict[str, Any] = {"options": Options(fuse=False)}


@contextmanager
def broken(op: str, by: float = 1.0) -> Iterator[None]:
    """A fault: an operator's kernels on the device add `by` to the last element."""
    right = EmulatedCall._encode

    def wrong(self: EmulatedCall, memory: Any, place: Any, array: Any, dtype: Any) -> None:
        if self.origin.call.name == op and array.size:
            array = array.copy()
            array.reshape(-1)[-1] += by
        right(self, memory, place, array, dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmulatedCall, "_encode", wrong)
        yield
