"""Programs take pictures of one size, and the settings beside them make such pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from webpte_export.errors import ExportError
from webpte_export.tasks.picture_size import settle_size


@pytest.mark.parametrize(
    ("settings", "changed", "size"),
    [
        ({"size": {"height": 5, "width": 7}}, {}, (5, 7)),
        ({"size": 9}, {"size": {"height": 9, "width": 9}}, (9, 9)),
        (
            {"size": {"shortest_edge": 8, "longest_edge": 13}},
            {"size": {"height": 8, "width": 8}},
            (8, 8),
        ),
        ({"size": 800, "max_size": 1333}, {"size": {"height": 800, "width": 800}}, (800, 800)),
        (
            {"size": {"shortest_edge": 9}, "do_center_crop": True, "crop_size": 7},
            {},
            (7, 7),
        ),
        (
            {"size": {"shortest_edge": 6}, "image_processor_type": "ConvNextImageProcessor"},
            {},
            (6, 6),
        ),
        ({"size": {"longest_edge": 9}, "pad_size": {"height": 9, "width": 8}}, {}, (9, 8)),
        (
            {
                "size": {"height": 518, "width": 30},
                "keep_aspect_ratio": True,
                "ensure_multiple_of": 14,
            },
            {"size": {"height": 518, "width": 28}, "keep_aspect_ratio": False},
            (518, 28),
        ),
    ],
)
def test_a_size_is_settled(
    settings: dict[str, Any], changed: dict[str, Any], size: tuple[int, int]
) -> None:
    assert settle_size(settings, Path("model")) == ({**settings, **changed}, size)


@pytest.mark.parametrize("size", [None, "large", 0, {"longest_edge": 5}, {"height": 4}])
def test_a_file_without_a_size_is_refused(size: Any) -> None:
    with pytest.raises(ExportError, match="how large pictures are: its size is"):
        settle_size({"size": size}, Path("model"))


def test_models_that_enlarge_take_tiles_of_their_own_size() -> None:
    settings = {"image_processor_type": "Swin2SRImageProcessor", "pad_size": 8}
    assert settle_size(settings, Path("model"), 64) == (settings, (64, 64))
    with pytest.raises(ExportError, match="how large"):
        settle_size(settings, Path("model"))
