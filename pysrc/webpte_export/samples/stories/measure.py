"""Measures the exported model: requested heroes used, stories ended, answers equal to PyTorch's.

    python -m webpte_export.samples.stories.measure PROGRAM [--model DIR] [--requests 100]

PROGRAM runs on NumPy, greedily, through webpte.llm.Chat. With --model (the folder that it was
exported from) PyTorch answers the same requests, and the report counts equal answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import webpte
from webpte_export.samples.stories.small_talk import FACTS
from webpte_export.samples.stories.words import HEROES, PLACES, article

LONGEST_ANSWER = 300
ENDS = (".", "!", '."', '!"')


@dataclass(frozen=True)
class StoryRequest:
    request: str
    wanted: tuple[str, ...]  # words that a good answer contains
    story: bool


def draw_requests(count: int, seed: int = 2) -> list[StoryRequest]:
    """Draw requests: half about one hero, a quarter about two, a quarter with a place."""
    rng = random.Random(seed)
    asked = []
    for number in range(count):
        hero, friend = rng.sample(HEROES, 2)
        wanted: tuple[str, ...] = (hero,)
        if number % 4 == 2:
            text, wanted = f"{article(hero)} and {article(friend)}", (hero, friend)
        elif number % 4 == 3:
            text = f"{article(hero)} {rng.choice(list(PLACES.values()))}"
        else:
            text = article(hero)
        asked.append(StoryRequest(f"Tell me a story about {text}.", wanted, story=True))
    return asked


def draw_questions(count: int, seed: int = 2) -> list[StoryRequest]:
    chosen = random.Random(seed).sample(FACTS, count)
    return [StoryRequest(questions[0], (answer,), story=False) for questions, answer in chosen]


async def answers_of(program: Path, asked: list[StoryRequest]) -> list[tuple[str, bool]]:
    """Return (answer, whether it ended by itself) for each request, each in a new chat."""
    tokenizer = await webpte.text.load_tokenizer(
        program.with_suffix(".tokenizer.json"),
        config=program.with_suffix(".tokenizer_config.json"),
    )
    said = []
    async with await webpte.load(program, device="numpy") as loaded:
        for one in asked:
            reply = webpte.llm.Chat(loaded, tokenizer).send(one.request, LONGEST_ANSWER)
            said.append((await reply, reply.ended == "stop"))
    return said


def answers_of_part(program: Path, asked: list[StoryRequest]) -> list[tuple[str, bool]]:
    return asyncio.run(answers_of(program, asked))


def answers_in_parallel(program: Path, asked: list[StoryRequest]) -> list[tuple[str, bool]]:
    workers = os.cpu_count() or 1
    parts = [asked[first::workers] for first in range(workers)]
    said: list[tuple[str, bool]] = [("", False)] * len(asked)
    with ProcessPoolExecutor(workers) as pool:
        for first, part in enumerate(pool.map(answers_of_part, [program] * workers, parts)):
            said[first::workers] = part
    return said


def answers_of_pytorch(folder: Path, asked: list[StoryRequest]) -> list[str]:
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    said = []
    for one in asked:
        ids = tokenizer.encode(f"<|begin|><|user|>{one.request}<|assistant|>").ids
        with torch.inference_mode():
            made: Any = model.generate(
                torch.tensor([ids]), max_new_tokens=LONGEST_ANSWER, do_sample=False
            )
        said.append(str(tokenizer.decode(made[0, len(ids) :].tolist())))
    return said


def score(asked: list[StoryRequest], said: list[tuple[str, bool]]) -> dict[str, Any]:
    """Count good answers, and list the requests with bad answers."""
    wanted = [
        all(word.lower() in text.lower() for word in one.wanted)
        for one, (text, _) in zip(asked, said, strict=True)
    ]
    ended = [stopped and text.endswith(ENDS) for text, stopped in said]
    return {
        "asked": len(asked),
        "as asked for": sum(wanted),
        "ended": sum(ended),
        "not as asked for": [
            {one.request: text}
            for one, (text, _), good in zip(asked, said, wanted, strict=True)
            if not good
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    stories, questions = draw_requests(options.requests), draw_questions(options.requests // 2)
    asked = stories + questions
    said = answers_in_parallel(options.program, asked)
    report = {
        "stories": score(stories, said[: len(stories)]),
        "questions": score(questions, said[len(stories) :]),
    }
    if options.model:
        pairs = list(zip(said, answers_of_pytorch(options.model, asked), strict=True))
        report["equal to PyTorch's"] = {
            "stories": sum(mine == theirs for (mine, _), theirs in pairs[: len(stories)]),
            "questions": sum(mine == theirs for (mine, _), theirs in pairs[len(stories) :]),
        }
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
