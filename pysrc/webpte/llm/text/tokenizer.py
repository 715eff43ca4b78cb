"""The tokenizer protocol: text to tokens and back, singly, in batches, and as a stream.

Tokenizers read files of strangers by libraries that have no types of errors: guards around them are
here, too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import InputError, TextError, VocabularyError, WebpteError
from webpte.llm.text.places import Place
from webpte.llm.text.post_processor import Frame
from webpte.llm.text.template import ChatTemplate
from webpte.program import Program

MAX_TOKENS = 1 << 24  # some 60 times the largest vocabulary
REPLACEMENT = "\ufffd"  # decoders write it for bytes that are not, or not yet, a character

_MOST_LETTERS = 16  # longest token in most texts
# Raised by Rust code that panics in CPython; it is not derived from Exception.
_PANIC = "PanicException"


class Tokenizer(Protocol):
    """A tokenizer; a class derived from it needs the abstract methods only.

    vocabulary  an upper bound of token numbers, exclusive
    special     tokens with a role, by the names that Hugging Face's files use: `bos_token`, ...
    template    the chat template of the tokenizer's files, or None
    """

    vocabulary: int
    special: Mapping[str, str]
    template: ChatTemplate | None

    @abstractmethod
    def encode(self, text: str, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        With `special`, the tokens that the model expects around a text (a first token, say) are
        added. Special tokens that are written out in the text are tokens either way.
        """

    @abstractmethod
    def decode(self, tokens: Sequence[int], special: bool = False) -> str:
        """Return the text of tokens, with special tokens written out or left out.

        Numbers without a token are skipped: a model with more logits than tokens may sample them.
        """

    @abstractmethod
    def id_of(self, token: str) -> int | None:
        """Return the number of a token by its spelling in the vocabulary, or None."""

    def pieces(self) -> list[bytes | None]:
        """Return the bytes of each token, by number; None for special tokens and gaps.

        This default decodes each token, so tokens that are parts of a character are None, too.
        """
        texts = [self.decode([number]) for number in range(self.vocabulary)]
        return [text.encode() if text and "\ufffd" not in text else None for text in texts]

    def longest_token(self) -> int:
        """Return the largest number of characters that a token stands for.

        This default decodes each token, and counts a space that decoding may leave out.
        """
        numbers = range(self.vocabulary)
        return 1 + max((len(self.decode([number], special=True)) for number in numbers), default=0)

    def token_of(self, number: int) -> str | None:
        """Return a token's spelling in the vocabulary; None for a number without a token."""
        raise self._lacks("name its tokens")

    def join(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens as spelled in the vocabulary, or of other pieces of text."""
        raise self._lacks("join tokens by name")

    def places(self, text: str) -> list[Place]:
        """Return where in the text each token of `encode(text, special=False)` stands."""
        raise self._lacks("tell where tokens are in a text")

    def frame(self, pair: bool = False) -> Frame:
        """Return the special tokens around a text, or around a pair of texts."""
        raise self._lacks("tell the special tokens around texts")

    def _lacks(self, what: str) -> TextError:
        return TextError(f"a {type(self).__name__} does not {what}: use a tokenizer.json")

    def stream(self) -> TextStream:
        """Return a stream that decodes token by token."""
        return TextStream(self.decode)

    def encode_batch(
        self, texts: Sequence[str], length: int | None = None, *, pad: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return tokens of several texts, and their mask, both int64 (texts, longest length).

        length  the largest number of tokens of a text; longer texts are cut, special tokens stay
        pad     the token after shorter texts, if not the tokenizer's own; the mask is 0 there
        """
        rows = [self._cut(text, length) for text in texts]
        longest = max(map(len, rows), default=0)
        if pad is None and any(len(row) < longest for row in rows):
            pad = self._pad()
        tokens = np.full((len(rows), longest), pad or 0, np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for index, row in enumerate(rows):
            tokens[index, : len(row)] = row
            mask[index, : len(row)] = 1
        return tokens, mask

    def _pad(self) -> int:
        pad = self.id_of(self.special.get("pad_token", "[PAD]"))
        if pad is None:
            raise TextError(
                "the texts have different lengths, and the tokenizer has no token to pad with: "
                "give encode_batch one (pad=...)"
            )
        return pad

    def _cut(self, text: str, length: int | None) -> list[int]:
        text = text if length is None else self._beginning(text, length)
        whole = self.encode(text)
        if length is None or len(whole) <= length:
            return whole
        plain = self.encode(text, special=False)
        added = len(whole) - len(plain)
        before = next((n for n in range(added + 1) if whole[n : n + len(plain)] == plain), None)
        if before is None or added > length:
            raise InputError(
                f"{length} tokens do not hold the {added} that the tokenizer puts around a text"
            )
        kept = plain[: length - added]
        return [*whole[:before], *kept, *whole[before + len(plain) :]]

    def _beginning(self, text: str, length: int) -> str:
        """Return the beginning of a text with twice these tokens; their first half is exact."""
        size = _MOST_LETTERS * (length + 1)
        while size < len(text) and len(self.encode(text[:size])) <= 2 * length:
            size *= 4
        return text[:size]


def check_fits(tokenizer: Tokenizer, model: Program | int, method: str = "forward") -> None:
    """Raise VocabularyError if the tokenizer has tokens that the model does not know.

    `model` is a language model, whose logits show the number of tokens, or that number, which is
    often larger than the tokenizer's.
    """
    if isinstance(model, int):
        known, what = model, "the model"
    else:
        info = model.methods.get(method)
        inputs, outputs = (info.inputs, info.outputs) if info is not None else ((), ())
        sizes = [(one.dtype, one.shape) for one in inputs if isinstance(one, TensorInfo)]
        logits, *caches = outputs or (None,)
        if any(not isinstance(c, TensorInfo) or (c.dtype, c.shape) not in sizes for c in caches):
            logits = None
        if not isinstance(logits, TensorInfo) or not logits.shape:
            raise InputError(
                f"{model.name}: method {method!r} does not return logits; give check_fits the "
                "number of tokens that the model knows"
            )
        known, what = logits.shape[-1], model.name
    if tokenizer.vocabulary > known:
        raise VocabularyError(
            f"the tokenizer's tokens go up to {tokenizer.vocabulary - 1}, but {what} knows only "
            f"{known}: they do not belong together"
        )


def clean(text: str) -> str:
    """Replace lone surrogates, which Python's strings can hold, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class TextStream:
    """Decodes a stream of tokens; joined, the returned pieces are the text of all tokens.

    A token may be a part of a character (byte-level BPE, sentencepiece's byte fallback), and its
    text depends on the tokens before it (a space that begins a sentence is dropped). So a piece is
    the difference between two texts: the last tokens without the new tokens, and with them.
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


@contextmanager
def engine_errors(who: str, what: str) -> Iterator[None]:
    """Turn any error of a library into a TextError: `who`, the activity, and the reason."""
    try:
        yield
    except WebpteError:
        raise
    except Exception as error:  # the libraries have no error types
        raise TextError(f"{who} {what}: {_reason(error)}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise TextError(f"{who} {what}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def check_vocabulary(numbers: Iterable[Any], name: str) -> None:
    """Raise TextError for numbers out of range: lists are allocated up to the largest number."""
    for number in numbers:
        if type(number) is not int or not 0 <= number < MAX_TOKENS:
            raise TextError(
                f"{name}: {str(number)[:40]!r} is not the number of a token: those are integers "
                f"from 0 to {MAX_TOKENS - 1:,}"
            )
