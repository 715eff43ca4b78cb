"""The gallery: a card opens its program with examples and labels; the page's address follows.

`gallery.js` draws the cards before Python has started. An open program can be shared as a link:
`?model=NAME&view=VIEW` for a card, `?url=ADDRESS&view=VIEW` for any other program. Opening or
closing a program adds an entry to the browser's history; `address.js` adds the views.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from page.browser import Message, Source
from page.core.interfaces import InputSection, OpenSection, OutputSection, TabSection
from page.core.session import Session
from page.core.state import HOME, AppState, Change
from page.core.typed_address import site_of
from page.shared.cards.cards import Card, CardError, NoCardError, read_card
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.match_inputs import is_input_file, is_picture_file
from page.shared.inputs.preview import is_awaiting
from webpte.engine.open.library import LOCAL
from webpte.errors import SourceError

FILE = "file"


class GalleryController:
    def __init__(
        self,
        state: AppState,
        opening: OpenSection,
        views: TabSection,
        inputs: InputSection,
        outputs: OutputSection,
    ) -> None:
        self._state = state
        self._opening = opening
        self._views = views
        self._inputs = inputs
        self._outputs = outputs
        self._cards: dict[str, Mapping[str, Any]] = {}
        self._linked: dict[str, str] = {}  # parameters of the address
        self._entry: tuple[str, str] | None = None  # the program of the history's current entry
        self._going = -1  # the newest opening for which the history has an entry already
        state.follow(
            self._follow,
            *(Change.SESSION, Change.ADDRESS, Change.VIEW, Change.OPENING, Change.COMPILED),
        )

    def load(self, cards: Sequence[Mapping[str, Any]]) -> None:
        """Take over the server's cards; unusable cards show the reason."""
        self._cards = {str(card.get("name")): card for card in cards}
        problems = {name: why for name in self._cards if (why := self._problem(name))}
        if problems:
            self._state.browser.show(unusable=problems)
        self._state.cards = [
            read_card(card) for name, card in self._cards.items() if name not in problems
        ]

    def _problem(self, name: str) -> str:
        try:
            read_card(self._cards[name])
        except CardError as error:
            return str(error)
        return ""

    async def open_address(self, address: str) -> None:
        """Open a program of the library, with its card, if any."""
        for name, card in self._cards.items():
            with contextlib.suppress(CardError):
                if self._state.browser.absolute(read_card(card).program) == address:
                    await self._open_card(name)
                    return
        await self._opening.open(address)

    async def on_card(self, message: Message) -> None:
        """Open a card of the gallery, or a card that was chosen from a list."""
        await self._open_card(str(message.get("value") or message["name"]))

    async def on_link(self, message: Message) -> None:
        """Open the program that the page's address names."""
        view = str(message.get("view") or "")
        named = {name: str(message.get(name) or "") for name in ("model", "url", "view")}
        self._linked = {name: value for name, value in named.items() if value}
        with self.going():
            if message.get("model"):
                await self._open_card(str(message["model"]), view)
            elif message.get("url"):
                url = str(message["url"])
                self._doubt(url)
                await self._opening.open(
                    url,
                    drawn=lambda: self._views.bring_to_front(view or self._views.leading),
                )

    def _doubt(self, url: str) -> None:
        """Note that a link names another site, whose files are not kept unasked."""
        browser = self._state.browser
        try:
            here, there = (site_of(browser, one) for one in ("./", url))
        except (SourceError, ValueError):  # no address: opening it says so
            return
        if there != here and not url.startswith(LOCAL):
            browser.unkept.add(there)

    async def go(self, message: Message) -> None:
        """Go to a program of the history; if it is open already, only change the view."""
        wanted = next((kind, str(message[kind])) for kind in ("model", "url") if message.get(kind))
        if wanted == self.entry:
            self._opening.cancel()  # the opening of something else
            self._views.bring_to_front(str(message.get("view") or HOME))
        else:
            await self.on_link(message)

    def forget_link(self) -> None:
        """Forget the program that the page's address named, so that a reload does not open it."""
        self._linked = {}

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        """Hold the address back while the history's entry is being opened.

        It is updated at the end, or when something else is opened meanwhile.
        """
        mine = self._going = self._opening.turn + 1
        try:
            yield
        finally:
            if self._going == mine:
                self._going = -1
            self._follow(Change.ADDRESS)

    async def _open_card(self, name: str, view: str = "") -> None:
        try:
            card = self._card(name)
        except CardError as error:
            self._follow(Change.OPENING)  # the page shows it as opened already
            self._state.show_error(error, f"opening {name}")
            missing = isinstance(error, NoCardError)
            self._state.tell(
                f"There is no model “{name}” on this page"
                if missing
                else f"The card of “{name}” cannot be used",
                "bad",
            )
            return
        if not await self._opening.open(
            card.program,
            card=card,
            prepare=_await_examples,
            drawn=lambda: self._views.bring_to_front(view or card.view or self._views.leading),
        ):
            return
        session = self._state.session
        if session is None:  # closed again meanwhile
            return
        await self._bring_labels(session, card)
        await self._bring_examples(session, card)

    def _card(self, name: str) -> Card:
        if name not in self._cards:
            known = ", ".join(self._cards) or "none"
            raise NoCardError(
                f"there is no model {name!r} on this page. There are: {known}. Others are "
                "installed with python3 serve.py models add NAME."
            )
        return read_card(self._cards[name])

    async def _bring_labels(self, session: Session, card: Card) -> None:
        for index, value in enumerate(card.outputs):
            names: Sequence[str] = value.names
            if value.labels:
                data = await self._state.browser.fetch_bytes(value.labels)
                names = data.decode("utf-8").removesuffix("\n").split("\n")
            if names:
                session.labels[index] = tuple(names)
        if session is self._state.session and session.shown is not None:
            self._outputs.draw()

    async def _bring_examples(self, session: Session, card: Card) -> None:
        """Load the card's examples, one per input; inputs that someone has set stay."""
        try:
            await self._fetch_examples(session, card)
        finally:  # an example that failed is awaited no more
            tensors = [one for one in session.inputs if isinstance(one, TensorInput)]
            missing = any(is_awaiting(one) for one in tensors)
            for state in tensors:
                state.awaits_picture = False
            if missing and session is self._state.session:
                self._inputs.draw()

    async def _fetch_examples(self, session: Session, card: Card) -> None:
        for index, address in enumerate(card.examples):
            if not is_input_file(address):
                continue  # a text, for example, which its view loads
            data = await self._state.browser.fetch_bytes(address)
            if session is not self._state.session:
                return
            name = address.rpartition("/")[2]
            await self._inputs.accept_example(data, name, index)

    # ---- the address

    @property
    def entry(self) -> tuple[str, str] | None:
        """The history's name for the program that is open."""
        session = self._state.session
        return _entry_of(session.source if session is not None else None)

    def _follow(self, change: Change) -> None:
        session = self._state.session
        card = session.source.card if session is not None else None
        if change is Change.SESSION:
            self._linked = {}
        if self._opening.turn > self._going:
            self._show_address(change)
        self._state.browser.show(
            # The gallery becomes one line as soon as a card is opened: the page moves once.
            opened={
                "any": session is not None
                or self._state.compiled is not None
                or bool(self._state.opening),
                "card": card.name if card is not None else "",
                "opening": bool(self._state.opening),
            },
        )

    def _show_address(self, change: Change) -> None:
        entry, coming = self.entry, _entry_of(self._opening.coming)
        if change is Change.OPENING and coming not in (None, entry):
            self._state.browser.show(entry={"opening": True})
        # A copy that was kept gives the same program an address.
        if entry != self._entry and change is not Change.ADDRESS:
            file = entry[1] if entry is not None and entry[0] == FILE else ""
            self._state.browser.show(entry={"file": file})
        self._entry = entry
        query: dict[str, str] = {}
        if entry is not None and entry[0] != FILE:
            query = {entry[0]: entry[1], "view": self._state.front}
        elif entry is None:
            query = self._linked  # it could not be opened: a reload tries again
        self._state.browser.show(address="?" + urlencode(query, safe="/:") if query else "")


def _await_examples(session: Session) -> None:
    """Keep the place of pictures that come as examples."""
    examples = session.source.card.examples if session.source.card is not None else ()
    for state, address in zip(session.inputs, examples, strict=False):
        if isinstance(state, TensorInput) and state.form is not None:
            state.awaits_picture = is_picture_file(address)


def _entry_of(source: Source | None) -> tuple[str, str] | None:
    """Return how the address names a program: by card, URL or file name."""
    if source is None:
        return None
    if source.card is not None:
        return "model", source.card.name
    return ("url", source.address) if source.address else (FILE, source.name)
