"""3D kernels, and convolutions of all ranks: references of the delegates' operators."""

from __future__ import annotations

from webpte.engine.portable.registry import INDICES, register_op

CONVOLUTION = "aten.convolution.default"
WINDOW = "self, kernel_size, stride, padding"

register_op(
    "aten::convolution.out",
    "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups",
    CONVOLUTION,
    notes=f"`{CONVOLUTION}`",
    heavy=True,
)
register_op(
    "aten::avg_pool3d.out",
    f"{WINDOW}, ceil_mode, count_include_pad, divisor_override",
    "aten.avg_pool3d.default",
    notes="`aten.avg_pool3d.default`",
)
register_op(
    "aten::max_pool3d_with_indices.out",
    f"{WINDOW}, dilation, ceil_mode",
    "aten.max_pool3d_with_indices.default",
    outputs=2,
    notes="`aten.max_pool3d_with_indices.default`",
    apart={"out1": INDICES},
)
