"""The verdict about a program's example: a badge, and a button for a safer variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from page.shared.html.markup import Html, h
from webpte.engine.call.options import USUAL
from webpte.inspection.report import Check


@dataclass(frozen=True)
class Verdict:
    """Whether the outputs of an example agree with the reference, and the worst element."""

    agrees: bool
    detail: str

    @classmethod
    def of(cls, check: Check) -> Verdict:
        worst = check.worst
        if worst is None:
            return cls(check.agrees, "" if check.agrees else "an output has another shape")
        place = f"{worst.output}{list(worst.index)}"
        if check.agrees:
            return cls(True, f"largest error: {worst.used:.1%} of what is allowed")
        return cls(False, f"{place} is {worst.actual:g} instead of {worst.wanted:g}")

    @classmethod
    def read(cls, kept: Any, place: str) -> Verdict | None:
        """Return a verdict that was stored for this place; None if there is none."""
        if not isinstance(kept, dict) or kept.get("place") != place:
            return None
        return cls(bool(kept.get("agrees")), str(kept.get("detail", ""))[:200])

    def stored(self, place: str) -> dict[str, object]:
        return {"place": place, "agrees": self.agrees, "detail": self.detail}


def check_view(verdict: Verdict | None, variant: str, safer: str) -> Html:
    """Return the button that checks the example, with the last verdict.

    `safer` is the next safer variant; empty if there is none.
    """
    button = h(
        "button",
        "Built-in test",
        type="button",
        data_act="check-example",
        data_idle=True,
        title="Run the example of this model and compare its outputs with the reference",
    )
    if verdict is None:
        return h("div", button, class_="controls")
    variant = "" if variant == USUAL else variant
    shown = f"{variant}; " if variant and verdict.detail else variant
    if verdict.agrees:
        told = h(
            "p",
            h("strong", "Matches the reference"),
            f" ({shown}{verdict.detail})" if shown or verdict.detail else None,
            class_="notice notice-good",
        )
        return h("div", h("div", button, class_="controls"), told)
    told = h(
        "p",
        h("strong", "Differs from the reference"),
        f" ({variant})" if variant else None,
        f": {verdict.detail}. ",
        "Results on this GPU may be wrong. " if variant != "NumPy" else "",
        class_="notice notice-bad",
    )
    switch = h(
        "button",
        f"Run {safer}",
        type="button",
        data_act="safer",
        data_idle=True,
        title="Open the program again in this variant, and check it there",
    )
    return h("div", h("div", button, switch if safer else None, class_="controls"), told)
