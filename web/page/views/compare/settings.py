"""What people choose before a comparison, as typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from webpte.report.difference import ATOL, RTOL


@dataclass
class CompareSettings:
    """Texts, so that a wrong one stays on the page to be mended."""

    rtol: str = f"{RTOL:g}"
    atol: str = f"{ATOL:g}"
    drift: bool = True

    def take(self, fields: Mapping[str, str]) -> None:
        """Of a form: a box that is not ticked is not among its fields."""
        self.rtol, self.atol = str(fields["rtol"]).strip(), str(fields["atol"]).strip()
        self.drift = "drift" in fields

    def tolerances(self) -> tuple[float, float]:
        """(rtol, atol); raises ValueError."""
        return _tolerance("rtol", self.rtol), _tolerance("atol", self.atol)


def _tolerance(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is a number from 0 on, such as 1e-3, not {text!r}")
    return value
