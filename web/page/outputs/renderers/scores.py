"""The highest scores of an output, by name where names are known."""

from __future__ import annotations

from page.html.markup import Html, h
from page.html.units import count_text, number_text
from page.outputs.figures import bar
from page.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    one_of,
    whole,
)
from page.outputs.scores import HOWS, Score, rank

_TOPS = {"5": "top 5", "10": "top 10", "25": "top 25", "100": "top 100"}


def _draw(context: OutputContext, settings: Settings) -> Html:
    top = whole(settings, "top", 5, 1, 100)
    how = one_of(settings, "how", list(HOWS), "auto")
    shown = scores_figure(context, top, how)
    assert shown is not None  # as `fits` says
    return h(
        "div",
        shown,
        h(
            "div",
            choice_field(context, "top", "show", _TOPS, str(top)),
            choice_field(context, "how", "scores as", HOWS, how),
            class_="controls",
        ),
        class_="rendered-scores",
    )


def scores_figure(context: OutputContext, top: int = 5, how: str = "auto") -> Html | None:
    ranking = rank(context.array, context.labels, top, how)
    if ranking is None:
        return None
    more = f", and {count_text(ranking.more)} more" if ranking.more else ""
    return h(
        "figure",
        h("ol", [_score(score) for score in ranking.scores], class_="largest"),
        h("figcaption", ranking.caption + more),
    )


def _score(score: Score) -> Html:
    share = score.share
    return h(
        "li",
        None if score.label == str(score.at) and not score.where  # it would be said twice
        else h("code", score.where or f"[{score.at}]"),
        h("span", score.label, class_="label-name") if score.label else None,
        h("span", number_text(score.value) if share is None else f"{100 * share:.1f} %",
          class_="number", title=number_text(score.value)),
        bar(100 * share) if share is not None else None,
    )  # fmt: skip


RENDERER = Renderer(
    "scores",
    "Scores",
    lambda context: rank(context.array, context.labels) is not None,
    _draw,
    best=lambda context: bool(context.labels),
)
