"""Texts that tokenizers have trouble with, and the tokenizers of tests/data/text."""

from __future__ import annotations

from pathlib import Path

from webpte_host.base.layout import ROOT

FOLDER = ROOT / "tests/data/text"

# Folders there, by their way of splitting text. make_tokenizers.py wrote them.
BYTES, DIGITS, PIECES, UNIGRAM, WORDS = "bytes", "digits", "pieces", "unigram", "words"
KINDS = (BYTES, DIGITS, PIECES, UNIGRAM, WORDS)

TEXTS = [
    "",
    " ",
    "a",
    "Hello, world!",
    "The quick brown fox doesn't jump over 12345 lazy dogs; they'll sleep.",
    "  two spaces   three    four     ",
    "tabs\tand\t\ttabs\r\nlines\n\n\nand more\r",
    "non-breaking\u00a0space, thin\u2009space, ideographic\u3000space, zero\u200bwidth",
    "naïve café, Ångström, façade",
    "e\u0301 is not é, and a\u0308\u0323 has two",
    "한국어 텍스트, 각 and \u1100\u1161\u11a8",
    "中文和日本語が混ざった文。「引用」",
    "Привет, мир! Γειά σου κόσμε",
    "שלום עולם, مرحبا بالعالم",
    "हिन्दी में पाठ, ภาษาไทย",
    "🙂 😀😃 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪",
    "x🙂y",
    "def f(x: int) -> str:\n    return f'{x!r:>{8}}'  # comment\n\n\tif not x:\n\t\tpass\n",
    '<div class="a b">&amp; &lt;</div> https://example.org/a?b=c&d=%20#e',
    "3.14159 1,000,000 0x1F 1e-9 ½ ² ⅷ ①",
    "control\x00 \x01\x07\x1b[31m\x7f\x85 characters",
    "\ufeffa byte order mark, a \ufffd replacement, \U0010ffff the last",
    "halves: \ud83d and \ude00",
    "ﬁ ligature, Ｆｕｌｌｗｉｄｔｈ, ℌ, ﷺ",
    "Ⅳ İstanbul ıI ß ẞ ŉ ǆ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "!!!???...---___***",
    "_under_score and ▁ the mark of pieces, ## and [CLS] in words",
    "it's IT'S we've WE'VE I'm I'd you'll",
]


def tokenizer_path(kind: str) -> Path:
    return FOLDER / kind / "tokenizer.json"
