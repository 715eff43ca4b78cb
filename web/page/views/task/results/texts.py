"""Results that are texts, or places in a text: entities, answers, translations, speech."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from page.shared.html.markup import Html, h
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.base import (
    ResultView,
    Settings,
    colour,
    colours_of,
    has_items,
    percent,
)

_ANSWERS = ("generated_text", "summary_text", "translation_text")


# ---- entities


def _name(one: Any) -> str:
    return str(one.get("entity_group") or one.get("entity"))


def _draw_entities(answer: TaskAnswer, settings: Settings) -> Html:
    """Return the text with its entities marked; each kind has a colour, and its name beside it."""
    (text,) = answer.texts.values()
    numbers = colours_of([_name(one) for one in answer.result])
    marks = [(one["start"], one["end"], _name(one), one["score"]) for one in answer.result]
    return h("div", h("p", _marked(text, marks, numbers), class_="task-text"), class_="task-told")


def _marked(
    text: str, marks: Sequence[tuple[int, int, str, float]], numbers: dict[str, int]
) -> list[Any]:
    """Return a text with parts of it marked; parts that overlap an earlier one are left out."""
    parts: list[Any] = []
    at = 0
    for start, end, name, score in sorted(marks):
        if start < at:
            continue
        parts.append(text[at:start])
        # The colour is an attribute of an SVG: the page allows no styles in elements.
        dot = h("circle", cx="4", cy="4", r="4", fill=colour(numbers[name]))
        kind = h("svg", dot, width="8", height="8", aria_hidden="true")
        tag = h("span", kind, name, class_="task-tag") if name else None
        parts.append(h("mark", text[start:end], tag, title=f"{percent(score)} sure"))
        at = end
    return [*parts, text[at:]]


def _is_answers(result: Any) -> bool:
    listed = result if isinstance(result, list) else [result]
    return has_items(listed, "answer", "start", "end", "score")


def _draw_answers(answer: TaskAnswer, settings: Settings) -> Html:
    found = answer.result if isinstance(answer.result, list) else [answer.result]
    best = found[0]
    context = answer.texts.get("context", "")
    marks = [(best["start"], best["end"], "", best["score"])] if best["answer"] else []
    rows = [
        h("p", one["answer"] or "no answer in this text", class_="task-answer") for one in found
    ]
    return h(
        "div",
        rows,
        h("p", f"{percent(best['score'])} sure", class_="note"),
        h("p", _marked(context, marks, {"": 0}), class_="task-text"),
        class_="task-told",
    )


def _answers_text(answer: TaskAnswer) -> str:
    found = answer.result if isinstance(answer.result, list) else [answer.result]
    return "\n".join(str(one["answer"]) for one in found)


# ---- texts


def _written_of(result: Any) -> str | None:
    """Return a text result as a string, or None."""
    for key in _ANSWERS:
        if has_items(result, key):
            return "\n\n".join(str(one[key]) for one in result)
    return None


def _draw_written(answer: TaskAnswer, settings: Settings) -> Html:
    text = _written_of(answer.result) or ""
    return h("p", text, class_="task-text task-long") if text else h("p", "an empty text")


def _is_spoken(result: Any) -> bool:
    return isinstance(result, dict) and isinstance(result.get("text"), str)


def _draw_spoken(answer: TaskAnswer, settings: Settings) -> Html:
    text = answer.result["text"].strip()
    rows = [
        h(
            "li",
            h("span", _times(one["timestamp"]), class_="number"),
            h("span", one["text"].strip()),
        )
        for one in answer.result.get("chunks", ())
    ]
    return h(
        "div",
        h("p", text or "No words were understood.", class_="task-text task-long"),
        h("ol", rows, class_="task-chunks") if len(rows) > 1 else None,
        class_="task-told",
    )


def _times(times: Sequence[float | None]) -> str:
    return " to ".join("…" if one is None else f"{one:.1f}" for one in times) + " s"


ENTITIES = ResultView(
    lambda found: has_items(found, "score", "start", "end", "word"),
    _draw_entities,
)
ANSWERS = ResultView(_is_answers, _draw_answers, _answers_text)
WRITTEN = ResultView(
    lambda found: _written_of(found) is not None,
    _draw_written,
    lambda answer: _written_of(answer.result) or "",
)
SPOKEN = ResultView(_is_spoken, _draw_spoken, lambda answer: str(answer.result["text"]).strip())
