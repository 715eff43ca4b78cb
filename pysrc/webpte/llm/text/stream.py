"""Decodes text token by token, in pieces that do not change any more.

A token may be a part of a character (byte-level BPE, sentencepiece's byte fallback), and its text
depends on the tokens before it (a space that begins a sentence is dropped). So a piece is the
difference between two texts: the last tokens without the new tokens, and with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"  # decoders write it for bytes that are not, or not yet, a character


class TextStream:
    """Decodes a stream of tokens; joined, the returned pieces are the text of all tokens.

    `decode` decodes a few tokens at a time, as `Tokenizer.decode` does.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        # The context of the next tokens, whose text was returned, then new tokens; `_written`
        # characters of the text of both were returned.
        self._window: list[int] = []
        self._before = 0
        self._written = 0
        self.is_whole = True  # whether every character has all of its bytes

    def feed(self, *tokens: int) -> str:
        """Add tokens; return the new text that is certain, or "".

        The text never ends within a character. A U+FFFD at the end may still change, so it is held
        back.
        """
        self._window += tokens
        text = self._decode(self._window)
        certain = text.rstrip(REPLACEMENT)
        piece = certain[self._written :]
        self._written = max(self._written, len(certain))
        self.is_whole = len(certain) == len(text)
        # Tokens without text are no context: the text after them depends on earlier tokens.
        if self.is_whole and piece:
            self._move_on()
        return piece

    def flush(self) -> str:
        """Return the text that was held back, at the end."""
        text = self._decode(self._window)
        piece = text[self._written :]
        self._window, self._before, self._written, self.is_whole = [], 0, 0, True
        return piece

    def _move_on(self) -> None:
        """Keep only the tokens that were written just now, as the context of the next tokens."""
        del self._window[: self._before]
        self._before = len(self._window)
        self._written = len(self._decode(self._window))
