"""A tokenizer.json for models that hear letters, by their vocab.json."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import webpte
from webpte_export.errors import ExportError
from webpte_export.tasks.letters import is_ctc, letters_tokenizer

VOCABULARY = {"<pad>": 0, "<s>": 1, "<unk>": 2, "|": 3, "a": 4, "b": 5, "ch": 6}


def decoded(table: dict[str, Any], tokens: list[int]) -> str:
    tokenizer = asyncio.run(webpte.text.load_tokenizer(table))
    return tokenizer.decode(tokens)


def test_letters_are_joined_and_the_delimiter_is_a_space() -> None:
    table = letters_tokenizer(VOCABULARY, {})
    assert decoded(table, [0, 6, 4, 4, 3, 1, 5, 0]) == "chaa <s>b"
    assert [decoded(table, [number]) for number in (0, 3, 6)] == ["", " ", "ch"]
    other = {"pad_token": "a", "word_delimiter_token": "b", "unk_token": None}
    assert decoded(letters_tokenizer(VOCABULARY, other), [4, 6, 5, 0]) == "ch <pad>"


def test_vocabularies_that_are_none() -> None:
    with pytest.raises(ExportError, match="of several languages keep one"):
        letters_tokenizer({"eng": VOCABULARY}, {})
    with pytest.raises(ExportError, match="has no <nothing>, which stands for no letter"):
        letters_tokenizer(VOCABULARY, {"pad_token": "<nothing>"})


def test_models_are_told_by_their_class() -> None:
    assert is_ctc({"architectures": ["HubertForCTC"]})
    assert not is_ctc({"architectures": ["WhisperForConditionalGeneration"]})
    assert not is_ctc({})
