"""Checks an export: `python -m webpte_host.commands.check_export NAME MADE OUT.json`. Needs NumPy.

It runs the code of `serve.py verify --device numpy`. OUT.json gets the verdict, and a sentence
about the program's output for the example.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from webpte_export.all_recipes import all_recipes
from webpte_export.catalog.recipe import Recipe
from webpte_export.make import PROGRAM
from webpte_host.commands.suites import read_manifest
from webpte_host.commands.verify import check_entries, run_here
from webpte_host.models.stages import summary

_ANSWER_TOKENS = 16  # NumPy takes a second for each token


def check(recipe: Recipe, made: Path) -> dict[str, Any]:
    """Check an export; the verdict's `error` is empty if every case passed."""
    suite = made / "suite"
    entries = check_entries(read_manifest(suite), suite)
    results = [run_here(suite, entry) for entry in entries]
    verdict = summary(results)
    if not verdict["error"]:
        verdict["seen"] = asyncio.run(_seen(recipe, made / "model"))
    return verdict


async def _seen(recipe: Recipe, folder: Path) -> str:
    if recipe.question:
        answer = await _answer(folder, recipe.question)
        return f'asked "{recipe.question}", it says "{answer}"'
    if recipe.tell_task is not None:
        return await recipe.tell_task(folder)
    if recipe.sound:
        return f'in {recipe.sound}, it hears "{await _heard(folder, recipe.sound)}"'
    if recipe.tell is None:
        return ""
    return recipe.tell(await _run_example(folder), folder)


async def _run_example(folder: Path) -> tuple[Any, ...]:
    paths = sorted(folder.glob("example*.npy"))
    async with await webpte.load(folder / PROGRAM, device="numpy") as program:
        return await program.forward(*(np.load(path) for path in paths))


async def _answer(folder: Path, question: str) -> str:
    tokenizer = await webpte.text.load_tokenizer(folder / "tokenizer.json")
    async with await webpte.load(folder / PROGRAM, device="numpy") as program:
        answer = await webpte.llm.Chat(program, tokenizer).send(question, _ANSWER_TOKENS)
        return str(answer).strip()


async def _heard(folder: Path, name: str) -> str:
    with wave.open(str(folder / name)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
        given = {"array": samples.astype(np.float32), "sampling_rate": file.getframerate()}
    task = "automatic-speech-recognition"
    async with await webpte.tasks.open(task, folder / PROGRAM, device="numpy") as listener:
        return str((await listener(given))["text"]).strip()


def main(arguments: list[str]) -> int:
    name, made, out = arguments
    verdict = check(all_recipes()[name], Path(made))
    Path(out).write_text(json.dumps(verdict, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
