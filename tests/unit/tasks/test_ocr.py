"""Text of pictures: regions and crops against rapidocr's, and the task on networks of NumPy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.ocr.crops import cut_out, padded, resized, within_bounds
from webpte.tasks.ocr.recognition import OpticalCharacterRecognition
from webpte.tasks.ocr.rectangles import convex_hull, grown, inside, smallest_rectangle
from webpte.tasks.ocr.text_regions import (
    TextRegion,
    connected_parts,
    find_regions,
    in_reading_order,
)

DATA = Path(__file__).parents[2] / "data" / "ocr" / "regions.npz"
USUAL: dict[str, Any] = {"threshold": 0.3, "least_score": 0.5, "growth": 1.6}


@pytest.mark.parametrize("name", ["rotated", "perspective", "columns"])
def test_regions_and_crops_are_as_rapidocrs(name: str) -> None:
    kept = np.load(DATA)
    page, wanted = kept[f"{name}_page"], kept[f"{name}_regions"]
    found = find_regions(
        kept[f"{name}_map"] / np.float32(255), page.shape[0], page.shape[1], **USUAL
    )
    corners = np.array([region.corners for region in found])
    assert corners.shape == wanted.shape
    assert np.abs(corners - wanted).max() <= 1  # pixels
    crop = cut_out(np.repeat(page[:, :, None], 3, axis=2), wanted[0])[:, :, 0]
    assert crop.shape == kept[f"{name}_crop"].shape
    off = np.abs(crop.astype(int) - kept[f"{name}_crop"])
    assert off.mean() < 1
    assert np.percentile(off, 99) <= 8  # of 255: places are rounded to 1/32 pixel there


def test_parts_touch_at_corners_too() -> None:
    rows = ["##...#", "..#..#", "#....#", "#.###."]
    marks = np.array([[mark == "#" for mark in row] for row in rows])
    parts = {frozenset(map(tuple, part.tolist())) for part in connected_parts(marks)}
    assert parts == {
        frozenset({(0, 0), (1, 0), (2, 1)}),
        frozenset({(5, 0), (5, 1), (5, 2), (2, 3), (4, 3)}),
        frozenset({(0, 2), (0, 3)}),
    }
    assert connected_parts(np.zeros((3, 4), bool)) == []
    random = np.random.default_rng(3).random((37, 41)) < 0.4
    assert len(connected_parts(random)) == flooded(random)


def flooded(marks: np.ndarray) -> int:
    """Count parts by filling one after the other."""
    left, count = {(int(y), int(x)) for y, x in np.argwhere(marks)}, 0
    while left:
        count += 1
        open_ = [left.pop()]
        while open_:
            y, x = open_.pop()
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            open_ += near
    return count


def test_the_smallest_rectangle_is_found_at_any_angle() -> None:
    turn = np.deg2rad(23)
    matrix = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    corners = np.array([(0, 0), (40, 0), (40, 9), (0, 9)]) @ matrix + (50, 60)
    points = np.concatenate([corners, corners.mean(0)[None]])
    rectangle, side = smallest_rectangle(points)
    assert side == pytest.approx(9)
    far = np.linalg.norm(rectangle[:, None] - corners, axis=2)
    assert far.min(1) == pytest.approx(0, abs=1e-9)
    assert len(convex_hull(points)) == 4
    assert smallest_rectangle(np.array([[3, 4], [3, 4]]))[1] == 0
    assert smallest_rectangle(np.array([[1, 1], [5, 5], [3, 3]]))[1] == 0


def test_a_box_grows_on_all_sides() -> None:
    box = np.array([(10, 10), (50, 10), (50, 20), (10, 20)], np.float64)
    points = grown(box, 1.6)
    more = 400 * 1.6 / 100
    assert points.min(0) == pytest.approx(np.array([10, 10]) - more, abs=0.5)
    assert points.max(0) == pytest.approx(np.array([50, 20]) + more, abs=0.5)
    assert np.array_equal(grown(box, 0), box)
    assert inside(box - 10, 12, 45).sum() == 11 * 41


def test_the_order_is_line_by_line() -> None:
    def at(x: float, y: float) -> TextRegion:
        return TextRegion(np.array([(x, y), (x + 5, y), (x + 5, y + 5), (x, y + 5)]), 1.0)

    places = [(90, 12), (10, 8), (50, 40), (10, 49), (5, 60)]
    ordered = in_reading_order([at(*place) for place in places])
    assert [tuple(one.corners[0]) for one in ordered] == [
        (10, 8),
        (90, 12),
        (10, 49),
        (50, 40),
        (5, 60),
    ]
    assert in_reading_order([]) == []


def test_pictures_are_scaled_and_padded_to_what_the_networks_take() -> None:
    assert within_bounds(np.zeros((100, 4100, 3), np.uint8), 30, 2000, 32).shape == (64, 1984, 3)
    assert within_bounds(np.zeros((500, 700, 3), np.uint8), 30, 2000, 32).shape == (500, 700, 3)
    picture, above = padded(np.full((40, 800, 3), 9, np.uint8), 8, 30)
    assert (picture.shape, above) == ((200, 800, 3), 80)
    assert padded(np.zeros((40, 80, 3), np.uint8), 8, 30)[1] == 0
    stripes = np.tile(np.array([0, 200], np.uint8)[None, :, None], (4, 4, 3))
    assert np.array_equal(resized(stripes, 4, 8), stripes)
    assert set(resized(stripes, 4, 4).ravel().tolist()) == {100}


class Networks:
    """A program whose detector finds dark pixels, and whose letters are how dark columns are."""

    name = "networks"

    def __init__(self, letters: int = 3, lines: int = 2) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.letters = letters
        self.methods = {
            "detector": _info((1, 3, 2016, 2016), 1),
            "classifier": _info((lines, 3, 48, 192), 1),
            "recognizer": _info((lines, 3, 48, 640), 2),
        }

    async def run(self, method: str, given: np.ndarray) -> Sequence[np.ndarray]:
        self.calls.append((method, given.shape))
        dark = (given.mean(1) < 0).astype(np.float32)  # (count, rows, columns)
        if method == "detector":
            return (dark[:, None],)
        if method == "classifier":  # a line that is darker below is upside down
            below = dark[:, 24:].mean((1, 2)) > dark[:, :24].mean((1, 2)) + 0.1
            return (np.stack([~below, below], 1).astype(np.float32),)
        places = dark.reshape(len(dark), 48, -1, 8).mean((1, 3))
        return np.full(places.shape, 0.75, np.float32), (places * self.letters).astype(np.int64)


def _info(shape: tuple[int, ...], outputs: int) -> Any:
    taken = TensorInfo("x", shape, "float32", dynamic=True)
    return SimpleNamespace(inputs=(taken,), outputs=(None,) * outputs)


def task_of(program: Any, labels: str = "\na\nb\nc\n") -> OpticalCharacterRecognition:
    return OpticalCharacterRecognition(ModelFiles(program, "here", texts={"labels.txt": labels}))


def page() -> np.ndarray:
    picture = np.full((736, 800, 3), 255, np.uint8)
    for top, left, right in ((100, 60, 700), (300, 60, 300), (500, 60, 500)):
        picture[top : top + 30, left:right] = 0
    return picture


def test_lines_are_found_and_read_in_batches() -> None:
    program = Networks()
    found = asyncio.run(task_of(program)(page()))
    assert [round(line["box"][0][1]) // 100 for line in found] == [0, 2, 4]
    assert all(line["score"] == pytest.approx(0.75) for line in found)
    assert all(set(line["text"]) <= set("abc") and line["text"] for line in found)
    names = [name for name, _ in program.calls]
    assert names == ["detector", *["classifier"] * 2, *["recognizer"] * 2]  # two lines in a call
    assert program.calls[0][1] == (1, 3, 736, 800)
    widths = [shape[3] for name, shape in program.calls if name == "recognizer"]
    assert all(width % 8 == 0 and 320 <= width <= 640 for width in widths)
    assert asyncio.run(task_of(program)([page(), 255 + 0 * page()]))[1] == []
    assert asyncio.run(task_of(program)(page(), text_score=0.8)) == []


def test_bad_programs_and_options_are_refused() -> None:
    program = Networks()
    task: Any = task_of(program)
    for options in ({"text_score": "x"}, {"box_thresh": True}, {"unclip_ratio": 99}):
        with pytest.raises(InputError):
            asyncio.run(task(page(), **options))
    with pytest.raises(InputError, match=r"labels\.txt has 1"):
        asyncio.run(task_of(program, "\n")(page()))
    del program.methods["recognizer"]
    with pytest.raises(InputError, match="'recognizer'"):
        task_of(program)

    class Broken(Networks):
        async def run(self, method: str, given: np.ndarray) -> Sequence[np.ndarray]:
            return (np.full((1, 1, *given.shape[2:]), np.nan, np.float32),)

    with pytest.raises(ExecutionError, match="NaN"):
        asyncio.run(task_of(Broken())(page()))
