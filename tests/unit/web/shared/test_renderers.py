"""Renderers: which fit an output, their drawings, and the values under the pointer."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.sections.outputs.view import rendered_view
from page.shared.cards.cards import CardValue, read_card
from page.shared.npy import read_npz
from page.shared.outputs.curves import envelope, lines_chart
from page.shared.outputs.renderers.base import Backdrop, Choice, Output, OutputContext
from page.shared.outputs.renderers.boxes import boxes_of
from page.shared.outputs.renderers.choose import RENDERERS, chosen_renderer, renderers_for
from page.shared.outputs.renderers.mask import classes_of, colour_of, overlaid, planes_over
from support.page.fake_page import FakeBrowser, drive, open_sample, run
from support.write.pngs import read_png

GREY = np.full((24, 32, 3), 100, np.uint8)  # a picture that went in


def context(array: Any, **more: Any) -> OutputContext:
    if "backdrop" in more:
        pixels = more.pop("backdrop")
        seen = Backdrop(pixels, more.pop("size", pixels.shape[:2]), more.pop("photo", (0, 0)))
        more["picture"] = lambda: seen
    return OutputContext(Output(0, "y", np.asarray(array)), **more)


def named(name: str) -> Any:
    return next(renderer for renderer in RENDERERS if renderer.name == name)


def names(one: OutputContext) -> list[str]:
    return [renderer.name for renderer in renderers_for(one, Choice())]


def pixels(html: str) -> np.ndarray:
    found = re.search(r'data:image/png;base64,([^"]+)"', html)
    assert found is not None
    return read_png(base64.b64decode(found[1]))


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (context(floats(1, 4)), ["overview", "scores", "curve", "table"]),
        (context(floats(7, 5)), ["overview", "heat", "curve", "table"]),
        (context(floats(1, 3, 24, 32)), ["overview", "picture", "heat", "curve", "table"]),
        (
            context(floats(1, 1, 12, 16), backdrop=GREY),
            ["overview", "picture", "mask", "heat", "curve", "table"],
        ),
        (context(floats(9, 5), backdrop=GREY), ["overview", "boxes", "heat", "curve", "table"]),
        (context(floats(9, 5)), ["overview", "heat", "curve", "table"]),
        (context(np.float32(3)), ["overview", "table"]),
    ],
)
def test_which_looks_there_are(one: OutputContext, wanted: list[str]) -> None:
    assert names(one) == wanted


def test_every_look_of_everything_can_be_drawn() -> None:
    arrays: list[Any] = [floats(*shape) for shape in ((1, 4), (300,), (7, 5), (2, 3, 24, 32))]
    arrays += [np.full((3, 40), np.nan, np.float32), np.arange(40).reshape(8, 5), np.eye(9) > 0]
    arrays += [np.float32(3), np.array([np.inf, -np.inf, 0, 1], np.float32), floats(1, 1, 1)]
    for array in arrays:
        for backdrop in (None, GREY):
            one = context(array, backdrop=backdrop) if backdrop is not None else context(array)
            for renderer in renderers_for(one, Choice()):
                assert renderer.draw(one, {})
                assert renderer.draw(one, {"plane": "99", "row": "x", "line": "-3", "top": "nan"})
                if renderer.point is not None:
                    assert renderer.point(one, {}, 1.0, 1.0)


def test_a_card_says_what_comes_first() -> None:
    raw = {
        "name": "m",
        "program": "m.pte",
        "outputs": [{"boxes": "xywh", "threshold": 0.3}, {"mask": True}, {"layout": "NCHW"}],
    }
    boxes, mask, image = read_card(raw).outputs
    assert chosen_renderer(context(floats(3, 5), card=boxes), Choice()).name == "boxes"
    masked = context(floats(1, 1, 12, 16), card=mask, backdrop=GREY)
    assert chosen_renderer(masked, Choice()).name == "mask"
    picture = context(floats(1, 3, 24, 32), card=image)
    assert chosen_renderer(picture, Choice()).name == "picture"
    assert chosen_renderer(picture, Choice("table")).name == "table"
    assert chosen_renderer(context(floats(3)), Choice("picture")).name == "overview"


def test_scores_below_ten_and_as_people_want_them() -> None:
    one = context([[0, np.log(3)]])
    plain = rendered_view(one, Choice("scores"))
    assert "1.0986" in plain
    assert "75.0 %" in rendered_view(one, Choice("scores", {"how": "softmax"}))
    assert "50.0 %" in rendered_view(one, Choice("scores", {"how": "sigmoid"}))
    many = context(floats(1, 40))
    assert rendered_view(many, Choice("scores")).count("<li>") == 5
    assert rendered_view(many, Choice("scores", {"top": "25"})).count("<li>") == 25


def test_a_heat_map_has_a_scale_and_tells_its_values() -> None:
    array = floats(2, 7, 5)
    one, heat = context(array), named("heat")
    shown = heat.draw(one, {"plane": "1"})
    assert pixels(shown).shape == (7, 5, 3)
    reach = f"{np.abs(array[1]).max():.5g}"
    assert f"<span>-{reach}</span><span>0</span><span>{reach}</span>" in shown
    told = heat.point(one, {"plane": "1"}, 0.5, 0.99)
    assert told == f"[1, 6, 2]: {array[1, 6, 2]:.5g}"
    wide = context(np.arange(2 * 2000, dtype=np.float32).reshape(2, 2000))
    assert heat.point(wide, {}, 0.5, 0.0) == "[0, 1000]: 1000"
    tall = context(wide.array.reshape(2000, 2))
    assert heat.point(tall, {}, 0.0, 0.5) == "[1000, 0]: 2000"


def test_a_table_has_pages() -> None:
    array = np.arange(40 * 30).reshape(40, 30)
    table = named("table")
    first = table.draw(context(array), {})
    assert "<td>7</td>" in first
    assert "<td>8</td>" not in first
    assert 'data-value="16"' in first
    later = table.draw(context(array), {"row": "39", "column": "24"})
    assert "<td>1199</td>" in later
    assert "disabled" in later  # there is no page after it
    vector = table.draw(context(np.arange(1000)), {"row": "995"})
    assert "<td>999</td>" in vector
    assert ">990</th>" in vector


def test_a_curve_goes_along_the_longest_dim_or_another() -> None:
    array = np.stack([np.arange(50.0), -np.arange(50.0)], axis=1).astype(np.float32)
    one, curve = context(array), named("curve")
    assert curve.point(one, {}, 0.5, 0) == "at 25: [0] 25, [1] -25"
    assert curve.draw(one, {}).count("<path") == 2
    three = context(floats(3, 5))
    assert "Dim 1 across" in curve.draw(three, {})
    assert "Dim 0 across" in curve.draw(three, {"along": "0"})
    low, high = envelope(np.tile([1.0, np.nan, -3.0, 2.0], 500), 10)
    assert low.tolist() == [-3.0] * 10
    assert high.tolist() == [2.0] * 10
    assert lines_chart(np.array([[1, np.nan, 2]])).count("M") == 2  # with a gap between


def test_a_mask_lies_over_the_picture() -> None:
    array = np.zeros((1, 1, 12, 16), np.float32)
    array[0, 0, :, 8:] = 0.8
    one = context(array, backdrop=GREY)
    shown = pixels(named("mask").draw(one, {"opacity": "100"}))
    assert shown[3, 3].tolist() == [100] * 3
    assert tuple(shown[3, 20].tolist()) == colour_of(1)
    assert "above threshold: 50.0 %" in named("mask").draw(one, {})
    none = pixels(named("mask").draw(one, {"threshold": "0.9"}))
    assert (none == 100).all()
    assert named("mask").point(one, {}, 0.9, 0.1) == "row 1, column 14: 0.8"


def test_classes_of_pixels_have_names_and_colours() -> None:
    scores = np.zeros((1, 3, 12, 16), np.float32)
    scores[0, 0] = 0.5
    scores[0, 2, :, 12:] = 1
    one = context(scores, backdrop=GREY, labels=("background", "dog", "cat"))
    html = named("mask").draw(one, {})
    assert "background: 75.0 %" in html
    assert "cat: 25.0 %" in html
    assert named("mask").point(one, {}, 0.9, 0.1) == "row 1, column 14: cat, 1"
    last = context(np.moveaxis(scores, 1, -1), backdrop=GREY)
    planes = planes_over(last)
    assert planes is not None
    assert (classes_of(planes, 0) == classes_of(scores[0], 0)).all()
    seen_through = overlaid(GREY, classes_of(planes, 0), 1, hidden=False)
    assert tuple(seen_through[0, 0].tolist()) == colour_of(0)
    assert planes_over(context(floats(12, 12), backdrop=GREY)) is None  # of other proportions


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("xyxy", (8, 6, 16, 12)),
        ("xywh", (8, 6, 8, 6)),
        ("cxcywh", (12, 9, 8, 6)),
        ("yxyx", (6, 8, 12, 16)),
    ],
)
def test_boxes(form: str, row: tuple[float, ...]) -> None:
    told = CardValue(boxes=form)
    scale = [24, 32, 24, 32] if form == "yxyx" else [32, 24, 32, 24]
    for values in (np.array([row]), np.array([row]) / scale):  # pixels, and parts of 1
        (box,) = boxes_of(context(values.astype(np.float32), card=told, backdrop=GREY), {})
        assert (box.left, box.top, box.right, box.bottom) == pytest.approx((8, 6, 16, 12))


def test_boxes_have_scores_and_classes_of_their_own_or_beside() -> None:
    rows = np.array([[1, 1, 9, 9, 0.2, 0], [2, 2, 9, 9, 0.9, 1], [3, 3, 9, 9, 0.6, 7]], np.float32)
    one = context(rows[None], backdrop=GREY, labels=("dog", "cat"))
    html = named("boxes").draw(one, {})
    assert "2 boxes of 3" in html
    assert "cat 0.90 row 1" in html
    assert "class 7 0.60" in html
    assert "3 boxes of 3" in named("boxes").draw(one, {"score": "0.1"})
    others = [Output(1, "s", rows[:, 4]), Output(2, "k", rows[:, 5].astype(np.int64))]
    beside = context(rows[:, :4], backdrop=GREY, labels=("dog", "cat"), others=others)
    assert [(box.row, box.kind) for box in boxes_of(beside, {})] == [(1, 1), (2, 7), (0, 0)]


def test_looks_are_chosen_set_pointed_at_and_remembered() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        assert (
            'aria-pressed="true" data-act="renderer" data-output="0" data-renderer="overview"'
            in (browser.html["outputs"])
        )
        await app.receive({"act": "renderer", "output": "0", "renderer": "table"})
        assert "from row" in browser.html["output-0-rendered"]
        setting = {"act": "renderer-setting", "output": "0", "name": "row", "value": "30"}
        await app.receive(setting)
        assert ">36</th>" in browser.html["output-0-rendered"]
        text = browser.other["store"]["text"]
        await app.receive({"act": "renderer", "output": "0", "renderer": "heat"})
        await app.receive({"act": "point-at", "output": "0", "x": 0.0, "y": 1.0})
        assert browser.text["output-0-point"].startswith("[36, 0]: ")
        stored = {browser.other["store"]["key"]: text}
        again = App(browser, app._state.engine)
        await again.receive({"act": "hello", "stored": stored})
        await open_sample(again)
        await run(again)
        assert ">36</th>" in browser.html["outputs"]

    drive(script)


def test_a_picture_is_downloaded_as_png_and_all_outputs_as_npz() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "superres.pte")
        await run(app)
        await app.receive({"act": "renderer", "output": "0", "renderer": "picture"})
        await app.receive({"act": "download-picture", "output": "0"})
        assert browser.other["download"]["name"] == "output0.png"
        assert browser.text["status"] == "Saved output0.png"
        assert read_png(browser.links[-1]).shape == (48, 40, 3)
        await app.receive({"act": "download-all"})
        assert browser.other["download"]["name"] == "outputs.npz"
        assert read_npz(browser.links[-1], "o")["output0"].shape == (1, 3, 48, 40)

    drive(script)


def test_a_label_that_is_its_index_is_said_once() -> None:
    scores = np.array([[0.1, 0.7, 0.2]], np.float32)
    digits = rendered_view(context(scores, labels=("0", "1", "2")), Choice("scores"))
    assert "[1]" not in digits
    assert ">1<" in digits
    assert "[1]" in rendered_view(context(scores, labels=("a", "b", "c")), Choice("scores"))
