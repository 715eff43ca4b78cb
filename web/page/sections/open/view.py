"""The card of an opening: its stages, and the contents of the file."""

from __future__ import annotations

from collections.abc import Mapping

from page.core.loaded_text import STAGES
from page.shared.html.markup import Html, h, render
from page.shared.html.units import bytes_text, count_text

_IN_BYTES = ("fetch", "check", "constants")
Amounts = Mapping[str, tuple[int, int]]  # stage -> (done, total); a total of 0 is not known yet


def opening_card(name: str) -> Html:
    """Return the card that shows the progress of opening and then the file's contents."""
    return h(
        "div",
        h(
            "div",
            h("h2", f"Opening {name}", class_="file-name", title=name),
            h("button", "Cancel", type="button", class_="quiet", data_act="cancel-opening"),
            class_="card-head",
        ),
        h("div", id="stages", class_="opening"),
        h("div", id="arriving", class_="file"),
        class_="card",
    )


def progress_view(amounts: Amounts, rate: str = "", paused: bool | None = None) -> Html:
    """Return the progress by stage. Kernels and constants load at the same time.

    `rate` says how fast bytes come; `paused` is None for what cannot be paused.
    """
    order = [stage for stage in STAGES if stage != "check" or stage in amounts]
    reached = max((order.index(stage) for stage in amounts), default=0)
    steps = []
    busy = None
    for index, stage in enumerate(order):
        done, total = amounts.get(stage, (0, 0))
        if index > reached:
            state = "next"
        elif stage not in amounts or 0 < total <= done or (index < reached and not total):
            state = "done"
        else:
            state = "now"
            busy = stage
        steps.append(
            h(
                "li",
                h("span", STAGES[stage]),
                h("span", _amount(stage, done, total), class_="number") if total > 1 else None,
                class_=f"step step-{state}",
                aria_current="step" if state == "now" else None,
            )
        )
    done, total = amounts.get(busy or "", (0, 0))
    known = {"value": done, "max": total} if total else {}
    return render(
        (
            h("progress", aria_label=STAGES[busy] if busy else "Opening", **known),
            h("ol", steps, class_="steps"),
            h("p", _transfer(rate, paused), class_="transfer soft")
            if rate or paused is not None
            else None,
        )
    )


def _transfer(rate: str, paused: bool | None) -> Html:
    told = "The download is paused. " if paused else rate
    return h(
        "p",
        h("span", told, class_="number") if told else None,
        h(
            "button",
            "Resume" if paused else "Pause",
            type="button",
            class_="quiet",
            data_act="pause-opening",
        )
        if paused is not None
        else None,
        class_="transfer soft",
    )


def _amount(stage: str, done: int, total: int) -> str:
    if stage in _IN_BYTES:
        return f"{bytes_text(done)} of {bytes_text(total)}"
    return f"{count_text(done)} of {count_text(total)}"
