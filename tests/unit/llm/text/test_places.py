"""Places of tokens: webpte finds the same as Hugging Face's package."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from tokenizers import Tokenizer as PackageTokenizer

from support.harness.task_cases import ACCENTS, LONG, SHORT, models_folder
from support.harness.texts import FOLDER as TEXT_FOLDER
from support.harness.texts import TEXTS
from webpte.errors import InputError, TextError
from webpte.llm.text import Tokenizer, load_tokenizer
from webpte.llm.text.places import find_places
from webpte.llm.text.post_processor import read_frame
from webpte.llm.text.sequences import (
    FIRST,
    LONGEST,
    SECOND,
    EncodedText,
    cut_texts,
    encode_text,
    join_texts,
    room_for,
    windows,
)
from webpte.llm.text.tokenizer import clean

FOLDER = models_folder()
KINDS = ("feelings", "byte-entities")  # word pieces, byte-level BPE
ALL_TEXTS = [
    *map(clean, TEXTS),
    SHORT,
    ACCENTS,
    LONG,
    "",
    " ",
    "  two  spaces ",
    "it's  ok\n\n\tx ",
]
LETTERS = "ab Zé\u0301ß東½…'.,\u00a0\u200b\n\t\0-$ ı İΣ\U0001f600"


def package(kind: str) -> PackageTokenizer:
    return PackageTokenizer.from_file(str(FOLDER / kind / "tokenizer.json"))


def opened(kind: str) -> Tokenizer:
    return asyncio.run(load_tokenizer(FOLDER / kind / "tokenizer.json"))


def places_of(content: Any, tokenizer: PackageTokenizer, text: str) -> list[Any]:
    names = {number: token for token, number in tokenizer.get_vocab().items()}
    tokens = tokenizer.encode(text, add_special_tokens=False).ids
    return [tuple(place) for place in find_places(content, names, text, tokens)]


def wanted_of(tokenizer: PackageTokenizer, text: str) -> list[Any]:
    found = tokenizer.encode(text, add_special_tokens=False)
    return [(*span, word) for span, word in zip(found.offsets, found.word_ids, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_those_of_the_package(kind: str) -> None:
    tokenizer, numbers = package(kind), random.Random(3)
    content = json.loads(tokenizer.to_str())
    special = [token["content"] for token in content["added_tokens"]]
    made = ["".join(numbers.choices([*LETTERS, *special[:2]], k=12)) for _ in range(300)]
    for text in [*ALL_TEXTS, *made]:
        assert places_of(content, tokenizer, text) == wanted_of(tokenizer, text), repr(text)


def test_a_space_that_the_tokenizer_adds_has_no_place() -> None:
    content = json.loads(package("byte-entities").to_str())
    content["pre_tokenizer"]["add_prefix_space"] = True
    for trimming in ({"trim_offsets": True, "add_prefix_space": True}, {"trim_offsets": False}):
        content["post_processor"] |= trimming
        tokenizer = PackageTokenizer.from_str(json.dumps(content))
        for text in ALL_TEXTS:
            assert places_of(content, tokenizer, text) == wanted_of(tokenizer, text), repr(text)


def test_tokens_of_another_text_are_refused() -> None:
    tokenizer = package("feelings")
    content = json.loads(tokenizer.to_str())
    names = {number: token for token, number in tokenizer.get_vocab().items()}
    tokens = tokenizer.encode("the program", add_special_tokens=False).ids
    for text in ("the", "the program is", "them program"):
        with pytest.raises(TextError, match="fit the text"):
            find_places(content, names, text, tokens)


def test_a_kind_that_is_not_known_is_said() -> None:
    content = json.loads((TEXT_FOLDER / "unigram" / "tokenizer.json").read_text())
    with pytest.raises(TextError, match="Unigram"):
        find_places(content, {}, "text", [1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [(SHORT,), (ACCENTS, LONG), ("", SHORT), (SHORT, ""), ("",)])
@pytest.mark.parametrize("length", [None, 5, 12, 13, 40])
def test_sequences_are_those_of_the_package(kind: str, texts: Any, length: int | None) -> None:
    tokenizer, reference = opened(kind), package(kind)
    if length is not None:
        reference.enable_truncation(length)
    parts = [encode_text(tokenizer, text, places=True) for text in texts]
    if length is not None:
        parts = cut_texts(parts, room_for(tokenizer, len(texts), length))
    made, wanted = join_texts(tokenizer, parts), reference.encode(*texts)
    assert list(made.tokens) == wanted.ids
    assert list(made.kinds) == wanted.type_ids
    assert list(made.texts) == wanted.sequence_ids
    assert [place[:2] for place in made.places] == wanted.offsets
    assert [place.word for place in made.places] == wanted.word_ids


@pytest.mark.parametrize(("how", "kept"), [(FIRST, [2, 8]), (SECOND, [6, 4]), (LONGEST, [5, 5])])
def test_one_text_or_both_are_cut(how: str, kept: list[int]) -> None:
    texts = [EncodedText(range(6)), EncodedText(range(8))]
    assert [len(text.tokens) for text in cut_texts(texts, 10, how)] == kept


def test_no_room_is_said() -> None:
    texts = [EncodedText(range(6)), EncodedText(range(8))]
    with pytest.raises(InputError, match="leave no room"):
        cut_texts(texts, 8, FIRST)
    with pytest.raises(InputError, match="special ones"):
        room_for(opened("feelings"), 2, 2)
    with pytest.raises(InputError, match="overlap"):
        windows(texts[0], 4, 4)


@pytest.mark.parametrize(("count", "parts"), [(0, [[]]), (4, [[0, 1, 2, 3]])])
def test_a_text_that_fits_is_one_window(count: int, parts: list[list[int]]) -> None:
    assert [list(w.tokens) for w in windows(EncodedText(range(count)), 4, 1)] == parts


def test_windows_overlap() -> None:
    found = windows(EncodedText(range(8)), 4, 1)
    assert [list(w.tokens) for w in found] == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7]]


def test_a_post_processor_that_is_not_known_is_said() -> None:
    for part, said in (
        ({"type": "Other"}, "Other"),
        ({"type": "TemplateProcessing", "pair": []}, "once each"),
        ({"type": "BertProcessing"}, "not complete"),
    ):
        with pytest.raises(TextError, match=said):
            read_frame({"post_processor": part}, pair=True)
    assert [part.kind for part in read_frame({}, pair=True)] == [0, 1]
