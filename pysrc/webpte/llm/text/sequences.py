"""Sequences of tokens for encoders: a text or two, cut to a length, with special tokens.

texts = [encode_text(tokenizer, text) for text in (question, passage)]
sequence = join_texts(tokenizer, cut_texts(texts, room_for(tokenizer, 2, 512)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webpte.errors import InputError
from webpte.llm.text.places import Place
from webpte.llm.text.tokenizer import Tokenizer

LONGEST, FIRST, SECOND = "longest_first", "only_first", "only_second"
_NOWHERE = Place(0, 0, None)


@dataclass(frozen=True)
class EncodedText:
    """The tokens of a text, without special tokens, and their places in the text if needed."""

    tokens: Sequence[int]
    places: Sequence[Place] = ()

    def part(self, start: int, end: int) -> EncodedText:
        return EncodedText(self.tokens[start:end], self.places[start:end])


@dataclass(frozen=True)
class TokenSequence:
    """Tokens for a model, with an item of each list per token.

    kinds   the number of its text for the model (token_type_ids)
    texts   its text (0 or 1); None for special tokens
    places  its place in that text, if places were found
    """

    tokens: Sequence[int]
    kinds: Sequence[int]
    texts: Sequence[int | None]
    places: Sequence[Place]

    def __len__(self) -> int:
        return len(self.tokens)


def encode_text(tokenizer: Tokenizer, text: str, places: bool = False) -> EncodedText:
    """Return the tokens of a text, with their places if asked for."""
    tokens = tokenizer.encode(text, special=False)
    return EncodedText(tokens, tokenizer.places(text) if places else ())


def join_texts(tokenizer: Tokenizer, texts: Sequence[EncodedText]) -> TokenSequence:
    """Put special tokens around a text or two texts."""
    tokens: list[int] = []
    kinds: list[int] = []
    owners: list[int | None] = []
    places: list[Place] = []
    for part in tokenizer.frame(len(texts) == 2):
        if part.text is None:
            assert part.token is not None  # a part is either a text or a token
            added, found = [part.token], [_NOWHERE]
        else:
            text = texts[part.text]
            added = list(text.tokens)
            found = list(text.places) or [_NOWHERE] * len(added)
        tokens += added
        places += found
        kinds += [part.kind] * len(added)
        owners += [part.text] * len(added)
    return TokenSequence(tokens, kinds, owners, places)


def room_for(tokenizer: Tokenizer, count: int, length: int) -> int:
    """Return how many tokens of texts fit into a sequence of a length."""
    special = sum(part.text is None for part in tokenizer.frame(count == 2))
    if length < special:
        raise InputError(f"{length} tokens do not hold the {special} special ones around texts")
    return length - special


def cut_texts(texts: Sequence[EncodedText], room: int, how: str = LONGEST) -> list[EncodedText]:
    """Cut texts at their ends so that they fit together, by the rules of Hugging Face's tokenizers.

    how  cuts the longer text, or both if they are equal; or only the first; or only the second
    """
    lengths = [len(text.tokens) for text in texts]
    if sum(lengths) <= room:
        return list(texts)
    if how == LONGEST:
        lengths = _shared(lengths, room)
    else:
        at = min(0 if how == FIRST else 1, len(texts) - 1)
        others = sum(lengths) - lengths[at]
        if others >= room:
            raise InputError(
                f"{others} tokens of one text leave no room for the other, which may be cut: "
                f"a call takes {room}"
            )
        lengths[at] = room - others
    return [text.part(0, length) for text, length in zip(texts, lengths, strict=True)]


def _shared(lengths: list[int], room: int) -> list[int]:
    """Share the room: the shorter text stays whole if it leaves the longer text as much."""
    if len(lengths) == 1:
        return [room]
    small, swapped = min(lengths), lengths[0] > lengths[1]
    large = small if small > room else max(small, room - small)
    if small + large > room:
        small, large = room // 2, room // 2 + room % 2
    return [large, small] if swapped else [small, large]


def windows(text: EncodedText, room: int, overlap: int) -> list[EncodedText]:
    """Cut a text into parts that fit; each part repeats the end of the part before it."""
    step = room - overlap
    if overlap < 0 or step < 1:
        raise InputError(
            f"parts of {room} tokens cannot overlap by {overlap}: give a smaller overlap"
        )
    parts, total = [], len(text.tokens)
    for start in range(0, max(total, 1), step):
        parts.append(text.part(start, min(start + room, total)))
        if start + room >= total:
            break
    return parts
