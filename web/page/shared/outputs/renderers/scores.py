"""The highest scores of an output, by name where names are known."""

from __future__ import annotations

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, number_text
from page.shared.outputs.figures import bar
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    one_of,
    whole,
)
from page.shared.outputs.scores import HOWS, SHOWN, SHOWN_ROWS, Ranking, Score, rank

_TOPS = {"5": "top 5", "10": "top 10", "25": "top 25", "100": "top 100"}
_ROWS = {str(SHOWN_ROWS): f"{SHOWN_ROWS} rows", "25": "25 rows", "100": "100 rows"}


def _draw(context: OutputContext, settings: Settings) -> Html:
    top = whole(settings, "top", 5, 1, 100)
    how = one_of(settings, "how", list(HOWS), "auto")
    ranking = _ranking(context, top, how)
    assert ranking is not None  # as `fits` says
    tops, chosen = (_ROWS, max(top, SHOWN_ROWS)) if ranking.rows else (_TOPS, top)
    return h(
        "div",
        _figure(ranking),
        h(
            "div",
            choice_field(context, "top", "show", tops, str(chosen))
            if not 0 < ranking.rows <= SHOWN_ROWS
            else None,
            choice_field(context, "how", "scores as", HOWS, how),
            class_="controls",
        ),
        class_="rendered-scores",
    )


def scores_figure(context: OutputContext) -> Html | None:
    ranking = _ranking(context)
    return None if ranking is None else _figure(ranking)


def _ranking(context: OutputContext, top: int = SHOWN, how: str = "auto") -> Ranking | None:
    return rank(context.array, context.labels, top, how, context.row_seconds)


def _figure(ranking: Ranking) -> Html:
    """Return the list; the first of one row is its answer, and is larger than the others."""
    shown = len(ranking.scores)
    more = f"; {count_text(shown)} of {count_text(ranking.rows)}" if ranking.rows > shown else ""
    return h(
        "figure",
        h(
            "ol",
            [_score(score) for score in ranking.scores],
            class_="largest" if ranking.rows else "largest answered",
        ),
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
