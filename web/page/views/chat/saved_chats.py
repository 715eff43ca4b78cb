"""A conversation as the browser keeps it, so that a reload does not end it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from page.store import encode
from page.views.chat.talk import Answer, Talk
from webpte.llm import ReplyStats

MOST_CHARACTERS = 200_000  # of one conversation: browsers keep a few megabytes for a whole site
_ROLES = ("system", "user", "assistant")


def key_of(file: str) -> str:
    """Return the store's key for conversations with a program; `file` is its address or name."""
    return f"chat:{file}"


def to_json(talk: Talk) -> dict[str, Any]:
    """Return a conversation as the store keeps it; {} if it is empty or too long.

    If it is too long with the figures of its answers, these are left out first.
    """
    if not talk.lines:
        return {}
    plain = {"tokenizer": talk.tokenizer_name, "messages": talk.messages}
    answers = {at: _answer_json(one) for at, one in talk.answers.items() if one.ended}
    for value in ({**plain, "answers": answers}, plain):
        if len(encode(value)) <= MOST_CHARACTERS:
            return value
    return {}


def _answer_json(answer: Answer) -> dict[str, Any]:
    """Return all that is shown of an answer but the probabilities of its tokens."""
    return {
        "tokens": answer.tokens,
        "follows": answer.follows,
        "seed": answer.seed,
        "ended": answer.ended,
        "context": answer.context,
        "first_ms": answer.first_ms,
        "stats": asdict(answer.stats),
    }


def restore(talk: Talk, saved: Any) -> str:
    """Continue a saved conversation if its tokenizer is the same; return its system prompt."""
    try:
        messages = [{"role": one["role"], "content": one["content"]} for one in saved["messages"]]
        known = all(one["role"] in _ROLES and isinstance(one["content"], str) for one in messages)
        if not known or saved["tokenizer"] != talk.tokenizer_name:
            return ""
    except (TypeError, KeyError):
        return ""  # written by another version of this page, or by another hand
    talk.messages = messages
    try:
        answers = {int(at): _answer(talk, one) for at, one in saved.get("answers", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        answers = {}
    lines = talk.lines
    talk.answers = {
        at: answer
        for at, answer in answers.items()
        if at < len(lines) and lines[at]["role"] == "assistant"
    }
    return next((one["content"] for one in messages if one["role"] == "system"), "")


def _answer(talk: Talk, raw: Mapping[str, Any]) -> Answer:
    tokens = [int(token) for token in raw["tokens"]]
    return Answer(
        stream=talk.tokenizer.stream(),
        stats=ReplyStats(**raw["stats"]),
        seed=int(raw["seed"]),
        follows=str(raw["follows"]),
        tokens=tokens,
        logprobs=[None] * len(tokens),
        first_ms=None if raw["first_ms"] is None else float(raw["first_ms"]),
        ended=str(raw["ended"]),
        context=int(raw["context"]),
    )
