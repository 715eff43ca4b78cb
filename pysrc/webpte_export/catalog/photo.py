"""Photographs of scikit-image's wheel as inputs of networks, for examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte_export.catalog.recipe import Wheel

_FOLDER = "skimage/data"


def photo_wheel(*names: str) -> Wheel:
    """Return the wheel; `astronaut.png` is NASA's, public domain, `page.png` scikit-image's own."""
    return Wheel(
        name="scikit-image",
        version="0.26.0",
        sha256="74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
        bytes=13_711_217,
        members=tuple(f"{_FOLDER}/{name}" for name in names),
        python_version="3.11",
        platform="manylinux_2_28_x86_64",
    )


def photo(
    files: Path, name: str, size: tuple[int, int], box: tuple[int, int, int, int] | None = None
) -> Any:
    """Read the part in `box`, resized, as a tensor (1, channels, height, width) of 0 to 1.

    box    left, top, right, bottom in pixels of the file; None: the whole picture
    """
    import torch
    import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit

    from webpte_export.catalog.pictures import read_png

    pixels = read_png((files / _FOLDER / name).read_bytes())
    left, top, right, bottom = box or (0, 0, pixels.shape[1], pixels.shape[0])
    part = torch.from_numpy(pixels[top:bottom, left:right].copy()).permute(2, 0, 1)[None]
    resized = F.interpolate(part / 255, size=size, mode="bicubic", antialias=True)
    # Rounded to bytes, so that the displayed picture equals the network's input.
    return (resized.clamp(0, 1) * 255).round() / 255


def picture_of(values: Any) -> bytes:
    """Encode a tensor from `photo` as PNG."""
    import torch

    from webpte_export.catalog.pictures import write_png

    return write_png((values[0].permute(1, 2, 0) * 255).round().to(torch.uint8).numpy())
