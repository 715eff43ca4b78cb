"""The find view: a model is recognised by its card's output names, and results are drawn."""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np

from page.app import App
from page.shared.npy import write_npy
from page.shared.outputs.pictures import seen
from support.page.fake_page import FakeBrowser, File, drive
from support.write.pte_writer import GraphWriter, write_pte

SIDE = 16


def added(*constants: np.ndarray) -> bytes:
    """Build a program that adds the mean of a picture (1, 1, SIDE, SIDE) to constants."""
    g = GraphWriter()
    picture = g.tensor((1, 1, SIDE, SIDE))
    plane = g.op(
        "aten.mean.dim", picture, g.int_list([1]), g.bool_(False), g.tensor((1, SIDE, SIDE))
    )
    mean = g.op("aten.mean.dim", plane, g.int_list([1, 2]), g.bool_(True), g.tensor((1, 1, 1)))
    g.inputs(picture)
    g.outputs(
        *(
            g.op(
                "aten.add.Tensor",
                *(g.tensor(one.shape, constant=one), mean, g.int(1)),
                g.tensor(one.shape),
            )
            for one in constants
        )
    )
    return write_pte(g)


async def opened(app: App, folder: Path, outputs: list[str], program: bytes, **files: str) -> None:
    (folder / "model.pte").write_bytes(program)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    card = {
        "name": "found",
        "program": "model.pte",
        "view": "find",
        "folder": f"{folder}/",
        "inputs": [{"layout": "NCHW", "range": [0, 1], "fill": "zeros"}],
        "outputs": [{"name": name} for name in outputs],
    }
    app._gallery.load([card])
    await app.receive({"act": "card", "name": "found"})


def shown(browser: FakeBrowser) -> str:
    return browser.html["view-find"]


def test_faces_are_framed_from_a_score_on(tmp_path: Path) -> None:
    boxes = np.zeros((1, 2, 4), np.float32)
    boxes[0, :, 2:] = 4
    scores = np.array([2, -1], np.float32).reshape(1, 2, 1)

    async def script(app: App, browser: FakeBrowser) -> None:
        given = ["boxes", "scores"]
        await opened(app, tmp_path, given, added(boxes, scores), anchors="0.25 0.5\n0.75 0.5\n")
        assert app._state.front == "find"
        assert "<svg" not in shown(browser)
        await app.receive({"act": "fill", "input": "0", "value": "zeros"})
        await app.receive({"act": "find:look"})
        assert not browser.html.get("error"), browser.html["error"]
        assert "1 face found" in shown(browser)
        assert 'rect x="0.125" y="0.375" width="0.25" height="0.25"' in shown(browser)
        await app.receive({"act": "find:least", "value": "25"})
        assert re.findall(r"Face \d: \d+ % sure", shown(browser)) == [
            "Face 1: 88 % sure",
            "Face 2: 27 % sure",
        ]
        ones: Any = np.ones((1, 1, SIDE, SIDE), np.float32)
        await app.receive({"act": "npy", "input": "0", "files": [File("a.npy", write_npy(ones))]})
        assert "Analyze again" in shown(browser)
        await app.receive({"act": "find:look"})
        assert "Face 1: 95 % sure" in shown(browser)  # the picture's mean is 1
        assert "Analyze again" not in shown(browser)

    drive(script)


def test_the_picture_that_is_set_is_shown_with_its_name(tmp_path: Path) -> None:
    boxes, scores = np.zeros((1, 1, 4), np.float32), np.ones((1, 1, 1), np.float32)

    def set_now(browser: FakeBrowser) -> str:
        found = re.search('<figure class="find-set".*?</figure>', shown(browser))
        assert found
        return found[0]

    async def script(app: App, browser: FakeBrowser) -> None:
        given = ["boxes", "scores"]
        await opened(app, tmp_path, given, added(boxes, scores), anchors="0.5 0.5\n")
        assert "No picture chosen: the input is zeros" in set_now(browser)
        assert "<img" not in set_now(browser)
        half = np.zeros((1, 1, SIDE, SIDE), np.float32)
        half[..., : SIDE // 2] = 1
        for name, array in (("<left>.npy", half), ("right.npy", 1 - half)):
            await app.receive({"act": "npy", "input": "0", "files": [File(name, write_npy(array))]})
            assert f"Next: {escape(name)}" in set_now(browser)
            assert seen(array, "NCHW") in set_now(browser)
            await app.receive({"act": "find:look"})
            assert f"Analyzed {escape(name)}" in set_now(browser)
        await app.receive({"act": "npy", "input": "0", "files": [File("b.npy", write_npy(half))]})
        assert "Next: b.npy" in set_now(browser)
        assert "This is the result for right.npy" in shown(browser)

    drive(script)


def test_the_text_of_a_line_is_read(tmp_path: Path) -> None:
    letters = np.zeros((1, 4, 3), np.float32)
    letters[0, range(4), [1, 2, 0, 2]] = 0.75, 0.25, 1, 1

    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, tmp_path, ["letters"], added(letters), labels="\nH\n<\n")
        await app.receive({"act": "fill", "input": "0", "value": "zeros"})
        await app.receive({"act": "find:look"})
        assert not browser.html.get("error"), browser.html["error"]
        text = re.search('class="find-text">(.*?)</p>', shown(browser))
        assert text
        assert unescape(re.sub("<[^>]*>", "", text[1])) == "H<<"
        assert shown(browser).count("<mark") == 1  # the uncertain letter
        assert "67 % sure" in shown(browser)

    drive(script)


def test_without_such_a_card_there_is_no_tab(tmp_path: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, tmp_path, ["kinds"], added(np.zeros((1, 2, 1), np.float32)))
        assert "find" not in [name for name, _ in browser.other["tabs"]]

    drive(script)
