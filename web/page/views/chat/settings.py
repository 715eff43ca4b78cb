"""Generation settings, as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import randrange

from page.views.chat.cache_choice import CacheChoice
from webpte.errors import InputError
from webpte.llm import ReplyOptions, Sampling

CANDIDATES = 8  # listed for each token, where they are asked for
_SEEDS = 1 << 31


@dataclass(frozen=True)
class Setting:
    """One numeric setting. An empty text is off, if `may_be_empty`."""

    name: str
    title: str
    start: str
    parse: Callable[[str], float]
    help: str
    may_be_empty: bool = True
    step: str = "any"


SETTINGS = (
    Setting("max_tokens", "max tokens", "256", int, "length of an answer", False, "1"),
    Setting(
        "temperature",
        "temperature",
        "0.8",
        float,
        "0: always the likeliest",
        False,
        "0.1",
    ),
    Setting("top_p", "top p", "0.95", float, "the likeliest, up to this share", step="0.05"),
    Setting("top_k", "top k", "", int, "this many of the likeliest", step="1"),
    Setting("min_p", "min p", "", float, "at least this share of the likeliest", step="0.05"),
    Setting(
        "repetition_penalty", "repetition", "", float, "penalty: above 1 repeats less", step="0.05"
    ),
    Setting("seed", "seed", "", int, "empty: another each time", step="1"),
)


class ChatSettings:
    def __init__(self) -> None:
        self.cache = CacheChoice()
        self.system = ""
        self.texts = {setting.name: setting.start for setting in SETTINGS}
        self.with_tokens = False  # show tokens, and ask for candidates

    def problem(self) -> str:
        """Return the first error of the settings; "" if there is none."""
        try:
            self.options()
        except InputError as error:
            return str(error)
        return ""

    @property
    def max_tokens(self) -> int:
        most = self._value("max_tokens")
        if most is None or most < 1:
            raise InputError(f"max tokens must be 1 or more, not {self.texts['max_tokens']}")
        return int(most)

    def options(self) -> ReplyOptions:
        """Return all options, which a regenerated answer uses, too. Raises InputError."""
        assert self.max_tokens
        top_k, seed = self._value("top_k"), self._value("seed")
        if seed is not None and seed < 0:
            raise InputError(f"seed must be 0 or more, not {seed}")
        sampling = Sampling(
            temperature=self._value("temperature") or 0.0,
            top_k=None if top_k is None else int(top_k),
            top_p=self._value("top_p"),
            min_p=self._value("min_p"),
            repetition_penalty=self._value("repetition_penalty"),
        )
        return {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "seed": randrange(_SEEDS) if seed is None else int(seed),
            "logprobs": self.with_tokens,
            "top": CANDIDATES if self.with_tokens else 0,
        }

    def _value(self, name: str) -> float | None:
        setting = next(one for one in SETTINGS if one.name == name)
        text = self.texts[name].strip()
        if not text and setting.may_be_empty:
            return None
        try:
            return setting.parse(text)
        except ValueError:
            kind = "an integer" if setting.parse is int else "a number"
            raise InputError(f"{setting.title} must be {kind}, not {text!r}") from None
