"""`gallery.json`: the cards of the samples and of the installed models, for the page's gallery.

A card is a small JSON file: `web/samples/NAME.json`, or `card.json` of an installed model. The
gallery shows every card in these places, without a list to edit.
`web/page/shared/cards/cards.py` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webpte_host.base.json_files import Table, read_json, read_table
from webpte_host.setup.compile_samples import compiled_folder

SAMPLES = "samples"
MODELS = "models"
_ORDER = 50  # the default order of cards; programs with a single operator come after them


class _CardError(Exception):
    """A card that the page could not draw."""


def gallery(web: Path, installed: Path | None, runtime: Path | None = None) -> bytes:
    """Build gallery.json; `installed` is the file with the models' cards, if it exists.

    Each card gets its `folder`, relative to the page, and `compiled`, the folder in the `runtime`
    with its compiled program, if that exists. A card that cannot be read or drawn is
    replaced by its name and a `problem`.
    """
    cards = [
        card for path in sorted((web / SAMPLES).glob("*.json")) for card in _sample(path, runtime)
    ]
    cards += _installed(installed) if installed is not None else []
    cards.sort(key=_place)
    return json.dumps(cards).encode()


def _place(card: dict[str, Any]) -> tuple[float, str]:
    order = card.get("order")
    return (_ORDER if order is None else order), card["name"]


def _sample(path: Path, runtime: Path | None) -> list[dict[str, Any]]:
    """Read a sample's card. Other files, such as tokenizers, have two dots in their names."""
    if "." in path.stem:
        return []
    place = {"name": path.stem, "folder": f"{SAMPLES}/"}
    try:
        card = read_table(path, _CardError).content
        _check(card, path.name)
    except _CardError as error:
        return [{**place, "problem": str(error).replace(str(path), path.name)}]
    compiled = runtime and compiled_folder(runtime, path.with_suffix(".pte"))
    return [{**card, **place, **({"compiled": compiled} if compiled else {})}]


def _installed(index: Path) -> list[dict[str, Any]]:
    """Read the index of `serve.py models`, which may be missing while it is written."""
    try:
        found = read_json(index, _CardError)
    except _CardError:
        return []
    return [_model(card, at) for at, card in enumerate(found if isinstance(found, list) else [])]


def _model(content: object, at: int) -> dict[str, Any]:
    named = content.get("name") if isinstance(content, dict) else None
    name = named if isinstance(named, str) and named else f"model {at} of the list"
    place = {"name": name, "folder": f"{MODELS}/{name}/"}
    try:
        if not isinstance(content, dict) or name != named:
            raise _CardError("its card is not a table with a name")
        _check(content, f"the card of {name}")
    except _CardError as error:
        return {**place, "problem": f"{error}. Install it again: serve.py models add"}
    return {**content, **place}


def _check(content: Mapping[str, Any], name: str) -> None:
    """Check the fields that are used before Python is up in the page, which checks the rest."""
    there = {key: value for key, value in content.items() if value is not None}
    card = Table(there, name, _CardError)
    card.number("order", _ORDER)
    card.number("size", 0)
    for key in ("title", "task", "licence", "about", "notes", "icon", "view"):
        card.text(key, "")
    for key in ("inputs", "outputs"):
        list(card.tables(key))
    if isinstance(there.get("files"), list):  # the sizes of a model's files
        list(card.tables("files"))
    else:
        card.table("files", None)
