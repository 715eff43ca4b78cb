"""Text generation with ExecuTorch's language-model exports.

async for token in webpte.llm.generate(program, prompt_tokens, max_new_tokens=40):
    ...

chat = webpte.llm.Chat(program, tokenizer, system="You are brief.")
async for piece in chat.send("What is a KV cache?"):
    print(piece, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webpte._names import lazy_names

if TYPE_CHECKING:
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
    from webpte.llm.load_model import forecast, load
    from webpte.llm.logprobs import Candidate, TokenLogprob
    from webpte.llm.lora.program_loras import load_lora, lora_in_use, use_lora
    from webpte.llm.lora.slots import LoraRoom
    from webpte.llm.lora.switch import Lora
    from webpte.llm.picture_session import Picture
    from webpte.llm.reply import Reply, ReplyStats
    from webpte.llm.scheduler import Scheduler, SchedulerStats
    from webpte.llm.seq2seq import Seq2Seq


_PLACES = {  # modules, with the public names of each
    "batched_generation": "BatchedGeneration",
    "chat": "Chat ReplyOptions",
    "constrain.constraint": "Allowed Constraint OneOf",
    "constrain.grammar": "Grammars Matching",
    "generation": "Generation GenerationOptions GenerationStats Generator Sampling generate",
    "load_model": "forecast load",
    "logprobs": "Candidate TokenLogprob",
    "lora.program_loras": "load_lora lora_in_use use_lora",
    "lora.slots": "LoraRoom",
    "lora.switch": "Lora",
    "picture_session": "Picture",
    "reply": "Reply ReplyStats",
    "scheduler": "Scheduler SchedulerStats",
    "seq2seq": "Seq2Seq",
}
__getattr__ = lazy_names(
    __name__,
    {name: f"{__name__}.{place}" for place, names in _PLACES.items() for name in names.split()},
)

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
    "Lora",
    "LoraRoom",
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
    "forecast",
    "generate",
    "load",
    "load_lora",
    "lora_in_use",
    "use_lora",
]
