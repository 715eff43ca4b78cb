"""Special tokens around a text or two, by the post-processor of a tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from webpte.errors import TextError


class FramePart(NamedTuple):
    """A special token, or the place of a text: the first (0) or the second (1).

    kind   the type of its tokens, for models that distinguish two texts (token_type_ids)
    """

    token: int | None
    text: int | None
    kind: int


Frame = tuple[FramePart, ...]


def read_frame(content: Mapping[str, Any], pair: bool) -> Frame:
    """Return the special tokens around a text, or around two texts."""
    found: Frame | None = None
    after = content.get("post_processor") or {}
    try:
        for part in after.get("processors") or [after]:
            made = _frame_of(part, pair)
            if made is not None:
                if found is not None:
                    _refuse("two post-processors add special tokens")
                found = made
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        _refuse(f"its post-processor is not complete ({error})")
    if found is None:
        found = tuple(FramePart(None, at, at) for at in range(2 if pair else 1))
    wanted = [0, 1] if pair else [0]
    if [part.text for part in found if part.text is not None] != wanted:
        _refuse(f"its post-processor does not place {'two texts' if pair else 'a text'} once each")
    return found


def _refuse(what: str) -> NoReturn:
    raise TextError(f"the special tokens around texts are not known: {what}")


def _frame_of(part: Mapping[str, Any], pair: bool) -> Frame | None:
    kind = part.get("type")
    if kind in (None, "ByteLevel"):
        return None
    if kind == "TemplateProcessing":
        return tuple(_template(part, part["pair" if pair else "single"]))
    if kind not in ("BertProcessing", "RobertaProcessing"):
        _refuse(f"{kind} is a post-processor that webpte does not read")
    first, last = (FramePart(int(part[name][1]), None, 0) for name in ("cls", "sep"))
    if not pair:
        return first, FramePart(None, 0, 0), last
    if kind == "RobertaProcessing":
        return first, FramePart(None, 0, 0), last, last, FramePart(None, 1, 0), last
    return first, FramePart(None, 0, 0), last, FramePart(None, 1, 1), last._replace(kind=1)


def _template(part: Mapping[str, Any], pieces: Sequence[Mapping[str, Any]]) -> Iterator[FramePart]:
    for piece in pieces:
        if "Sequence" in piece:
            text = piece["Sequence"]
            yield FramePart(None, "AB".index(text["id"]), int(text["type_id"]))
        else:
            token = piece["SpecialToken"]
            for number in part["special_tokens"][token["id"]]["ids"]:
                yield FramePart(int(number), None, int(token["type_id"]))
