"""How what is typed becomes tokens: a tokenizer's files, found or given, or typed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from page.browser import Browser, Source
from page.persistence.library_files import keep_file
from webpte.errors import InputError, SourceError, TextError, WebpteError
from webpte.library import LOCAL
from webpte.text import ChatTemplate, Tokenizer, load_tokenizer

CHAT, TEXT, IDS = "chat", "text", "ids"
TOKENIZER, CONFIG, TEMPLATE = "tokenizer", "config", "template"
# Messages one after the other: a model without a template goes on with what is there.
_JOINED = "{{ first }}{% for message in messages %}{{ message.content }}{{ between }}{% endfor %}"


@dataclass(frozen=True, eq=False)
class Codec:
    """A tokenizer, and how messages become one text.

    kind    CHAT: the template makes turns of messages; TEXT: the model goes on with a text; IDS:
            likewise, in numbers
    name    of the file it came from
    files   what it was made of, by kind
    note    why it is not what one might expect
    """

    kind: str
    tokenizer: Tokenizer
    template: ChatTemplate
    name: str = ""
    files: Mapping[str, Source] = field(default_factory=dict)
    note: str = ""


class IdTokenizer(Tokenizer):
    """Tokens as people type their numbers, for a model whose tokenizer is not there."""

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
    """What a file is to a tokenizer, by its name; None: nothing."""
    name = name.lower()
    if name.endswith(".jinja"):
        return TEMPLATE
    if name.endswith("config.json"):
        return CONFIG
    return TOKENIZER if name.endswith((".json", "tokenizer.model")) else None


async def load_codec(files: Mapping[str, Source], browser: Browser) -> Codec:
    """From files by kind, of which the tokenizer is needed."""
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
    """The special tokens that a text begins with, written out."""
    whole, plain = tokenizer.encode("a"), tokenizer.encode("a", special=False)
    before = next((n for n in range(len(whole)) if whole[n : n + len(plain)] == plain), 0)
    return tokenizer.decode(whole[:before], special=True)


async def find_codec(program: Source, browser: Browser) -> Codec | None:
    """What the program's card names; or else lies beside it, if it has an address:
    NAME.tokenizer.json or tokenizer.json, with its config.

    None if there is nothing. What is there but cannot be used raises.
    """
    for tokenizer, config in _places(program):
        found = await _fetch(tokenizer, browser)
        if found is None:
            continue
        settings = await _fetch(config, browser) if config else None
        files = {TOKENIZER: found} | ({CONFIG: settings} if settings is not None else {})
        try:
            return await load_codec(files, browser)
        except WebpteError as error:
            raise TextError(f"{found.name}, beside the program, cannot be used: {error}") from error
    return None


def _places(program: Source) -> list[tuple[str, str]]:
    """Addresses where a tokenizer and its config may be."""
    card = program.card
    if card is not None and card.tokenizer:
        return [(card.tokenizer, card.tokenizer_config)]
    folder, slash, name = program.address.partition("?")[0].rpartition("/")
    if not name or program.address.startswith(LOCAL):
        return []
    stem, folder = f"{folder}{slash}{name.removesuffix('.pte')}.", f"{folder}{slash}"
    files = ("tokenizer.json", "tokenizer_config.json")
    return [(prefix + files[0], prefix + files[1]) for prefix in (stem, folder)]


async def _fetch(url: str, browser: Browser) -> Source | None:
    try:
        found = await browser.fetch(url, lambda stage, done, total: None)
    except SourceError:
        return None
    await keep_file(found)
    return found


def word_after(tokenizer: Tokenizer, before: int | None, token: int) -> str:
    """What a token looks like after another: alone, a word may lose the space before it."""
    if before is None:
        return tokenizer.decode([token], special=True)
    surroundings = tokenizer.decode([before], special=True)
    both = tokenizer.decode([before, token], special=True)
    if not both.startswith(surroundings):  # bytes that only together are a character
        return tokenizer.decode([token], special=True)
    return both[len(surroundings) :]
