"""Text that is decoded token by token: whole characters, nothing lost, nothing twice."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness.every import check_every
from support.harness.texts import BYTES, KINDS, PIECES, TEXTS, WORDS, tokenizer_path
from webpte.llm.text import Tokenizer, load_tokenizer


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return wait(load_tokenizer(tokenizer_path(request.param)))


@pytest.fixture(scope="module")
def of_bytes() -> Tokenizer:
    return wait(load_tokenizer(tokenizer_path(BYTES)))


@pytest.fixture(scope="module")
def of_pieces() -> Tokenizer:
    return wait(load_tokenizer(tokenizer_path(PIECES)))


def pieces(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    stream = tokenizer.stream()
    return [stream.feed(token) for token in tokens] + [stream.flush()]


def test_pieces_are_the_text(tokenizer: Tokenizer) -> None:
    def check(text: str) -> None:
        for tokens in (tokenizer.encode(text), tokenizer.encode(text, special=False)):
            assert "".join(pieces(tokenizer, tokens)) == tokenizer.decode(tokens)

    check_every(TEXTS, check, ascii)


def test_no_piece_has_a_part_of_a_character(of_bytes: Tokenizer) -> None:
    def check(text: str) -> None:
        assert not any("\ufffd" in piece for piece in pieces(of_bytes, of_bytes.encode(text)))

    check_every([t for t in TEXTS if "\ufffd" not in t and "\ud83d" not in t], check, ascii)


def test_a_character_comes_with_its_last_byte(of_bytes: Tokenizer, of_pieces: Tokenizer) -> None:
    for tokenizer in (of_bytes, of_pieces):
        before = len(tokenizer.encode("a", special=False))
        tokens = tokenizer.encode("a🙂b", special=False)
        assert len(tokens) == before + 4 + 1, "each byte of the face is a token"
        found = pieces(tokenizer, tokens)
        assert found[before : before + 4] == ["", "", "", "🙂"]
        assert found[before + 4 :] == ["b", ""]
        stream = tokenizer.stream()
        assert [(stream.feed(token), stream.is_whole)[1] for token in tokens][before:] == [
            False,
            False,
            False,
            True,
            True,
        ]


def test_a_word_comes_with_its_token(of_pieces: Tokenizer) -> None:
    """The first space is dropped, the others stay."""
    found = pieces(of_pieces, of_pieces.encode("the fox is the dog"))
    assert found[0] == ""  # <s>
    assert found[1].startswith("the")
    assert [piece for piece in found if piece.startswith(" ")]
    assert all(found[1:-1]), "no token waits for another"


def test_tokens_without_text_change_nothing(of_pieces: Tokenizer) -> None:
    end = of_pieces.id_of("</s>")
    assert end is not None
    plain = of_pieces.encode("the fox is", special=False)
    mixed = [token for pair in zip([end] * len(plain), plain, strict=True) for token in pair]
    assert "".join(pieces(of_pieces, mixed)) == "the fox is"


def test_what_is_left_at_the_end_is_flushed_once(of_bytes: Tokenizer) -> None:
    tokens = of_bytes.encode("a🙂", special=False)[:-1]
    stream = of_bytes.stream()
    assert "".join(stream.feed(token) for token in tokens) == "a"
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""
    assert stream.feed(*of_bytes.encode("b", special=False)) == "b"


def test_text_before_a_part_of_a_character_does_not_wait(of_bytes: Tokenizer) -> None:
    first = of_bytes.encode("🙂", special=False)[0]
    stream = of_bytes.stream()
    assert stream.feed(*of_bytes.encode("ab", special=False), first) == "ab"
    assert not stream.is_whole


def test_any_tokens_of_bytes_are_their_text(of_bytes: Tokenizer) -> None:
    """Tokens that are not text: bytes in any order, with special tokens among them."""

    def check(seed: int) -> None:
        tokens = np.random.default_rng(seed).integers(0, 514, 60).tolist()
        assert "".join(pieces(of_bytes, tokens)) == of_bytes.decode(tokens)

    check_every(range(40), check)


def test_the_texts_are_what_they_are_there_for() -> None:
    """Otherwise the tests around it could not fail."""
    kinds = {unicodedata.category(letter) for text in TEXTS for letter in text}
    assert {"Mn", "Cc", "Cf", "So", "Lo", "Zs", "Cs", "Sk"} <= kinds
    assert len({len(wait(load_tokenizer(tokenizer_path(WORDS))).encode(t)) for t in TEXTS}) > 5
