"""Sounds, texts and plain bytes as inputs, and dims that turn out to be fixed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.shared.cards.cards import CardValue
from page.shared.inputs.inputs import TensorInput, inputs_of
from page.shared.inputs.preview import input_preview
from page.shared.inputs.sounds import (
    SoundForm,
    SoundSettings,
    prepare_sound,
    sound_dims,
    sound_form_of,
)
from page.shared.npy import NpyError, read_npy, write_npy
from page.shared.outputs.curves import waveform
from page.views.python.code import as_python
from support.page.fake_page import (
    SAMPLES,
    FakeBrowser,
    File,
    drive,
    drop,
    open_file,
    open_sample,
    run,
)
from support.write.pte_writer import GraphWriter, write_pte
from webpte import TensorInfo

ANY = (0, 2**31 - 1)


@pytest.mark.parametrize(
    ("bounds", "dtype", "rate", "wanted"),
    [
        ([(16000, 16000)], "float32", 0, SoundForm(0)),
        ([(1, 1), (1, 48000)], "float32", 0, SoundForm(1)),
        ([(1, 1), (1, 2), (4096, 4096)], "float16", 44100, SoundForm(2, None, 44100)),
        ([ANY, ANY], "float32", 0, SoundForm(1)),
        ([(1, 1), (512, 512)], "float32", 0, None),
        ([(1, 1), (512, 512)], "float32", 8000, SoundForm(1, None, 8000)),
        ([(1, 64), (1024, 1024)], "float32", 16000, SoundForm(1, 0)),
        ([(1, 64), (1024, 1024)], "float32", 0, None),
        ([(1, 1), (80, 80), (3000, 3000)], "float32", 0, None),
        ([(1, 1), (16000, 16000)], "int64", 0, None),
    ],
)
def test_which_inputs_are_sounds(
    bounds: Any, dtype: str, rate: int, wanted: SoundForm | None
) -> None:
    assert sound_form_of(bounds, dtype, rate) == wanted


def test_a_sound_is_cut_or_filled_up_with_silence() -> None:
    samples = np.arange(1, 11, dtype=np.float32)
    form = SoundForm(1)

    def made(length: int, **settings: Any) -> list[float]:
        chosen = SoundSettings(**settings)
        array = prepare_sound(samples, form, chosen, (1, length), "float32")
        assert array.shape == (1, length)
        return [float(one) for one in array[0]]

    assert made(4) == [1, 2, 3, 4]
    assert made(4, part="middle") == [4, 5, 6, 7]
    assert made(4, part="end") == [7, 8, 9, 10]
    assert made(12)[8:] == [9, 10, 0, 0]
    assert max(made(10, level="peak")) == 1
    standard = np.array(made(10, level="standard"))
    assert standard.mean() == pytest.approx(0, abs=1e-6)
    assert standard.std() == pytest.approx(1)
    assert sound_dims(10, form, SoundSettings(), [(1, 1), (1, 48000)]) == [1, 10]
    assert sound_dims(10, form, SoundSettings(), [(1, 1), (16, 16)]) == [1, 16]


def test_a_sound_is_cut_into_frames() -> None:
    samples = np.arange(10, dtype=np.float32)
    form, bounds = SoundForm(1, 0), [(1, 8), (4, 4)]
    dims = sound_dims(10, form, SoundSettings(hop=2), bounds)
    assert dims == [4, 4]
    frames = prepare_sound(samples, form, SoundSettings(hop=2), dims, "float32")
    assert frames[:, 0].tolist() == [0, 2, 4, 6]
    assert sound_dims(10, form, SoundSettings(), bounds) == [2, 4]


def graph(shape: tuple[int, ...], dtype: str = "float32") -> bytes:
    """Build a program that returns its input."""
    g = GraphWriter()
    x, y = g.tensor(shape, dtype), g.tensor(shape, dtype)
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    return write_pte(g)


def test_a_sound_goes_in_at_the_rate_that_is_set() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("wave.pte", graph((1, 8000))))
        sound = File("beep.wav", write_npy(np.linspace(0, 1, 8000, dtype=np.float32)))
        await drop(app, sound)
        shown = browser.html["input-0"]
        assert "from beep.wav" in shown
        assert "1.00 s long" in shown
        assert 'class="waveform"' in shown
        setting = {"act": "sound-setting", "input": "0", "name": "rate"}
        await app.receive({**setting, "value": "8000"})
        await app.receive({"act": "save-input", "input": "0"})
        saved = read_npy(browser.links[-1])
        assert saved.shape == (1, 8000)
        assert saved[0, -1] == pytest.approx(1)  # all of it, where at 16,000 Hz it was the half
        await app.receive({**setting, "value": "12"})
        assert "from 3,000 to 384,000" in browser.html["input-0-preview"]
        await app.receive({**setting, "name": "level", "value": "standard"})
        session = app._state.session
        assert session is not None
        assert "np.load('input0.npy')" in as_python(session)
        bad = File("noise.mp3", b"no sound")
        await app.receive({"act": "npy", "input": "0", "files": [bad]})
        assert "noise.mp3: the browser cannot read this sound" in browser.html["input-0-preview"]
        await app.receive({"act": "fill", "input": "0", "value": "ones"})
        await app.receive({"act": "fill", "input": "0", "value": "sound"})
        assert "“Record” one" in browser.html["input-0-preview"]
        await open_sample(app)
        await drop(app, sound)
        assert "not of a shape that a sound could have" in browser.html["error"]

    drive(script)


def test_the_sound_of_an_input_is_played() -> None:
    wave = np.linspace(-1, 1, 500, dtype=np.float32)

    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("wave.pte", graph((1, 8000))))
        assert 'data-device="play"' not in browser.html["inputs"]
        await app.receive({"act": "play", "input": "0"})  # there is none yet
        assert "play" not in browser.other
        await drop(app, File("beep.wav", write_npy(wave)))
        assert 'data-device="play"' in browser.html["input-0"]
        await app.receive({"act": "play", "input": "0"})
        told = browser.other["play"]
        assert (told["input"], told["rate"]) == (0, 16_000)
        session = app._state.session
        assert session is not None
        (state,) = session.inputs
        assert isinstance(state, TensorInput)
        assert state.samples is not None
        played = np.frombuffer(told["samples"], "<f4")
        assert np.array_equal(played, state.samples)  # not the input, which is cut
        assert len(played) > state.array().size

    drive(script)


def test_plain_bytes_go_in_where_they_fit() -> None:
    x = np.linspace(-2, 2, 37 * 41, dtype=np.float32).reshape(37, 41)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await drop(app, File("x.bin", x.tobytes()))
        assert "from x.bin" in browser.html["input-0"]
        session = app._state.session
        assert session is not None
        (state,) = session.inputs
        assert isinstance(state, TensorInput)
        assert (state.array() == x).all()
        assert "np.fromfile('x.bin', 'float32').reshape((37, 41))" in as_python(session)
        await app.receive({"act": "npy", "input": "0", "files": [File("y.bin", b"12345")]})
        assert "not a multiple of the 4 bytes of a float32" in browser.html["input-0-preview"]

    drive(script)
    free = TensorInput(0, "x", "float32", ((1, 50), (4, 4)))
    free.take_bytes(x[:2, :4].tobytes(), "x.bin")
    assert free.dims == [2, 4]
    with pytest.raises(NpyError, match="do not fill"):
        free.take_bytes(x[0, :5].tobytes(), "x.bin")


def test_a_text_goes_in_as_tokens() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "stories.pte")
        await app.receive({"act": "fill", "input": "0", "value": "text"})
        assert "in tokens of stories.tokenizer.json" in browser.html["input-0"]
        await app.receive({"act": "prompt", "input": "0", "value": "Once upon a time"})
        session = app._state.session
        assert session is not None
        state = session.inputs[0]
        assert isinstance(state, TensorInput)
        count = len(state.tokens)
        assert 1 < count < 16
        assert state.array().reshape(-1)[:count].tolist() == state.tokens
        assert f"{count} tokens" in browser.html["input-0"]
        assert repr(state.array().tolist()) in as_python(session)
        stored = {browser.other["store"]["key"]: browser.other["store"]["text"]}
        again = App(browser, app._state.engine)
        await again.receive({"act": "hello", "stored": stored})
        await open_sample(again, "stories.pte")
        assert ">Once upon a time</textarea>" in browser.html["inputs"]
        assert again._state.session is not None
        (same,) = (one for one in again._state.session.inputs if one.name == state.name)
        assert isinstance(same, TensorInput)
        assert (same.array() == state.array()).all()
        wrong = File("tokenizer.json", b"{}")
        await again.receive({"act": "input-tokenizer", "input": "0", "files": [wrong]})
        assert "notice-bad" in browser.html["input-0-preview"]

    drive(script)


def test_a_text_that_is_longer_or_shorter_than_the_input_is_told() -> None:
    state = TensorInput(0, "ids", "int64", ((1, 1), (4, 4)))
    state.set_prompt("abcdef", [5, 6, 7, 8, 9, 10])
    assert state.array().tolist() == [[5, 6, 7, 8]]
    assert "only the first 4" in state.note
    state.set_prompt("ab", [5, 6])
    assert state.array().tolist() == [[5, 6, 0, 0]]
    assert "zeros to 4" in state.note
    assert "text" not in TensorInput(0, "x", "float32", ((4, 4),)).fills


def test_a_slider_for_each_size_that_may_change() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "photo.pte")
        sliders = re.findall(r'<input type="range"[^>]*>', browser.html["inputs"])
        assert [re.findall(r'(?:min|max)="(\d+)"', one) for one in sliders] == [
            ["1", "3"], ["1", "1024"], ["1", "1024"]]  # fmt: skip
        message = {"act": "dim", "input": "0", "dim": "2", "value": "20", "slider": "1"}
        await app.receive(message)
        assert browser.other["value"] == {"input-0-dim-2": "20"}
        await app.receive({"act": "dim", "input": "0", "dim": "3", "value": "24"})
        assert browser.other["value"] == {"input-0-dim-3-slider": "24"}
        assert "1 × 3 × 20 × 24" in browser.html["input-0-preview"]

    drive(script)


def test_a_size_that_cannot_change_is_pinned_when_a_run_fails_of_it() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "live"})  # off: nothing runs by itself
        await open_sample(app, "photo.pte")
        for dim, size in ((2, 20), (3, 24), (1, 2)):
            await app.receive({"act": "dim", "input": "0", "dim": dim, "value": str(size)})
        await run(app)
        assert "does not fit an input" in browser.html["error"]
        assert "Dim 1 is fixed at 3 in this program" in browser.html["input-0"]
        assert "input-0-dim-1" not in browser.html["input-0"]
        assert "1 × 3 × 20 × 24" in browser.html["input-0"]
        await run(app)
        assert browser.text["status"].startswith("Done")
        stored = {browser.other["store"]["key"]: browser.other["store"]["text"]}
        again = App(browser, app._state.engine)
        await again.receive({"act": "hello", "stored": stored})
        await open_sample(again, "photo.pte")
        assert "Dim 1 is fixed at 3" in browser.html["inputs"]
        await again.receive({"act": "reset-inputs"})
        assert "Dim 1 is fixed at 3" not in browser.html["inputs"]

    drive(script)


def test_of_a_program_with_state_only_the_exported_sizes_are_told() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, SAMPLES / "photo.pte")
        session = app._state.session
        assert session is not None
        session.stateful = True
        await app.receive({"act": "dim", "input": "0", "dim": "1", "value": "2"})
        await app.receive({"act": "dim", "input": "0", "dim": "2", "value": "8"})
        await run(app)
        assert "exported with 1 × 3 × 1024 × 1024" in browser.html["input-0"]

    drive(script)


def test_settings_of_a_card_and_of_the_last_visit() -> None:
    info = TensorInfo("frames", (64, 1024), "float32", dynamic=True)
    (state,) = inputs_of([info], [CardValue(rate=22050)])
    assert isinstance(state, TensorInput)
    assert state.sound == SoundForm(1, 0, 22050)
    assert state.sound_settings.rate == 22050
    assert "sound" in state.fills


def test_a_sound_in_frames_that_overlap_is_shown_as_it_is() -> None:
    info = TensorInfo("frames", (64, 1024), "float32", dynamic=True)
    (state,) = inputs_of([info], [CardValue(rate=16_000, hop=256)])
    assert isinstance(state, TensorInput)
    samples = np.sin(np.arange(5000) / 40).astype(np.float32) * np.linspace(0, 1, 5000)
    state.take_sound(samples, "tone.wav")
    assert state.array().size > 2 * samples.size
    assert waveform(samples, "The sound that goes into frames") in input_preview(state)
