"""Messages of a Chat in the head of a saved conversation; see `saved.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError
from webpte.llm.prompt import GeneratedSpan, Turn
from webpte.llm.saved import integers


def turns_to_json(turns: Sequence[Turn], dropped: int, context: Sequence[int]) -> dict[str, Any]:
    """Return messages as JSON; tokens that the context begins with are written as their number."""
    return {"turns": [_turn_to_json(turn, context) for turn in turns], "dropped": dropped}


def _turn_to_json(turn: Turn, context: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = turn.message
    if turn.span is not None:
        count = len(turn.span.tokens)
        is_prefix = turn.span.tokens == tuple(context[:count])
        tokens = {"count": count} if is_prefix else {"tokens": list(turn.span.tokens)}
        found["span"] = {"prompt": turn.span.prompt, "start": turn.span.start, **tokens}
    return found


def turns_from_json(head: Table, context: Sequence[int]) -> tuple[list[Turn], int]:
    """Read messages, and the number of messages that were dropped from a full context."""
    if "turns" not in head:
        raise InputError(f"{head.name} has no messages: restore it with a Generator")
    turns = [_turn_from_json(table, context) for table in head.tables("turns")]
    return turns, head.integer("dropped", low=0, high=len(turns))


def _turn_from_json(table: Table, context: Sequence[int]) -> Turn:
    span, given = None, table.table("span", None)
    if given is not None:
        tokens = tuple(context[: given.integer("count", 0, low=0, high=len(context))])
        tokens = integers(given, "tokens") if "tokens" in given else tokens
        start = given.integer("start", low=0, high=len(tokens))
        span = GeneratedSpan(given.text("prompt"), tokens, start)
    return Turn(table.text("role"), table.text("content"), span)
