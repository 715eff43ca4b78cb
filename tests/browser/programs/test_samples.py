"""The shipped samples, as the page serves them: on WebGPU they give PyTorch's results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from support.harness import extent, limits
from support.page.page import decode, encode, python
from webpte_export.samples.results import unpack
from webpte_host.base.layout import ROOT
from webpte_host.harness.browser import Harness

RESULTS = ROOT / "tests" / "data" / "samples"
# The others are seen on the page: tests/browser/page/test_layout.py and test_stories_talks below.
USUAL = ["notes", "words"]
OTHERS = sorted({path.stem for path in RESULTS.glob("*.npz")} - {*USUAL})

CALLS = """
async with await webpte.load(f"/samples/{name}.pte") as program:
    return [
        [pack(output) for output in await program.forward(*map(unpack, inputs))]
        for inputs in calls
    ]
"""

TALK = """
tokenizer = await webpte.text.load_tokenizer(
    "/samples/" + files["tokenizer"], config="/samples/" + files["tokenizer_config"]
)
async with await webpte.load("/samples/" + files["program"]) as program:
    said = []
    for question in questions:
        reply = webpte.llm.Chat(program, tokenizer).send(question, 300)
        said.append([await reply, reply.ended])
    return said
"""


ENCODED = """
tokenizer = await webpte.text.load_tokenizer("/samples/words.tokenizer.json")
return [list(map(int, tokenizer.encode(text))) for text in texts]
"""


@pytest.mark.parametrize("name", extent.some(USUAL, *OTHERS))
def test_the_results_of_pytorch(harness: Harness, name: str) -> None:
    calls = unpack(RESULTS / f"{name}.npz")
    sent = [[encode(array) for array in call.inputs] for call in calls]
    replies = python(harness, CALLS, timeout=limits.CALL_SECONDS, name=name, calls=sent)
    for call, outputs in zip(calls, replies, strict=True):
        for output, wanted in zip(map(decode, outputs), call.outputs, strict=True):
            np.testing.assert_allclose(output, wanted, atol=2e-3)


def test_stories_talks_and_comes_to_an_end(harness: Harness, root: Path) -> None:
    card = json.loads((root / "web" / "samples" / "stories.json").read_text(encoding="utf-8"))
    questions = ["What does a cow say?", "Tell me a story about a cat."]
    answer, story = python(
        harness, TALK, timeout=limits.CALL_SECONDS, files=card["files"], questions=questions
    )
    assert answer == ["A cow says moo!", "stop"]
    assert " cat " in story[0]
    assert story[0].endswith((".", "!", '"'))
    assert story[1] == "stop"


def test_words_reads_texts_as_in_cpython(harness: Harness, root: Path) -> None:
    texts = ["The cats sleep, and so do I.", "Où est le CAFÉ?", "It is 5:30!", "of the", "", "猫"]
    file = root / "web" / "samples" / "words.tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    wanted = [tokenizer.encode(text).ids for text in texts]
    assert python(harness, ENCODED, texts=texts) == wanted
