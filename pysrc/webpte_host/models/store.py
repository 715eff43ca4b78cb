"""The installed models: a folder for each under `.webpte/models`, which is served at /models/.

    NAME/card.json   the model's description, inputs, outputs and list of files; written last
    NAME/...         model.pte, labels, a tokenizer, an example, the licence
    index.json       the list of all cards, for the page

A model is installed and removed by renaming its folder: the folder is complete or absent.
Names that start with a dot are work in progress; the server does not serve them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from webpte_host.base.json_files import read_table
from webpte_host.base.layout import MODELS
from webpte_host.models.cache import temporary_folder

CARD = "card.json"
INDEX = "index.json"

Card = dict[str, Any]


class ModelStore:
    def __init__(self, folder: Path = MODELS) -> None:
        self.folder = folder

    def cards(self) -> list[Card]:
        """Return the cards of all models that are complete, sorted by name."""
        if not self.folder.is_dir():
            return []
        found = (self.card(path.name) for path in sorted(self.folder.iterdir()))
        return [card for card in found if card is not None]

    def card(self, name: str) -> Card | None:
        """Return a model's card; None if it is not installed completely."""
        folder = self.folder / name
        if name.startswith("."):
            return None
        try:
            card = read_table(folder / CARD, ValueError)
            whole = card.text("name") == name and all(
                (folder / file.text("name")).stat().st_size == file.integer("bytes")
                for file in card.tables("files")
            )
            return dict(card.content) if whole and "files" in card else None
        except (OSError, ValueError):
            return None

    def install(self, source: Path, card: Card) -> Card:
        """Install the files of `source` with the card, extended by the list of files."""
        with temporary_folder(self.folder, "new") as temporary:
            ready = temporary / "ready"
            ready.mkdir()
            for path in sorted(source.iterdir()):
                _link(path, ready / path.name)
            card = {**card, "files": [_described(path) for path in sorted(ready.iterdir())]}
            (ready / CARD).write_text(_json(card), encoding="utf-8")
            place = self.folder / card["name"]
            if place.exists():
                os.rename(place, temporary / "outdated")
            os.rename(ready, place)
        self.write_index()
        return card

    def remove(self, name: str) -> bool:
        """Remove a model; return whether it was installed."""
        place = self.folder / name
        if name.startswith(".") or not place.is_dir():
            return False
        with temporary_folder(self.folder, "old") as temporary:
            os.rename(place, temporary / name)
        self.write_index()
        return True

    def write_index(self) -> None:
        """Write the index from the cards, which also repairs an interrupted command's index."""
        with temporary_folder(self.folder, "index") as temporary:
            made = temporary / INDEX
            made.write_text(_json(self.cards()), encoding="utf-8")
            os.replace(made, self.folder / INDEX)


def _json(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256}


def _link(source: Path, target: Path) -> None:
    """Hard-link a file if the disk allows it, else copy it: weights are large."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
