"""A conversation as the browser keeps it, so that a reload does not end it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from page.core.store import encode
from page.views.chat.pictures import KeptPictures, picture_json
from page.views.chat.talk import Answer, Talk
from page.views.chat.versions import from_json
from page.views.chat.versions import to_json as versions_json
from webpte.llm import Candidate, ReplyStats, TokenLogprob

MOST_CHARACTERS = 200_000  # of one conversation: browsers keep a few megabytes for a whole site
MOST_PICTURES = 300_000  # characters of the copies of pictures, besides
_DIGITS = 4  # of a logarithm: far more than a colour or a percentage shows
_ROLES = ("system", "user", "assistant")


def key_of(file: str) -> str:
    """Return the store's key for conversations with a program; `file` is its address or name."""
    return f"chat:{file}"


def to_json(talk: Talk) -> dict[str, Any]:
    """Return a conversation as the store keeps it; {} if it is empty or too long.

    If it is too long, alternatives to tokens are left out first, then other versions, then the
    figures of answers. The newest pictures are kept as copies, as many as there is room for.
    """
    if not talk.lines:
        return {}
    messages, copies = _messages_json(talk)
    plain = {"tokenizer": talk.tokenizer_name, "messages": messages}
    ended = {at: one for at, one in talk.answers.items() if one.ended}
    versions = {"versions": versions_json(talk.versions)} if talk.versions else {}
    for with_top, others in ((True, versions), (False, versions), (False, {})):
        answers = {at: _answer_json(one, with_top) for at, one in ended.items()}
        value = {**plain, "answers": answers, **others}
        if len(encode(value)) <= MOST_CHARACTERS + copies:
            return value
    return plain if len(encode(plain)) <= MOST_CHARACTERS + copies else {}


def _messages_json(talk: Talk) -> tuple[list[dict[str, Any]], int]:
    """Return the messages as the store keeps them, and the characters of copies of pictures."""
    copies, messages = 0, list[dict[str, Any]]()
    for message in reversed(talk.messages):
        found = {"role": message["role"], "content": message["content"]}
        pictures = list[dict[str, Any]]()
        for picture in reversed(message.get("pictures", ())):
            fits = copies + len(picture.small) <= MOST_PICTURES
            copies += len(picture.small) if fits else 0
            pictures.insert(0, picture_json(picture, with_copy=fits))
        messages.insert(0, {**found, "pictures": pictures} if pictures else found)
    return messages, copies


def _answer_json(answer: Answer, with_top: bool) -> dict[str, Any]:
    """Return all that is shown of an answer; `with_top`: with the alternatives to its tokens."""
    return {
        "tokens": answer.tokens,
        "logprobs": [_logprob_json(one, with_top) for one in answer.logprobs],
        "follows": answer.follows,
        "seed": answer.seed,
        "ended": answer.ended,
        "context": answer.context,
        "first_ms": answer.first_ms,
        "stats": asdict(answer.stats),
    }


def _logprob_json(told: TokenLogprob | None, with_top: bool) -> list[Any] | None:
    if told is None:
        return None
    top = [[one.token, round(one.logprob, _DIGITS)] for one in told.top] if with_top else []
    return [round(told.logprob, _DIGITS), top]


def restore(talk: Talk, saved: Any, kept: KeptPictures) -> str:
    """Continue a saved conversation if its tokenizer is the same; return its system prompt.

    `kept` has its pictures.
    """
    try:
        messages = [_message(one, kept) for one in saved["messages"]]
        known = all(one["role"] in _ROLES and isinstance(one["content"], str) for one in messages)
        if not known or saved["tokenizer"] != talk.tokenizer_name:
            return ""
    except (TypeError, KeyError, ValueError, AttributeError):
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
    versions = from_json(saved.get("versions", {}))
    talk.versions = {at: one for at, one in versions.items() if 0 <= at <= len(lines)}
    return next((one["content"] for one in messages if one["role"] == "system"), "")


def _message(raw: Mapping[str, Any], kept: KeptPictures) -> dict[str, Any]:
    pictures = [kept.restored(one) for one in raw.get("pictures", ())]
    found = {"role": raw["role"], "content": raw["content"]}
    return {**found, "pictures": pictures} if pictures else found


def _answer(talk: Talk, raw: Mapping[str, Any]) -> Answer:
    tokens = [int(token) for token in raw["tokens"]]
    return Answer(
        stream=talk.tokenizer.stream(),
        stats=ReplyStats(**raw["stats"]),
        seed=int(raw["seed"]),
        follows=str(raw["follows"]),
        tokens=tokens,
        logprobs=_logprobs(raw.get("logprobs"), tokens),
        first_ms=None if raw["first_ms"] is None else float(raw["first_ms"]),
        ended=str(raw["ended"]),
        context=int(raw["context"]),
    )


def _logprobs(raw: Any, tokens: Sequence[int]) -> list[TokenLogprob | None]:
    """Return the probabilities of tokens; None if not requested or not kept."""
    if not isinstance(raw, list) or len(raw) != len(tokens):
        return [None] * len(tokens)
    return [
        None if one is None else _logprob(token, *one)
        for token, one in zip(tokens, raw, strict=True)
    ]


def _logprob(token: int, logprob: float, top: Sequence[tuple[int, float]]) -> TokenLogprob:
    others = tuple(Candidate(int(one), float(value)) for one, value in top)
    return TokenLogprob(token, float(logprob), others)
