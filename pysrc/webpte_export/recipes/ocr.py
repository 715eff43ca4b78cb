"""PP-OCRv6 small: finds and reads the lines of text in a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte_export.catalog.photo import photo, photo_wheel, picture_of
from webpte_export.catalog.recipe import Methods, Network, Recipe, Value, Wheel

_FOLDER = "rapidocr/models"
_DETECTOR = f"{_FOLDER}/PP-OCRv6_det_small.onnx"
_RECOGNIZER = f"{_FOLDER}/PP-OCRv6_rec_small.onnx"
_CLASSIFIER = f"{_FOLDER}/ch_ppocr_mobile_v2.0_cls_mobile.onnx"
_PAGE, _LINE = (191, 384), (0, 8, 240, 37)  # height and width of the photographed page; a line
_MOST_STEPS = 63  # per side, of 32 pixels
_MOST_EIGHTHS = 256  # per line's width, of 8 pixels


def build(files: Path) -> Methods:
    from torch.export import Dim

    from webpte_export.networks.letters import Letters
    from webpte_export.networks.onnx import OnnxNetwork
    from webpte_export.networks.onnx_file import read_metadata

    page = _normalized(photo(files, "page.png", _PAGE).expand(-1, 3, -1, -1))
    line = _normalized(photo(files, "page.png", (48, 400), _LINE).expand(-1, 3, -1, -1))
    narrow = line[..., :320]
    rows, columns = (32 * Dim(name, min=2, max=_MOST_STEPS) for name in ("rows", "columns"))
    letters = read_metadata(files / _RECOGNIZER)["character"].splitlines()
    # The first label means "no letter"; the blank is missing in the file.
    labels = "".join(f"{letter}\n" for letter in ("", *letters, " "))
    seen = page[..., :160, :]
    return Methods(
        {
            "detector": Network(
                OnnxNetwork(files / _DETECTOR),
                [(seen,), (seen[..., :64, :96],)],
                ({2: rows, 3: columns},),
            ),
            "classifier": Network(
                OnnxNetwork(files / _CLASSIFIER),
                [(line[..., :192],), (line.flip(2, 3)[..., :192],)],
            ),
            "recognizer": Network(
                Letters(files / _RECOGNIZER),
                [(line,), (narrow,)],
                ({3: 8 * Dim("eighths", min=4, max=_MOST_EIGHTHS)},),
            ),
        },
        files={
            "example.png": picture_of(photo(files, "page.png", _PAGE)),
            "labels.txt": labels.encode(),
        },
    )


def _normalized(picture: Any) -> Any:
    """Normalize a BGR or grey picture."""
    return picture.flip(1) * 2 - 1


async def tell(folder: Path) -> str:
    import webpte
    from webpte_export.catalog.pictures import read_png

    picture = read_png((folder / "example.png").read_bytes())
    async with await webpte.tasks.open(RECIPE.task, folder, device="numpy") as task:
        found = await task(picture)
    return f'a photographed page has {len(found)} lines, the first is "{found[0]["text"]}"'


RECIPE = Recipe(
    name="ocr",
    title="PP-OCRv6 small",
    task="optical-character-recognition",
    licence="Apache-2.0",
    licence_from="rapidocr-3.10.0.dist-info/licenses/LICENSE",
    wheels=(
        Wheel(
            name="rapidocr",
            version="3.10.0",
            sha256="2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
            bytes=27_288_134,
            members=(_DETECTOR, _RECOGNIZER, _CLASSIFIER),
        ),
        photo_wheel("page.png"),
    ),
    bytes=32_000_000,
    view="task",
    inputs=(Value("picture", "a multiple of 32 pixels each way, up to 2,016", "NCHW", "BGR"),),
    outputs=(Value("regions", "how likely each pixel is one of text"),),
    build=build,
    tell_task=tell,
    picture="example.png",
    notes="Finds lines, turns those that are upside down, and reads Latin, Chinese and more.",
)
