"""Faces and text, out of tensors whose content is known."""

from __future__ import annotations

import numpy as np
import pytest

from webpte.errors import InputError
from webpte.tasks.vision.vision import faces, line_of, overlap

ANCHORS = np.array([[0.25, 0.25], [0.25, 0.25], [0.75, 0.5], [0.5, 0.5]])
SIDE = 100


def test_faces_are_boxes_in_parts_of_the_picture_each_one_once() -> None:
    """The second box lies on the first, and the last is too improbable for a face."""
    boxes = np.zeros((4, 8), np.float32)
    boxes[:, 2:4] = (20, 40)
    boxes[1, :2] = 2, 1
    boxes[2, :2] = -5, 10
    boxes[0, 4:] = (3, -3, -6, 9)
    found = faces(boxes, np.array([4.0, 2.0, 0.5, -0.1], np.float32), ANCHORS, SIDE)
    assert [round(face.score, 4) for face in found] == [0.982, 0.6225]
    np.testing.assert_allclose(found[0].box, (0.15, 0.05, 0.35, 0.45))
    np.testing.assert_allclose(found[0].points, [(0.28, 0.22), (0.19, 0.34)])
    np.testing.assert_allclose(found[1].box, (0.6, 0.4, 0.8, 0.8))
    all_of_them = faces(boxes, np.full(4, 5.0), ANCHORS, SIDE, most_overlap=1)
    assert len(all_of_them) == 4
    assert faces(boxes, np.full(4, 5.0), ANCHORS, SIDE, least_score=0.999) == []


def test_overlap_is_of_both_boxes_together() -> None:
    assert overlap((0, 0, 2, 1), (1, 0, 3, 1)) == pytest.approx(1 / 3)
    assert overlap((0, 0, 1, 1), (1, 0, 2, 1)) == 0
    assert overlap((0, 0, 0, 0), (0, 0, 0, 0)) == 0


def test_a_line_is_read_place_by_place() -> None:
    """A letter that goes on is read once; with "no letter" in between it is read twice."""
    labels = ["", "a", "b", " "]
    places = [0, 1, 1, 0, 1, 2, 3, 2]
    letters = np.full((len(places), len(labels)), 0.1)
    letters[np.arange(len(places)), places] = 0.7
    letters[5, 2] = 0.4
    line = line_of(letters, labels)
    assert line.text == "aab b"
    assert [one.score for one in line.letters] == [0.7, 0.7, 0.4, 0.7, 0.7]
    assert [one.at for one in line.letters] == [at / 16 for at in (3, 9, 11, 13, 15)]
    assert line.score == pytest.approx(0.64)
    assert line_of(letters[:1], labels).score == 0


def test_what_does_not_belong_together_is_told() -> None:
    with pytest.raises(InputError, match="are not those of 4 anchors"):
        faces(np.zeros((3, 8)), np.zeros(3), ANCHORS, SIDE)
    for boxes, anchors, side in (
        (np.zeros((4, 7)), ANCHORS, SIDE),  # half a point
        (np.zeros((4, 2, 4)), ANCHORS, SIDE),
        (np.zeros((4, 8)), np.zeros((4, 4)), SIDE),
        (np.zeros((4, 8)), ANCHORS, 0),
    ):
        with pytest.raises(InputError, match="are not those of 4 anchors"):
            faces(boxes, np.full(4, 5.0), anchors, side)
    with pytest.raises(InputError, match="do not belong to 2 labels"):
        line_of(np.zeros((5, 3)), ["", "a"])
    with pytest.raises(InputError, match="do not belong to 2 labels"):
        line_of(np.zeros((5, 0)), ["", "a"])
    assert line_of(np.zeros((0, 2)), ["", "a"]).text == ""
