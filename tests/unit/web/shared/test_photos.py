"""Pictures, drawings and typed values as inputs, and scores as outputs."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.shared.cards.cards import CardValue, read_card
from page.shared.inputs.inputs import TensorInput, inputs_of
from page.shared.inputs.photos import Form, PhotoSettings, form_of, prepare, settings_of
from page.shared.inputs.preview import input_preview
from page.shared.inputs.typed import TypedError, parse_values
from page.shared.npy import NpyError, write_npy
from page.shared.outputs.pictures import seen
from page.shared.outputs.renderers.lanes import lanes_figure, spans_of
from page.shared.outputs.renderers.scores import rank
from support.page.fake_page import SAMPLES, FakeBrowser, File, drive, drop, open_sample, run
from support.page.fake_photo import FakePhoto
from webpte import TensorInfo
from webpte.engine.files.json_reader import read_json

RGB = Form("NCHW", 3)
PAD = CardValue(layout="NCHW", fill="draw")
SQUARE = np.zeros((20, 20, 3), np.uint8)
SQUARE[:, 10:] = (255, 51, 0)  # the right half is orange
PHOTO = FakePhoto(SQUARE)


@pytest.mark.parametrize(
    ("shape", "layout", "wanted"),
    [
        ((1, 3, 16, 20), "", Form("NCHW", 3)),
        ((1, 16, 20, 3), "", Form("NHWC", 3)),
        ((1, 1, 28, 28), "", Form("NCHW", 1)),
        ((3, 16, 20), "", Form("CHW", 3)),
        ((28, 28), "", None),
        ((28, 28), "HW", Form("HW", 1)),
        ((2, 3, 16, 20), "", None),
        ((1, 4, 16, 20), "", None),
        ((1, 3, 4, 4), "", None),
        ((1, 3, 16, 20), "CHW", None),
    ],
)
def test_which_inputs_are_pictures(shape: Any, layout: str, wanted: Form | None) -> None:
    assert form_of([(size, size) for size in shape], layout) == wanted


def test_a_picture_of_the_right_size_is_not_scaled() -> None:
    array = prepare(PHOTO, RGB, PhotoSettings(scale="bytes"), (1, 3, 20, 20), "float32")
    np.testing.assert_allclose(array[0].transpose(1, 2, 0), SQUARE, rtol=1e-6)


def test_a_drawing_follows_the_size_of_its_input() -> None:
    grey = np.array([[0, 255], [51, 0]], np.uint8)
    array = prepare(grey, Form("HW", 1), PhotoSettings(), (4, 6), "float32")
    assert array[0].tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(array[3], [0.2] * 3 + [0] * 3, rtol=1e-5)


def test_fits() -> None:
    def columns(fit: str) -> list[float]:
        array = prepare(PHOTO, RGB, PhotoSettings(fit=fit), (1, 3, 8, 16), "float32")
        assert array.shape == (1, 3, 8, 16)
        return [round(float(value), 2) for value in array[0, 0, 4]]

    assert columns("crop") == [0.0] * 7 + columns("crop")[7:9] + [1.0] * 7
    assert columns("stretch")[:6] == [0.0] * 6
    padded = columns("pad")
    assert padded[:4] == [0.0] * 4
    assert padded[-4:] == [0.0] * 4  # a border, although the right half is orange
    assert padded[10] == 1.0


@pytest.mark.parametrize(
    ("settings", "orange"),
    [
        (PhotoSettings(), (1, 0.2, 0)),
        (PhotoSettings(order="BGR"), (0, 0.2, 1)),
        (PhotoSettings(scale="signed"), (1, -0.6, -1)),
        (PhotoSettings(scale="bytes"), (255, 51, 0)),
        (PhotoSettings(scale="own", mean=(1, 0.2, 0), std=(0.5,)), (0, 0, 0)),
    ],
)
def test_pixels_become_numbers(settings: PhotoSettings, orange: tuple[float, ...]) -> None:
    array = prepare(PHOTO, RGB, settings, (1, 3, 20, 20), "float32")
    np.testing.assert_allclose(array[0, :, 3, 15], orange, atol=1e-4)
    rows = prepare(PHOTO, Form("NHWC", 3), settings, (1, 20, 20, 3), "float32")
    np.testing.assert_allclose(rows[0, 3, 15], orange, atol=1e-4)


def test_grey_and_bytes() -> None:
    grey = prepare(PHOTO, Form("NCHW", 1), PhotoSettings(), (1, 1, 20, 20), "float32")
    np.testing.assert_allclose(grey[0, 0, 3, 15], 0.299 + 0.2 * 0.587, atol=1e-4)
    assert prepare(PHOTO, RGB, PhotoSettings(), (1, 3, 20, 20), "uint8")[0, 1, 0, 15] == 51


def test_settings_of_a_card() -> None:
    half = (0.5, 0.5, 0.5)
    assert settings_of(CardValue(mean=half, std=half, order="BGR")) == PhotoSettings(
        "crop", "BGR", "signed"
    )
    assert settings_of(CardValue()) == PhotoSettings()
    own = settings_of(CardValue(mean=(0.1,), std=(0.3,)))
    assert own.mean_std == ((0.1,), (0.3,))


@pytest.mark.parametrize(
    ("given", "scale"),
    [([0, 1], "unit"), ([-1, 1], "signed"), ([0, 255], "bytes"), ([0, 2], "own")],
)
def test_a_range_of_a_card_is_called_by_its_name(given: list[int], scale: str) -> None:
    raw = {"name": "x", "program": "x.pte", "inputs": [{"range": given}]}
    settings = settings_of(read_card(raw).inputs[0])
    assert settings.scale == scale
    form, size = Form("NCHW", 1), (1, 1, 8, 8)
    white = prepare(np.full((8, 8), 255, np.uint8), form, settings, size, "float32")
    np.testing.assert_allclose(white, given[1], rtol=1e-6)


def test_what_the_model_sees() -> None:
    array = prepare(PHOTO, RGB, PhotoSettings(scale="imagenet"), (1, 3, 20, 20), "float32")
    png = base64.b64decode(seen(array, "NCHW").partition(",")[2])
    rows = zlib.decompress(png[png.index(b"IDAT") + 4 : -16])
    assert len(rows) == 20 * (1 + 3 * 20)
    assert rows[1 + 3 * 15] == 255  # red is the highest value there


def test_a_picture_takes_the_size_that_the_bounds_allow() -> None:
    info = TensorInfo("x", (1, 3, 64, 48), "float32", dynamic=True)
    (state,) = inputs_of([info])
    assert isinstance(state, TensorInput)
    state.take_picture(FakePhoto(np.zeros((30, 40, 3), np.uint8)), "p.png")
    assert state.array().shape == (1, 3, 30, 40)
    assert "scaled" not in input_preview(state)
    state.take_picture(FakePhoto(np.zeros((640, 96, 3), np.uint8)), "p.png")
    assert state.array().shape == (1, 3, 64, 10)
    assert "96 × 640 pixels, scaled to 10 × 64 for this model." in input_preview(state)
    state.set_dim(3, "20")
    assert state.array().shape == (1, 3, 64, 20)
    assert state.fill == "picture"


def test_a_dropped_picture_goes_to_the_input_that_takes_one() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        file = File("p.png", write_npy(SQUARE))
        await drop(app, file)
        assert "open a program first" in browser.html["error"]
        await open_sample(app, "superres.pte")
        await drop(app, file)
        assert "from p.png" in browser.html["input-0"]
        assert "What the model sees" in browser.html["input-0"]
        wanted = {"act": "picture-setting", "input": "0", "name": "scale"}
        await app.receive({**wanted, "value": "own"})
        await app.receive({**wanted, "name": "std", "value": "0.5 0"})
        assert "one for each channel" in browser.html["input-0-preview"]
        await app.receive({**wanted, "name": "std", "value": "0.5"})
        assert "0 to 2" in browser.html["input-0-preview"]
        await open_sample(app)
        await drop(app, file)
        assert "not of a shape that a picture could have" in browser.html["error"]

    drive(script)


def test_a_picture_that_fails_is_scrolled_to() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "superres.pte")
        bad = File("broken.png", b"no picture")
        await app.receive({"act": "npy", "input": "0", "files": [bad]})
        assert browser.text["status"] == "broken.png could not be loaded"
        assert browser.other["reveal"] == "input-0-preview"

    drive(script)


def test_a_result_smaller_than_the_photo_says_so() -> None:
    card = {**read_json(SAMPLES / "photo.json", ValueError), "folder": "samples/"}
    card["inputs"] = [{**card["inputs"][0], "overlap": 0}]  # it is scaled, not cut into tiles
    told = (
        "Smaller than your picture: it has 40 × 3,000 pixels, more than this program takes. "
        "It was scaled down to 14 × 1,024 first."
    )

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [card]})
        await app.receive({"act": "card", "name": "photo"})
        for rows, small in ((3000, True), (32, False)):
            photo = write_npy(np.zeros((rows, 40, 3), np.uint8))
            await app.receive({"act": "npy", "input": "0", "files": [File("p.png", photo)]})
            await run(app)
            assert (told in browser.html["outputs"]) == small

    drive(script)


def test_a_drawing_goes_in() -> None:
    (state,) = inputs_of([TensorInfo("x", (1, 1, 28, 28), "float32", dynamic=False)])
    assert isinstance(state, TensorInput)
    assert "draw" in state.fills
    assert state.fill == "normal"
    (state,) = inputs_of([TensorInfo("x", (1, 1, 28, 28), "float32", dynamic=False)], [PAD])
    assert isinstance(state, TensorInput)
    assert state.fill == "draw"
    assert not state.array().any()
    before = state.held
    grey = np.zeros((28, 28), np.uint8)
    grey[3, 5] = 255
    state.take_drawing(grey)
    assert state.array()[0, 0, 3, 5] == pytest.approx(1)
    assert state.held != before
    assert "Draw something first" not in input_preview(state)
    state.take_drawing(None)
    assert "Draw something first" in input_preview(state)
    state.set_fill("zeros")
    assert "Draw something first" not in input_preview(state)
    (wide,) = inputs_of([TensorInfo("x", (1, 1, 2000, 28), "float32", dynamic=False)])
    assert isinstance(wide, TensorInput)
    assert "draw" not in wide.fills


def typed(text: str, shape: Any = (2, 3), dtype: str = "float32", lowest: Any = None) -> Any:
    bounds = list(zip(lowest or shape, shape, strict=True))
    return parse_values(text, dtype=dtype, dims=shape, bounds=bounds).tolist()


def test_typed_values() -> None:
    assert typed("0.5") == [[0.5] * 3] * 2
    assert typed("1 2,3; 4\n5 6") == [[1, 2, 3], [4, 5, 6]]
    assert typed("[[1, 2, 3], [4, 5, 6],]") == [[1, 2, 3], [4, 5, 6]]
    assert typed("[7, 8]", (1, 9), "int64", (1, 1)) == [[7, 8]]
    assert typed("true false 1", (3,), "bool") == [True, False, True]
    assert typed("nan -inf", (2,))[1] == -np.inf
    assert typed("1, 2,", (2,)) == [1, 2]


@pytest.mark.parametrize(
    ("text", "dtype", "told"),
    [
        ("", "float32", "Type one value"),
        ("1 2 x", "float32", "'x' is not a number"),
        ("1 2", "float32", "2 values are typed, but 2 × 3 takes 6"),
        ("[[1, 2], [3]]", "float32", "differ in length"),
        ("[1, 2", "float32", "are incomplete"),
        ("[null]", "float32", "not a number"),
        ("1.5", "int64", "integers"),
        ("300", "uint8", "from 0 to 255"),
        ("1, 2,, 3", "float32", "A value is missing before ','"),
        (", 2", "float32", "A value is missing before ','"),
        ("1e39", "float32", "numbers up to 3.403e\\+38"),
        ("70000", "float16", "numbers up to 6.55e\\+04"),
    ],
)
def test_what_is_typed_wrong_is_told(text: str, dtype: str, told: str) -> None:
    with pytest.raises((TypedError, NpyError), match=told):
        typed(text, dtype=dtype)


def test_scores_have_labels_and_shares() -> None:
    logits = np.array([[0, np.log(3), -50]], np.float32)
    ranking = rank(logits, ("cat", "dog", "cow"))
    assert ranking is not None
    assert [(one.label, round(one.share or 0, 3)) for one in ranking.scores] == [
        ("dog", 0.75), ("cat", 0.25), ("cow", 0.0)]  # fmt: skip
    assert "softmax" in ranking.caption
    bare = rank(logits)
    assert bare is not None
    assert bare.scores[0].share is None  # nobody knows the scale of these
    likely = rank(np.array([0.9, 0.1], np.float32))
    assert likely is not None
    assert likely.scores[0].share == pytest.approx(0.9)
    assert rank(np.zeros((4, 5), np.float32)) is None


def test_rows_of_scores_have_the_best_of_each() -> None:
    rows = np.eye(3, dtype=np.float32).reshape(1, 3, 3) * 9
    ranking = rank(rows, ("a", "b", "c"))
    assert ranking is not None
    assert [(one.where, one.label) for one in ranking.scores] == [
        ("[0, 0]", "a"), ("[0, 1]", "b"), ("[0, 2]", "c")]  # fmt: skip
    assert ranking.rows == 3
    frames = rank(rows[0], ("a", "b", "c"), seconds=0.064)
    assert frames is not None
    assert [one.where for one in frames.scores] == ["0.00 s", "0.06 s", "0.13 s"]


def test_best_answers_over_time_are_bars_by_answer() -> None:
    best = np.array([0, 0, 2, 2, 2, 1], np.intp)
    shares = np.array([1, 0.5, 1, 1, 1, 0.25], np.float32)
    spans = list(spans_of(best, shares))
    assert [(one.at, one.start, one.end, one.share) for one in spans] == [
        (0, 0, 2, 0.75), (2, 2, 5, 1.0), (1, 5, 6, 0.25)]  # fmt: skip
    rows = np.eye(3, dtype=np.float32)[best]
    drawn = lanes_figure(rows, None, ("a", "b", "<c>"), 0.5)
    assert drawn.index("&lt;c&gt;") < drawn.index(">b<") < drawn.index(">a<")  # higher ones first
    assert "1.00 to 2.50 s, 100 %" in drawn
    assert 'x="333.3" width="500.0"' in drawn
    assert ">3.00 s<" in drawn
    many = np.eye(40, dtype=np.float32)
    assert "12 of 40 answers" in lanes_figure(many, many, tuple(map(str, range(40))), 0.1)


def test_dropped_labels_fit_by_their_number() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await app.receive({"act": "run"})
        await drop(app, File("l.txt", "\n".join(f"kind {n}" for n in range(41)).encode()))
        assert "kind " in browser.html["outputs"]
        await drop(app, File("few.txt", b"a\nb\n"))
        assert "few.txt has 2 lines" in browser.html["error"]
        assert "A text file is taken as labels of an output, one per line" in browser.html["error"]
        await drop(app, File("program.txt", bytes(range(128, 256))))
        told = browser.html["error"].split("<details")[0]
        assert "program.txt holds no text" in told
        assert "codec" not in told

    drive(script)
