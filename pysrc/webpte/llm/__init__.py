"""Text generation with ExecuTorch's language-model exports.

async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
    ...

chat = webpte.llm.Chat(program, tokenizer, system="You are brief.")
async for piece in chat.send("What is a KV cache?"):
    print(piece, end="")
"""

from __future__ import annotations

from webpte.llm.chat import Chat, ReplyOptions
from webpte.llm.generation import (
    Choice,
    Generation,
    GenerationOptions,
    GenerationStats,
    Generator,
    Sampling,
    generate,
)
from webpte.llm.reply import Reply, ReplyStats

__all__ = [
    "Chat",
    "Choice",
    "Generation",
    "GenerationOptions",
    "GenerationStats",
    "Generator",
    "Reply",
    "ReplyOptions",
    "ReplyStats",
    "Sampling",
    "generate",
]
