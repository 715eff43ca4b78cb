"""MediaPipe's selfie segmentation: finds the pixels of a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.photo import photo, photo_wheel, picture_of
from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_WEIGHTS = "mediapipe/modules/selfie_segmentation/selfie_segmentation.tflite"


def build(files: Path) -> Network:
    from webpte_export.networks.tflite import TfliteNetwork

    portrait = photo(files, "astronaut.png", (256, 256))
    return Network(
        TfliteNetwork(files / _WEIGHTS),
        calls=[(portrait,)],
        files={"example.png": picture_of(portrait)},
    )


def tell(outputs: Sequence[Any], _folder: Path) -> str:
    mask = outputs[0][0, 0] > 0.5
    face, corner = mask[20:80, 80:145].mean(), mask[:64, :64].mean()
    return (
        f"in a portrait {mask.mean():.0%} of the pixels are the person's: "
        f"{face:.0%} around the face, {corner:.0%} in the corner of the background"
    )


def mediapipe_wheel(member: str) -> Wheel:
    return Wheel(
        name="mediapipe",
        version="0.10.14",
        sha256="a807328339e7356fda0bb14df12fedbf1d33bdf81649c5f8666b0026b1cc30b4",
        bytes=35_664_771,
        members=(member,),
        python_version="3.11",
        platform="manylinux_2_17_x86_64",
    )


RECIPE = Recipe(
    name="selfie-segmentation",
    title="MediaPipe selfie segmentation",
    task="a person apart from the background",
    licence="Apache-2.0",
    licence_from="mediapipe-0.10.14.dist-info/LICENSE",
    wheels=(mediapipe_wheel(_WEIGHTS), photo_wheel("astronaut.png")),
    bytes=490_000,
    view="run",
    inputs=(Value("picture", "256×256 pixels, 0 to 1", "NCHW", "RGB"),),
    outputs=(Value("person", "how likely each pixel is of a person, 0 to 1", "NCHW"),),
    build=build,
    tell=tell,
    picture="example.png",
)
