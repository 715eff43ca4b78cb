"""Answers from documents: a language model of the gallery that is open beside the encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

from page.browser import Progress
from page.core.state import AppState
from page.shared.cards.cards import Card
from page.shared.persistence.codec import Codec, find_codec
from page.shared.persistence.library_files import keep_file
from page.shared.persistence.manifests import fetch_manifest
from webpte import Program
from webpte.engine.open.manifest_files import is_manifest
from webpte.engine.open.open_source import let_go
from webpte.errors import TextError
from webpte.llm import Chat
from webpte.tasks.retrieval import Citation, Index, Passage, answer

_VIEW = "chat"  # of the cards of language models
_REST_SECONDS = 1 / 60  # on NumPy nothing awaits, so the loop yields this often
_MOST_TOKENS = 300


@dataclass(eq=False)
class Answered:
    """A question, its answer as far as it has come, and the passages that the model was given."""

    question: str
    text: str = ""
    passages: tuple[Passage, ...] = ()
    citations: list[Citation] = field(default_factory=list)
    ended: bool = False


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """An open language model, and the card that it was opened by."""

    card: Card
    program: Program
    codec: Codec

    async def answer(
        self,
        index: Index,
        asked: Answered,
        must_cite: bool,
        hear: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        """Answer a question, until `stopping`; `hear` is called when there is more of it."""
        chat = Chat(self.program, self.codec.tokenizer, template=self.codec.template)
        reply = await answer(
            chat, index, asked.question, must_cite=must_cite, max_new_tokens=_MOST_TOKENS
        )
        asked.passages = reply.passages
        rested = perf_counter()
        async for _ in reply:
            asked.text, asked.citations = reply.text, reply.citations
            hear()
            if perf_counter() - rested > _REST_SECONDS:
                await asyncio.sleep(0)
                rested = perf_counter()
            if stopping():
                break


def model_cards(state: AppState) -> dict[str, Card]:
    """Return the language models of the gallery by name."""
    return {card.name: card for card in state.cards if card.view == _VIEW}


def chosen_model(cards: Mapping[str, Card], stored: str) -> str:
    """Return the name of the model that answers: the model that was chosen before, else the first
    that is made for it, or the first of all; "" if there is none."""
    if stored in cards:
        return stored
    able = [name for name, card in cards.items() if not card.limits]
    return next(iter((*able, *cards)), "")


async def open_model(state: AppState, card: Card, device: str, progress: Progress) -> LanguageModel:
    """Open a language model, besides the program of the session."""
    browser = state.browser
    if is_manifest(card.program):
        fetched, *parts = await fetch_manifest(browser, card.program, progress, None)
    else:
        fetched, parts = await browser.fetch(card.program, progress), []
    source = replace(fetched, name=card.title, address=card.program, card=card)
    try:
        codec = await find_codec(source, browser)
        if codec is None:
            raise TextError(f"{card.title} has no tokenizer.json beside it")
        data = tuple(part.data for part in parts)
        program = await state.engine.load(
            source.data, data=data, device=device, progress=progress, name=source.name
        )
    except BaseException as error:
        if source.file is not None:
            let_go(source.file, error)
        raise
    for one in (source, *parts):
        await keep_file(one)
    return LanguageModel(card, program, codec)
