"""The language models of the gallery, to talk to another one."""

from __future__ import annotations

from page.core.state import AppState
from page.shared.cards.cards import Card
from page.shared.html.markup import Html, choice
from page.shared.html.units import bytes_text

_VIEW = "chat"


def model_picker(state: AppState) -> Html | None:
    """Return the choice of a model, with sizes; None if there is no other one. The page shows how
    much of a chosen model is downloaded."""
    session = state.session
    if session is None:
        return None
    cards = {card.name: card for card in state.cards if card.view == _VIEW}
    open_card = session.source.card.name if session.source.card is not None else ""
    if not cards or list(cards) == [open_card]:
        return None
    options = {name: _told(card, state) for name, card in cards.items()}
    if open_card not in cards:
        options = {"": f"{session.source.name} ({bytes_text(session.source.size)})", **options}
    busy = session.runner.busy or bool(state.opening)
    return choice("model", options, open_card, "inline", data_act="card", disabled=busy)


def _told(card: Card, state: AppState) -> str:
    """Return a model with its size, and whether it is here already."""
    is_kept = state.browser.absolute(card.program) in state.kept
    facts = [bytes_text(card.size)] if card.size else []
    facts += ["downloaded"] if is_kept else []
    return f"{card.title} ({', '.join(facts)})" if facts else card.title
