"""Writes the example input of the sample `photo`: a photo outside of its training data.

    python -m webpte_export.samples.examples DATA web/samples

DATA is the folder of `prepare`; Pillow writes the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from webpte_export.samples.photo.train_photo import as_tensor, smaller

PHOTO = "chelsea.png"  # a cat, by Stefan van der Walt, CC0
ROWS, COLUMNS = slice(0, 264), slice(72, 424)  # its face


def write(path: Path, pixels: np.ndarray) -> None:
    from PIL import Image

    Image.fromarray(pixels).save(path, optimize=True)


def photo_example(picture: np.ndarray) -> np.ndarray:
    """Cut out a part of the photo and halve its size: (132, 176, 3)."""
    small = smaller(as_tensor(picture[ROWS, COLUMNS], "cpu"))[0].permute(1, 2, 0)
    return (small * 255).round().byte().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    with np.load(options.data / "pictures.npz") as pictures:
        write(options.out / "photo.example.png", photo_example(pictures[PHOTO]))


if __name__ == "__main__":
    main()
