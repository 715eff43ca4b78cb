"""tokenizer.json of Hugging Face, read by their package in CPython, by their JavaScript in a page.

Where the two differ, this module decides: the numbers of tokens, the special tokens, and that texts
are neither cut nor padded, even if the file asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.json_reader import parse_json
from webpte.engine.open.libraries import JavaScriptModule, javascript_library, python_package
from webpte.errors import TextError
from webpte.llm.text.places import Place, find_places
from webpte.llm.text.post_processor import Frame, read_frame
from webpte.llm.text.template import ChatTemplate
from webpte.llm.text.token_bytes import json_pieces
from webpte.llm.text.tokenizer import Tokenizer, check_vocabulary, clean, engine_errors

# The version in webpte_host/setup/runtime_lock.json.
JAVASCRIPT = JavaScriptModule(
    "../tokenizers/tokenizers.min.cjs",
    "https://cdn.jsdelivr.net/npm/@huggingface/tokenizers@0.2.0/dist/tokenizers.min.cjs",
    "823659581561e4845b2f5b08b86d2289614dc2a392be35ae6b49a45e284966a6",
)


class TextEngine(Protocol):
    """Text to tokens and back by a library; special tokens are treated like other tokens."""

    def encode(self, text: str, special: bool) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def join(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens, spelled as in the vocabulary."""

    def places(self, text: str) -> Sequence[tuple[int, int, int | None]] | None:
        """Return start, end and word of each token; None if the library does not know them."""


class JsonTokenizer(Tokenizer):
    """A tokenizer.json."""

    def __init__(
        self,
        content: Mapping[str, Any],
        engine: TextEngine,
        special: Mapping[str, str],
    ) -> None:
        self._engine = engine
        self._content = content
        self._tokens = _vocabulary(content)
        self._names = {number: token for token, number in self._tokens.items()}
        self._numbers = frozenset(self._names)
        self._special_numbers = frozenset(
            token["id"] for token in content.get("added_tokens") or () if token.get("special")
        )
        self.vocabulary = max(self._numbers, default=-1) + 1
        self.special = dict(special)
        self.template: ChatTemplate | None = None

    def encode(self, text: str, special: bool = True) -> list[int]:
        return self._engine.encode(clean(text), special)

    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        left_out = frozenset() if special else self._special_numbers
        kept = [n for n in map(int, tokens) if n in self._numbers and n not in left_out]
        return self._engine.decode(kept) if kept else ""

    def id_of(self, token: str) -> int | None:
        return self._tokens.get(token)

    def token_of(self, number: int) -> str | None:
        return self._names.get(number)

    def join(self, tokens: Sequence[str]) -> str:
        return self._engine.join(tokens) if tokens else ""

    def places(self, text: str) -> list[Place]:
        text = clean(text)
        found = self._engine.places(text)
        if found is None:
            tokens = self._engine.encode(text, False)
            return find_places(self._content, self._names, text, tokens)
        return [Place(*place) for place in found]

    def frame(self, pair: bool = False) -> Frame:
        return read_frame(self._content, pair)

    def longest_token(self) -> int:
        return max(map(len, self._tokens), default=0)

    def pieces(self) -> list[bytes | None]:
        return json_pieces(self._content, self._tokens, self._special_numbers)


async def load_json(text: str, name: str, special: Mapping[str, str]) -> JsonTokenizer:
    content = parse_json(text, name, TextError)
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise TextError(f"{name} is not a tokenizer.json: it has no `model`")
    _check(content, name)
    engine: TextEngine
    if IN_BROWSER:
        make = await javascript_library(JAVASCRIPT, "text/tokenizers.js", shelf="llm")
        engine = _JavaScriptEngine(make, text, special, name)
    else:
        engine = await _python_engine(text, name)
    return JsonTokenizer(content, engine, {**_own_special(content), **special})


def _check(content: Mapping[str, Any], name: str) -> None:
    """Raise TextError if a part of the file that this module reads has another type."""

    def refuse(what: str) -> NoReturn:
        raise TextError(f"{name} is not a tokenizer.json: {what}")

    def check_tables(where: str, items: Any) -> None:
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            refuse(f"{where} is not a list of tables")

    vocabulary = content["model"].get("vocab") or {}
    if isinstance(vocabulary, list):
        pairs = (isinstance(pair, list) and len(pair) == 2 for pair in vocabulary)
        if not all(pairs) or not all(isinstance(token, str) for token, _ in vocabulary):
            refuse("`vocab` is not a list of tokens with scores")
    elif not isinstance(vocabulary, dict):
        refuse("`vocab` is neither a table nor a list")
    check_tables("`added_tokens`", content.get("added_tokens") or [])
    for token in content.get("added_tokens") or ():
        if not isinstance(token.get("content"), str):
            refuse("one of `added_tokens` has no `content`")
    for part in ("decoder", "padding"):
        if not isinstance(content.get(part) or {}, dict):
            refuse(f"`{part}` is not a table")
    check_tables("`decoders`", (content.get("decoder") or {}).get("decoders") or [])
    if not isinstance((content.get("padding") or {}).get("pad_token") or "", str):
        refuse("`pad_token` is not a text")
    numbers = range(len(vocabulary)) if isinstance(vocabulary, list) else vocabulary.values()
    check_vocabulary(numbers, name)
    check_vocabulary([token.get("id") for token in content.get("added_tokens") or ()], name)
    prefix, merges = (
        content["model"].get(part) for part in ("continuing_subword_prefix", "merges")
    )
    if isinstance(prefix, str) and isinstance(merges, list):
        parts = (merge.split(" ") if isinstance(merge, str) else merge for merge in merges)
        # The package cuts the prefix off unchecked, and its error would end the process.
        if not all(_ends_with_text(pair, prefix) for pair in parts):
            refuse("`merges` are not of tokens with the `continuing_subword_prefix`")


def _ends_with_text(pair: Any, prefix: str) -> bool:
    """Return whether the last item of a list is a text with this prefix."""
    last = pair[-1] if isinstance(pair, list) and pair else None
    return isinstance(last, str) and last.startswith(prefix)


def _vocabulary(content: Mapping[str, Any]) -> dict[str, int]:
    """Return token -> number. Unigram models have a list of (token, score), others a table."""
    tokens = content["model"].get("vocab") or {}
    if isinstance(tokens, list):
        found = {token: number for number, (token, _) in enumerate(tokens)}
    else:
        found = dict(tokens)
    for token in content.get("added_tokens") or ():
        found[token["content"]] = token["id"]
    return found


def _own_special(content: Mapping[str, Any]) -> dict[str, str]:
    """Return special tokens by role from the file itself, if it has no tokenizer_config."""
    found = {}
    if (content.get("padding") or {}).get("pad_token"):
        found["pad_token"] = content["padding"]["pad_token"]
    if isinstance(content["model"].get("unk_token"), str):
        found["unk_token"] = content["model"]["unk_token"]
    return found


class _PythonEngine:
    """The package `tokenizers`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def encode(self, text: str, special: bool) -> list[int]:
        with engine_errors("the package tokenizers", "cannot encode a text"):
            # Unlike `encode`, it lets other threads of Python run, and finds no places.
            (found,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=special)
            return list(found.ids)

    def decode(self, tokens: Sequence[int]) -> str:
        with engine_errors("the package tokenizers", "cannot decode tokens"):
            return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def join(self, tokens: Sequence[str]) -> str:
        with engine_errors("the package tokenizers", "cannot join tokens"):
            decoder = self._tokenizer.decoder
            return " ".join(tokens) if decoder is None else str(decoder.decode(list(tokens)))

    def places(self, text: str) -> list[tuple[int, int, int | None]]:
        with engine_errors("the package tokenizers", "cannot encode a text"):
            found = self._tokenizer.encode(text, add_special_tokens=False)
            pairs = zip(found.offsets, found.word_ids, strict=True)
            return [(start, end, word) for (start, end), word in pairs]


async def _python_engine(text: str, name: str) -> TextEngine:
    tokenizers = await python_package("tokenizers", "text")
    with engine_errors(f"{name}: the package tokenizers", "does not take it"):
        return _PythonEngine(tokenizers.Tokenizer.from_str(text))


class _JavaScriptEngine:
    """The module @huggingface/tokenizers, in a page; `make` is the function in tokenizers.js."""

    def __init__(
        self, make: Callable[[str, str], Any], text: str, config: Mapping[str, str], name: str
    ) -> None:
        self._who = f"{name}: the module @huggingface/tokenizers"
        with engine_errors(self._who, "does not take it"):
            self._functions = make(text, json.dumps(dict(config)))

    def encode(self, text: str, special: bool) -> list[int]:
        with engine_errors(self._who, f"cannot encode {text!r}"):
            tokens: list[int] = json.loads(self._functions.encode(text, special))
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        with engine_errors(self._who, f"cannot decode {list(tokens)}"):
            return str(self._functions.decode(json.dumps(list(tokens))))

    def join(self, tokens: Sequence[str]) -> str:
        with engine_errors(self._who, f"cannot join {list(tokens)}"):
            return str(self._functions.join(json.dumps(list(tokens))))

    def places(self, text: str) -> None:
        """Return None: the module does not report where tokens are in a text."""
        return
