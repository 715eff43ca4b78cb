"""A predictor whose process is killed once: for tests of a cluster's reaction."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from webpte_serve.ray import Predictor


class MortalPredictor(Predictor):
    """Kills its own process when it has computed a certain row, before it can return it.

    killed   a file that is there once it was done; then it computes as others do
    Results have the column `process`: by whom a row was computed.
    """

    def __init__(self, source: Any, *, row: int, killed: str, **options: Any) -> None:
        super().__init__(source, **options)
        self._row, self._killed = row, Path(killed)

    def __call__(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results of a batch, or end the process."""
        found = super().__call__(batch)
        if self._row in batch["id"] and not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found | {"process": np.full(len(batch["id"]), os.getpid())}
