"""A sound that is still coming: its frames, the state from call to call, the values of a curve."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.core.sound_stream import feeds_of
from page.sections.listen.live_sound import LiveSound, curve_output
from page.shared.cards.cards import CardValue
from page.shared.inputs.inputs import TensorInput, inputs_of
from support.page.fake_page import FakeBrowser, drive, open_file
from support.write.pte_writer import GraphWriter, write_pte
from webpte import TensorInfo

FRAMES, WINDOW, HOP, RATE = 12, 9, 8, 16_000
CARD = (CardValue(name="frames", rate=RATE, hop=HOP), CardValue(name="state", fill="zeros"))
OUTPUTS = (CardValue(feeds="state"), CardValue(name="speech"))


def framed(dynamic: bool = False) -> LiveSound:
    infos = [
        TensorInfo("input0", (FRAMES, WINDOW), "float32", dynamic=dynamic),
        TensorInfo("input1", (1, 1), "float32", dynamic=False),
    ]
    inputs = inputs_of(infos, CARD)
    state = inputs[0]
    assert isinstance(state, TensorInput)
    if dynamic:
        state.bounds = ((1, FRAMES), (WINDOW, WINDOW))
    return LiveSound(state, [one.array() for one in inputs], feeds_of(inputs, OUTPUTS))


def heard(live: LiveSound, parts: list[np.ndarray]) -> tuple[list[float], list[float], float]:
    """Return the sums of all frames, their times, and the state: the sum of all new samples."""
    sums, times = [], []
    for part in parts:
        live.add(part)
        while (arrays := live.next_call()) is not None:
            frames, state = arrays
            values = (state + frames[:, 1:].sum(), frames.sum(axis=1))
            told = live.answers(values, (), curve_output(live, (), 2), RATE)
            sums += [one.value for one in told]
            times += [one.seconds for one in told]
    return sums, times, float(live.arrays[1][0, 0])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [1, 7, HOP, 40, 333])
def test_every_sample_is_in_one_frame_however_it_comes(size: int, dynamic: bool) -> None:
    sound = np.random.default_rng(size).standard_normal(333).astype(np.float32)
    live = framed(dynamic)
    assert live.wanted == (HOP if dynamic else FRAMES * HOP)
    parts = [sound[at : at + size] for at in range(0, len(sound), size)]
    sums, times, state = heard(live, parts)
    count = 333 // HOP if dynamic else 333 // (FRAMES * HOP) * FRAMES
    assert len(sums) == count
    padded = np.concatenate([[0], sound])
    expected = [padded[at * HOP : at * HOP + WINDOW].sum() for at in range(count)]
    np.testing.assert_allclose(sums, expected, atol=1e-4)
    np.testing.assert_allclose(times, [(at + 1) * HOP / RATE for at in range(count)])
    assert state == pytest.approx(sound[: count * HOP].sum(), abs=1e-4)


def test_a_single_window_slides() -> None:
    info = TensorInfo("x", (1, 1600), "float32", dynamic=False)
    (state,) = inputs_of([info], (CardValue(rate=RATE),))
    assert isinstance(state, TensorInput)
    live = LiveSound(state, [state.array()], {})
    assert live.wanted == 200
    live.add(np.ones(150, np.float32))
    assert live.next_call() is None
    live.add(np.full(150, 2, np.float32))
    calls = live.next_call()
    assert calls is not None
    (array,) = calls
    assert array.shape == (1, 1600)
    assert array[0, -1] == 2
    assert array.sum() == 450
    assert live.next_call() is None
    (told,) = live.answers([array], (), 0, RATE)
    assert (told.seconds, told.value, told.text) == (300 / RATE, 2.0, "2")


def test_classes_are_told_by_name_or_number() -> None:
    live = framed(dynamic=True)
    live.add(np.zeros(HOP, np.float32))
    live.next_call()
    scores = np.array([[0.1, 0.7, 0.2]], np.float32)
    (told,) = live.answers([live.arrays[1], scores], ("110.0 Hz", "220.5 Hz", "330 Hz"), 1, RATE)
    assert (told.value, told.text) == (220.5, "220.5 Hz")
    (told,) = live.answers([live.arrays[1], scores], ("a", "b", "c"), 1, RATE)
    assert told.text == "b 70 %"
    assert told.value == pytest.approx(0.7)
    assert curve_output(live, (False, True), 2) == 0  # none is left: the first


@pytest.fixture
def program(tmp_path: Path) -> Path:
    g = GraphWriter()
    x, y = g.tensor((1, 1600)), g.tensor((1, 1600))
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    path = tmp_path / "same.pte"
    path.write_bytes(write_pte(g))
    return path


def part(level: float, count: int = 400) -> dict[str, Any]:
    return {"act": "listen-part", "samples": np.full(count, level, np.float32).tobytes()}


def test_the_page_answers_parts_until_the_stream_is_closed(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        assert 'data-device="listen"' in browser.html["inputs"]
        listening = app.receive({"act": "listen-open", "input": "0"})
        while "listen" not in browser.other:
            await asyncio.sleep(0.01)
        assert browser.other["listen"]["wanted"] == 200
        await app.receive(part(0.5))
        while not browser.other["listen"].get("values"):
            await asyncio.sleep(0.01)
        assert browser.other["listen"]["values"] == [[400 / RATE, 0.5]]
        assert browser.other["listen"]["speed"] > 0
        await app.receive({"act": "run"})
        assert "Still listening" in browser.text["status"]
        await app.receive({"act": "listen-close", "input": "0"})
        await listening
        assert browser.other["listen"] == {"input": 0, "ends": True}
        assert browser.text["status"].startswith("Listened: 1 frame in")
        await app.receive(part(0.5))  # too late: nothing happens

    drive(script)


def test_closing_the_program_ends_the_stream(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        listening = app.receive({"act": "listen-open", "input": "0"})
        while "listen" not in browser.other:
            await asyncio.sleep(0.01)
        await app.receive({"act": "close"})
        await listening
        assert browser.other["listen"] == {"input": 0, "ends": True}
        await app.receive({"act": "listen-open", "input": "0"})
        assert browser.other["listen"] == {"input": 0, "ends": True}

    drive(script)
