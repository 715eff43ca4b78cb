"""Answers of encoder-decoder models on WebGPU equal transformers'."""

from __future__ import annotations

import json

import pytest

from support.harness import limits
from support.llm.small_seq2seq import SPOKEN as CASES
from support.llm.small_seq2seq import kept, sound, whisper_settings
from support.page.page import python
from webpte_host.harness.browser import Harness

CODE = """
import io, zipfile
import js

reply = await js.fetch("/data/llm/seq2seq.zip")
packed = zipfile.ZipFile(io.BytesIO((await reply.arrayBuffer()).to_bytes()))
found = []
for family in ("t5", "bart"):
    expected = np.load(io.BytesIO(packed.read(f"{family}.npz")))
    async with await webpte.load(packed.read(f"{family}.pte"), strict=True) as program:
        model = webpte.llm.Seq2Seq(program)
        for n in range(2):
            whole = expected[f"tokens{n}"].tolist()
            first = len(model.start) + len(model.forced)
            answer = model.generate(expected[f"source{n}"].tolist(), len(whole) - first)
            tokens = [token async for token in answer]
            found.append([tokens, [token for token in whole[first:] if token not in model.eos]])
return found
"""


SPOKEN = """
import io, json, zipfile
import js
from webpte.speech import LogMel, Whisper

reply = await js.fetch("/data/llm/seq2seq.zip")
packed = zipfile.ZipFile(io.BytesIO((await reply.arrayBuffer()).to_bytes()))
features, generation, samples = json.loads(GIVEN)
found = []
async with await webpte.load(packed.read("whisper.pte"), strict=True) as program:
    model = Whisper(program, LogMel.of(features), generation)
    async for segment in model.transcribe(np.array(samples, np.float32), language="en"):
        found.append([segment.start, segment.end, list(segment.text_tokens)])
return found
"""


@pytest.mark.thorough
def test_segments(harness: Harness) -> None:
    samples = sound(CASES[0].seconds).tolist()
    given = json.dumps([*whisper_settings(), samples])
    found = python(harness, SPOKEN.replace("GIVEN", repr(given)), timeout=limits.CALL_SECONDS)
    expected = kept("whisper")
    assert [one[0] for one in found] == pytest.approx(expected["starts0"].tolist())
    assert [one[1] for one in found] == pytest.approx(expected["ends0"].tolist())
    assert [token for one in found for token in one[2]] == expected["texts0"].tolist()


def test_answers(harness: Harness) -> None:
    found = python(harness, CODE, timeout=limits.CALL_SECONDS)
    assert len(found) == 4
    for tokens, expected in found:
        assert tokens == expected
