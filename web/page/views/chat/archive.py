"""Earlier conversations with a program: kept, renamed, opened again, deleted, and as files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from page.browser import Browser
from page.core.store import Store, encode
from page.views.chat.pictures import picture_json
from page.views.chat.talk import Talk

MOST = 30  # conversations of a program
MOST_CHARACTERS = 1_000_000  # of all of them: browsers keep a few megabytes for a whole site
_TITLE = 48  # characters
_WHO = {"system": "System", "user": "You", "assistant": "Model"}


def title_of(saved: Mapping[str, Any]) -> str:
    """Return the title of a conversation: the beginning of its first question."""
    asked = (one["content"] for one in saved["messages"] if one["role"] == "user")
    first = " ".join(str(next(asked, "")).split()) or "Conversation"
    return first if len(first) <= _TITLE else f"{first[: _TITLE - 1]}…"


class Archive:
    """The earlier conversations with one program, the newest first."""

    def __init__(self, store: Store, file: str) -> None:
        self._store = store
        self._key = f"chats:{file}"

    def entries(self) -> list[dict[str, Any]]:
        """Return all conversations, each as {"title", "saved"}."""
        found = self._store.read(self._key)
        return [one for one in found if _is_entry(one)] if isinstance(found, list) else []

    def add(self, saved: Mapping[str, Any], title: str = "", at: int = 0) -> None:
        """Add a conversation; the oldest ones make room for it."""
        entries = self.entries()
        entries.insert(at, {"title": title or title_of(saved), "saved": dict(saved)})
        self._write(entries[:MOST])

    def add_valid(self, saved: Any) -> None:
        """Add a conversation as the store has it; ignore malformed conversations."""
        if _is_entry({"title": "", "saved": saved}):
            self.add(saved)

    def take_over(self, other: Archive) -> None:
        """Move the conversations of another archive here."""
        for entry in reversed(other.entries()):
            self.add(entry["saved"], entry["title"])
        other._write([])

    def take(self, at: int) -> dict[str, Any] | None:
        """Remove a conversation and return it."""
        entries = self.entries()
        if not 0 <= at < len(entries):
            return None
        taken = entries.pop(at)
        self._write(entries)
        return taken

    def rename(self, at: int, title: str) -> None:
        entries = self.entries()
        if 0 <= at < len(entries) and title.strip():
            entries[at]["title"] = title.strip()[: 2 * _TITLE]
            self._write(entries)

    def _write(self, entries: list[dict[str, Any]]) -> None:
        while len(entries) > 1 and len(encode(entries)) > MOST_CHARACTERS:
            entries.pop()
        self._store.write(self._key, entries)


def _is_entry(one: Any) -> bool:
    try:
        texts = [f"{line['role']}{line['content']}" for line in one["saved"]["messages"]]
        return bool(texts) and isinstance(one["title"], str)
    except (TypeError, KeyError):
        return False  # written by another version of this page, or by another hand


def _as_markdown(talk: Talk, model: str) -> str:
    """Return a conversation as a Markdown file."""
    parts = [f"# Conversation with {model}"]
    for one in talk.messages:
        pictures = [f"*Picture: {told.title}*" for told in one.get("pictures", ())]
        parts += [f"**{_WHO[one['role']]}**", *pictures, one["content"]]
    return "\n\n".join(filter(None, parts)) + "\n"


def _as_json(talk: Talk, model: str) -> str:
    """Return a conversation as JSON; `messages` are as chat templates take them, with the names
    and sizes of their pictures."""
    messages = [
        {**one, "pictures": [picture_json(told, with_copy=False) for told in one["pictures"]]}
        if "pictures" in one
        else one
        for one in talk.messages
    ]
    return json.dumps(
        {"model": model, "tokenizer": talk.tokenizer_name, "messages": messages},
        indent=1,
        ensure_ascii=False,
    )


def conversation_file(talk: Talk, program: str, kind: str) -> tuple[str, str]:
    """Return the name and the text of a conversation's file: `kind` is "md" or "json"."""
    text = _as_json(talk, program) if kind == "json" else _as_markdown(talk, program)
    ending = "json" if kind == "json" else "md"
    return f"{program.removesuffix('.pte')}.conversation.{ending}", text


def offer_file(browser: Browser, talk: Talk, program: str, kind: str) -> None:
    """Download a conversation as a file of this kind."""
    name, text = conversation_file(talk, program, kind)
    browser.show(download={"url": browser.download_url(text.encode()), "name": name})
