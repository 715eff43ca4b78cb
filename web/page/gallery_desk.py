"""The gallery: a card opens its program with all that belongs to it, and the address follows.

`gallery.js` draws the cards, for they are there before Python is. What is open can be shared as a
link: `?model=NAME&view=VIEW` for a card, `?url=ADDRESS&view=VIEW` for any other program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from page.browser import Message
from page.cards import Card, CardError, read_card
from page.input_desk import InputDesk
from page.open_desk import OpenDesk
from page.output_desk import OutputDesk
from page.placing import is_array_file, is_picture_file
from page.session import Session
from page.stage import Change, Stage
from page.view_desk import HOME, ViewDesk


class GalleryDesk:
    def __init__(
        self,
        stage: Stage,
        opening: OpenDesk,
        views: ViewDesk,
        inputs: InputDesk,
        outputs: OutputDesk,
    ) -> None:
        self._stage = stage
        self._opening = opening
        self._views = views
        self._inputs = inputs
        self._outputs = outputs
        self._cards: dict[str, Mapping[str, Any]] = {}
        stage.listeners.append(self._follow)

    def take(self, cards: Sequence[Mapping[str, Any]]) -> None:
        """The cards as the server sent them; each is read when it is opened."""
        self._cards = {str(card.get("name")): card for card in cards}

    async def on_card(self, message: Message) -> None:
        await self._open_card(str(message["name"]))

    async def on_link(self, message: Message) -> None:
        """The address that the page was opened with."""
        view = str(message.get("view") or "")
        if message.get("model"):
            await self._open_card(str(message["model"]), view)
        elif message.get("url") and await self._opening.open(str(message["url"])):
            self._views.bring_to_front(view or HOME)

    async def _open_card(self, name: str, view: str = "") -> None:
        if name not in self._cards:
            known = ", ".join(self._cards) or "none"
            raise CardError(
                f"there is no model {name!r} in this gallery. There are: {known}. Others are "
                "installed with python3 serve.py models add NAME."
            )
        card = read_card(self._cards[name])
        if not await self._opening.open(card.program, card=card):
            return
        session = self._stage.session
        assert session is not None  # it was opened just now
        self._views.bring_to_front(view or card.view)
        await self._bring_labels(session, card)
        await self._bring_examples(session, card)

    async def _bring_labels(self, session: Session, card: Card) -> None:
        for index, value in enumerate(card.outputs):
            names: Sequence[str] = value.names
            if value.labels:
                data = await self._stage.browser.fetch_bytes(value.labels)
                names = data.decode("utf-8").removesuffix("\n").split("\n")
            if names:
                session.labels[index] = tuple(names)
        if session is self._stage.session and session.shown is not None:
            self._outputs.draw()

    async def _bring_examples(self, session: Session, card: Card) -> None:
        """One per input, in order. What someone has set before stays as it is."""
        for index, address in enumerate(card.examples):
            if not is_array_file(address) and not is_picture_file(address):
                continue  # such as a text, which is for a view of its own
            data = await self._stage.browser.fetch_bytes(address)
            if session is not self._stage.session:
                return
            name = address.rpartition("/")[2]
            await self._inputs.take_example(data, name, index)

    # ---- the address

    def _follow(self, change: Change) -> None:
        if change not in (Change.SESSION, Change.VIEW):
            return
        session = self._stage.session
        card = session.source.card if session is not None else None
        query: dict[str, str] = {}
        if card is not None:
            query = {"model": card.name}
        elif session is not None and session.source.address:
            query = {"url": session.source.address}
        if query:
            query["view"] = self._stage.front
        self._stage.browser.show(
            address="?" + urlencode(query, safe="/:") if query else "",
            opened={"any": session is not None, "card": card.name if card is not None else ""},
        )
