"""Several pictures at once: a row for each, errors in their rows, files, cancelling."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from page.app import App
from page.sections.batch.picture_batch import (
    BatchRow,
    PictureBatch,
    answer_of,
    batch_csv,
    batch_json,
)
from page.shared.cards.cards import CardValue
from page.shared.inputs.inputs import TensorInput
from page.shared.npy import write_npy
from support.page.fake_page import Engine, FakeBrowser, File, drive, drop, open_file
from support.page.markup import check
from support.write.pte_writer import GraphWriter, write_pte
from webpte.errors import InputError


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that returns a picture of 8 by 8, where that is positive."""
    g = GraphWriter()
    x, y = g.tensor((1, 3, 8, 8)), g.tensor((1, 3, 8, 8))
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    path = tmp_path / "same.pte"
    path.write_bytes(write_pte(g))
    return path


def photo(name: str, level: int) -> File:
    return File(name, write_npy(np.full((16, 16, 3), level, np.uint8)))


def rows(browser: FakeBrowser) -> list[str]:
    return [check(row).text for where, row in browser.appended if where == "batch-rows"]


def test_each_picture_has_a_row(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        held = app._state.session.held()  # type: ignore[union-attr]
        await drop(app, photo("a.png", 51), File("b.png", b"no picture"), photo("c.png", 255))
        first, second, third = rows(browser)
        assert "a.png" in first
        assert "0.2 to 0.2, mean 0.2" in first
        assert "b.png" in second
        assert "mean" not in second
        assert "1 to 1, mean 1" in third
        assert browser.text["status"] == "2 of 3 pictures answered"
        assert app._state.session.held() == held  # type: ignore[union-attr]
        assert "Save CSV" in browser.html["batch-head"]
        await app.receive({"act": "batch-save", "kind": "csv"})
        table = list(csv.DictReader(io.StringIO(browser.links[-1].decode())))
        assert [row["name"] for row in table] == ["a.png", "b.png", "c.png"]
        assert float(table[2]["output0 mean"]) == 1
        assert table[1]["error"]
        await app.receive({"act": "batch-save", "kind": "json"})
        listed = json.loads(browser.links[-1])
        assert listed[0]["width"] == 16
        assert listed[0]["outputs"][0]["mean"] == pytest.approx(0.2)
        assert "error" in listed[1]
        await app.receive({"act": "batch-open", "row": "2"})
        assert "from c.png" in browser.html["input-0"]
        await app.receive({"act": "batch-close"})
        assert browser.html["batch"] == ""

    drive(script)


def test_the_table_goes_with_its_program(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        await drop(app, photo("a.png", 1), photo("b.png", 2))
        assert "a.png" in browser.html["batch"] or rows(browser)
        await app.receive({"act": "close"})
        assert browser.html["batch"] == ""

    drive(script)


def test_a_cancelled_batch_keeps_its_rows(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        session = app._state.session
        assert session is not None
        run = session.program.run

        async def cancels(*arguments: object) -> object:
            if len(rows(browser)) == 1:
                await app.receive({"act": "cancel"})
            return await run(*arguments)  # type: ignore[arg-type]

        session.program.run = cancels  # type: ignore[method-assign, assignment]
        await drop(app, *(photo(f"{at}.png", at) for at in range(4)))
        assert browser.text["status"] == "Cancelled: 1 of 4 pictures answered"
        assert len(rows(browser)) == 1
        assert "1 of 4" in browser.html["batch-head"]
        assert "Save CSV" in browser.html["batch-head"]

    drive(script, engine=Engine())


def test_a_run_that_fails_is_in_its_row(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        session = app._state.session
        assert session is not None

        async def fails(*arguments: object) -> object:
            raise InputError("too large")

        session.program.run = fails  # type: ignore[method-assign, assignment]
        await drop(app, photo("a.png", 1), photo("b.png", 2))
        assert all("too large" in row for row in rows(browser))
        assert "0 of 2" in browser.text["status"]

    drive(script, engine=Engine())


def test_too_many_pictures_are_refused(program: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_file(app, program)
        one = photo("a.png", 1)
        await drop(app, *[one] * 1001)
        assert "at most 1000" in browser.html["error"]
        assert not rows(browser)

    drive(script)


def test_classes_come_first() -> None:
    values = [np.zeros(3, np.float32), np.array([[0.1, 0.7, 0.2]], np.float32)]
    labels = {1: ("oak", "beech", "elm")}
    scores, summaries = answer_of(values, ["state", "likely"], labels, ())
    assert [score.label for score in scores] == ["beech", "elm", "oak"]
    assert summaries == ()
    scores, summaries = answer_of(values, ["state", "likely"], {}, (CardValue(hidden=True),))
    assert [one.name for one in summaries] == ["likely"]
    assert scores == ()
    target = TensorInput(0, "x", "float32", ((1, 1), (3, 3), (8, 8), (8, 8)))
    scores, _ = answer_of(values, ["state", "likely"], labels, ())
    batch = PictureBatch("forward", target, [None], [BatchRow("é, 1.png", ms=2, scores=scores)])
    (row,) = csv.DictReader(io.StringIO(batch_csv(batch).decode()))
    assert (row["name"], row["class 1"], row["score 1"]) == ("é, 1.png", "beech", "0.7")
    assert json.loads(batch_json(batch))[0]["classes"][0]["probability"] == pytest.approx(0.7)
    empty = BatchRow("a.png", scores=()), np.zeros((0,), np.float32)
    _, summaries = answer_of([empty[1]], ["y"], {}, ())
    assert BatchRow("a.png", summaries=summaries).answer_text() == "y 0"
