"""A language model that needs too much memory opens with a shorter context, if someone agrees."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import webpte
from page.app import App
from page.sections.open import context_question
from page.sections.open.context_question import shorter_contexts
from support.page.fake_page import SAMPLES, Engine, FakeBrowser, drive
from support.page.markup import check
from webpte.errors import InputError, OutOfMemoryError
from webpte.inspection.report import MemoryForecast

MB = 1_000_000
LLAMA = "../tests/data/llm/llama_tiny_fp32.pte"


def forecast(state: int, refusals: tuple[str, ...] = ()) -> MemoryForecast:
    sizes = {"weights": 900 * MB, "state": state, "activations": 50 * MB, "scratch": 0}
    return MemoryForecast(
        "llama_tiny_fp32.pte", **sizes, staging=96 * MB, largest=0, limits={}, refusals=refusals
    )


class Forecasting(Engine):
    """An engine whose caches take 1,600 MB, at the context of 128 tokens; it may fail once."""

    def __init__(self, refusals: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.contexts: list[int | None] = []
        self.refusals = refusals

    async def load(self, source: Any, **options: Any) -> Any:
        context, on_forecast = options["max_context"], options.pop("on_forecast")
        self.contexts.append(context)
        full = context is None
        on_forecast(forecast(1600 * MB * (context or 128) // 128, self.refusals if full else ()))
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return await super().load(source, **options)


def begin(app: App, narrow: bool = True) -> asyncio.Task[None]:
    app._state.narrow = narrow
    return app.receive({"act": "open-url", "fields": {"url": LLAMA}})


def is_open(app: App) -> bool:
    return app._state.session is not None


async def question(browser: FakeBrowser) -> str:
    while "open-context" not in browser.html.get("arriving", ""):
        await asyncio.sleep(0.1)
    return browser.html["arriving"]


def test_a_phone_is_asked_and_opens_with_the_answer() -> None:
    engine = Forecasting()

    async def script(app: App, browser: FakeBrowser) -> None:
        opening = begin(app)
        asked = check(await question(browser))
        for told in ("2,646 MB", "weights", "900 MB", "caches", "1,600 MB", "activations"):
            assert told in asked.text
        assert "64 tokens, about 1,750 MB" in asked.text
        assert '<option value="32" selected>' in browser.html["arriving"]  # only this length fits
        assert not is_open(app)
        await app.receive({"act": "open-context", "fields": {"context": "32"}})
        await opening
        session = app._state.session
        assert session is not None
        assert engine.contexts == [None, 32]
        assert session.source.max_context == 32
        assert session.methods["forward"].inputs[0].bounds[1][1] == 32  # type: ignore[union-attr]
        # The same on another device, too.
        await app.receive({"act": "device", "value": "webgpu"})
        assert engine.contexts[-1] == 32

    drive(script, engine=engine)


def test_the_own_context_is_opened_if_someone_insists() -> None:
    engine = Forecasting(("value 3 is too large",))

    async def script(app: App, browser: FakeBrowser) -> None:
        opening = begin(app, narrow=False)
        assert "value 3 is too large" in await question(browser)
        await app.receive({"act": "open-context", "fields": {"context": "128"}})
        await opening
        assert engine.contexts == [None, None]
        assert app._state.session is not None
        assert app._state.session.source.max_context is None

    drive(script, engine=engine)


def test_a_cancelled_question_opens_nothing() -> None:
    engine = Forecasting()

    async def script(app: App, browser: FakeBrowser) -> None:
        opening = begin(app)
        await question(browser)
        await app.receive({"act": "cancel-opening"})
        await app.receive({"act": "open-context", "fields": {"context": "64"}})
        await opening
        assert engine.contexts == [None]
        assert app._state.session is None
        assert browser.html["progress"] == ""

    drive(script, engine=engine)


def test_nobody_is_asked_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_question, "PHONE_BUDGET", 4000 * MB)
    engine = Forecasting()

    async def script(app: App, browser: FakeBrowser) -> None:
        await begin(app)
        assert app._state.session is not None

    drive(script, engine=engine)


def test_a_context_that_cannot_be_shortened_is_opened_as_it_is() -> None:
    class Fixed(Forecasting):
        async def forecast(self, source: Any, **options: Any) -> Any:
            raise InputError("no KV cache that could be made shorter")

    engine = Fixed()

    async def script(app: App, browser: FakeBrowser) -> None:
        await begin(app)
        assert app._state.session is not None
        assert engine.contexts == [None, None]

    drive(script, engine=engine)


def test_out_of_memory_offers_a_shorter_context() -> None:
    engine = Forecasting()
    engine.failure = OutOfMemoryError("no room for 1600 MB")

    async def script(app: App, browser: FakeBrowser) -> None:
        await begin(app, narrow=False)
        assert "shorter-context" in browser.html["error"]
        opening = app.receive({"act": "shorter-context"})
        assert "64 tokens" in await question(browser)
        await app.receive({"act": "open-context", "fields": {"context": "64"}})
        await opening
        assert app._state.session is not None
        assert engine.contexts == [None, None, 64]

    drive(script, engine=engine)


def test_a_program_without_a_context_has_none_to_shorten() -> None:
    methods = asyncio.run(webpte.inspect(Path(SAMPLES / "add.pte")))
    assert shorter_contexts(methods, forecast(1)) == {}
    methods = asyncio.run(webpte.inspect(SAMPLES / LLAMA.replace("..", "../..", 1)))
    assert list(shorter_contexts(methods, forecast(128))) == [64, 32]
    assert shorter_contexts(methods, forecast(0)) == {}
