"""Results that are lists with scores: labels, words for a gap, ranked texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from page.shared.html.markup import Html, h
from page.shared.outputs.figures import bar
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.base import MOST_SHOWN, ResultView, Settings, has_items, percent


def _bars(rows: Iterable[tuple[str, float]], shares: bool = True) -> Html:
    """Return names with bars as long as their scores are high."""
    listed = list(rows)[:MOST_SHOWN]
    shares = shares and all(0 <= score <= 1 for _, score in listed)
    top = 1.0 if shares else max((abs(score) for _, score in listed), default=1.0) or 1.0
    items = [
        h(
            "li",
            h("span", name, class_="name"),
            h("span", percent(score) if shares else f"{score:.3f}", class_="share number"),
            bar(100 * max(score, 0) / top, 6),
        )
        for name, score in listed
    ]
    return h("ol", items, class_="bars task-bars")


def _draw_labels(answer: TaskAnswer, settings: Settings) -> Html:
    return _bars((str(one["label"]), one["score"]) for one in answer.result)


def _is_labelled(result: Any) -> bool:
    return isinstance(result, dict) and {"labels", "scores"} <= result.keys()


def _draw_labelled(answer: TaskAnswer, settings: Settings) -> Html:
    found = answer.result
    return _bars(zip(map(str, found["labels"]), found["scores"], strict=True))


def _gaps(result: Any) -> list[list[Any]]:
    """Return the words of each gap: a text with one gap has no list around them."""
    return result if result and isinstance(result[0], list) else [result]


def _is_filled(result: Any) -> bool:
    if not isinstance(result, list) or not result:
        return False
    return all(has_items(gap, "token_str", "score") for gap in _gaps(result))


def _draw_filled(answer: TaskAnswer, settings: Settings) -> Html:
    gaps = _gaps(answer.result)
    return h(
        "div",
        [
            h(
                "section",
                h("h3", f"Gap {at}") if len(gaps) > 1 else None,
                _bars((str(one["token_str"]), one["score"]) for one in gap),
            )
            for at, gap in enumerate(gaps, 1)
        ],
        h("p", str(gaps[0][0].get("sequence", "")), class_="task-text"),
        class_="task-told",
    )


def _draw_ranked(answer: TaskAnswer, settings: Settings) -> Html:
    found = answer.result
    shares = all(0 <= one["score"] <= 1 for one in found)
    return _bars(((str(one["text"]), one["score"]) for one in found), shares)


LABELS = ResultView(lambda found: has_items(found, "label", "score"), _draw_labels)
LABELLED = ResultView(_is_labelled, _draw_labelled)
FILLED = ResultView(_is_filled, _draw_filled)
RANKED = ResultView(lambda found: has_items(found, "corpus_id", "score", "text"), _draw_ranked)
