"""Text that comes token by token: pieces of it as soon as they are certain.

A token may be a part of a character (byte-level BPE, sentencepiece's byte fallback), and what a
token looks like depends on those before it (a space that begins a sentence is dropped). So a piece
is the difference between two texts: of the last tokens that have been written, without and with
what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"  # decoders write it for bytes that are not, or not yet, a character


class TextStream:
    """Feed it tokens; what it returns, put together, is the text of all of them.

    `decode` is a tokenizer's, for a few tokens at a time.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        # Tokens that have been written and give the next ones their surroundings, and after them
        # those that are being written; `_written` characters of the text of both are out.
        self._window: list[int] = []
        self._before = 0
        self._written = 0
        self.is_whole = True  # whether no character waits for the rest of its bytes

    def feed(self, *tokens: int) -> str:
        """The text that is certain now and was not before; often "", never a part of a character.

        A U+FFFD at the end may still become something else, so it waits, too.
        """
        self._window += tokens
        text = self._decode(self._window)
        certain = text.rstrip(REPLACEMENT)
        piece = certain[self._written :]
        self._written = max(self._written, len(certain))
        self.is_whole = len(certain) == len(text)
        # Tokens without text are no surroundings: what follows them depends on those before.
        if self.is_whole and piece:
            self._move_on()
        return piece

    def flush(self) -> str:
        """What waits for more; for the end."""
        text = self._decode(self._window)
        piece = text[self._written :]
        self._window, self._before, self._written, self.is_whole = [], 0, 0, True
        return piece

    def _move_on(self) -> None:
        """What has been written just now is the next ones' surroundings, and all that matters."""
        del self._window[: self._before]
        self._before = len(self._window)
        self._written = len(self._decode(self._window))
