"""Writes the data of `digits` and `photo` into DATA: digits.npz and pictures.npz.

    python -m webpte_export.samples.base.prepare DATA

Needs scikit-learn (its scans of digits, CC BY 4.0), scikit-image (for its photos under CC0 or in
the public domain) and Pillow. Training needs no such package.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np

# Photos in skimage/data, with licences in _fetchers.py. Photos without a licence, or with only "no
# known restrictions", are left out.
TRAINED_ON = (
    "astronaut.png", "rocket.jpg", "camera.png", "brick.png", "grass.png", "gravel.png",
    "hubble_deep_field.jpg", "retina.jpg",
)  # fmt: skip
HELD_OUT = ("chelsea.png", "coffee.png")


def photos_folder() -> Path:
    found = find_spec("skimage")
    if found is None or found.origin is None:
        raise SystemExit("scikit-image is missing: pip install scikit-image pillow scikit-learn")
    return Path(found.origin).parent / "data"


def read_picture(path: Path) -> np.ndarray:
    """Read a picture as uint8 (height, width, 3)."""
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    data.mkdir(parents=True, exist_ok=True)
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(data / "digits.npz", images=digits.images.astype(np.uint8), labels=digits.target)
    folder = photos_folder()
    pictures = {name: read_picture(folder / name) for name in (*TRAINED_ON, *HELD_OUT)}
    np.savez(data / "pictures.npz", allow_pickle=False, **pictures)


if __name__ == "__main__":
    main()
