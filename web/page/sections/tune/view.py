"""The quiet line about tuning: an offer on a GPU that nobody has measured, or how far it is."""

from __future__ import annotations

import math

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text

# Runs that tuning takes: candidates of a kernel, each checked once, warmed up once and timed.
_CANDIDATES, _RUNS_EACH = 7, 7


def tuning_seconds(first: float | None, last: float | None, rest: float) -> int | None:
    """Estimate the seconds that tuning takes, from the milliseconds of the first and last run.

    The first run compiles kernels, as every candidate does. None if nothing was timed.
    """
    if last is None:
        return None
    compiling = max((first or last) - last, 0.0)
    each = _RUNS_EACH * last + compiling
    return math.ceil(_CANDIDATES * (each / 1000 + rest))


def tune_offer(seconds: int | None) -> Html:
    about = f" (about {count_text(seconds)} s)" if seconds is not None else ""
    return h(
        "p",
        "This GPU has not been measured yet: ",
        h(
            "button",
            "tune",
            type="button",
            class_="quiet",
            data_act="tune",
            title="Tries other tile sizes in the background and keeps the fastest",
        ),
        f"{about}. ",
        h("button", "Not now", type="button", class_="quiet", data_act="dismiss-tuning"),
        class_="note tuning",
    )


def tune_progress(done: int, total: int) -> Html:
    text = "Tuning in the background"
    known = {"value": done, "max": total} if total else {}
    return h(
        "p",
        h("progress", aria_label=text, **known),
        f" {text}",
        f": {count_text(done)} of {count_text(total)} " if total else " ",
        h("button", "Stop", type="button", class_="quiet", data_act="stop-tuning"),
        class_="note tuning",
    )
