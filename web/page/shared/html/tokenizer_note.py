"""Notes of a view about its program's tokenizer: that it is read, and that there is none."""

from __future__ import annotations

from page.shared.html.markup import Html, h


def reading_note() -> Html:
    """Return the note for the time in which nobody knows yet whether there is a tokenizer."""
    return h("p", "Reading the tokenizer …", class_="card soft")


def tokenizer_note(problem: str, act: str) -> Html:
    """Return the problem, and a field whose files come with the act."""
    chosen = h(
        "label",
        "Choose tokenizer.json",
        h("input", type="file", multiple=True, data_act=act),
        class_="button",
    )
    return h("div", h("p", problem, class_="notice notice-warn"), chosen, class_="tokenizer-note")
