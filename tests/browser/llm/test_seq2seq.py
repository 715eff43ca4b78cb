"""Answers of encoder-decoder models on WebGPU are those of transformers."""

from __future__ import annotations

from support.harness import limits
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


def test_answers(harness: Harness) -> None:
    found = python(harness, CODE, timeout=limits.CALL_SECONDS)
    assert len(found) == 4
    for tokens, expected in found:
        assert tokens == expected
