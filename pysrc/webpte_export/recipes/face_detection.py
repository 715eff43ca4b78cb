"""MediaPipe's short-range face detection: boxes of faces, with eyes, nose, mouth and ears."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.photo import photo, photo_wheel, picture_of
from webpte_export.catalog.recipe import Network, Recipe, Value
from webpte_export.recipes.selfie_segmentation import mediapipe_wheel

_WEIGHTS = "mediapipe/modules/face_detection/face_detection_short_range.tflite"
_SIDE = 128
_GRIDS = ((16, 2), (8, 6))  # anchors: cells a side, boxes at each cell


def build(files: Path) -> Network:
    from webpte_export.networks.tflite import TfliteNetwork

    portrait = photo(files, "astronaut.png", (_SIDE, _SIDE))
    centres = "".join(f"{x:.6f} {y:.6f}\n" for x, y in anchors())
    return Network(
        TfliteNetwork(files / _WEIGHTS),
        calls=[(portrait * 2 - 1,)],
        tolerance=(2e-3, 1e-3),  # boxes are in pixels, up to 128
        files={"example.png": picture_of(portrait), "anchors.txt": centres.encode()},
    )


def anchors() -> list[tuple[float, float]]:
    """Return the centre (x, y) of each box, as fractions of the picture's side."""
    return [
        ((column + 0.5) / cells, (row + 0.5) / cells)
        for cells, boxes in _GRIDS
        for row in range(cells)
        for column in range(cells)
        for _ in range(boxes)
    ]


def tell(outputs: Sequence[Any], _folder: Path) -> str:
    boxes, scores = outputs[0][0], outputs[1][0, :, 0]
    best = int(scores.argmax())
    x, y = anchors()[best]
    sure = 1 / (1 + 2.718281828 ** -float(scores[best]))
    centre = x + float(boxes[best, 0]) / _SIDE, y + float(boxes[best, 1]) / _SIDE
    return (
        f"a face is found at {centre[0]:.0%}, {centre[1]:.0%} of a portrait, "
        f"{float(boxes[best, 2]) / _SIDE:.0%} of it wide, {sure:.0%} sure"
    )


RECIPE = Recipe(
    name="face-detection",
    title="MediaPipe face detection, short range",
    task="where faces are",
    licence="Apache-2.0",
    licence_from="mediapipe-0.10.14.dist-info/LICENSE",
    wheels=(mediapipe_wheel(_WEIGHTS), photo_wheel("astronaut.png")),
    bytes=450_000,
    view="find",
    inputs=(
        Value(
            *("picture", "128×128 pixels, -1 to 1", "NCHW", "RGB"),
            mean=(0.5, 0.5, 0.5),
            std=(0.5, 0.5, 0.5),
        ),
    ),
    outputs=(
        Value("boxes", "for each anchor x, y, width, height and six points, in pixels from it"),
        Value("scores", "for each anchor; their sigmoid is how likely there is a face"),
    ),
    build=build,
    tell=tell,
    picture="example.png",
    notes="anchors.txt has the centres of the 896 anchors as parts of the picture's side.",
)
