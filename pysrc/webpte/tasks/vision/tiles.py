"""Pictures as models that answer questions take them: whole, or whole and in tiles.

Idefics3 and SmolVLM see a large picture as a grid of tiles, followed by the whole picture at the
size of a tile. In their prompts, tags say which tile follows. LLaVA sees the whole alone, and so
does Qwen2-VL, but at its own proportions, as a grid of patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from webpte.errors import InputError, UnsupportedError
from webpte.json_reader import Table
from webpte.tasks.vision.preprocessing import Preprocessor
from webpte.tasks.vision.resample import BICUBIC, LANCZOS, resize

Array = np.ndarray
_TILED, _GRIDS = ("Idefics3", "SmolVLM"), ("Qwen2VL", "Qwen2_5_VL")
_LARGEST = 4096  # pixels of a side
# Settings that hold where the file does not say, and those for tiles, which have their size.
_COLOURS = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_AS_IT_IS = {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_pad": False}
_CLIP_COLOURS = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_LONGEST = 200  # times as long as it is high, or as high as it is long
_AROUND, _WHOLE = "<fake_token_around_image>", "<global-img>"


@dataclass(frozen=True)
class SeenTiles:
    """The tiles of a picture, each (3, height, width) float32, the whole picture last.

    There are rows * columns of them, and the whole; or the whole alone, with no rows.

    grid   the rows and columns of patches, merged in squares, as which the model sees the whole;
           that is then (rows * columns, patches of a square, values)
    """

    tiles: tuple[Array, ...]
    rows: int = 0
    columns: int = 0
    grid: tuple[int, int] | None = None


class WholePictures:
    """Prepares a picture as one array, as LLaVA does."""

    def __init__(self, settings: Table) -> None:
        self._preprocessor = Preprocessor(settings)

    def __call__(self, pixels: Array) -> SeenTiles:
        """Return a picture (height, width, 3) of bytes as a model sees it."""
        return SeenTiles((self._preprocessor(pixels),))

    def text(self, seen: SeenTiles, image: str, count: int) -> str:
        """Return what stands for a picture in a prompt; `image` is repeated for each row."""
        return image * count


class TiledPictures:
    """Prepares a picture as Idefics3 does, by the settings of its preprocessor_config.json."""

    def __init__(self, settings: Table) -> None:
        self.settings = settings
        self._side = self._edge("max_image_size")
        self._longest = self._edge("size")
        self._resample = settings.integer("resample", LANCZOS)
        content = {**_COLOURS, **settings.content, **_AS_IT_IS}
        self._prepared = Preprocessor(Table(content, settings.name, InputError))

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

    def __call__(self, pixels: Array) -> SeenTiles:
        """Return a picture (height, width, 3) of bytes as a model sees it."""
        side = self._side
        if self._does("resize"):
            pixels = self._resized(pixels, *_longest_to(pixels, self._longest))
        if not self._does("image_splitting"):
            return SeenTiles((self._prepared(self._resized(pixels, side, side)),))
        pixels = self._resized(pixels, *_whole_tiles(pixels, side))
        rows, columns = (size // side for size in pixels.shape[:2])
        if rows == columns == 1:
            return SeenTiles((self._prepared(pixels),))
        parts = [
            pixels[row * side : (row + 1) * side, column * side : (column + 1) * side]
            for row in range(rows)
            for column in range(columns)
        ]
        parts.append(self._resized(pixels, side, side))
        return SeenTiles(tuple(map(self._prepared, parts)), rows, columns)

    def _resized(self, pixels: Array, height: int, width: int) -> Array:
        if pixels.shape[:2] == (height, width):
            return pixels
        return resize(pixels, height, width, self._resample)

    def text(self, seen: SeenTiles, image: str, count: int) -> str:
        """Return what stands for a picture in a prompt; `image` is repeated for each row."""
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
    """Prepares a picture as Qwen2-VL does: whole squares of patches, at about its proportions."""

    def __init__(self, settings: Table) -> None:
        self.settings = settings
        self._patch = settings.integer("patch_size", 14, low=1, high=_LARGEST)
        self._merged = settings.integer("merge_size", 2, low=1, high=_LARGEST)
        self._fewest = self._pixels("min_pixels", "shortest_edge", 56 * 56)
        self._most = self._pixels("max_pixels", "longest_edge", 28 * 28 * 1280)
        self._resample = settings.integer("resample", BICUBIC)
        content = {**_CLIP_COLOURS, **settings.content, **_AS_IT_IS}
        self._prepared = Preprocessor(Table(content, settings.name, InputError))

    def _pixels(self, older: str, edge: str, default: int) -> int:
        """Return a number of pixels of whole pictures, which files call an edge."""
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

    def __call__(self, pixels: Array) -> SeenTiles:
        """Return a picture (height, width, 3) of bytes as a model sees it."""
        side, together = self._patch * self._merged, self._merged**2
        if self.settings.content.get("do_resize", True):
            height, width = self.size_of(*pixels.shape[:2])
            pixels = resize(pixels, height, width, self._resample)
        height, width = pixels.shape[:2]
        if height % side or width % side:
            raise InputError(
                f"a picture of {width} by {height} pixels has no whole squares of {side} pixels, "
                f"and {self.settings.name} does not have it resized (do_resize)"
            )
        rows, columns = height // side, width // side
        cut = self._prepared(pixels).reshape(
            3, rows, self._merged, self._patch, columns, self._merged, self._patch
        )
        patches = cut.transpose(1, 4, 2, 5, 0, 3, 6).reshape(rows * columns, together, -1)
        return SeenTiles((np.ascontiguousarray(patches),), grid=(rows, columns))

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width to which a picture is brought: whole squares of patches."""
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

    def text(self, seen: SeenTiles, image: str, count: int) -> str:
        """Return what stands for a picture in a prompt; `image` is repeated for each row."""
        return image * count


Pictures = WholePictures | TiledPictures | GridPictures


def pictures_of(settings: Table) -> Pictures:
    """Return how pictures are prepared, by preprocessor_config.json."""
    kind = str(settings.content.get("image_processor_type"))
    if kind.startswith(_GRIDS):
        return GridPictures(settings)
    return TiledPictures(settings) if kind.startswith(_TILED) else WholePictures(settings)


def _longest_to(pixels: Array, longest: int) -> tuple[int, int]:
    """Return the size with this longer side; the shorter one is even, as the models had it."""
    height, width = pixels.shape[:2]
    share = width / height
    if width >= height:
        other = int(longest / share)
        return max(other + other % 2, 1), longest
    other = int(longest * share)
    return longest, max(other + other % 2, 1)


def _whole_tiles(pixels: Array, side: int) -> tuple[int, int]:
    """Return the size of a picture in whole tiles, which may change its proportions a little."""
    height, width = pixels.shape[:2]

    def whole(length: float) -> int:
        return max(math.ceil(length / side), 1) * side

    share = width / height
    if width >= height:
        width = whole(width)
        return whole(int(width / share)), width
    height = whole(height)
    return height, whole(int(height * share))
