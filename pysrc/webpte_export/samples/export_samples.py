"""Exports trained weights to web/samples: programs, and PyTorch's results for the tests.

  python -m webpte_export.samples.export_samples digits WEIGHTS OUT_DIR  # digits.pt
  python -m webpte_export.samples.export_samples photo WEIGHTS OUT_DIR  # photo.pt
  python -m webpte_export.samples.export_samples stories FOLDER OUT_DIR

OUT_DIR gets NAME.pte and NAME.suite; `pack_suite` packs the latter into tests/suites.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

from webpte_export import Report, export, export_llm
from webpte_export.samples.digits.drawing import Pen
from webpte_export.samples.digits.train_digits import Digits
from webpte_export.samples.photo.train_photo import Photo
from webpte_export.samples.stories.training import LORA

LARGEST_PHOTO = 1024  # pixels per side, before doubling
CONTEXT = 512


def export_digits(weights: Path, out: Path) -> Report:
    torch.manual_seed(3)
    pictures, _ = Pen("cpu").draw(3)
    first, *others = pictures.split(1)
    return export(_loaded(Digits(), weights), (first,), out / "digits", more_inputs=_calls(others))


def export_photo(weights: Path, out: Path) -> Report:
    torch.manual_seed(3)
    height, width = (Dim(name, min=4, max=LARGEST_PHOTO) for name in ("height", "width"))
    others = [torch.rand(1, 3, *size) for size in ((4, 31), (23, 6))]
    return export(
        _loaded(Photo(), weights),
        (torch.rand(1, 3, 17, 13),),
        out / "photo",
        dynamic_shapes=({2: height, 3: width},),
        more_inputs=_calls(others),
    )


def export_stories(folder: Path, out: Path) -> Report:
    """Export `stories`, and rename its tokenizer's files, which keep their compact form."""
    report = export_llm(folder, out / "stories", quantize="8w", max_context=CONTEXT, train=LORA)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / name).unlink()
        shutil.copyfile(folder / name, out / f"stories.{name}")
    return report


def _loaded(model: nn.Module, weights: Path) -> nn.Module:
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model.eval()


def _calls(pictures: list[torch.Tensor]) -> list[tuple[torch.Tensor]]:
    return [(picture,) for picture in pictures]


EXPORTS = {"digits": export_digits, "photo": export_photo, "stories": export_stories}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sample", choices=EXPORTS)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    print(EXPORTS[options.sample](options.weights, options.out).text())


if __name__ == "__main__":
    main()
