"""A chart of how differences add up from call to call, on a logarithmic scale."""

from __future__ import annotations

import math

from page.shared.html.markup import Html
from page.shared.html.units import plural
from page.shared.outputs.figures import line_figure
from webpte.inspection.report import Comparison

_WIDTH, _HEIGHT = 480, 90
_FEWEST = 3  # calls; of two the table says it all
_DECADES = 8  # that the scale has at most: lower values lie on the ground


def drift_chart(found: Comparison) -> Html | None:
    """Return the chart; None where there is no drift to draw."""
    drifts = [call.drift.max_abs for call in found.calls if call.drift is not None]
    finite = [value for value in drifts if 0 < value < math.inf]
    if len(drifts) < _FEWEST or not finite:
        return None
    top = math.ceil(math.log10(max(finite)) + 1e-9)
    bottom = max(math.floor(math.log10(min(finite))), top - _DECADES)

    def height(value: float) -> float:
        if not 0 < value < math.inf:
            return 1.0 if value else 0.0  # infinite ones at the upper edge
        share = (math.log10(value) - bottom) / (top - bottom)
        return min(max(share, 0.0), 1.0)

    return line_figure(
        [height(value) for value in drifts],
        (_WIDTH, _HEIGHT),
        f"Drift over {plural(len(drifts), 'call')}, 1e{bottom} to 1e{top}",
        "compare-drift",
        "first call",
        f"Drift, 1e{bottom} to 1e{top}",
        "last call",
    )
