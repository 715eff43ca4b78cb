"""Text for language models and sentence encoders: tokens, streams of text, chat templates.

    tokenizer = await webpte.text.load_tokenizer("tokenizer.json")
    tokens = tokenizer.encode("Hello!")
    tokens, mask = tokenizer.encode_batch(["one", "two and more"], length=128)

In the browser a tokenizer.json is read by Hugging Face's tokenizers in JavaScript, in CPython by
their package `tokenizers`; a `tokenizer.model` of Llama 3 is read by `tiktoken` in both. See
docs/use/chat.md.
"""

from __future__ import annotations

from webpte.llm.text.load import load_tokenizer
from webpte.llm.text.places import Place
from webpte.llm.text.post_processor import Frame, FramePart
from webpte.llm.text.sentences import Ranked, SentenceEncoder, encodes_sentences
from webpte.llm.text.template import ChatTemplate, Message
from webpte.llm.text.tiktoken_file import LLAMA3_PATTERN, LLAMA3_SPECIAL
from webpte.llm.text.tokenizer import TextStream, Tokenizer, check_fits

__all__ = [
    "LLAMA3_PATTERN",
    "LLAMA3_SPECIAL",
    "ChatTemplate",
    "Frame",
    "FramePart",
    "Message",
    "Place",
    "Ranked",
    "SentenceEncoder",
    "TextStream",
    "Tokenizer",
    "check_fits",
    "encodes_sentences",
    "load_tokenizer",
]
