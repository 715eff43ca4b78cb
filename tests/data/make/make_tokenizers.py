"""Writes tests/data/text: small tokenizers of every kind, from a few sentences of our own.

    PYTHONPATH=pysrc:tests python tests/data/make/make_tokenizers.py

bytes/     byte-level BPE with the 512 tokens of the tiny llama, six of them special; the same
           as tokenizer.model (tiktoken's form); a chat template in its tokenizer_config.json
digits/    byte-level BPE with single digits
pieces/    BPE in sentencepiece's form: spaces are ▁, unknown characters are bytes
unigram/   Unigram pieces
words/     word pieces, as for BERT, with padding and truncation in the file
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from support.harness.texts import BYTES, DIGITS, FOLDER, PIECES, UNIGRAM, WORDS
from webpte.llm.text import LLAMA3_PATTERN

CORPUS = """
The program is loaded once, and every call of the method runs on the graphics card of this machine.
What a tokenizer does is simple to say: it turns text into numbers, and numbers into text again.
A conversation goes on where it was: the cache keeps what has been said, so only new tokens are fed.
Do you know how the weather is today? I do not know, but the forecast says that it will rain later.
She said that the quick brown fox is not as quick as the lazy dog had hoped, and they all laughed.
One, two, three, four, five, six, seven, eight, nine, ten: numbers such as 12, 365 and 1000 occur.
Hello! How are you? I am fine, thank you. What can I do for you? Tell me a short story, please.
Once upon a time there was a small model that lived in a browser and answered what it was asked.
def load(path): return open(path).read()    # four spaces, and then a comment
for index in range(10): print(index, "is not", index + 1)
café naïve über straße
""".strip().splitlines()

SPECIAL = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"]
VOCABULARY = 512

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no such role: ' + message['role']) }}{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def byte_level() -> None:
    """Write byte-level BPE with tiktoken's ids: bytes, merges in their order, special tokens."""
    split = pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated")
    around = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = around
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS, trainer)
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    letters = letters_of_bytes()
    tokens = [*letters.values(), *("".join(pair) for pair in merges)]
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(numbers, merges))
    tokenizer.pre_tokenizer = around
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", begin)]
    )
    assert tokenizer.get_vocab_size() == VOCABULARY
    save(tokenizer, BYTES)
    settings = {
        "bos_token": {"content": "<|begin|>", "special": True},
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "chat_template": TEMPLATE,
    }
    write_json(FOLDER / BYTES / "tokenizer_config.json", settings)
    byte_of = {letter: byte for byte, letter in letters.items()}
    lines = [
        base64.b64encode(bytes(byte_of[letter] for letter in token)).decode() + f" {number}\n"
        for token, number in numbers.items()
    ]
    (FOLDER / BYTES / "tokenizer.model").write_text("".join(lines))


def digits() -> None:
    """Write SmolLM's form; the signs share a first byte with ½ and ², which are digits, too."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([*CORPUS, *["a © b ® c § d ° e"] * 20], trainer)
    save(tokenizer, DIGITS)


def letters_of_bytes() -> dict[int, str]:
    """Map bytes to the characters of byte-level BPE: themselves, or ones from U+0100 on."""
    itself = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in itself]
    moved = {byte: chr(0x100 + index) for index, byte in enumerate(others)}
    return {byte: moved.get(byte, chr(byte)) for byte in range(256)}


def pieces() -> None:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    single = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    numbers = {token: number for number, token in enumerate([*single, *learned])}
    tokenizer = Tokenizer(
        models.BPE(
            numbers,
            [tuple(pair) for pair in model["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    save(tokenizer, PIECES)


def unigram() -> None:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=250,
        show_progress=False,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    save(tokenizer, UNIGRAM)


def words() -> None:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=320, show_progress=False, special_tokens=special)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=24)
    tokenizer.enable_truncation(6)
    save(tokenizer, WORDS)


def save(tokenizer: Tokenizer, kind: str) -> None:
    (FOLDER / kind).mkdir(parents=True, exist_ok=True)
    write_json(FOLDER / kind / "tokenizer.json", json.loads(tokenizer.to_str()))


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for make in (byte_level, digits, pieces, unigram, words):
        make()
