"""tokenizer.model of Llama 3: lines of a token's bytes in base64 and its number, for tiktoken.

The file has neither the pattern that splits text nor the special tokens. Both are defined here for
Llama 3; other patterns and tokens can be given.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from webpte.engine.open.libraries import python_package
from webpte.errors import TextError
from webpte.llm.text.template import ChatTemplate
from webpte.llm.text.tokenizer import Tokenizer, check_vocabulary, clean, engine_errors

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)


def _llama3_special() -> tuple[str, ...]:
    """Return the 256 names of Llama 3.1 and later; Llama 3 has `reserved` for three of them."""
    named = {
        0: "begin_of_text",
        1: "end_of_text",
        4: "finetune_right_pad_id",
        6: "start_header_id",
        7: "end_header_id",
        8: "eom_id",
        9: "eot_id",
        10: "python_tag",
    }
    unnamed = iter(range(256))
    return tuple(
        f"<|{named[index] if index in named else f'reserved_special_token_{next(unnamed)}'}|>"
        for index in range(256)
    )


LLAMA3_SPECIAL = _llama3_special()
_LLAMA3_ROLES = {
    "bos_token": "<|begin_of_text|>",
    "eos_token": "<|eot_id|>",
    "pad_token": "<|finetune_right_pad_id|>",
}


class TiktokenTokenizer(Tokenizer):
    """A tiktoken tokenizer: tokens by rank, and special tokens after them."""

    def __init__(
        self,
        encoding: Any,
        ranks: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        special: Mapping[str, str],
    ) -> None:
        self._encoding = encoding
        self._ranks = ranks
        self._special_tokens = special_tokens
        self._special_numbers = frozenset(special_tokens.values())
        self._numbers = self._special_numbers | frozenset(ranks.values())
        self.vocabulary = max(self._numbers, default=-1) + 1
        self.special = dict(special)
        self.template: ChatTemplate | None = None

    def encode(self, text: str, special: bool = True) -> list[int]:
        with engine_errors("tiktoken", "cannot encode a text"):
            tokens: list[int] = self._encoding.encode(clean(text), allowed_special="all")
        first = self.id_of(self.special["bos_token"]) if "bos_token" in self.special else None
        return [first, *tokens] if special and first is not None else tokens

    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        left_out = frozenset() if special else self._special_numbers
        kept = [n for n in map(int, tokens) if n in self._numbers and n not in left_out]
        with engine_errors("tiktoken", "cannot decode tokens"):
            return str(self._encoding.decode(kept))

    def id_of(self, token: str) -> int | None:
        return self._special_tokens.get(token, self._ranks.get(token.encode()))

    def longest_token(self) -> int:
        return max(map(len, (*self._ranks, *self._special_tokens)))

    def pieces(self) -> list[bytes | None]:
        found: list[bytes | None] = [None] * self.vocabulary
        for piece, number in self._ranks.items():
            found[number] = piece
        return found


async def load_tiktoken(
    data: bytes,
    name: str,
    special: Mapping[str, str],
    pattern: str | None = None,
    special_tokens: Sequence[str] | None = None,
) -> TiktokenTokenizer:
    """Load a file; `special_tokens` get the numbers after the file's tokens, in their order."""
    ranks = read_ranks(data, name)
    if special_tokens is None:
        special_tokens, special = LLAMA3_SPECIAL, {**_LLAMA3_ROLES, **special}
    first = max(ranks.values()) + 1
    _check_special(special_tokens, name)
    numbered = {token: first + index for index, token in enumerate(special_tokens)}
    check_vocabulary(numbered.values(), name)
    tiktoken = await python_package("tiktoken", "text")
    with engine_errors(f"{name}: tiktoken", "does not take it"):
        encoding = tiktoken.Encoding(
            name,
            pat_str=pattern or LLAMA3_PATTERN,
            mergeable_ranks=ranks,
            special_tokens=numbered,
        )
    return TiktokenTokenizer(encoding, ranks, numbered, special)


def _check_special(tokens: Sequence[str], name: str) -> None:
    """Raise TextError for special tokens that are empty (they are in every text) or equal."""
    for token in tokens:
        if not isinstance(token, str) or not token:
            raise TextError(f"{name}: a special token is a text that is not empty, not {token!r}")
    if len(set(tokens)) < len(tokens):
        raise TextError(f"{name}: two of the special tokens are the same")


def read_ranks(data: bytes, name: str) -> dict[bytes, int]:
    """Read tokens and their numbers; both must be unique."""
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        token, _, rank = line.partition(b" ")
        try:
            piece, place = base64.b64decode(token, validate=True), _place(rank)
        except (binascii.Error, ValueError):
            raise TextError(
                f"{name} is neither a tokenizer.json nor a tiktoken file: line {number} is not a "
                "token in base64 and a number. For sentencepiece's models there is a "
                "tokenizer.json next to them, or `transformers` writes one"
            ) from None
        if not piece or piece in ranks or place in taken:
            what = "is empty" if not piece else "stands twice" if piece in ranks else "is taken"
            which = "the number" if what == "is taken" else "the token"
            raise TextError(f"{name}: line {number}: {which} {what}")
        ranks[piece] = place
        taken.add(place)
    check_vocabulary(taken, name)
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise TextError(f"{name}: byte {missing[0]:#04x} has no token, so some texts have none")
    return ranks


def _place(digits: bytes) -> int:
    if len(digits) > 20:  # Python refuses thousands of digits, and is slow for fewer
        raise ValueError
    return int(digits)
