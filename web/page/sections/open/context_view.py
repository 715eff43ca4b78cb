"""The question how long the context of a language model may be."""

from __future__ import annotations

from collections.abc import Mapping

from page.shared.html.markup import Html, choice, h
from page.shared.html.units import count_text
from webpte.inspection.report import MemoryForecast
from webpte.inspection.report.forecast import megabytes


def context_view(
    name: str, forecast: MemoryForecast, choices: Mapping[int, int], proposed: int
) -> Html:
    """Return the question. `choices`: bytes by tokens, the program's own context first."""
    kinds = {
        "weights": forecast.weights,
        "caches": forecast.state,
        "activations": forecast.activations + forecast.scratch,
        "while it loads": forecast.staging,
    }
    facts = [h("div", h("dt", kind), h("dd", _size(count))) for kind, count in kinds.items()]
    allowed = "This device cannot hold it"
    if forecast.is_over_budget and forecast.budget is not None:
        allowed = f"On a phone, a page may use about {_size(forecast.budget)}"
    elif not forecast.refusals:
        allowed = "There was not enough memory"
    own = next(iter(choices))
    options = {
        str(tokens): f"{count_text(tokens)} tokens, {'' if tokens == own else 'about '}"
        f"{_size(count)}{' (all)' if tokens == own else ''}"
        for tokens, count in choices.items()
    }
    return h(
        "form",
        h("h3", f"{name} needs {_size(forecast.peak)} of GPU memory"),
        h("p", f"{allowed}. A shorter context makes the caches smaller; the model then remembers "
          "less of a conversation."),
        h("dl", facts, class_="facts"),
        h("p", forecast.refusals[0], class_="notice notice-bad") if forecast.refusals else None,
        h(
            "div",
            choice("context", options, str(proposed), name="context"),
            h("button", "Open", type="submit", class_="primary"),
            h("button", "Cancel", type="button", data_act="cancel-opening"),
            class_="controls",
        ),
        data_act="open-context",
        class_="context-question",
        aria_label="Context",
    )  # fmt: skip


def _size(count: int) -> str:
    return f"{megabytes(count)} MB"
