"""Versions of a conversation from a line on: the old ones of regenerated answers and edits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass
class Tail:
    """The rest of a conversation from a line on; `answers` and `versions` go by line number."""

    messages: list[Message]
    answers: dict[int, Any] = field(default_factory=dict)
    versions: dict[int, Versions] = field(default_factory=dict)


@dataclass
class Versions:
    """The versions from one line on, in the order of their making.

    tails  of all versions; None in the place of the version that the conversation has
    """

    tails: list[Tail | None]

    @property
    def at(self) -> int:
        """The number of the version that the conversation has."""
        return self.tails.index(None)

    @property
    def text(self) -> str:
        return f"{self.at + 1}/{len(self.tails)}"

    def add(self, before: Tail) -> None:
        """Keep the conversation's version, and begin another."""
        self.tails[self.at] = before
        self.tails.append(None)

    def swap(self, number: int, now: Tail) -> Tail | None:
        """Return a kept version, in whose place the conversation goes on; None if there is none."""
        found = self.tails[number] if 0 <= number < len(self.tails) else None
        if found is not None:
            self.tails[self.at], self.tails[number] = now, None
        return found


def to_json(versions: Mapping[int, Versions]) -> dict[str, Any]:
    """Return versions as the store keeps them: texts without figures and pictures."""
    return {
        str(line): [
            None
            if tail is None
            else {"messages": list(_texts(tail)), "versions": to_json(tail.versions)}
            for tail in one.tails
        ]
        for line, one in versions.items()
    }


def _texts(tail: Tail) -> Iterator[Message]:
    for one in tail.messages:
        yield {"role": one["role"], "content": one["content"]}


def from_json(raw: Any) -> dict[int, Versions]:
    """Return versions as `to_json` wrote them; {} for anything else."""
    try:
        return {int(line): _versions(tails) for line, tails in raw.items()}
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        return {}  # written by another version of this page, or by another hand


def _versions(raw: Any) -> Versions:
    tails = [None if one is None else _tail(one) for one in raw]
    if tails.count(None) != 1:
        raise ValueError("exactly one version is that of the conversation")
    return Versions(tails)


def _tail(raw: Mapping[str, Any]) -> Tail:
    messages = [
        {"role": str(one["role"]), "content": str(one["content"])} for one in raw["messages"]
    ]
    if any(one["role"] not in ("user", "assistant") for one in messages):
        raise ValueError("a version has a message of another role")
    return Tail(messages, {}, from_json(raw["versions"]))
