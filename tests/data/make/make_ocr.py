"""Writes tests/data/ocr/regions.npz: maps of PP-OCR's detector, and what rapidocr makes of them.

    PYTHONPATH=pysrc:tests python tests/data/make/make_ocr.py

It needs rapidocr 3.10 with onnxruntime, and Pillow. Maps are rounded to bytes first. `regions` are
the corners that rapidocr's post-processing finds in the page's pixels, `crop` is the first of them
cut out of the page, as rapidocr does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR
from rapidocr.utils.process_img import get_rotate_crop_image

OUT = Path(__file__).parents[2] / "data" / "ocr" / "regions.npz"
LINES = (
    "Whole pages become text",
    "Invoice 2026-1117: 1,482.50",
    "The quick brown fox",
    "page 12 of 34",
)


def page(columns: int = 1) -> Image.Image:
    """Return a page of printed lines."""
    made = Image.new("L", (440 * columns, 300), 250)
    draw = ImageDraw.Draw(made)
    for column in range(columns):
        for at, line in enumerate(LINES):
            place = (25 + 440 * column, 25 + 66 * at)
            draw.text(place, line, font=ImageFont.load_default(26), fill=20)
    return made


def pages() -> dict[str, Image.Image]:
    plain = page()
    wide, high = plain.size
    matrix = (1.06, 0.05, -22, 0.035, 1.08, -20, 0.00008, 0.00006)
    return {
        "rotated": plain.rotate(5, Image.Resampling.BICUBIC, expand=True, fillcolor=235),
        "perspective": plain.transform(
            (wide, high), Image.Transform.PERSPECTIVE, matrix, Image.Resampling.BICUBIC
        ),
        "columns": page(2).rotate(-2, Image.Resampling.BICUBIC, fillcolor=245),
    }


def main() -> None:
    engine = RapidOCR()
    engine(np.zeros((64, 64, 3), np.uint8))  # loads the networks
    detector = engine.text_det
    kept: dict[str, Any] = {}
    for name, picture in pages().items():
        grey = np.asarray(picture)
        pixels = np.repeat(grey[:, :, None], 3, axis=2)
        likely = detector.session(detector.get_preprocess()(pixels))
        rounded = np.rint(255 * likely).astype(np.uint8)
        boxes, _ = detector.postprocess_op(rounded / np.float32(255), pixels.shape[:2])
        boxes = detector.sorted_boxes(boxes)
        kept[f"{name}_page"] = grey
        kept[f"{name}_map"] = rounded[0, 0]
        kept[f"{name}_regions"] = boxes
        kept[f"{name}_crop"] = get_rotate_crop_image(pixels, boxes[0])[:, :, 0]
    OUT.parent.mkdir(exist_ok=True)
    np.savez_compressed(OUT, **kept)
    print(f"{OUT.stat().st_size:,} bytes, {[kept[k].shape for k in kept]}")


if __name__ == "__main__":
    main()
