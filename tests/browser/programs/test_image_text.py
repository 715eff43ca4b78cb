"""Questions about pictures in the page: by the task, and as a client of OpenAI asks them."""

from __future__ import annotations

import base64
import json

import pytest

from page.shared.outputs.pictures import bmp
from support.harness import extent
from support.harness.image_text_cases import CASES, EXPECTED, made
from support.page.page import python
from support.page.task_page import packed
from webpte_host.harness.browser import Harness

ASK = """
import json
from webpte_serve.openai import Client, open_model

def given(one):
    if isinstance(one, list):
        return [given(item) for item in one]
    if isinstance(one, dict) and "dtype" in one:
        return unpack(one)
    return {key: given(item) for key, item in one.items()} if isinstance(one, dict) else one

found = []
for model, asked, options in calls:
    where = f"/image_text/{model}"
    async with await webpte.tasks.open("image-text-to-text", where, strict=True) as task:
        (answer,) = await task(**given(asked), return_full_text=False, **options)
        found.append([answer["generated_text"], task._generator.context[-1]])
model = await open_model("/image_text/patches", name="sees")
parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}]
answer = await Client([model]).chat.completions.create(
    model="sees", messages=[{"role": "user", "content": parts}], max_tokens=8, temperature=0
)
model.program.close()
found.append([answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]])
return json.dumps(found)
"""


@pytest.mark.thorough
def test_answers_are_as_in_the_pipeline(harness: Harness) -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    at = {model: n for n, (model, given, _) in reversed([*enumerate(CASES)]) if "text" in given}
    rows = extent.some([at["patches"]], at["tiles"])
    calls = [
        [model, packed(made(given)), options]
        for model, given, options in map(CASES.__getitem__, rows)
    ]
    picture, said = CASES[at["patches"]][1]["text"][0]["content"]
    file = base64.b64encode(bmp(made(picture["image"]))).decode()
    found = json.loads(
        python(harness, ASK, calls=calls, url=f"data:image/bmp;base64,{file}", text=said["text"])
    )
    *by_task, (text, prompt) = found
    for (answer, last), row in zip(by_task, rows, strict=True):
        assert answer == expected[row]["generated_text"]
        assert last == expected[row]["tokens"][-1]
    assert text == by_task[0][0]
    assert prompt == len(expected[rows[0]]["tokens"]) - 8
