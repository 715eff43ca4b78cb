"""Files that are dropped anywhere are matched with inputs."""

from __future__ import annotations

import asyncio
import io

import numpy as np
import pytest

from page.app import App
from page.shared.npy import read_npy, write_npy
from support.page.fake_page import (
    SAMPLES,
    STATE,
    Engine,
    FakeBrowser,
    File,
    drive,
    drop,
    open_file,
    open_sample,
    run,
)

ADD = (SAMPLES / "add.pte").read_bytes()
SIGMOID = (SAMPLES / "sigmoid.pte").read_bytes()
LLAMA = STATE.parent / "llm" / "llama_tiny_fp32.pte"


def npy(name: str, value: float = 1, shape: tuple[int, ...] = (37, 41), dtype: str = "f4") -> File:
    return File(name, write_npy(np.full(shape, value, dtype)))


def npz(name: str, **arrays: np.ndarray) -> File:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return File(name, stream.getvalue())


async def outputs(app: App, browser: FakeBrowser) -> np.ndarray:
    await run(app)
    await app.receive({"act": "download", "output": "0"})
    return read_npy(browser.links[-1])


def test_one_input_that_fits() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await drop(app, npy("zero.npy", 0))
        assert "from zero.npy" in browser.html["input-0"]
        assert "sigmoid.pte" in browser.html["file"]
        assert "zero.npy" in browser.text["status"]
        assert (await outputs(app, browser) == 0.5).all()

    drive(script)


def test_several_inputs_fit() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await drop(app, npy("<b>.npy", 7))
        asked = browser.html["ask"]
        assert "&lt;b&gt;.npy" in asked
        assert "input0" in asked
        assert "input1" in asked
        assert "from &lt;b&gt;.npy" not in browser.html["inputs"]
        await app.receive({"act": "place", "file": "0", "input": "1"})
        assert browser.html["ask"] == ""
        assert "from &lt;b&gt;.npy" in browser.html["input-1"]
        await app.receive({"act": "place", "file": "0", "input": "0"})  # a second click
        assert "input-0" not in browser.html
        await app.receive({"act": "fill", "input": "0", "value": "zeros"})
        await outputs(app, browser)

    drive(script)


def test_a_question_can_be_left() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await drop(app, npy("a.npy"))
        await app.receive({"act": "leave", "file": "0"})
        assert browser.html["ask"] == ""
        await drop(app, npy("b.npy"))
        await open_sample(app)
        assert browser.html["ask"] == ""  # it was about the inputs of another program

    drive(script)


def test_the_name_decides_between_inputs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await drop(app, npy("input1.npy", 3), npy("other.npy", 2))
        assert "from input1.npy" in browser.html["input-1"]
        assert "from other.npy" in browser.html["input-0"]  # the input that is left

    drive(script)


def test_no_input_fits() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        before = browser.html["inputs"]
        await drop(app, npy("x.npy", shape=(3, 41)))
        told = browser.html["error"]
        assert "x.npy fits no input" in told
        for part in ("input0: ", "input1: ", "dimension 0 is 3, but this input takes 37"):
            assert part in told
        await drop(app, npy("y.npy", dtype="f8"))
        assert "holds float64, but this input takes float32" in browser.html["error"]
        assert browser.html["inputs"] == before
        await run(app)
        assert browser.text["status"].startswith("Done")

    drive(script)


def test_by_type_and_rank() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, LLAMA)
        await drop(app, npy("p.npy", 0, (1,), "i8"), npy("t.npy", 3, (1, 5), "i4"))
        assert "from p.npy" in browser.html["input-1"]
        assert "from t.npy" in browser.html["input-0"]  # int32 goes into int64
        await run(app)
        assert browser.text["status"].startswith("Done")
        await drop(app, npy("f.npy", 0, (1,)))
        assert "f.npy holds float32, but this input takes int64" in browser.html["error"]

    drive(script)


def test_plain_values_are_not_arrays() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, npy("x.npy"))
        assert "open a program first" in browser.html["error"]
        await open_file(app, STATE / "shared.pte")
        await app.receive({"act": "method", "name": "get"})
        await drop(app, npy("x.npy"))
        assert "get takes no tensors" in browser.html["error"]

    drive(script)


def test_program_constants_and_inputs_at_once() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await drop(app, npy("zero.npy", 0), File("new.pte", SIGMOID))
        assert "new.pte" in browser.html["file"]
        assert "from zero.npy" in browser.html["input-0"]
        assert (await outputs(app, browser) == 0.5).all()

    drive(script)


def test_inputs_of_a_program_that_fails_go_nowhere() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await drop(app, npy("zero.npy", 0), File("new.pte", SIGMOID[:600]))
        assert "open new.pte" in browser.html["error"]
        assert "input-0" not in browser.html

    drive(script)


def test_archives() -> None:
    both = npz("both.npz", input1=np.ones((37, 41), "f4"), input0=np.full((37, 41), 2, "f4"))

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await drop(app, both)
        assert "from both.npz: input0" in browser.html["input-0"]
        assert "from both.npz: input1" in browser.html["input-1"]
        await app.receive({"act": "npy", "input": "0", "files": [both]})  # on a card, the same
        assert "from both.npz: input0" in browser.html["input-0"]
        await drop(app, File("bad.npz", b"PK\x03\x04 and so on"))
        assert "bad.npz is damaged or cut off" in browser.html["error"]

    drive(script)


def test_two_files_for_one_input() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await drop(app, npy("a.npy"), npy("b.npy"))
        assert "from a.npy" in browser.html["input-0"]
        assert "b.npy was not used: input0 has got a.npy" in browser.html["error"]
        assert "Drop b.npy alone" in browser.html["error"]
        assert "numpy.save" not in browser.html["error"]  # it fits: it need not be saved again

    drive(script)


def test_a_file_that_is_read_late_does_not_reach_another_program() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        for act in ("npy", "open-file"):
            await open_sample(app)
            gate = asyncio.Event()
            late = File("late.npy", npy("x").data, gate)
            reading = app.receive({"act": act, "input": "0", "files": [late]})
            await asyncio.sleep(0.01)
            await open_sample(app, "add.pte")
            browser.html.pop("input-0", None)
            gate.set()
            await reading
            assert "input-0" not in browser.html
            assert browser.html.get("ask", "") == ""
            assert "late.npy" in browser.text["status"]

    drive(script)


def test_a_drop_while_it_runs_is_for_the_next_run() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "live"})  # off: nothing runs by itself
        await open_sample(app)
        running = app.receive({"act": "benchmark", "fields": {"repeats": "10000"}})
        await asyncio.sleep(0.02)
        await drop(app, npy("zero.npy", 0))
        assert "from zero.npy" in browser.html["input-0"]
        await app.receive({"act": "cancel"})
        await asyncio.wait_for(running, 5)
        assert "Run again to update" in browser.html["outputs-age"]
        assert (await outputs(app, browser) == 0.5).all()

    drive(script)


@pytest.mark.parametrize("act", ["close", "open-url"])
def test_an_expected_output_that_is_read_late_is_not_compared(act: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        gate = asyncio.Event()
        late = File("y.npy", npy("y").data, gate)
        reading = app.receive({"act": "compare", "output": "0", "files": [late]})
        await asyncio.sleep(0.01)
        await app.receive({"act": act, "fields": {"url": "samples/add.pte"}})
        gate.set()
        await reading
        assert "output-0-compare" not in browser.html
        assert browser.html["error"] == ""

    drive(script, engine=Engine())
