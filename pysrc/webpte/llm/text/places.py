"""Places of tokens in a text, for a tokenizer library that does not return them.

Two kinds of tokenizer.json are supported, which most encoders have: word pieces as in BERT, and
byte-level BPE as in RoBERTa. A text is read again by their rules, character by character, and the
tokens are laid over it; tokens that do not fit exactly are an error.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webpte.errors import TextError
from webpte.llm.text.token_bytes import byte_characters

_WHITE = frozenset("\t\n\x0b\x0c\r\x85")
_REMOVED = ("\0", "\ufffd")
_CONTRACTION = re.compile("'s|'t|'re|'ve|'m|'ll|'d")  # GPT-2's pattern
_RUNS = re.compile(r" ?L+| ?N+| ?O+|[S ]+(?![^S ])|[S ]+")  # runs of a kind of characters
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Place(NamedTuple):
    """Characters `start` to `end` of a text, and the word's number; None outside of the text."""

    start: int
    end: int
    word: int | None


class _Glyph(NamedTuple):
    """A character for the model, or a byte of it; `at` is the character's index in the text."""

    text: str
    at: int


class _Word(NamedTuple):
    """A part of a text that tokens do not cross; an added token is also a word."""

    units: Sequence[_Glyph]
    start: int
    end: int
    added: bool = False


def find_places(
    content: Mapping[str, Any], names: Mapping[int, str], text: str, tokens: Sequence[int]
) -> list[Place]:
    """Return the place of each token; `tokens` are the text's, without special tokens.

    content  the tokenizer.json
    names    names of tokens in the vocabulary, by number
    """
    model, rest = content["model"], list(tokens)
    words, prefix = _reader(content), str(model.get("continuing_subword_prefix") or "")
    unknown = model.get("unk_token")
    found: list[Place] = []
    for number, word in enumerate(_words(content, words, text)):
        size, done = len(word.units), 0
        while rest and done < size:
            name = names.get(rest.pop(0), "")
            if word.added or (name == unknown and done == 0):
                found.append(Place(word.start, word.end, number))
                done = size
                continue
            length = len(name) - (len(prefix) if done and name.startswith(prefix) else 0)
            if length < 1 or done + length > size:
                raise _misfit(name)
            covered = word.units[done : done + length]
            found.append(Place(covered[0].at, covered[-1].at + 1, number))
            done += length
        if done < size:
            raise _misfit("")
    if rest:
        raise _misfit(names.get(rest[0], ""))
    return _trimmed(content, names, tokens, found)


def _misfit(name: str) -> TextError:
    what = f"the token {name!r} does not" if name else "its tokens do not"
    return TextError(f"{what} fit the text: where tokens are in it cannot be told")


Reader = Callable[[str, int], Iterator[_Word]]  # a part of a text without added tokens, its start


def _reader(content: Mapping[str, Any]) -> Reader:
    model, before = content["model"], content.get("pre_tokenizer") or {}
    normalizer = content.get("normalizer") or {}
    kinds = model.get("type"), before.get("type"), normalizer.get("type")
    if kinds == ("WordPiece", "BertPreTokenizer", "BertNormalizer"):
        return lambda text, start: _bert_words(normalizer, text, start)
    if kinds == ("BPE", "ByteLevel", None) and before.get("use_regex", True):
        prefixed = bool(before.get("add_prefix_space"))
        return lambda text, start: _byte_words(prefixed, text, start)
    told = ", ".join(str(kind) for kind in kinds if kind)
    raise TextError(
        f"this browser's tokenizers do not tell where tokens are in a text, and for {told} webpte "
        "does not know it either: only for word pieces as BERT's, and byte-level BPE as RoBERTa's"
    )


def _words(content: Mapping[str, Any], read: Reader, text: str) -> Iterator[_Word]:
    """Yield the words of a text, and the added tokens between them."""
    added = [
        ("\\s*" if token.get("lstrip") else "")
        + re.escape(token["content"])
        + ("\\s*" if token.get("rstrip") else "")
        for token in content.get("added_tokens") or ()
        if token["content"] and not token.get("normalized")
    ]
    start = 0
    for match in re.finditer("|".join(sorted(added, key=len, reverse=True)) or "(?!)", text):
        yield from read(text[start : match.start()], start)
        units = [_Glyph(match[0], match.start())]
        yield _Word(units, match.start(), match.end(), added=True)
        start = match.end()
    yield from read(text[start:], start)


# ---- word pieces


def _bert_words(settings: Mapping[str, Any], text: str, start: int) -> Iterator[_Word]:
    word: list[_Glyph] = []
    for unit in _bert_units(settings, text, start):
        alone = _is_punctuation(unit.text)
        if (alone or unit.text == " ") and word:
            yield _Word(word, word[0].at, word[-1].at + 1)
            word = []
        if alone:
            yield _Word([unit], unit.at, unit.at + 1)
        elif unit.text != " ":
            word.append(unit)
    if word:
        yield _Word(word, word[0].at, word[-1].at + 1)


def _bert_units(settings: Mapping[str, Any], text: str, start: int) -> Iterator[_Glyph]:
    lower = bool(settings.get("lowercase", True))
    strip = settings.get("strip_accents")
    strip = lower if strip is None else strip
    cleaned = settings.get("clean_text", True)
    for at, character in enumerate(text, start):
        if cleaned and (character in _REMOVED or _is_control(character)):
            continue
        chinese = settings.get("handle_chinese_chars", True) and _is_chinese(character)
        if chinese:
            yield _Glyph(" ", at)
        changed = unicodedata.normalize("NFD", character) if strip else character
        for one in changed:
            if strip and unicodedata.category(one) == "Mn":
                continue
            for small in one.lower() if lower else one:
                yield _Glyph(" " if _is_white(small) else small, at)
        if chinese:
            yield _Glyph(" ", at)


def _is_white(character: str) -> bool:
    return character in _WHITE or unicodedata.category(character)[0] == "Z"


def _is_control(character: str) -> bool:
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf", "Co")


def _is_punctuation(character: str) -> bool:
    marks = "$+<=>^`|~"  # ASCII marks that are symbols in Unicode
    return character in marks or unicodedata.category(character)[0] == "P"


def _is_chinese(character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in _CHINESE)


# ---- byte-level BPE


def _byte_words(prefixed: bool, text: str, start: int) -> Iterator[_Word]:
    """Yield the words of GPT-2's pattern, in bytes; a leading space is a word's first letter."""
    added = 1 if prefixed and text and not text.startswith(" ") else 0
    read = " " * added + text
    kinds = "".join(map(_kind, read))
    done = 0
    while done < len(read):
        match = _CONTRACTION.match(read, done) or _RUNS.match(kinds, done)
        assert match is not None  # every kind of character is in a run
        units = [
            _Glyph(character, start + max(0, at - added))
            for at in range(match.start(), match.end())
            for character in byte_characters(read[at].encode())
        ]
        yield _Word(units, units[0].at, units[-1].at + 1)
        done = match.end()


def _kind(character: str) -> str:
    if character == " ":
        return character
    if _is_white(character):
        return "S"
    kind = unicodedata.category(character)[0]
    return kind if kind in "LN" else "O"


def _trimmed(
    content: Mapping[str, Any],
    names: Mapping[int, str],
    tokens: Sequence[int],
    places: Sequence[Place],
) -> list[Place]:
    """Remove spaces from places, as the post-processors of byte-level tokenizers do."""
    after = content.get("post_processor") or {}
    for part in after.get("processors") or [after]:
        if part.get("type") not in ("ByteLevel", "RobertaProcessing"):
            continue
        if part.get("trim_offsets", True):
            prefixed = bool(part.get("add_prefix_space", True))
            pairs = enumerate(zip(tokens, places, strict=True))
            places = [_trim(names[token], place, at, prefixed) for at, (token, place) in pairs]
    return list(places)


def _trim(name: str, place: Place, at: int, prefixed: bool) -> Place:
    space = byte_characters(b" ")
    white = [character == space or _is_white(character) for character in name]
    leading = next((n for n, is_white in enumerate(white) if not is_white), len(white))
    trailing = next((n for n, is_white in enumerate(reversed(white)) if not is_white), len(white))
    start, end = place.start, place.end
    if leading:
        kept = 1 if prefixed and (at == 0 or start == 0) else 0
        start = min(start + leading - kept, end)
    if trailing and end >= trailing:
        end = max(end - trailing, start)
    return Place(start, end, place.word)
