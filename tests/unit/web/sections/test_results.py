"""Results say when they are outdated, and NumPy repeats the calls that led to them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from page.app import App
from page.core import history
from page.shared.npy import read_npy, write_npy
from support.page.fake_page import (
    GPU,
    SAMPLES,
    STATE,
    Engine,
    FakeBrowser,
    File,
    benchmark,
    drive,
    drop,
    open_file,
    open_sample,
    run,
)
from support.write.pte_writer import GraphWriter, write_pte
from webpte import errors

EARLIER = "Run again to update"


async def fill(app: App, value: str, index: int = 0) -> None:
    await app.receive({"act": "fill", "input": str(index), "value": value})


def test_edited_inputs_make_results_earlier_ones() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "live"})  # off: nothing runs by itself
        await open_sample(app)
        await fill(app, "ramp")
        await run(app)
        assert browser.html["outputs-age"] == ""
        await fill(app, "ones")
        assert EARLIER in browser.html["outputs-age"]
        assert "Inputs changed" in browser.html["outputs-age"]
        await fill(app, "ramp")
        assert browser.html["outputs-age"] == ""
        x = np.zeros((37, 41), np.float32)
        await app.receive({"act": "npy", "input": "0", "files": [File("x.npy", write_npy(x))]})
        assert EARLIER in browser.html["outputs-age"]
        await run(app)
        assert browser.html["outputs-age"] == ""

    drive(script)


def test_other_random_values_and_wrong_sizes_make_results_earlier_ones() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE.parent / "llm" / "llama_tiny_fp32.pte")
        await run(app)
        for change in (
            {"act": "reroll", "input": "0"},
            {"act": "below", "input": "0", "value": "3"},
            {"act": "dim", "input": "0", "dim": "1", "value": "5"},
            {"act": "dim", "input": "0", "dim": "1", "value": "9999"},
        ):
            await app.receive(change)
            assert EARLIER in browser.html["outputs-age"], change
            await app.receive({"act": "dim", "input": "0", "dim": "1", "value": "4"})
            await run(app)
            assert browser.html["outputs-age"] == "", change

    drive(script)


def failing(program: Any, failure: Exception) -> None:
    async def run(*args: Any, **options: Any) -> Any:
        raise failure

    program.run = run


def test_a_run_that_fails_leaves_results_as_earlier_ones() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        works = engine.programs[0].run
        failing(engine.programs[0], errors.ExecutionError("went wrong"))
        await run(app)
        assert "went wrong" in browser.html["error"]
        assert "37 × 41" in browser.html["outputs"]
        assert "The last run failed" in browser.html["outputs-age"]
        await app.receive({"act": "download", "output": "0"})
        assert read_npy(browser.links[0]).shape == (37, 41)
        engine.programs[0].run = works
        await run(app)
        assert browser.html["error"] == browser.html["outputs-age"] == ""

    drive(script, engine=engine)


def test_inputs_edited_while_it_runs() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        works = engine.programs[0].run

        async def run_and_edit(*args: Any, **more: Any) -> Any:
            await fill(app, "ones")
            return await works(*args, **more)

        engine.programs[0].run = run_and_edit
        await run(app)
        assert EARLIER in browser.html["outputs-age"]

    drive(script, engine=engine)


# ---- against NumPy


async def check(app: App, browser: FakeBrowser, index: int = 0) -> str:
    browser.html.pop(f"output-{index}-compare", None)
    await app.receive({"act": "check"})
    return browser.html.get(f"output-{index}-compare", "")


def test_numpy_follows_every_run_and_every_repeat() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await fill(app, "ones")
        await run(app)
        assert "Matches NumPy" in await check(app, browser)
        await benchmark(app, 4)
        assert "Matches NumPy after the same 2 calls" in await check(app, browser)
        await fill(app, "ramp")
        await run(app)
        assert "Matches NumPy after the same 7 calls" in await check(app, browser)

    drive(script, GPU, Engine())


def test_numpy_follows_other_methods() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared_initial.pte")
        await benchmark(app, 2)
        await app.receive({"act": "method", "name": "get"})
        await run(app)
        assert "Matches NumPy after the same 4 calls" in await check(app, browser, 1)
        await app.receive({"act": "method", "name": "forward"})
        assert "Matches NumPy:" in await check(app, browser)  # its results are of call 1

    drive(script, GPU, Engine())


def test_numpy_follows_a_kv_cache() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE.parent / "llm" / "llama_tiny_fp32.pte")
        await app.receive({"act": "dim", "input": "0", "dim": "1", "value": "3"})
        await run(app)
        await app.receive({"act": "dim", "input": "0", "dim": "1", "value": "1"})
        at = File("at.npy", write_npy(np.array([3])))
        await app.receive({"act": "npy", "input": "1", "files": [at]})
        await run(app)
        assert "Matches NumPy after the same 2 calls" in await check(app, browser)

    drive(script, GPU, Engine())


def test_a_verdict_stays_with_its_results() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await run(app)
        assert "Matches NumPy" in await check(app, browser)
        await app.receive({"act": "method", "name": "get"})
        del browser.html["output-0-compare"]
        await app.receive({"act": "method", "name": "forward"})
        assert "Matches NumPy" in browser.html["output-0-compare"]
        await app.receive({"act": "device", "value": "numpy"})
        del browser.html["output-0-compare"]
        await run(app)
        assert "output-0-compare" not in browser.html

    drive(script, GPU, Engine())


def test_a_wrong_state_is_still_found() -> None:
    """A program that lost its state gives the result of a fresh one, which must not agree."""
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await run(app)
        await engine.programs[0].recover()
        await run(app)
        assert "Differs from NumPy after the same 2 calls" in await check(app, browser)

    drive(script, GPU, engine)


def test_rebuilding_starts_over() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await benchmark(app, 3)
        await app.receive({"act": "recover"})
        assert "was rebuilt" in browser.html["outputs-age"]
        assert "Matches" in await check(app, browser)  # the shown results keep their calls
        await run(app)
        assert browser.html["outputs-age"] == ""
        assert "Matches NumPy:" in await check(app, browser)

    drive(script, GPU, Engine())


def test_rebuilding_changes_nothing_where_there_is_no_state() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        await app.receive({"act": "recover"})
        assert browser.html["outputs-age"] == ""

    drive(script, GPU, Engine())


def test_another_device_starts_over() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await benchmark(app, 3)
        await app.receive({"act": "device", "value": "numpy"})
        assert "Matches" in await check(app, browser)
        await run(app)
        assert "Matches NumPy:" in await check(app, browser)

    drive(script, GPU, Engine())


def test_too_many_calls_are_said_instead_of_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_CALLS", 5)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        await benchmark(app, 9)
        assert "Matches" in await check(app, browser)  # of call 1, which is known
        await run(app)
        told = await check(app, browser)
        assert "cannot be checked" in told
        assert "more than 5 calls" in told
        assert "notice-bad" not in told
        assert 'data-act="recover"' in told
        await app.receive({"act": "recover"})
        await run(app)
        assert "Matches" in await check(app, browser)

    drive(script, GPU, Engine())


def test_too_large_inputs_are_said_instead_of_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_BYTES", 20)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        for _ in range(2):  # the same array again takes no more memory
            await benchmark(app, 3)
            assert "Matches" in await check(app, browser)
        for value in ("ones", "zeros", "ramp"):
            await fill(app, value)
            await run(app)
        assert "cannot be checked" in await check(app, browser)

    drive(script, GPU, Engine())


def test_without_state_any_number_of_calls_can_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_CALLS", 5)
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await benchmark(app, 20)
        await benchmark(app, 20)
        assert "Matches NumPy:" in await check(app, browser)
        assert engine.executions == [1]  # the reference did not have to follow

    drive(script, GPU, engine)


def test_after_a_failed_run_the_state_is_not_known() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        works = engine.programs[0].run
        failing(engine.programs[0], errors.ExecutionError("went wrong"))
        await run(app)
        engine.programs[0].run = works
        await run(app)
        assert "a run failed" in await check(app, browser)

    drive(script, GPU, engine)


def test_a_wrong_input_leaves_the_state_known() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, STATE / "shared.pte")
        works = engine.programs[0].run
        failing(engine.programs[0], errors.InputError("wrong"))
        await run(app)
        engine.programs[0].run = works
        await run(app)
        assert "Matches NumPy:" in await check(app, browser)

    drive(script, GPU, engine)


def running_sum() -> File:
    """Build a program that sums up all x so far, in a buffer of the delegate."""
    g = GraphWriter()
    x, out = g.tensor((4,)), g.tensor((4,))
    buffer = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
    g.op("aten.add.Tensor", buffer, x, g.int(1), buffer)
    g.op("aten.relu.default", buffer, out)
    g.inputs(x)
    g.outputs(out)
    return File("sum.pte", write_pte(g))


def test_numpy_follows_a_buffer_inside_of_a_delegate() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, running_sum())
        await fill(app, "ones")
        await benchmark(app, 4)
        await run(app)
        assert "Matches NumPy after the same 6 calls" in await check(app, browser)

    drive(script, GPU, Engine())


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (STATE / "shared.pte", True),
        (STATE / "separate.pte", True),
        (STATE.parent / "llm" / "llama_tiny_q4.pte", True),
        (SAMPLES / "superres.pte", False),
        (SAMPLES / "add.pte", False),
    ],
)
def test_state_is_told_by_what_the_methods_do(file: Path, expected: bool) -> None:
    methods = asyncio.run(webpte.inspect(file))
    assert any(info.keeps_state for info in methods.values()) is expected


def test_the_answer_is_told_and_brought_into_sight() -> None:
    names = [f"digit {at}" for at in range(10)]

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "digits.pte")
        await drop(app, File("names.txt", "\n".join(names).encode()))
        await fill(app, "zeros")
        await run(app)
        assert browser.other["scroll"] == "outputs"
        assert re.match(r"Done: digit \d, \d+\.\d %, in ", browser.text["status"])

    drive(script)


def test_who_has_gone_on_with_other_inputs_is_not_moved() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        session = app._state.session
        assert session is not None
        finish = session.program.run

        async def slow(*args: Any, **options: Any) -> Any:
            await fill(app, "ramp")
            return await finish(*args, **options)

        session.program.run = slow  # type: ignore[method-assign]
        await run(app)
        assert EARLIER in browser.html["outputs-age"]
        assert "scroll" not in browser.other

    drive(script)
