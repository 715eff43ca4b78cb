"""Convolutions of 3 x 3 taps and stride 1 with 2.25 times fewer products.

Winograd's F(2 x 2, 3 x 3): for 2 x 2 outputs y, the 4 x 4 inputs d under them (a patch) and the
3 x 3 weights g, with 16 products of each input channel instead of 36,

    y = A' S A, where S is the sum of (G g G') (B' d B), element by element, over the channels

    B' = 1  0 -1  0    G = 1    0    0     A' = 1  1  1  0
         0  1  1  0        1/2  1/2  1/2        0  1 -1 -1
         0 -1  1  0        1/2 -1/2  1/2
         0  1  0 -1        0    0    1

wgsl/conv/conv_winograd.wgsl does all of it in one dispatch. Other numbers are added up than in the
definition, so they round otherwise, too: of C input channels an output is off by at most
(C + 14) 2^-24 times what the formula gives for the absolute values of everything in it. That is at
most 64 C max|g| max|d|, where the definition has 9 C. What counts is the largest input of the
patch, even if the output has no part in it; where that is infinite or NaN, all four may be NaN.

It has not been timed on a GPU, so it is no default: a convolution runs on it where `Program.tune`
found it the fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.ops.conv.conv_geometry import Convolution, Pair
from webpte.ops.core.records import ceil_div

# With fewer channels transforming takes more than the saved products did, with fewer pixels most of
# a tile is empty.
MIN_CHANNELS = 16
MIN_PIXELS = 64


@dataclass(frozen=True)
class Winograd:
    """The constant of wgsl/conv/conv_winograd.wgsl: so many channels of so many patches."""

    tile: int

    @property
    def label(self) -> str:
        return f"winograd {self.tile}x{self.tile}"

    def rows(self, conv: Convolution) -> int:
        return ceil_div(conv.out_channels, self.tile)

    def columns(self, conv: Convolution) -> int:
        return ceil_div(conv.batch * math.prod(patches_of(conv)), self.tile)


CUTS = (Winograd(32), Winograd(16))


def patches_of(conv: Convolution) -> Pair:
    """Of one image, down and across."""
    return Pair(ceil_div(conv.out_size.h, 2), ceil_div(conv.out_size.w, 2))


def takes(conv: Convolution) -> bool:
    """Whether the kernel can."""
    return conv.has_nine_taps and min(conv.in_size) > 0


def may_pay(conv: Convolution) -> bool:
    """Whether it is worth a measurement. Of a single line half of the products are for nothing."""
    channels = min(conv.in_channels, conv.out_channels)
    pixels = conv.batch * math.prod(conv.out_size)
    enough = channels >= MIN_CHANNELS and pixels >= MIN_PIXELS
    return takes(conv) and enough and min(conv.out_size) > 1
