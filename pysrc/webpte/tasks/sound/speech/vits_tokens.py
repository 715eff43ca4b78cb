"""Letters of a text as the tokens of VITS: by vocab.json and tokenizer_config.json.

"Hé, you" --lower case, unless in the vocabulary-->  "hé, you"  --known letters-->
"h you"  --a blank before, between and after-->  0 h 0   0 y 0 o 0 u 0
"""

from __future__ import annotations

import re

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError

_ROMANIAN = str.maketrans("ț", "ţ")  # letters of the Romanian voices' training
_OTHER_SCRIPT = re.compile(r"[^\x00-\x7F]")


class VitsTokens:
    """The tokenizer of a voice."""

    def __init__(self, vocabulary: Table, settings: Table) -> None:
        name = vocabulary.name
        self._numbers = {key: vocabulary.integer(key) for key in vocabulary.content}
        if not self._numbers:
            raise InputError(f"{name} has no letters")
        if settings.flag("phonemize", True):
            raise UnsupportedError(
                f"{settings.name}: the voice takes phonemes (phonemize), which webpte cannot make "
                "of a text; MMS-TTS has voices that take letters"
            )
        self._normalizes = settings.flag("normalize", True)
        self._blanks = settings.flag("add_blank", True)
        self._romanized = settings.flag("is_uroman", False)
        self._romanian = settings.content.get("language") == "ron"
        unknown = settings.content.get("unk_token", "<unk>")
        self._unknown = self._numbers.get(unknown) if isinstance(unknown, str) else None
        # As in transformers: vocabulary entries keep their case, the first match counts.
        kept = "|".join(map(re.escape, filter(None, self._numbers)))
        self._kept = re.compile(f"({kept})", re.DOTALL)

    def letters(self, text: str) -> str:
        """Return the spoken characters of a text."""
        if self._normalizes:
            pieces = self._kept.split(text)  # all others are in the vocabulary
            text = "".join(one if at % 2 else one.lower() for at, one in enumerate(pieces))
        if self._romanian:
            text = text.translate(_ROMANIAN)
        if self._romanized and _OTHER_SCRIPT.search(text):
            raise UnsupportedError(
                "the voice takes Latin letters (is_uroman): give the text as uroman writes it"
            )
        if self._normalizes:
            text = "".join(letter for letter in text if letter in self._numbers).strip()
        return text

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; raise InputError for a letter without a token."""
        letters = self.letters(text)
        found = []
        for letter in letters:
            number = self._numbers.get(letter, self._unknown)
            if number is None:
                raise InputError(f"the voice does not know {letter!r} in {text[:40]!r}")
            found.append(number)
        if not self._blanks:
            return found
        spaced = [0] * (2 * len(found) + 1)
        spaced[1::2] = found
        return spaced
