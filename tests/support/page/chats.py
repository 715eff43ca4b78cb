"""Chats with the tiny llama, and their conversations as tokens, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import webpte
from support.harness.texts import BYTES, tokenizer_path
from webpte.engine.gpu.device import Device
from webpte.llm import Chat, Reply
from webpte.llm.text import Tokenizer, load_tokenizer
from webpte_host.base.layout import ROOT

Q4 = ROOT / "tests/data/llm/llama_tiny_q4.pte"
BEGIN, END, SYSTEM, USER, ASSISTANT = range(506, 511)  # of make_tokenizers.py

# Questions, and the tokens of their answers.
Exchanges = Sequence[tuple[str, Sequence[int]]]


async def open_tokenizer(kind: str = BYTES) -> Tokenizer:
    return await load_tokenizer(tokenizer_path(kind))


async def open_chat(
    device: str | Device = "numpy", system: str | None = None, path: Path = Q4, **given: object
) -> Chat:
    program = await webpte.load(path, device=device)
    return Chat(program, await open_tokenizer(), system, **given)  # type: ignore[arg-type]


def conversation(
    tokenizer: Tokenizer, exchanges: Exchanges, question: str, system: str | None = None
) -> list[int]:
    """Return the tokens before the answer to a question."""
    tokens = [BEGIN]
    if system is not None:
        tokens += [SYSTEM, *tokenizer.encode(system, special=False), END]
    for asked, said in exchanges:
        tokens += [USER, *tokenizer.encode(asked, special=False), END, ASSISTANT, *said, END]
    return [*tokens, USER, *tokenizer.encode(question, special=False), END, ASSISTANT]


async def pieces_of(reply: Reply, count: int | None = None) -> list[str]:
    """Return all pieces, or the first few."""
    pieces: list[str] = []
    if count == 0:
        return pieces
    async for piece in reply:
        pieces.append(piece)
        if len(pieces) == count:
            break
    return pieces
