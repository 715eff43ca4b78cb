"""Generation settings, as they are typed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import randrange
from typing import Final

from page.views.chat.cache_choice import CacheChoice
from webpte.errors import InputError
from webpte.llm import ReplyOptions
from webpte.llm.decode.sampling import SEED_BITS

CANDIDATES = 8  # listed for each token, where they are asked for
GUESSES: Final = "speculate"  # the setting, "" or LOOKUP
LOOKUP: Final = "lookup"
PACE = (
    8.0  # ms of decoding that the GPU has ahead: half of a frame, so that the page draws beside it
)
_SEEDS = 1 << 31


@dataclass(frozen=True)
class Setting:
    """One numeric setting.

    rule   says which numbers it takes, and `fits` tests one
    empty  the meaning of an empty field, in the message about a wrong number; None: it must not
           be empty
    """

    name: str
    title: str
    start: str
    parse: Callable[[str], float]
    help: str
    rule: str
    fits: Callable[[float], bool]
    empty: str | None = ""
    step: str = "any"

    def value(self, text: str) -> float | None:
        """Return the number that was typed, None for an empty field. Raises InputError."""
        text = text.strip()
        if not text and self.empty is not None:
            return None
        kind = "an integer" if self.parse is int else "a number"
        if not text:
            raise InputError(f"{self.title} is empty: enter {kind}, {self.rule}")
        try:
            number = self.parse(text)
        except ValueError:
            raise InputError(f"{self.title} must be {kind}, not {text!r}") from None
        if number == math.inf or not self.fits(number):
            instead = f"; {self.empty}" if self.empty else ""
            raise InputError(f"{self.title} must be {self.rule}, not {text}{instead}")
        return number


_ALL = "leave it empty to keep all tokens"
SETTINGS = (
    Setting("max_tokens", "max tokens", "256", int, "length of an answer", "1 or more",
            lambda number: number >= 1, None, "1"),
    Setting("temperature", "temperature", "0.8", float, "0: deterministic", "0 or more",
            lambda number: number >= 0, None, "0.1"),
    Setting("top_p", "top p", "0.95", float, "keep tokens up to this total probability",
            "above 0 and at most 1", lambda number: 0 < number <= 1, _ALL, "0.05"),
    Setting("top_k", "top k", "", int, "keep the k most likely", "1 or more",
            lambda number: number >= 1, _ALL, "1"),
    Setting("min_p", "min p", "", float, "keep tokens above this share of the best", "from 0 to 1",
            lambda number: 0 <= number <= 1, _ALL, "0.05"),
    Setting("repetition_penalty", "repetition", "", float, "above 1 discourages repetition",
            "above 0", lambda number: number > 0, "leave it empty for no penalty", "0.05"),
    Setting("seed", "seed", "", int, "empty: random", "from 0 to 2^64 - 1",
            lambda number: 0 <= number < 1 << SEED_BITS, "leave it empty for a random seed",
            "1"),
)  # fmt: skip


class ChatSettings:
    def __init__(self) -> None:
        self.cache = CacheChoice()
        self.system = ""
        self.texts = {setting.name: setting.start for setting in SETTINGS} | {GUESSES: ""}
        self.with_tokens = False  # show tokens, and ask for candidates
        self.refused = False  # a message was not sent because of them

    def take(self, name: str, text: str) -> None:
        """Take the text typed into the field of a setting."""
        self.texts[name] = text
        self.refused = self.refused and bool(self.problems())

    def problems(self) -> dict[str, str]:
        """Return the problem of each setting, by name, in the order of their fields."""
        found = {}
        for setting in SETTINGS:
            try:
                setting.value(self.texts[setting.name])
            except InputError as error:
                found[setting.name] = str(error)
        return found

    @property
    def max_tokens(self) -> int:
        return int(self._value("max_tokens") or 0)

    def options(self) -> ReplyOptions:
        """Return all options, which a regenerated answer uses, too. Raises InputError."""
        values = {setting.name: self._value(setting.name) for setting in SETTINGS}
        top_k, seed = values["top_k"], values["seed"]
        return {
            "temperature": values["temperature"] or 0.0,
            "top_k": None if top_k is None else int(top_k),
            "top_p": values["top_p"],
            "min_p": values["min_p"],
            "repetition_penalty": values["repetition_penalty"],
            "seed": randrange(_SEEDS) if seed is None else int(seed),
            "logprobs": self.with_tokens,
            "top": CANDIDATES if self.with_tokens else 0,
            "pace": PACE,
            "speculate": LOOKUP if self.texts[GUESSES] == LOOKUP else None,
        }

    def _value(self, name: str) -> float | None:
        setting = next(one for one in SETTINGS if one.name == name)
        return setting.value(self.texts[name])
