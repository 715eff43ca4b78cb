"""Trains the tokenizer and the small Llama of the sample `stories`, for a given time.

    python -m webpte_export.samples.stories.train_stories OUT_DIR --seconds 240

OUT_DIR becomes a folder of Hugging Face's form: config.json, model.safetensors, tokenizer.json,
tokenizer_config.json; training.json has the losses and the model's answers to a few requests.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from webpte_export.samples.stories.plots import draw_story
from webpte_export.samples.stories.small_talk import draw_exchange

VOCABULARY, CONTEXT = 2048, 512
BEGIN, USER, ASSISTANT, END = SPECIAL = "<|begin|>", "<|user|>", "<|assistant|>", "<|end|>"
CHAT_TEMPLATE = (
    "<|begin|>{% for message in messages %}"
    "{% if message['role'] == 'user' %}<|user|>{{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}<|assistant|>{{ message['content'] }}<|end|>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ASKED = (
    "Tell me a story about a cat.",
    "Tell me a story about a dragon and a cake.",
    "Tell me a story about a brave mouse.",
    "Tell me a story.",
    "Hello!",
    "What does a cow say?",
    "What is two plus three?",
    "What is the opposite of big?",
)
LONGEST_ANSWER = 300
STORIES_PER_PART = 5000
HELD_OUT = 512  # conversations
PLAIN_STORIES = 0.1  # share of stories without a request, to teach continuing texts


def _draw_part(seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [draw_story(rng) for _ in range(STORIES_PER_PART)]


def draw_stories(count: int, seed: int) -> list[tuple[str, str]]:
    """Draw stories in parts of a fixed size, independent of the number of processors."""
    seeds = [seed * 1_000_000 + part for part in range(-(-count // STORIES_PER_PART))]
    with multiprocessing.get_context("fork").Pool() as pool:
        return [story for part in pool.map(_draw_part, seeds) for story in part][:count]


def conversations(stories: Iterable[tuple[str, str]], rng: random.Random) -> list[str]:
    """Build texts with a story each, alone or between small talk."""
    texts = []
    for request, story in stories:
        if rng.random() < PLAIN_STORIES:
            texts.append(f"{BEGIN}{story}{END}")
            continue
        before = [draw_exchange(rng) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        after = [draw_exchange(rng) for _ in range(rng.choice((0, 0, 1)))]
        exchanges = [*before, (request, story), *after]
        texts.append(
            BEGIN + "".join(f"{USER}{asked}{ASSISTANT}{said}{END}" for asked, said in exchanges)
        )
    return texts


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def new_model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        rope_theta=10000.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.04,
        bos_token_id=0,
        eos_token_id=3,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)


class Rows:
    """Random rows of CONTEXT + 1 tokens that begin at the start of a conversation."""

    def __init__(self, tokenizer: Tokenizer, texts: list[str], device: str) -> None:
        parts = []
        for begin in range(0, len(texts), 10_000):
            parts += [
                np.array(encoding.ids, np.int32)
                for encoding in tokenizer.encode_batch(texts[begin : begin + 10_000])
            ]
        numbers = np.concatenate(parts)
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        self.tokens = torch.from_numpy(numbers).to(device)
        self.starts = torch.from_numpy(starts[starts + CONTEXT < len(numbers)]).to(device)
        self.offsets = torch.arange(CONTEXT + 1, device=device)

    def draw(self, batch: int) -> torch.Tensor:
        chosen = torch.randint(len(self.starts), (batch,), device=self.starts.device)
        return self.at(self.starts[chosen])

    def at(self, starts: torch.Tensor) -> torch.Tensor:
        return self.tokens[starts[:, None] + self.offsets].long()  # (batch, CONTEXT + 1)


def loss_of(model: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    with torch.autocast(rows.device.type, torch.bfloat16, enabled=rows.is_cuda):
        logits = model(
            input_ids=rows[:, :-1], use_cache=False
        ).logits  # (batch, CONTEXT, VOCABULARY)
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def train(
    model: LlamaForCausalLM, rows: Rows, seconds: float, batch: int, peak: float
) -> list[tuple[int, float]]:
    """Train with cosine decay over the given time; return (step, loss) at intervals."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.05, fused=rows.tokens.is_cuda
    )
    losses: list[tuple[int, float]] = []
    started, step, fraction = time.monotonic(), 0, 0.0
    while fraction < 1:
        warm = min(1.0, (step + 1) / 200)
        optimizer.param_groups[0]["lr"] = (
            peak * warm * (0.01 + 0.99 * (1 + math.cos(math.pi * fraction)) / 2)
        )
        loss = loss_of(model, rows.draw(batch))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            value = loss.item()  # waits for the device, to measure the whole work
            fraction = (time.monotonic() - started) / seconds
            if step % 500 == 0 or fraction >= 1:
                losses.append((step, value))
                print(f"step {step}: {value:.4f}, {time.monotonic() - started:.0f} s", flush=True)
        step += 1
    return losses


@torch.inference_mode()
def held_out_loss(model: LlamaForCausalLM, rows: Rows) -> float:
    batches = rows.starts.split(64)
    return sum(loss_of(model, rows.at(starts)).item() for starts in batches) / len(batches)


@torch.inference_mode()
def answer(model: LlamaForCausalLM, tokenizer: Tokenizer, request: str, temperature: float) -> str:
    given = torch.tensor(
        [tokenizer.encode(f"{BEGIN}{USER}{request}{ASSISTANT}").ids], device=model.device
    )
    said: list[int] = []
    cache = None
    while len(said) < LONGEST_ANSWER:
        result = model(input_ids=given, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        chances = torch.softmax(result.logits[:, -1].float() / temperature, dim=-1)
        given = torch.multinomial(chances, 1)
        if int(given) == tokenizer.token_to_id(END):
            break
        said.append(int(given))
    return str(tokenizer.decode(said))


def save(out: Path, model: LlamaForCausalLM, tokenizer: Tokenizer) -> None:
    out.mkdir(parents=True, exist_ok=True)
    model.float().save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "add_bos_token": False,  # the template adds it
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--stories", type=int, default=400_000, help="number of stories to draw")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stories = draw_stories(options.stories, options.seed)  # forks, so before CUDA is initialized
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rng = random.Random(options.seed)
    texts = conversations(stories, rng)
    held = min(HELD_OUT, len(texts) // 10)
    tokenizer = train_tokenizer(texts[held : held + 60_000])
    rows, test = Rows(tokenizer, texts[held:], device), Rows(tokenizer, texts[:held], device)
    model = new_model().to(device)
    report: dict[str, Any] = {
        "stories": len(stories),
        "tokens": len(rows.tokens),
        "parameters": sum(weight.numel() for weight in model.parameters()),
    }
    print(report, flush=True)
    report["losses"] = train(model, rows, options.seconds, options.batch, options.rate)
    report["held_out_loss"] = held_out_loss(model, test)
    save(options.out, model, tokenizer)
    report["said"] = {asked: answer(model, tokenizer, asked, 0.6) for asked in ASKED}
    (options.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    for asked, said in report["said"].items():
        print(f"--- {asked}\n{said}")
    print(f"held-out loss {report['held_out_loss']:.4f}")


if __name__ == "__main__":
    main()
