"""The rank view: sort lines of text by how near an encoder finds them to a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.html.markup import Html, h, render
from page.shared.html.matches import marked_words
from page.shared.html.tokenizer_note import reading_note, tokenizer_note
from page.shared.html.units import ms_text, plural
from page.shared.outputs.figures import bar
from page.shared.persistence.codec import Codec, find_codec, kind_of_file, load_codec
from page.views.view import SENTENCE_ENCODER, Panel, View
from webpte.engine.files.json_reader import parse_json
from webpte.errors import SourceError
from webpte.llm.text import Ranked, SentenceEncoder

_EXAMPLES = "ranking.json"  # next to an installed encoder: queries with sentences
_QUERY = "animals that live with people"
_LINES = (
    "A cat sleeps on the sofa.",
    "Our shop is open from nine to five.",
    "Two dogs are playing in the garden.",
    "Wolves hunt in packs.",
)
_UNRELATED = 0.005  # a lower score is shown as 0


@dataclass(eq=False)
class RankFields:
    """The fields and the results for one file."""

    query: str = _QUERY
    lines: str = "\n".join(_LINES)
    found: list[Ranked] = field(default_factory=list)
    summary: str = ""
    # For a tokenizer and examples next to the program: None before the search, then its end.
    searched: bool | None = None
    codec: Codec | None = None
    problem: str = ""


class RankPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._asked: dict[str, RankFields] = {}  # by file

    @property
    def _now(self) -> RankFields:
        session = self.state.session
        assert session is not None  # as SENTENCE_ENCODER says
        file = session.source.key
        return self._asked.setdefault(file, RankFields())

    async def _search(self, session: Session, asked: RankFields) -> None:
        """Find the tokenizer of the program, and example sentences."""
        try:
            asked.codec = await find_codec(session.source, self.state.browser)
        except Exception as error:
            asked.problem = str(error)
        folder, card = session.source.address.rpartition("/")[0], session.source.card
        if card is not None and card.questions:
            asked.query = card.questions[0]
        elif card is not None and folder:
            try:
                data = await self.state.browser.fetch_bytes(f"{folder}/{_EXAMPLES}")
                example = parse_json(data, _EXAMPLES, ValueError)[0]
                asked.query = str(example["query"])
                asked.lines = "\n".join(sorted(str(text) for _, text in example["ranked"]))
            except (SourceError, ValueError, KeyError, TypeError, IndexError):
                pass  # the built-in examples are used
        asked.searched = True
        if session is self.state.session:
            self.draw()

    async def on_tokenizer(self, message: Message) -> None:
        sources = [self.state.browser.source(file) for file in message["files"]]
        files = {kind: source for source in sources if (kind := kind_of_file(source.name))}
        asked = self._now
        asked.codec = await load_codec(files, self.state.browser)
        asked.problem = ""
        self.draw()

    async def on_rank(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is None:
            return
        asked, fields = self._now, message["fields"]
        asked.query, asked.lines = str(fields["query"]).strip(), str(fields["lines"])
        lines = [line.strip() for line in asked.lines.splitlines() if line.strip()]
        if asked.codec is None or not asked.query or not lines:
            self.state.tell("Write a query and some lines to rank", "bad")
            return
        encoder = SentenceEncoder(session.program, asked.codec.tokenizer)
        self.state.show(error="")
        self.state.tell("Ranking", "busy")
        work = self._rank(encoder, asked, lines)
        await self.state.do(session, work, "ranking", can_stop=False)
        self.draw()

    async def _rank(self, encoder: SentenceEncoder, asked: RankFields, lines: list[str]) -> None:
        started = perf_counter()
        asked.found = await encoder.rank(asked.query, lines)
        taken = ms_text(1000 * (perf_counter() - started))
        asked.summary = f"{plural(len(lines), 'line')} ranked in {taken}"
        self.state.tell(asked.summary)

    # ---- drawing

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        asked = self._now
        if asked.searched is None:
            asked.searched = False
            self.start(self._search(session, asked), "looking for the tokenizer")
        if not asked.searched:  # the query may still change
            self.show(reading_note())
            return
        form = self._form(asked, session.near)
        self.show(render((form, _ranking(asked) if asked.found else None)))

    def _form(self, asked: RankFields, near: str) -> Html:
        query = h("input", type="text", name="query", value=asked.query, autocomplete="off")
        lines = h("textarea", asked.lines, name="lines", rows="8")
        ready = asked.codec is not None
        note = None
        if not ready:
            text = asked.problem or "No tokenizer.json was found next to the program."
            note = tokenizer_note(text, self.act("tokenizer"))
        return h(
            "section",
            h("h2", f"Rank sentences by {near}"),
            note,
            h(
                "form",
                h("label", h("span", "query", class_="label"), query),
                h("label", h("span", "lines to rank", class_="label"), lines),
                h("button", "Rank", type="submit", class_="primary", disabled=not ready),
                data_act=self.act("rank"),
                class_="rank-form",
            ),
            class_="card",
        )


def _ranking(asked: RankFields) -> Html:
    """Return the ranking, with bars as long as scores are high."""
    rows, others = (
        [_row(one, asked.query) for one in asked.found if (one.score >= _UNRELATED) == matching]
        for matching in (True, False)
    )
    head = h("div", h("h2", "Nearest first"), h("span", asked.summary, class_="note"))
    note = "1: as near as the same text, 0: unrelated."
    folded = h(
        "details",
        h("summary", f"Unrelated ({len(others)})"),
        h("ol", others, class_="bars rank-list"),
        id="rank-unrelated",
    )
    return h(
        "section",
        h("div", head, class_="card-head"),
        h("ol", rows, class_="bars rank-list") if rows else h("p", "No match.", class_="soft"),
        folded if others else None,
        h("p", note, class_="note"),
        class_="card",
    )


def _row(one: Ranked, query: str) -> Html:
    return h(
        "li",
        h("span", marked_words(one.text, query), class_="rank-text"),
        h("span", f"{one.score:.2f}", class_="share number"),
        bar(100 * max(one.score, 0), 6),
    )


VIEW = View(
    "rank",
    "Rank",
    order=14,
    also="search similarity",
    make=RankPanel,
    needs=(SENTENCE_ENCODER,),
    follows=(Change.SESSION,),
    style=True,
    names_device=True,
)
