"""Pictures in messages of OpenAI's API: which are read, and by which models."""

from __future__ import annotations

import asyncio
import base64
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness.image_text_cases import WIDE, made, models_folder
from support.page.chats import Q4, open_tokenizer
from webpte import load
from webpte.errors import SourceError
from webpte.llm.text import ChatTemplate
from webpte.tasks.vision import pictures
from webpte_serve.openai import Client, Model, RequestError, open_model
from webpte_serve.openai.messages import pictures_in, template_messages

FOLDER = models_folder() / "patches"
DOT = "data:image/png;base64," + base64.b64encode(b"not a picture").decode()


def asked(url: Any, *texts: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    return [{"role": "user", "content": [{"type": "image_url", "image_url": url}, *parts]}]


def test_contents_with_pictures_stay_in_parts() -> None:
    (message,) = template_messages(asked({"url": DOT, "detail": "low"}, "Who?"))
    assert message["content"] == [
        {"type": "image", "image": b"not a picture"},
        {"type": "text", "text": "Who?"},
    ]
    assert pictures_in([message]) == [b"not a picture"]
    plain = template_messages([{"role": "user", "content": asked(DOT, "a", "b")[0]["content"][1:]}])
    assert plain[0]["content"] == "ab"
    assert not pictures_in(plain)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://example.org/cat.png", "others are not fetched"),
        ("file:///etc/passwd", "others are not fetched"),
        (None, "others are not fetched"),
        ("data:text/plain;base64,YQ==", "others are not fetched"),
        ("data:image/png;base64,@@@", "base64 cannot be read"),
    ],
)
def test_other_addresses_are_refused(url: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        template_messages(asked({"url": url}))
    assert "messages[0].content[0]" in str(caught.value)


def test_a_model_that_sees_nothing_says_so() -> None:
    async def run() -> None:
        template = await ChatTemplate.load("{% for m in messages %}{{ m.content }}{% endfor %}")
        async with await load(Q4, device="numpy") as program:
            model = Model("tiny", program, await open_tokenizer(), template=template)
            with pytest.raises(RequestError, match="tiny sees no pictures"):
                await Client([model]).chat.completions.create(model="tiny", messages=asked(DOT))

    asyncio.run(run())


def test_large_pictures_are_refused_before_they_are_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = pytest.importorskip("PIL.Image")

    def url(width: int, height: int) -> dict[str, str]:
        data = io.BytesIO()
        image.new("1", (width, height)).save(data, "PNG")
        return {"url": "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()}

    async def refuse(*_: Any) -> Any:
        raise AssertionError("a picture was decoded")

    async def run() -> None:
        monkeypatch.setattr(pictures, "decode_picture", refuse)
        model = await open_model(FOLDER, name="sees", device="numpy")
        create = Client([model]).chat.completions.create
        large, most = url(6000, 6000), url(5792, 5792)
        for given, said in (
            ([large], "6000 by 6000 pixels; at most 33,554,432"),
            ([most] * 3, "100,641,792 pixels; at most 67,108,864"),
            ([url(9, 9)] * 33, "33 pictures; at most 32"),
        ):
            messages = [message for one in given for message in asked(one)]
            with pytest.raises(RequestError, match=said):
                await create(model="sees", messages=messages)
        model.program.close()

    asyncio.run(run())


def test_a_model_that_sees_needs_its_settings(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "sees")
    (tmp_path / "sees" / "preprocessor_config.json").unlink()
    with pytest.raises(SourceError, match=r"has no preprocessor_config\.json"):
        asyncio.run(open_model(tmp_path / "sees", device="numpy"))


def test_pictures_are_answered_and_found_again() -> None:
    image = pytest.importorskip("PIL.Image")

    def url(pixels: Any) -> dict[str, str]:
        data = io.BytesIO()
        image.fromarray(pixels).save(data, "PNG")
        return {"url": "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()}

    async def run() -> None:
        model = await open_model(FOLDER, name="sees", device="numpy", slots=2)
        assert isinstance(model, Model)
        assert model.one_by_one == "the method takes embeddings, not tokens"
        client = Client([model])

        async def answer(pixels: Any) -> tuple[str, int]:
            found = await client.chat.completions.create(
                model="sees", messages=asked(url(pixels), "Who?"), max_tokens=4, temperature=0
            )
            cached = found["usage"]["prompt_tokens_details"]["cached_tokens"]
            return found["choices"][0]["message"]["content"], cached

        first, cached = await answer(made(WIDE))
        assert cached == 0
        assert (await answer(made(WIDE)))[0] == first
        assert (await answer(made(WIDE)))[1] > 10  # not computed again
        assert (await answer(np.zeros((9, 9, 3), np.uint8)))[1] < 10
        with pytest.raises(RequestError, match="is no picture"):
            await client.chat.completions.create(model="sees", messages=asked({"url": DOT}))
        model.program.close()

    asyncio.run(run())
