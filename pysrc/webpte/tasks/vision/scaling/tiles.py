"""Pictures for models that answer questions: whole, or whole and in tiles.

Idefics3 and SmolVLM see a large picture as a grid of tiles, followed by the whole picture at the
size of a tile. In their prompts, tags name the next tile. LLaVA sees only the whole picture;
Qwen2-VL, too, but at its own proportions, as a grid of patches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, UnsupportedError
from webpte.tasks.vision.scaling.preprocessing import Preprocessor
from webpte.tasks.vision.scaling.resample import BICUBIC, LANCZOS
from webpte.tasks.vision.scaling.steps import PicturePart, PictureSteps, Size

_TILED, _GRIDS = ("Idefics3", "SmolVLM"), ("Qwen2VL", "Qwen2_5_VL")
_LARGEST = 4096  # pixels of a side
# Default settings, and defaults of the tiles' size.
_COLOURS = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_AS_IT_IS = {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_pad": False}
_CLIP_COLOURS = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_LONGEST = 200  # largest ratio of the longer side to the shorter
_AROUND, _WHOLE = "<fake_token_around_image>", "<global-img>"


@dataclass(frozen=True)
class TileLayout:
    """The tiles of a picture of a certain size, the whole picture last, and the steps to them.

    There are rows * columns tiles, and the whole picture; or only the whole picture, with 0 rows.

    grid   rows and columns of merged squares of patches in the whole picture, which then is (rows *
           columns, patches of a square, values)
    """

    steps: PictureSteps
    rows: int = 0
    columns: int = 0
    grid: tuple[int, int] | None = None


class WholePictures:
    """Prepares a picture as a single array, for LLaVA."""

    def __init__(self, settings: Table) -> None:
        self._preprocessor = Preprocessor(settings)

    def layout(self, height: int, width: int) -> TileLayout:
        """Return the layout of pictures of a size."""
        return TileLayout(self._preprocessor.steps(height, width))

    def text(self, seen: TileLayout, image: str, count: int) -> str:
        """Return the text of a picture in a prompt; `image` is repeated for each row."""
        return image * count


class TiledPictures:
    """Prepares a picture for Idefics3, by the settings of its preprocessor_config.json."""

    def __init__(self, settings: Table) -> None:
        self.settings = settings
        self._side = self._edge("max_image_size")
        self._longest = self._edge("size")
        self._resample = settings.integer("resample", LANCZOS)
        content = {**_COLOURS, **settings.content, **_AS_IT_IS}
        colours = Preprocessor(Table(content, settings.name, InputError))
        self._table = colours.steps(self._side, self._side).table

    def _edge(self, key: str) -> int:
        size = self.settings.content.get(key)
        side = size.get("longest_edge") if isinstance(size, dict) else None
        if type(side) is not int or not 1 <= side <= _LARGEST:
            raise UnsupportedError(
                f"{self.settings.name}: {key} is {size!r}; it should have a longest_edge of up to "
                f"{_LARGEST}"
            )
        return side

    def _does(self, step: str) -> bool:
        found = self.settings.content.get(f"do_{step}")
        return True if found is None else bool(found)

    def layout(self, height: int, width: int) -> TileLayout:
        """Return the layout of pictures of a size."""
        side, size, resizes = self._side, (height, width), list[Size]()

        def resized(wanted: Size) -> Size:
            if wanted != (resizes[-1] if resizes else (height, width)):
                resizes.append(wanted)
            return wanted

        def layout(parts: Sequence[PicturePart], rows: int = 0, columns: int = 0) -> TileLayout:
            given = (height, width), tuple(resizes), self._resample, tuple(parts), (side, side)
            return TileLayout(PictureSteps(*given, self._table), rows, columns)

        if self._does("resize"):
            size = resized(_longest_to(size, self._longest))
        if not self._does("image_splitting"):
            resized((side, side))
            return layout([PicturePart(len(resizes))])
        size = resized(_whole_tiles(size, side))
        rows, columns = (one // side for one in size)
        stage = len(resizes)
        if rows == columns == 1:
            return layout([PicturePart(stage)])
        parts = [
            PicturePart(stage, row * side, column * side)
            for row in range(rows)
            for column in range(columns)
        ]
        resized((side, side))
        return layout([*parts, PicturePart(len(resizes))], rows, columns)

    def text(self, seen: TileLayout, image: str, count: int) -> str:
        """Return the text of a picture in a prompt; `image` is repeated for each row."""
        lines = [
            "".join(
                f"{_AROUND}<row_{row + 1}_col_{column + 1}>{image * count}"
                for column in range(seen.columns)
            )
            for row in range(seen.rows)
        ]
        before = "".join(f"{line}\n" for line in lines)
        before += "\n" if lines else ""
        return f"{before}{_AROUND}{_WHOLE}{image * count}{_AROUND}"


class GridPictures:
    """Prepares a picture for Qwen2-VL: whole squares of patches, at about its proportions."""

    def __init__(self, settings: Table) -> None:
        self.settings = settings
        self._patch = settings.integer("patch_size", 14, low=1, high=_LARGEST)
        self._merged = settings.integer("merge_size", 2, low=1, high=_LARGEST)
        self._fewest = self._pixels("min_pixels", "shortest_edge", 56 * 56)
        self._most = self._pixels("max_pixels", "longest_edge", 28 * 28 * 1280)
        self._resample = settings.integer("resample", BICUBIC)
        content = {**_CLIP_COLOURS, **settings.content, **_AS_IT_IS}
        colours = Preprocessor(Table(content, settings.name, InputError))
        self._table = colours.steps(1, 1).table

    def _pixels(self, older: str, edge: str, default: int) -> int:
        """Return a limit for the pixels of a whole picture, which files may name after an edge."""
        size = self.settings.content.get("size")
        found = self.settings.content.get(older)
        if found is None:
            found = size.get(edge, default) if isinstance(size, dict) else default
        if type(found) is not int or not 1 <= found <= _LARGEST**2:
            raise UnsupportedError(
                f"{self.settings.name}: {edge} of size is {found!r}; it should be a number of "
                f"pixels, up to {_LARGEST**2}"
            )
        return found

    def layout(self, height: int, width: int) -> TileLayout:
        """Return the layout of pictures of a size."""
        side, size, resizes = self._patch * self._merged, (height, width), tuple[Size, ...]()
        if self.settings.content.get("do_resize", True):
            size = self.size_of(height, width)
            resizes = (size,)
        if size[0] % side or size[1] % side:
            raise InputError(
                f"a picture of {width} by {height} pixels has no whole squares of {side} pixels, "
                f"and {self.settings.name} does not have it resized (do_resize)"
            )
        parts, patches = (PicturePart(len(resizes)),), (self._merged, self._patch)
        given = (height, width), resizes, self._resample, parts, size, self._table
        grid = size[0] // side, size[1] // side
        return TileLayout(PictureSteps(*given, patches), grid=grid)

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width to scale a picture to: whole squares of patches."""
        side = self._patch * self._merged
        if max(height, width) > _LONGEST * min(height, width):
            raise InputError(
                f"a picture of {width} by {height} pixels is too long: the model takes those up to "
                f"{_LONGEST} times as long as high, or as high as long"
            )
        rows, columns = round(height / side), round(width / side)
        if rows * columns * side**2 > self._most:
            scale = math.sqrt((height * width) / self._most)
            rows, columns = (
                max(1, math.floor(length / scale / side)) for length in (height, width)
            )
        elif rows * columns * side**2 < self._fewest:
            scale = math.sqrt(self._fewest / (height * width))
            rows, columns = (math.ceil(length * scale / side) for length in (height, width))
        return rows * side, columns * side

    def text(self, seen: TileLayout, image: str, count: int) -> str:
        """Return the text of a picture in a prompt; `image` is repeated for each row."""
        return image * count


Pictures = WholePictures | TiledPictures | GridPictures


def pictures_of(settings: Table) -> Pictures:
    """Return the preparation of pictures, by preprocessor_config.json."""
    kind = str(settings.content.get("image_processor_type"))
    if kind.startswith(_GRIDS):
        return GridPictures(settings)
    return TiledPictures(settings) if kind.startswith(_TILED) else WholePictures(settings)


def _longest_to(size: Size, longest: int) -> Size:
    """Return the size with this longer side; the shorter side is even, as in training."""
    height, width = size
    share = width / height
    if width >= height:
        other = int(longest / share)
        return max(other + other % 2, 1), longest
    other = int(longest * share)
    return longest, max(other + other % 2, 1)


def _whole_tiles(size: Size, side: int) -> Size:
    """Return the size of a picture in whole tiles, which may change its proportions a little."""
    height, width = size

    def whole(length: float) -> int:
        return max(math.ceil(length / side), 1) * side

    share = width / height
    if width >= height:
        width = whole(width)
        return whole(int(width / share)), width
    height = whole(height)
    return height, whole(int(height * share))
