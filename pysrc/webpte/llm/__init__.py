"""Text generation with ExecuTorch's language-model exports.

async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
    ...

chat = webpte.llm.Chat(program, tokenizer, system="You are brief.")
async for piece in chat.send("What is a KV cache?"):
    print(piece, end="")
"""

from __future__ import annotations

from webpte.llm.batched_generation import BatchedGeneration
from webpte.llm.chat import Chat, ReplyOptions
from webpte.llm.constrain.constraint import Allowed, Constraint, OneOf
from webpte.llm.constrain.grammar import Grammars, Matching
from webpte.llm.generation import (
    Generation,
    GenerationOptions,
    GenerationStats,
    Generator,
    Sampling,
    generate,
)
from webpte.llm.logprobs import Candidate, TokenLogprob
from webpte.llm.picture_session import Picture
from webpte.llm.reply import Reply, ReplyStats
from webpte.llm.scheduler import Scheduler, SchedulerStats
from webpte.llm.seq2seq import Seq2Seq

__all__ = [
    "Allowed",
    "BatchedGeneration",
    "Candidate",
    "Chat",
    "Constraint",
    "Generation",
    "GenerationOptions",
    "GenerationStats",
    "Generator",
    "Grammars",
    "Matching",
    "OneOf",
    "Picture",
    "Reply",
    "ReplyOptions",
    "ReplyStats",
    "Sampling",
    "Scheduler",
    "SchedulerStats",
    "Seq2Seq",
    "TokenLogprob",
    "generate",
]
