"""How the tiles of a convolution are cut: their sizes, and how many workgroups share a sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.ops import conv_window
from webpte.ops.args import Args
from webpte.ops.conv_geometry import Convolution
from webpte.ops.products import Product
from webpte.ops.records import ceil_div


@dataclass(frozen=True)
class Tile:
    """What a workgroup of 256 makes, 4 x 4 elements per invocation; `step` is how much of the sum
    is in workgroup memory at once. Invocations beyond one per 4 x 4 share the sum."""

    rows: int  # channels
    columns: int  # pixels
    step: int

    @property
    def slices(self) -> int:
        return 256 * 16 // (self.rows * self.columns)


LARGE, SMALL, FLAT = Tile(64, 64, 16), Tile(32, 32, 16), Tile(16, 64, 8)

# Enough workgroups to keep a large GPU busy (some 130 cores, two each).
FULL = 256
# A part of a sum with fewer steps than this is not worth the second dispatch.
MIN_SPLIT_STEPS = 2
MAX_SPLITS = 16


def choose_tile(conv: Convolution, pixels: int, copies: int) -> Tile:
    """The largest tile of which there are enough."""
    if conv.out_channels <= FLAT.rows:
        return FLAT
    rows, columns = ceil_div(conv.out_channels, LARGE.rows), ceil_div(pixels, LARGE.columns)
    return LARGE if rows * columns * copies >= FULL else SMALL


def choose_splits(tile: Tile, terms: int, workgroups: int) -> int:
    """Among how many workgroups a sum of `terms` is divided, so that the GPU is full."""
    steps = terms // (tile.step * tile.slices)
    return max(1, min(FULL // workgroups, steps // MIN_SPLIT_STEPS, MAX_SPLITS))


Cut = tuple[Tile, int]  # and among how many workgroups a sum is divided


def choose_cut(args: Args, conv: Convolution, product: Product) -> Cut | None:
    """What was measured on this adapter, or else what was on another; None: windows."""
    copies, pixels = conv.groups * math.prod(conv.phases), conv.batch * math.prod(conv.phase_size)
    tile, terms = choose_tile(conv, pixels, copies), conv.in_channels * conv.phase_taps
    windows = conv_window.suits(conv)

    def default_splits(tile: Tile) -> int:
        rows, columns = ceil_div(conv.out_channels, tile.rows), ceil_div(pixels, tile.columns)
        return choose_splits(tile, terms, rows * columns * copies)

    default = None if windows else (tile, default_splits(tile))
    if not args.target.asks:
        return default
    tiles: list[Cut | None] = [(t, default_splits(t)) for t in (tile, LARGE, SMALL, FLAT)]
    tiles += [(t, 1) for t in (tile, SMALL)]
    if conv_window.takes(conv):
        tiles.append(None)
    candidates = {cut_label(cut): cut for cut in (default, *tiles)}
    sizes = f"m{product.m} n{product.n} k{product.k} x{product.batches} groups{conv.groups}"
    window = "x".join(map(str, (*conv.kernel, *conv.stride, *conv.dilation)))
    shape_class = f"{sizes} {window}{' transposed' * conv.transposed} {product.stored}"
    return args.target.choice("conv", shape_class, cut_label(default), candidates)


def cut_label(cut: Cut | None) -> str:
    return "windows" if cut is None else f"{cut[0].rows}x{cut[0].columns} k/{cut[1]}"
