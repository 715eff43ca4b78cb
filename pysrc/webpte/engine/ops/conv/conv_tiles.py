"""Tile configs of convolutions: the tile, and the number of workgroups that share a sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.ops.conv import conv_window
from webpte.engine.ops.conv.conv_geometry import Convolution
from webpte.engine.ops.conv.conv_window import ConvWindow
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import ceil_div
from webpte.engine.ops.gemm.lib.gemm import Gemm


@dataclass(frozen=True)
class ConvTile:
    """The tile of a workgroup of 256, 4 x 4 elements per invocation; more invocations split k.

    `step` is the part of k that is in workgroup memory at once.
    """

    rows: int  # channels
    columns: int  # pixels
    step: int

    @property
    def slices(self) -> int:
        return 256 * 16 // (self.rows * self.columns)


LARGE, SMALL, FLAT = ConvTile(64, 64, 16), ConvTile(32, 32, 16), ConvTile(16, 64, 8)

# Enough workgroups to keep a GPU of 132 cores busy, about two each.
FULL = 256
# For fewer steps per part the second dispatch does not pay.
MIN_SPLIT_STEPS = 2
MAX_SPLITS = 16


def choose_tile(conv: Convolution, pixels: int, copies: int, full: int) -> ConvTile:
    """Return the largest tile that yields enough workgroups; `full` workgroups fill the GPU."""
    if conv.out_channels <= FLAT.rows:
        return FLAT
    rows, columns = ceil_div(conv.out_channels, LARGE.rows), ceil_div(pixels, LARGE.columns)
    return LARGE if rows * columns * copies >= full else SMALL


def choose_splits(tile: ConvTile, terms: int, workgroups: int, full: int) -> int:
    """Return how many workgroups share a sum of `terms`, so that the GPU is full."""
    steps = terms // (tile.step * tile.slices)
    return max(1, min(full // workgroups, steps // MIN_SPLIT_STEPS, MAX_SPLITS))


@dataclass(frozen=True)
class ConvTiles:
    """A tiled GEMM in which `splits` workgroups share a sum."""

    tile: ConvTile
    splits: int

    @property
    def label(self) -> str:
        return f"{self.tile.rows}x{self.tile.columns} k/{self.splits}"


ConvConfig = ConvTiles | ConvWindow


def choose_conv_config(args: Args, conv: Convolution, gemm: Gemm) -> ConvConfig:
    """Return the config measured fastest on this adapter, or the default."""
    copies, pixels = conv.groups * math.prod(conv.phases), conv.batch * math.prod(conv.phase_size)
    full, terms = args.target.adapter.workgroups(FULL), conv.in_channels * conv.phase_taps
    tile = choose_tile(conv, pixels, copies, full)

    def tiles(tile: ConvTile) -> ConvTiles:
        rows, columns = ceil_div(conv.out_channels, tile.rows), ceil_div(pixels, tile.columns)
        return ConvTiles(tile, choose_splits(tile, terms, rows * columns * copies, full))

    default: ConvConfig = tiles(tile)
    if conv_window.suits(conv, args.target):
        default = conv_window.WINDOW
    if not args.target.wants_candidates:
        return default
    configs: list[ConvConfig] = [default, *(tiles(t) for t in (tile, LARGE, SMALL, FLAT))]
    configs += [ConvTiles(t, 1) for t in (tile, SMALL)]
    if conv_window.takes(conv):
        configs.append(conv_window.WINDOW)
    candidates = {config.label: config for config in configs}
    sizes = f"m{gemm.m} n{gemm.n} k{gemm.k} x{gemm.batches} groups{conv.groups}"
    window = "x".join(map(str, (*conv.kernel, *conv.stride, *conv.dilation)))
    shape_class = f"{sizes} {window}{' transposed' * conv.transposed} {gemm.stored}"
    return args.target.choice("conv", shape_class, default.label, candidates)
