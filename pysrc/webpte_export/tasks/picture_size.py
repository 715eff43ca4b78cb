"""The size of a program's pictures, and settings that prepare every picture for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError

Settings = Mapping[str, Any]


def settle_size(
    settings: Settings, folder: Path, own: Any = None
) -> tuple[dict[str, Any], tuple[int, int]]:
    """Return settings for pictures of a fixed size, and its height and width.

    Models that keep the proportions of pictures take any size, but a program is exported for a
    single size: pictures are then stretched to a square with the file's shorter side. To use
    another size, write {"height", "width"} into the file before the export.

    own   the size in the model's config, for models that enlarge pictures: their preprocessing has
          no size, and they take tiles of this size
    """
    if "Swin2SR" in str(settings.get("image_processor_type")):
        return dict(settings), _both({"size": own}, "size", folder)
    if settings.get("do_center_crop"):
        return dict(settings), _both(settings, "crop_size", folder)
    if isinstance(settings.get("pad_size"), dict):  # SAM keeps proportions, and pads
        return dict(settings), _both(settings, "pad_size", folder)
    height, width = _both(settings, "size", folder)
    if "ConvNext" in str(settings.get("image_processor_type")):  # crops by itself
        return dict(settings), (height, width)
    whole = settings.get("ensure_multiple_of") or 1
    height, width = (max(round(side / whole), 1) * whole for side in (height, width))
    changed = {**settings, "size": {"height": height, "width": width}}
    if settings.get("keep_aspect_ratio"):
        changed["keep_aspect_ratio"] = False
    return changed, (height, width)


def _both(settings: Settings, key: str, folder: Path) -> tuple[int, int]:
    size = settings.get(key)
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        sides = (size["height"], size["width"])
    else:
        side = size.get("shortest_edge") if isinstance(size, dict) else size
        sides = (side, side)
    if not all(type(side) is int and side > 0 for side in sides):
        raise ExportError(
            f"{folder}/preprocessor_config.json does not say how large pictures are: its {key} "
            f"is {size!r}."
        )
    return sides
