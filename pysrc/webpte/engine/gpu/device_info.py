"""Facts about a device: its names, features and limits, and the target that kernels suit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from webpte.engine.ops.core.adapter_classes import AdapterClass, class_of
from webpte.engine.ops.core.target import Target, TunedConfigs
from webpte.errors import DeviceError, OutOfMemoryError

# WebGPU's names of features.
SHADER_F16 = "shader-f16"
CLOCK = "timestamp-query"  # the GPU times its kernels
MATRICES = "chromium-experimental-subgroup-matrix"
SIZE_CONTROL = "subgroup-size-control"  # kernels choose the size of their subgroups
# Requested in a browser, where it has them.
FEATURES = (SHADER_F16, CLOCK, "subgroups", SIZE_CONTROL, MATRICES)
# The subgroup matrices that kernels use (f16, accumulated in f32, M x N x K), the best first, and
# their subgroup. Smaller ones are put together to 16 x 16 x 16.
MATRIX_SHAPES = {
    f"f16 f32 {m}x{n}x{k}": (m, n, k)
    for m, n, k in sorted(product((16, 8), repeat=3), key=prod, reverse=True)
}
MATRIX_SUBGROUP = 32

BINDING_LIMIT, BUFFER_LIMIT = "maxStorageBufferBindingSize", "maxBufferSize"
# WebGPU's default limits, which every GPU has and many phones do not exceed.
PHONE_LIMITS = {
    BINDING_LIMIT: 128 << 20,
    BUFFER_LIMIT: 256 << 20,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupStorageSize": 16384,
    "maxStorageBuffersPerShaderStage": 8,
}


@dataclass(frozen=True)
class SelfTest:
    """The outcome of the small kernels that check a device when it is opened, see self_test.py.

    passed        features that work: "barriers", "f16", ...
    faults        features that fail, and are not used: the computed values, by name
    milliseconds  how long the test took when it ran
    kept          whether the outcome was stored by an earlier visit, so that no test ran
    """

    passed: tuple[str, ...]
    faults: dict[str, str] = field(default_factory=dict)
    milliseconds: float = 0.0
    kept: bool = False


@dataclass(frozen=True)
class DeviceInfo:
    """Facts about a device. `software` is true for an adapter that computes on the CPU.

    `packed_dot` is whether WGSL has `dot4I8Packed`. `self_test` is None for a device that was not
    tested; features that failed the test are missing among the features.

    `waiting` is the way to wait for results in a browser ("plain", "scope" or "submit", see
    waiting.js), and `waiting_ms` the milliseconds measured for each way, if any were.
    """

    kind: str  # "webgpu", "native", "numpy" or "recording"
    vendor: str = ""
    architecture: str = ""
    description: str = ""
    software: bool = False
    features: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    matrix_shapes: tuple[str, ...] = ()  # shapes of subgroup matrices, such as "f16 f32 16x16x16"
    prefers_subgroup_matrices: bool = True
    half_products: bool = False  # whether subgroup matrices multiply numbers rounded to f16
    int8_products: bool = False  # whether GEMMs of rounded weights round x, in blocks
    choices: TunedConfigs = ()  # the fastest configs measured here, see `Target.choice`
    packed_dot: bool = False
    self_test: SelfTest | None = None
    waiting: str = "plain"
    waiting_ms: dict[str, float] = field(default_factory=dict)

    @property
    def has_f16(self) -> bool:
        """Whether shaders have f16, so that buffers can store it."""
        return SHADER_F16 in self.features

    @property
    def matrix_shape(self) -> tuple[int, int, int] | None:
        """M x N x K of the best subgroup matrices that kernels can use; None without any."""
        found = (shape for name, shape in MATRIX_SHAPES.items() if name in self.matrix_shapes)
        return next(found, None)

    @property
    def sized_subgroups(self) -> bool:
        """Whether subgroups have `MATRIX_SUBGROUP` invocations in kernels that ask for it only."""
        least, most = (self.limits.get(f"subgroup{end}Size", 0) for end in ("Min", "Max"))
        return SIZE_CONTROL in self.features and least != most and least <= MATRIX_SUBGROUP <= most

    @property
    def has_subgroup_matrices(self) -> bool:
        """Whether the device has the subgroup matrices that kernels use."""
        sizes = {self.limits.get(f"subgroup{end}Size") for end in ("Min", "Max")}
        features = {MATRICES, SHADER_F16, "subgroups"} <= set(self.features)
        sized = sizes == {MATRIX_SUBGROUP} or self.sized_subgroups
        return features and sized and self.matrix_shape is not None

    @property
    def binding_bytes(self) -> int:
        """The most bytes of a buffer that kernels can bind, in whole units of 16 bytes."""
        known = [self.limits[n] for n in (BINDING_LIMIT, BUFFER_LIMIT) if n in self.limits]
        return min(known, default=sys.maxsize) // 16 * 16

    @property
    def target(self) -> Target:
        """The target that kernels are chosen for."""
        most = self.limits.get("maxStorageBuffersPerShaderStage", Target.storage_buffers)
        shared = self.limits.get("maxComputeWorkgroupStorageSize", Target.shared_bytes)
        matrices = self.prefers_subgroup_matrices and self.has_subgroup_matrices
        half = matrices and self.half_products
        given = (self.software, most, shared, self.choices, matrices, half, self.binding_bytes)
        integers = self.int8_products and self.packed_dot and not self.software
        return Target(
            *given,
            adapter=self.adapter_class,
            packed_dot=self.packed_dot,
            int8_products=integers,
            matrix_shape=self.matrix_shape or Target.matrix_shape,
            sized_subgroups=self.sized_subgroups,
        )

    @property
    def adapter_class(self) -> AdapterClass:
        """The class of the adapter, by which kernels choose tiles if they were not tuned."""
        names = self.vendor, self.architecture, self.description
        stands_in = self.kind not in ("webgpu", "native")
        return class_of(*names, self.limits, stands_in or self.software or is_software(*names))


def with_limits(info: DeviceInfo, most: Mapping[str, int]) -> DeviceInfo:
    """Return the info with no limit above these."""
    lowered = {name: min(limit, info.limits.get(name, limit)) for name, limit in most.items()}
    return replace(info, limits=info.limits | lowered)


def like_a_phone(info: DeviceInfo) -> DeviceInfo:
    """Return the info with no more than the limits and features of a phone's GPU."""
    features = tuple(name for name in info.features if name == CLOCK)
    return with_limits(replace(info, features=features), PHONE_LIMITS)


def check_clock(info: DeviceInfo) -> None:
    """Raise DeviceError if the GPU cannot time kernels."""
    if CLOCK not in info.features:
        raise DeviceError("this GPU offers no timestamps, so kernels cannot be timed")


def is_software(*names: str) -> bool:
    """Return whether an adapter with these names computes on the CPU."""
    return any(known in name.lower() for name in names for known in ("swiftshader", "llvmpipe"))


def check_sizes(info: DeviceInfo, sizes: Sequence[int], uniform: bool) -> None:
    """Raise OutOfMemoryError for a buffer over the GPU's limit of size or of binding size."""
    limit = info.limits[BUFFER_LIMIT] if uniform else info.binding_bytes
    if sizes and max(sizes) > limit:
        raise OutOfMemoryError(
            f"a buffer of {max(sizes):,} bytes is over this GPU's limit of {limit:,} bytes"
        )
