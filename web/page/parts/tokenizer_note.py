"""The note of a view whose program has no tokenizer, with the way to choose one."""

from __future__ import annotations

from page.html.markup import Html, h


def tokenizer_note(problem: str, act: str) -> Html:
    """Return the problem, and a field whose files come with the act."""
    chosen = h(
        "label",
        "Choose tokenizer.json",
        h("input", type="file", multiple=True, data_act=act),
        class_="button",
    )
    return h("div", h("p", problem, class_="notice notice-warn"), chosen, class_="tokenizer-note")
