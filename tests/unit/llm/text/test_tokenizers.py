"""Tokenizers of every kind in CPython: their libraries' tokens, and what webpte adds."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tokenizers

import webpte
from support.graphs.graphs import wait
from support.harness.texts import (
    BYTES,
    FOLDER,
    KINDS,
    PIECES,
    TEXTS,
    UNIGRAM,
    WORDS,
    tokenizer_path,
)
from webpte.errors import (
    InputError,
    PackageError,
    SourceError,
    TextError,
    VocabularyError,
)
from webpte.llm.text import LLAMA3_SPECIAL, Tokenizer, check_fits, load_tokenizer
from webpte.llm.text.tokenizer_json import JAVASCRIPT
from webpte_host.setup import runtime

TIKTOKEN = FOLDER / BYTES / "tokenizer.model"
SPECIAL = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"]


def load(kind: str) -> Tokenizer:
    return wait(load_tokenizer(tokenizer_path(kind)))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_libraries_tokens(kind: str) -> None:
    library = tokenizers.Tokenizer.from_file(str(tokenizer_path(kind)))
    library.no_padding()
    library.no_truncation()
    tokenizer = load(kind)
    for text in TEXTS:
        written = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        for special in (True, False):
            wanted = library.encode(written, add_special_tokens=special).ids
            assert tokenizer.encode(text, special) == wanted, repr(text)
            assert tokenizer.decode(wanted) == library.decode(wanted), repr(text)
    assert tokenizer.vocabulary == library.get_vocab_size()


@pytest.mark.parametrize("kind", [BYTES, PIECES])
def test_there_and_back(kind: str) -> None:
    tokenizer = load(kind)
    for text in TEXTS:
        written = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if kind == PIECES:
            written = written.replace("▁", " ")  # which ▁ means in these tokens
        assert tokenizer.decode(tokenizer.encode(text)) == written


def test_tiktoken_has_the_same_tokens() -> None:
    """Compare two files with the same merges; pattern and special tokens are given."""
    wanted = load(BYTES)
    found = wait(load_tokenizer(TIKTOKEN, special_tokens=SPECIAL))
    for text in [*TEXTS, "<|user|>Hi<|end|>"]:
        for special in (True, False):
            assert found.encode(text, special) == wanted.encode(text, special), repr(text)
    tokens = list(range(found.vocabulary + 3))
    assert found.vocabulary == wanted.vocabulary == 512
    for special in (True, False):
        assert found.decode(tokens, special) == wanted.decode(tokens, special)
    assert found.id_of("<|end|>") == wanted.id_of("<|end|>") == 507
    assert found.id_of("the") == wanted.id_of("the")
    assert found.id_of("no such token") is None
    assert found.template is not None
    message = [{"role": "user", "content": "Hi"}]
    assert wanted.template is not None
    assert found.template.render(message) == wanted.template.render(message)


def test_llama_3_is_what_a_tiktoken_file_is_taken_for(tmp_path: Path) -> None:
    path = Path(shutil.copy(TIKTOKEN, tmp_path))  # nothing lies beside it
    tokenizer = wait(load_tokenizer(path))
    first = 506
    assert tokenizer.vocabulary == first + len(LLAMA3_SPECIAL) == first + 256
    assert tokenizer.encode("")[0] == first
    assert tokenizer.id_of(tokenizer.special["eos_token"]) == first + 9
    assert tokenizer.id_of("<|start_header_id|>") == first + 6
    assert LLAMA3_SPECIAL[11] == "<|reserved_special_token_3|>"
    assert LLAMA3_SPECIAL[-1] == "<|reserved_special_token_247|>"
    assert tokenizer.template is None


@pytest.mark.parametrize("form", ["path", "str", "bytes", "dict"])
def test_forms_of_a_source(form: str) -> None:
    path = tokenizer_path(BYTES)
    sources = {
        "path": path,
        "str": str(path),
        "bytes": path.read_bytes(),
        "dict": json.loads(path.read_text(encoding="utf-8")),
    }
    tokenizer = wait(load_tokenizer(sources[form]))
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
    # What lies beside a file is taken; bytes lie nowhere.
    assert (tokenizer.template is not None) == (form in ("path", "str"))
    config = path.with_name("tokenizer_config.json")
    for given in (config, config.read_bytes(), json.loads(config.read_text(encoding="utf-8"))):
        tokenizer = wait(load_tokenizer(sources[form], config=given))
        assert tokenizer.special["bos_token"] == "<|begin|>"
        assert tokenizer.template is not None


def test_a_template_may_be_a_file_or_one_of_several(tmp_path: Path) -> None:
    path = Path(shutil.copy(tokenizer_path(BYTES), tmp_path))
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0]['content'] }} from a file")
    message = [{"role": "user", "content": "Hi"}]

    def rendered(**given: Any) -> str:
        template = wait(load_tokenizer(path, **given)).template
        assert template is not None
        return template.render(message)

    assert rendered() == "Hi from a file"
    several = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    assert rendered(config={"chat_template": several}) == "yes"
    assert rendered(config={"chat_template": several}, template="mine") == "mine"


def test_special_tokens_in_a_text_are_tokens() -> None:
    tokenizer = load(BYTES)
    assert tokenizer.encode("<|user|>", special=False) == [tokenizer.id_of("<|user|>")]
    assert tokenizer.encode("<|user|>") == [506, 509]
    assert tokenizer.decode([506, 509]) == ""
    assert tokenizer.decode([506, 509], special=True) == "<|begin|><|user|>"


def test_numbers_that_are_no_tokens_are_nothing(kind: str) -> None:
    tokenizer = load(kind)
    tokens = tokenizer.encode("the fox", special=False)
    strange = [tokens[0], 100_000, *tokens[1:], 2**31]
    assert tokenizer.decode(strange) == tokenizer.decode(tokens)


# Batches


def test_a_batch_is_padded_and_cut() -> None:
    tokenizer = load(WORDS)
    texts = ["", "the fox", "one, two, three, four, five"]
    tokens, mask = tokenizer.encode_batch(texts)
    rows = [tokenizer.encode(text) for text in texts]
    assert tokens.dtype == mask.dtype == np.int64
    assert tokens.shape == mask.shape == (3, max(map(len, rows)))
    for found, present, row in zip(tokens.tolist(), mask.tolist(), rows, strict=True):
        assert found == row + [0] * (len(found) - len(row))
        assert present == [1] * len(row) + [0] * (len(found) - len(row))
    cut, mask = tokenizer.encode_batch(texts, 5)
    assert cut.shape == (3, 5)
    assert cut[2].tolist() == [2, *rows[2][1:4], 3], "the end mark stays"
    assert mask.sum(axis=1).tolist() == [2, min(5, len(rows[1])), 5]
    with pytest.raises(InputError, match="1 tokens do not hold the 2"):
        tokenizer.encode_batch(texts, 1)
    assert tokenizer.encode_batch([])[0].shape == (0, 0)


def test_a_batch_is_cut_as_the_library_does(kind: str) -> None:
    library = tokenizers.Tokenizer.from_file(str(tokenizer_path(kind)))
    library.no_padding()
    library.enable_truncation(7)
    tokenizer = load(kind)
    tokens, mask = tokenizer.encode_batch(TEXTS, 7, pad=0)
    for text, row, present in zip(TEXTS, tokens, mask, strict=True):
        written = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert row[present == 1].tolist() == library.encode(written).ids, repr(text)


def test_a_batch_needs_a_token_to_pad_with() -> None:
    tokenizer = load(UNIGRAM)
    with pytest.raises(TextError, match="no token to pad with"):
        tokenizer.encode_batch(["one", "one, two, three"])
    assert tokenizer.encode_batch(["one", "one"])[1].min() == 1
    assert tokenizer.encode_batch(["one", "one, two, three"], pad=7)[0][0, -1] == 7


# What can be wrong


def test_a_tokenizer_that_does_not_fit(root: Path) -> None:
    program = wait(webpte.load(root / "tests/data/llm/llama_tiny_fp32.pte", device="numpy"))
    check_fits(load(BYTES), program)
    check_fits(load(BYTES), 512)
    with pytest.raises(VocabularyError, match="go up to 511, but the model knows only 511"):
        check_fits(load(BYTES), 511)
    larger = load(PIECES)
    with pytest.raises(VocabularyError, match=r"llama_tiny_fp32\.pte knows only 512"):
        check_fits(larger, program)
    with pytest.raises(InputError, match="does not return logits"):
        check_fits(larger, program, "get_max_context_len")


def broken(change: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(tokenizer_path(BYTES).read_text(encoding="utf-8"))
    content["model"]["type"] = change
    return content


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (b"{not json", TextError, "is not JSON"),
        (b'{"model":' * 5000, TextError, "nested deeper than 100"),
        (b'{"model": ' + b"9" * 5000 + b"}", TextError, "is not JSON"),
        ({"added_tokens": []}, TextError, "is not a tokenizer.json: it has no `model`"),
        (broken("Nothing"), TextError, "the package tokenizers does not take it"),
        (b"\x0a\x0e\x0a\x05<unk>\x15", TextError, r"neither.*sentencepiece's models"),
        (b"QQ== 0\nQg== one\n", TextError, "line 2 is not"),
        (b"QQ== 0\nQg== 1\n", TextError, "byte 0x00 has no token"),
        (b'{"model": "\xff"}', TextError, "is not UTF-8"),
        (Path("no/such/tokenizer.json"), SourceError, "No such file"),
        (3, SourceError, "cannot open a int"),
    ],
    ids=str,
)
def test_what_is_no_tokenizer(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wait(load_tokenizer(source))


@pytest.mark.parametrize("config", [b"[]", b"{"])
def test_what_is_no_config(config: bytes) -> None:
    with pytest.raises(TextError, match="bytes is not"):
        wait(load_tokenizer(tokenizer_path(BYTES), config=config))


@pytest.mark.parametrize(
    ("package", "path"),
    [("tokenizers", tokenizer_path(WORDS)), ("tiktoken", TIKTOKEN), ("jinja2", TIKTOKEN)],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, package: str, path: Path
) -> None:
    import_module = importlib.import_module

    def without(name: str, *more: Any) -> ModuleType:
        if name == package:
            raise ModuleNotFoundError(name)
        return import_module(name, *more)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(PackageError, match=rf"needs the package {package}: pip.*webpte\[text\]"):
        wait(load_tokenizer(path))


def test_the_page_gets_the_module_that_is_pinned() -> None:
    lock = json.loads(runtime.LOCK.read_text())
    (package,) = (p for p in lock["npm"] if p["name"] == "@huggingface/tokenizers")
    (name,) = (name for name in package["files"] if name.endswith(".cjs"))
    assert package["files"][name] == JAVASCRIPT.sha256
    assert JAVASCRIPT.url.endswith(f"{package['name']}@{package['version']}/{name}")
    assert JAVASCRIPT.served == f"../{package['into']}/{name.rpartition('/')[2]}"


class Letters(Tokenizer):
    """A custom tokenizer, whose tokens are letters."""

    vocabulary = 128
    special = {"pad_token": "."}  # noqa: RUF012 - a table that nobody changes
    template = None

    def encode(self, text: str, special: bool = True) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        return "".join(map(chr, tokens))

    def id_of(self, token: str) -> int | None:
        return ord(token) if len(token) == 1 else None


def test_one_brings_ones_own() -> None:
    tokens, mask = Letters().encode_batch(["abc", "d"], 2)
    assert tokens.tolist() == [[97, 98], [100, ord(".")]]
    assert mask.tolist() == [[1, 1], [1, 0]]
    stream = Letters().stream()
    assert [stream.feed(97), stream.feed(98, 99), stream.flush()] == ["a", "bc", ""]
