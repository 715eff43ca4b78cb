"""The bytes of tokens: the tokens of a text spell the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from support.graphs.graphs import wait
from support.harness.texts import BYTES, DIGITS, PIECES, TEXTS
from support.page.chats import BEGIN, open_tokenizer
from webpte.llm.text import Tokenizer


def joined(tokenizer: Tokenizer, pieces: list[bytes | None], text: str) -> bytes:
    return b"".join(pieces[token] or b"" for token in tokenizer.encode(text, special=False))


@pytest.mark.parametrize("kind", [BYTES, DIGITS, PIECES])
def test_they_are_the_text(kind: str) -> None:
    tokenizer = wait(open_tokenizer(kind))
    pieces = tokenizer.pieces()
    assert len(pieces) == tokenizer.vocabulary
    for text in TEXTS:
        wanted = tokenizer.decode(tokenizer.encode(text, special=False)).encode()
        assert joined(tokenizer, pieces, text) in (wanted, b" " + wanted)


def test_special_tokens_have_none() -> None:
    tokenizer = wait(open_tokenizer())
    assert tokenizer.pieces()[BEGIN] is None
    assert None not in tokenizer.pieces()[:BEGIN]


class OnesOwn(Tokenizer):
    """A tokenizer whose tokens are letters; the last token is a part of a character."""

    vocabulary = 4
    special: Mapping[str, str] = {}
    template = None

    def encode(self, text: str, special: bool = True) -> list[int]:
        return ["abä".index(letter) for letter in text]

    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        return "".join("abä\ufffd"[token] for token in tokens)

    def id_of(self, token: str) -> int | None:
        return None


def test_ones_own_tokenizer_is_asked_for_each() -> None:
    assert OnesOwn().pieces() == [b"a", b"b", "ä".encode(), None]
