"""`gallery.json`: the cards of the samples and of the installed models, for the page's gallery.

A card is a small JSON file: `web/samples/NAME.json`, or `card.json` of an installed model. One that
is put there is in the gallery: there is no list to keep by hand. `web/page/cards.py` reads them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SAMPLES = "samples"
MODELS = "models"
_ORDER = 50  # of cards that say nothing: programs of one operator come after them


def gallery(web: Path, installed: Path | None) -> bytes:
    """`installed` is the list of the models' cards, where there is one.

    Each card gets its `folder`, relative to the page; one that cannot be read, a `problem`.
    """
    cards = [card for path in sorted((web / SAMPLES).glob("*.json")) for card in _sample(path)]
    cards += _installed(installed) if installed is not None else []
    cards.sort(key=lambda card: (card.get("order", _ORDER), card["name"]))
    return json.dumps(cards, ensure_ascii=False).encode()


def _sample(path: Path) -> list[dict[str, Any]]:
    """Beside cards there are other files, such as tokenizers: their names have a dot more."""
    if "." in path.stem:
        return []
    place = {"name": path.stem, "folder": f"{SAMPLES}/"}
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return [{**place, "problem": f"{path.name} cannot be read: {error}"}]
    if not isinstance(card, dict):
        return [{**place, "problem": f"{path.name} is no JSON object"}]
    return [{**card, **place}]


def _installed(index: Path) -> list[dict[str, Any]]:
    """What `serve.py models` wrote; while it writes, there may be none."""
    try:
        cards = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [{**card, "folder": f"{MODELS}/{card['name']}/"} for card in cards]
