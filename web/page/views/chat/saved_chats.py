"""A conversation as the browser remembers it, so that a reload does not end it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from page.views.chat.talk import Answer, Talk
from webpte.json_reader import parse_json
from webpte.llm import ReplyStats

MOST_CHARACTERS = 200_000  # of one: browsers remember a few megabytes for all of a site
_ROLES = ("system", "user", "assistant")


def key_of(file: str) -> str:
    """What a conversation with a program is remembered by; `file` is its address or name."""
    return f"chat:{file}"


def written(talk: Talk) -> str:
    """ "" if nothing was said yet, or too much."""
    if not talk.lines:
        return ""
    kept = {"tokenizer": talk.tokenizer_name, "messages": talk.messages}
    answers = {at: _written_answer(one) for at, one in talk.answers.items() if one.ended}
    for text in (json.dumps({**kept, "answers": answers}), json.dumps(kept)):
        if len(text) <= MOST_CHARACTERS:
            return text
    return ""


def _written_answer(answer: Answer) -> dict[str, Any]:
    """What is told of it, but for how probable its tokens were."""
    return {
        "tokens": answer.tokens,
        "follows": answer.follows,
        "seed": answer.seed,
        "ended": answer.ended,
        "context": answer.context,
        "first_ms": answer.first_ms,
        "stats": asdict(answer.stats),
    }


def restore(talk: Talk, text: str) -> str:
    """Go on where it was, if its words mean the same tokens; returns the system's message."""
    try:
        kept = parse_json(text, "what is kept", ValueError, not_finite=True)
        messages = [{"role": one["role"], "content": one["content"]} for one in kept["messages"]]
        known = all(one["role"] in _ROLES and isinstance(one["content"], str) for one in messages)
        if not known or kept["tokenizer"] != talk.tokenizer_name:
            return ""
    except (ValueError, TypeError, KeyError):
        return ""  # of another version of this page, or by another hand
    talk.messages = messages
    try:
        answers = {int(at): _answer(talk, one) for at, one in kept.get("answers", {}).items()}
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
