"""The drawing of the documents view."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from page.shared.cards.cards import Card
from page.shared.html.empty import empty_view
from page.shared.html.markup import Html, choice, h, render
from page.shared.html.matches import marked_words, without_marks
from page.shared.html.units import bytes_text, count_text, plural
from page.shared.outputs.figures import bar
from page.views.documents.answering import Answered
from webpte.tasks.retrieval import Document, Index, Passage
from webpte.tasks.retrieval.answer import place_of

Act = Callable[[str], str]

LIST, FOUND, ANSWER, SHOWN, LIMITS = (
    *("documents-list", "documents-found", "documents-answer", "documents-shown"),
    "documents-limits",
)
ENDINGS = (".txt", ".md", ".markdown", ".pdf")
_UNRELATED = 0.005  # a lower score is shown as 0
_AROUND = 1500  # characters that are shown before and after a passage
_CITED = re.compile(r"\[(\d{1,4})\]")


@dataclass(frozen=True)
class Adding:
    """A document that is being added: passages that are embedded, and all; 0: not known yet."""

    name: str
    done: int = 0
    total: int = 0


def list_view(index: Index, adding: Adding | None, problem: str, act: Act, busy: bool) -> Html:
    """Return the list of documents, the progress of a new document, and the way to add some."""
    rows = [
        h(
            "li",
            h("span", entry.document.name, class_="name"),
            h("span", _facts(entry.document, len(entry.places)), class_="soft"),
            h(
                "button",
                "Remove",
                type="button",
                class_="quiet",
                data_act=act("remove"),
                data_name=entry.document.name,
                disabled=busy,
                aria_label=f"Remove {entry.document.name}",
            ),
        )
        for entry in index.entries
    ]
    picker = h(
        "label",
        "Add documents",
        h(
            "input",
            type="file",
            multiple=True,
            accept=",".join(ENDINGS),
            data_act=act("add"),
            disabled=busy,
        ),
        class_="button primary",
    )
    note = "Text, Markdown and PDF. They stay in this browser."
    if not rows and adding is None:
        text = f"Search your own files, and ask questions about them. {note}"
        told = h("p", problem, class_="notice notice-warn") if problem else None
        return h("section", told, empty_view("documents", text, picker), id=LIST, class_="card")
    return h(
        "section",
        h("h2", "Documents"),
        h("p", problem, class_="notice notice-warn") if problem else None,
        h("ul", rows, class_="documents-rows") if rows else None,
        _progress_view(adding, act) if adding is not None else None,
        h("div", picker, h("span", note, class_="note"), class_="documents-add"),
        id=LIST,
        class_="card",
    )


def _facts(document: Document, passages: int) -> str:
    pages = sum(section.page is not None for section in document.sections)
    told = [plural(pages, "page")] if pages else []
    return " · ".join([*told, plural(passages, "passage")])


def _progress_view(adding: Adding, act: Act) -> Html:
    done, total = adding.done, adding.total
    if total:
        text = f"{adding.name}: {count_text(done)} of {plural(total, 'passage')}"
        measure = h("progress", value=done, max=total, aria_label=text)
    else:
        text = f"Reading {adding.name}"
        measure = h("progress", aria_label=text)
    stop = h("button", "Cancel", type="button", class_="quiet", data_act=act("cancel"))
    return h("div", h("div", h("span", text), stop), measure, class_="documents-progress")


def search_view(query: str, near: str, found: Html, act: Act) -> Html:
    """Return the field for a search, and its results. `near` says by what passages are near."""
    field = h(
        "input",
        type="text",
        value=query,
        placeholder=f"Search by {near}",
        autocomplete="off",
        data_act=act("query"),
        aria_label="Search the documents",
    )
    return h(
        "section",
        h("h2", "Search"),
        field,
        h("div", found, id=FOUND, aria_live="polite"),
        class_="card documents-search",
    )


def found_view(found: Sequence[Passage], summary: str, act: Act, query: str) -> Html:
    """Return the passages of a search, the nearest first; unrelated passages are folded."""

    def listed(matching: bool) -> list[Html]:
        chosen = (
            (at, one) for at, one in enumerate(found) if (one.score >= _UNRELATED) == matching
        )
        return [_passage_row(at, one, act, query) for at, one in chosen]

    rows, others = listed(True), listed(False)
    if found and not rows:
        summary = f"No match. {summary}"
    return render(
        [
            h("p", summary, class_="note") if summary else None,
            h("ol", rows, class_="bars documents-found") if rows else None,
            h(
                "details",
                h("summary", f"Unrelated ({len(others)})"),
                h("ol", others, class_="bars documents-found"),
                id="documents-unrelated",
            )
            if others
            else None,
        ]
    )


def _passage_row(at: int, one: Passage, act: Act, query: str) -> Html:
    return h(
        "li",
        h(
            "button",
            place_of(one),
            type="button",
            class_="quiet documents-place",
            data_act=act("show"),
            data_found=at,
        ),
        h("span", f"{one.score:.2f}", class_="share number"),
        bar(100 * max(one.score, 0), 4),
        h("p", marked_words(without_marks(one.text), query), class_="documents-text"),
    )


def ask_view(
    cards: Mapping[str, Card], chosen: str, must_cite: bool, said: Html, act: Act, busy: bool
) -> Html:
    """Return the form for a question, and its answer."""
    if not cards:
        text = "There is no language model in the gallery to answer questions."
        return h("section", h("h2", "Ask"), h("p", text, class_="soft"), class_="card")
    options = {
        name: f"{card.title} ({bytes_text(card.size)})" if card.size else card.title
        for name, card in cards.items()
    }
    cite = h("input", type="checkbox", checked=must_cite, data_act=act("must_cite"))
    field = h("input", type="text", name="question", autocomplete="off", aria_label="Question")
    return h(
        "section",
        h("h2", "Ask"),
        h(
            "form",
            h("label", h("span", "question", class_="label"), field),
            h(
                "div",
                choice(
                    "answered by",
                    options,
                    chosen,
                    name="model",
                    data_act=act("model"),
                    disabled=busy,
                    aria_describedby=LIMITS if cards[chosen].limits else None,
                ),
                class_="controls",
            ),
            h("div", _limits_view(cards, chosen), id=LIMITS, aria_live="polite"),
            h("label", cite, "Cite every sentence", class_="documents-check"),
            h(
                "button",
                "Ask anyway" if cards[chosen].limits else "Ask",
                type="submit",
                class_=None if cards[chosen].limits else "primary",
                disabled=busy,
            ),
            data_act=act("ask"),
            class_="documents-form",
        ),
        h("div", said, id=ANSWER, aria_live="polite"),
        class_="card",
    )


def _limits_view(cards: Mapping[str, Card], chosen: str) -> Html | None:
    """Return a warning about a model that is not made for answers."""
    limits = cards[chosen].limits
    if not limits:
        return None
    if all(card.limits for card in cards.values()):
        limits += " Install one that can: python3 serve.py models add smollm2"
    return h("p", limits, class_="notice notice-warn")


def answer_view(asked: Answered | None, progress: str, act: Act, busy: bool) -> Html:
    """Return an answer, in which citations are buttons that show their passages."""
    if asked is None:
        return render([])
    stop = h("button", "Stop", type="button", class_="quiet", data_act=act("cancel"))
    cited = [
        h("li", _number_button(one.number, f"[{one.number}] {place_of(one.passage)}", act))
        for one in asked.citations
    ]
    return render(
        [
            h("p", asked.question, class_="documents-question"),
            h("p", progress, class_="soft") if progress else None,
            h("p", _linked(asked, act), class_="documents-said") if asked.text else None,
            h("ol", cited, class_="documents-cited", aria_label="Citations") if cited else None,
            stop if busy else None,
            h("p", "No sources cited.", class_="note")
            if asked.ended and asked.text and not cited
            else None,
        ]
    )


def _linked(asked: Answered, act: Act) -> list[object]:
    known = {one.number: one.passage for one in asked.citations}
    parts: list[object] = []
    for at, part in enumerate(_CITED.split(asked.text)):
        if at % 2 == 0:
            parts.append(part)
        elif int(part) in known:
            where = place_of(known[int(part)])
            parts.append(_number_button(int(part), f"[{part}]", act, title=where))
        else:
            parts.append(f"[{part}]")
    return parts


def _number_button(number: int, text: str, act: Act, title: str | None = None) -> Html:
    return h(
        "button",
        text,
        type="button",
        class_="quiet documents-cite",
        data_act=act("show"),
        data_cited=number,
        title=title,
    )


def shown_view(document: Document, passage: Passage, act: Act) -> Html:
    """Return a passage in its page or section, marked."""
    section = document.sections[document.section_number(passage.start)]
    first = max(section.start, passage.start - _AROUND)
    last = min(section.end, passage.end + _AROUND)
    before = without_marks(document.text[first : passage.start])
    after = without_marks(document.text[passage.end : last])
    close = h("button", "Close", type="button", class_="quiet", data_act=act("close"))
    return h(
        "section",
        h("div", h("h2", place_of(passage)), close, class_="card-head"),
        h(
            "p",
            "… " if first > section.start else None,
            before.lstrip(),
            h("mark", without_marks(document.text[passage.start : passage.end])),
            after.rstrip(),
            " …" if last < section.end else None,
            class_="documents-page",
        ),
        class_="card",
    )
