"""Settings of a comparison, as typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from webpte.inspection.report.difference import ATOL, RTOL

RELATIVE, ABSOLUTE = "relative tolerance", "absolute tolerance"  # labels of their fields


@dataclass
class CompareSettings:
    """The settings as texts, so that a wrong one stays on the page to be corrected."""

    rtol: str = f"{RTOL:g}"
    atol: str = f"{ATOL:g}"
    drift: bool = True

    def take(self, fields: Mapping[str, str]) -> None:
        """Read the fields of the form, which lacks boxes that are not ticked."""
        self.rtol, self.atol = str(fields["rtol"]).strip(), str(fields["atol"]).strip()
        self.drift = "drift" in fields

    def tolerances(self) -> tuple[float, float]:
        """Return (rtol, atol). Raises ValueError."""
        return _tolerance(RELATIVE, self.rtol), _tolerance(ABSOLUTE, self.atol)


def _tolerance(label: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"The {label} is a number from 0 on, such as 1e-3, not {text!r}")
    return value
