"""Convolutions of 3 x 3 taps and stride 1 in one dispatch.

wgsl/conv/conv_window.wgsl keeps the inputs under a block of pixels in workgroup memory. A workgroup
computes some channels of a block; its invocations share the sum over the input channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.ops.conv.conv_geometry import Convolution
from webpte.engine.ops.core.records import ceil_div
from webpte.engine.ops.core.target import Target

# Workgroups that fill a GPU of 132 cores; with fewer, tiles with split sums are faster.
ENOUGH = 120


@dataclass(frozen=True)
class ConvWindow:
    """The constants of wgsl/conv/conv_window.wgsl: channels and quads of pixels per workgroup."""

    row_quads: int = 4
    lines: int = 4
    width: int = 2

    @property
    def label(self) -> str:
        return "windows"

    def blocks(self, conv: Convolution) -> tuple[int, int]:
        """Return the number of blocks down and across."""
        return ceil_div(conv.out_size.h, self.lines), ceil_div(conv.out_size.w, 4 * self.width)

    def rows(self, conv: Convolution) -> int:
        return ceil_div(conv.out_channels, 4 * self.row_quads)

    def workgroups(self, conv: Convolution) -> int:
        return self.rows(conv) * math.prod(self.blocks(conv)) * conv.batch


WINDOW = ConvWindow()


def takes(conv: Convolution) -> bool:
    """Return whether the kernel takes a convolution."""
    return conv.has_nine_taps and conv.in_channels % 4 == 0


def suits(conv: Convolution, target: Target) -> bool:
    """Return whether the kernel takes a convolution and has enough workgroups to fill the GPU."""
    return takes(conv) and WINDOW.workgroups(conv) >= target.adapter.workgroups(ENOUGH)
