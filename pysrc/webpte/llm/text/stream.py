"""Text that is decoded token by token, in pieces that do not change any more.

A token may be a part of a character (byte-level BPE, sentencepiece's byte fallback), and its text
depends on the tokens before it (a space that begins a sentence is dropped). So a piece is the
difference between two texts: that of the last tokens, without and with the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"  # decoders write it for bytes that are not, or not yet, a character


class TextStream:
    """Decodes a stream of tokens; the pieces that it returns, joined, are the text of all tokens.

    `decode` is that of a tokenizer, for a few tokens at a time.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        # Tokens whose text was returned, the context of the next ones, and after them new tokens;
        # `_written` characters of the text of both were returned.
        self._window: list[int] = []
        self._before = 0
        self._written = 0
        self.is_whole = True  # whether no character lacks some of its bytes

    def feed(self, *tokens: int) -> str:
        """Add tokens; return the new text that is certain, "" if there is none.

        It never ends within a character. A U+FFFD at the end may still change, so it is held back.
        """
        self._window += tokens
        text = self._decode(self._window)
        certain = text.rstrip(REPLACEMENT)
        piece = certain[self._written :]
        self._written = max(self._written, len(certain))
        self.is_whole = len(certain) == len(text)
        # Tokens without text are no context: the text after them depends on those before.
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
        """Keep only the tokens that were written just now, as the context of the next ones."""
        del self._window[: self._before]
        self._before = len(self._window)
        self._written = len(self._decode(self._window))
