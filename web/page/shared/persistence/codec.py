"""Conversion of typed text to tokens: by a tokenizer's files, or by typed token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from page.browser import Browser, Source
from page.shared.persistence.library_files import keep_file
from webpte.engine.open.library import LOCAL
from webpte.engine.open.manifest_files import beside
from webpte.engine.open.siblings import names_beside
from webpte.errors import InputError, SourceError, TextError, WebpteError
from webpte.llm.text import ChatTemplate, Tokenizer, load_tokenizer

CHAT, TEXT, IDS = "chat", "text", "ids"
TOKENIZER, CONFIG, TEMPLATE = "tokenizer", "config", "template"
_NAMES = {
    TOKENIZER: "tokenizer.json",
    CONFIG: "tokenizer_config.json",
    TEMPLATE: "chat_template.jinja",
}
TOKENIZER_NAMES = {"tokenizer.json", "tokenizer.model"}
# Messages one after the other: a model without a template goes on from the text so far.
_JOINED = "{{ first }}{% for message in messages %}{{ message.content }}{{ between }}{% endfor %}"


@dataclass(frozen=True, eq=False)
class Codec:
    """A tokenizer, and how messages become one text.

    kind    CHAT: a template formats messages; TEXT: the model continues a text; IDS: the same,
            with token ids
    name    of the tokenizer's file
    files   its files, by kind
    note    a warning, such as why files were not used
    """

    kind: str
    tokenizer: Tokenizer
    template: ChatTemplate
    name: str = ""
    files: Mapping[str, Source] = field(default_factory=dict)
    note: str = ""


class IdTokenizer(Tokenizer):
    """A tokenizer for typed token ids, for models without tokenizer files."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.special: Mapping[str, str] = {}
        self.template: ChatTemplate | None = None

    def encode(self, text: str, special: bool = True) -> list[int]:
        return [self._number(word) for word in text.replace(",", " ").split()]

    def _number(self, word: str) -> int:
        if not (word.isascii() and word.isdigit() and int(word) < self.vocabulary):
            raise InputError(
                f"{word!r} is not a token: without a tokenizer, type numbers from 0 to "
                f"{self.vocabulary - 1}, or give the model's tokenizer.json"
            )
        return int(word)

    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        return " ".join(str(int(token)) for token in tokens)

    def id_of(self, token: str) -> int | None:
        return None


async def id_codec(vocabulary: int, note: str = "") -> Codec:
    template = await ChatTemplate.load(_JOINED, {"first": "", "between": " "})
    return Codec(IDS, IdTokenizer(vocabulary), template, note=note)


def kind_of_file(name: str) -> str | None:
    """Return which part of a tokenizer a file is, by its name; None: none."""
    name = name.lower()
    if name.endswith(".bench.json"):  # the result of a benchmark, for the view Bench
        return None
    if name.endswith(".jinja"):
        return TEMPLATE
    if name.endswith("config.json"):
        return CONFIG
    return TOKENIZER if name.endswith((".json", "tokenizer.model")) else None


def files_by_kind(sources: Sequence[Source]) -> dict[str, Source]:
    """Return the files of a tokenizer by kind. Raises TextError for any other file."""
    files = {kind: source for source in sources if (kind := kind_of_file(source.name))}
    if len(files) < len(sources):
        names = ", ".join(source.name for source in sources)
        raise TextError(
            f"a tokenizer is a tokenizer.json or a tiktoken file, with its config and template "
            f"if there are any, but these came: {names}"
        )
    return files


async def load_codec(files: Mapping[str, Source], browser: Browser) -> Codec:
    """Load a codec from files by kind; the tokenizer's file is required."""
    if TOKENIZER not in files:
        names = ", ".join(source.name for source in files.values())
        raise TextError(f"{names} belongs to a tokenizer.json, which is not here: give both")
    template = None
    if TEMPLATE in files:
        template = (await browser.read(files[TEMPLATE].data)).decode("utf-8", "replace")
    source = files[TOKENIZER]
    config = files[CONFIG].data if CONFIG in files else None
    tokenizer = await load_tokenizer(source.data, config=config, template=template)
    if tokenizer.template is not None:
        return Codec(CHAT, tokenizer, tokenizer.template, source.name, files)
    joined = await ChatTemplate.load(_JOINED, {"first": _first(tokenizer), "between": ""})
    return Codec(TEXT, tokenizer, joined, source.name, files)


def _first(tokenizer: Tokenizer) -> str:
    """Return the special tokens that start a text, written out."""
    whole, plain = tokenizer.encode("a"), tokenizer.encode("a", special=False)
    before = next((n for n in range(len(whole)) if whole[n : n + len(plain)] == plain), 0)
    return tokenizer.decode(whole[:before], special=True)


async def find_codec(program: Source, browser: Browser) -> Codec | None:
    """Find the codec that the program's card names, that was dropped with the program, or that is
    next to a program with an address: NAME.tokenizer.json or tokenizer.json, with its config.

    Returns None if there is none. Raises TextError if it cannot be used.
    """
    dropped = {
        kind: program.beside[name] for kind, name in _NAMES.items() if name in program.beside
    }
    if TOKENIZER in dropped:
        return await load_codec(
            {kind: browser.source(file) for kind, file in dropped.items()}, browser
        )
    if TOKENIZER_NAMES & program.places.keys():
        return await _codec_at(program.places, browser)
    for tokenizer, config in _places(program):
        found = await _fetch(tokenizer, browser)
        if found is None:
            continue
        settings = await _fetch(config, browser) if config else None
        files = {TOKENIZER: found} | ({CONFIG: settings} if settings is not None else {})
        try:
            return await load_codec(files, browser)
        except WebpteError as error:
            raise TextError(
                f"{found.name}, next to the program, cannot be used: {error}"
            ) from error
    return None


async def _codec_at(places: Mapping[str, str], browser: Browser) -> Codec:
    """Load the codec of a repository, whose files have these addresses by name."""
    named = {kind: places[name] for kind, name in _NAMES.items() if name in places}
    named.setdefault(TOKENIZER, places.get("tokenizer.model", ""))
    found = {kind: await _fetch(address, browser) for kind, address in named.items()}
    return await load_codec({kind: one for kind, one in found.items() if one}, browser)


def _places(program: Source) -> list[tuple[str, str]]:
    """Return the addresses where a tokenizer and its config may be."""
    card = program.card
    if card is not None and card.tokenizer:
        return [(card.tokenizer, card.tokenizer_config)]
    address = program.address.partition("?")[0]
    if not address or address.endswith("/") or address.startswith(LOCAL):
        return []
    names = (names_beside(address, _NAMES[kind]) for kind in (TOKENIZER, CONFIG))
    addresses = [[str(beside(address, name)) for name in of_kind] for of_kind in names]
    return list(zip(*addresses, strict=True))


async def _fetch(url: str, browser: Browser) -> Source | None:
    try:
        found = await browser.fetch(url, lambda stage, done, total: None)
    except SourceError:
        return None
    await keep_file(found)
    return found


def word_after(tokenizer: Tokenizer, before: int | None, token: int) -> str:
    """Return the text of a token after another: alone, a word may lose the space before it."""
    if before is None:
        return tokenizer.decode([token], special=True)
    surroundings = tokenizer.decode([before], special=True)
    both = tokenizer.decode([before, token], special=True)
    if not both.startswith(surroundings):  # bytes that only together are a character
        return tokenizer.decode([token], special=True)
    return both[len(surroundings) :]
