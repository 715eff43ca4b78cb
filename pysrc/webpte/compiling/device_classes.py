"""Classes of devices that a program is compiled for: what their GPUs have in common.

A page takes the first class that suits its adapter. A class is written only if its plans, kernels
or buffers are other than in every class that asks for less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from webpte.engine.gpu.device_info import (
    BINDING_LIMIT,
    BUFFER_LIMIT,
    MATRICES,
    MATRIX_SHAPES,
    MATRIX_SUBGROUP,
    SHADER_F16,
    DeviceInfo,
)
from webpte.engine.gpu.recording.device import EVERY_GPU

# Browsers give these limits to the GPUs of computers. Kernels may bind ten buffers, so that more is
# fused, and large weights are bound whole: a token of Llama 1B takes 103 dispatches, not 167.
_DESKTOP_LIMITS = {
    BINDING_LIMIT: (1 << 31) - 4,
    BUFFER_LIMIT: (1 << 31) - 4,
    "maxComputeWorkgroupStorageSize": 32768,
    "maxStorageBuffersPerShaderStage": 10,
}
_SUBGROUPS = {f"subgroup{end}Size": MATRIX_SUBGROUP for end in ("Min", "Max")}
DESCRIPTION = "program.json"  # for every GPU


@dataclass(frozen=True, eq=False)
class DeviceClass:
    """A class of devices: the file of its description, and what all its devices have."""

    file: str
    info: DeviceInfo

    def asks_less(self, other: DeviceClass) -> bool:
        """Return whether every device of another class belongs to this class, too."""
        mine, theirs = self.info, other.info
        return (
            mine.software is theirs.software
            and set(mine.features) <= set(theirs.features)
            and set(mine.matrix_shapes) <= set(theirs.matrix_shapes)
            and mine.packed_dot <= theirs.packed_dot
            and all(limit <= theirs.limits[name] for name, limit in mine.limits.items())
        )


def _classes(prefix: str, info: DeviceInfo) -> list[DeviceClass]:
    """Return classes with the limits of `info` and more and more features, the least last."""
    integers = replace(info, packed_dot=True)
    f16 = replace(integers, features=(SHADER_F16,))
    return [
        DeviceClass(f"{prefix}f16.json", f16),
        DeviceClass(f"{prefix}integers.json", integers),
    ]


_SOFTWARE = DeviceClass("software.json", replace(EVERY_GPU, software=True))
_COMPUTERS = replace(EVERY_GPU, limits=EVERY_GPU.limits | _DESKTOP_LIMITS)
MOST = DeviceClass(
    "desktop-matrices.json",
    replace(
        _COMPUTERS,
        features=(SHADER_F16, "subgroups", MATRICES),
        limits=_COMPUTERS.limits | _SUBGROUPS,
        matrix_shapes=(next(iter(MATRIX_SHAPES)),),  # the best; kernels are written for one shape
        packed_dot=True,
    ),
)
LEAST = DeviceClass(DESCRIPTION, EVERY_GPU)
# In the order in which a page asks.
CLASSES = (
    _SOFTWARE,
    MOST,
    *_classes("desktop-", _COMPUTERS),
    DeviceClass("desktop.json", _COMPUTERS),
    *_classes("", EVERY_GPU),
    LEAST,
)


def is_between(one: DeviceClass) -> bool:
    """Return whether a class has nothing of its own if `MOST` and `LEAST` are the same."""
    return LEAST.asks_less(one) and one not in (LEAST, MOST)
