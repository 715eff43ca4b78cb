"""Classes of adapters: the work that fills a kind of GPU, and its speed.

Kernels choose tiles and splits by these numbers where nothing was tuned (docs/inside/tuning.md).
WebGPU reports neither cores nor memory, so a row stands for GPUs with similar names. Only the first
row for NVIDIA was measured; the other rows have typical numbers. To add a GPU, copy the row that
matches it now, put the copy above that row, and change the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# The GPU on which the kernels' numbers of workgroups were measured.
MEASURED_CORES = 132

# A GPU of unknown vendor with buffers up to this size counts as a phone's.
PHONE_BUFFER, BUFFER_LIMIT = 256 << 20, "maxBufferSize"
# Only NVIDIA's driver for Vulkan offers exactly this much workgroup memory.
NVIDIA_SHARED, SHARED_LIMIT = 48 << 10, "maxComputeWorkgroupStorageSize"


@dataclass(frozen=True)
class AdapterClass:
    """A row of the table: the adapters that it matches, and their numbers.

    name       for people
    vendor     as WebGPU names it; empty for any
    words      any of these in the architecture or description, in lower case; empty for any
    cores      units that run workgroups: compute units, multiprocessors, Xe cores, shader cores
    threads    invocations that give a GEMM its full speed
    speed      speed of a GEMM that fills the GPU; 1 is an H200's
    bandwidth  bandwidth of its memory, in GB per second
    dispatch   microseconds that an additional dispatch takes
    measured   whether the numbers come from measurements of such a GPU
    """

    name: str
    vendor: str
    words: tuple[str, ...]
    cores: int
    threads: int
    speed: float
    bandwidth: float
    dispatch: float
    measured: bool = False

    def workgroups(self, measured: int) -> int:
        """Return workgroups for as many per core as `measured` are on the measured GPU."""
        return max(1, round(measured * self.cores / MEASURED_CORES))


_GEFORCE = ("geforce", "kepler", "maxwell", "pascal", "turing", "ampere", "lovelace")
_APU = ("radeon(tm) graphics", "radeon graphics", "radeon(tm) vega", "680m", "780m", "880m", "890m")
_ARC = ("arc(tm) a", "arc(tm) b", "arc a", "arc b", "xe-hpg", "xe-2-hpg", "gen-12-hp")

# The first row that fits counts.
CLASSES = (
    #            name                vendor      words     cores threads speed  GB/s  us
    AdapterClass("NVIDIA GeForce",   "nvidia",   _GEFORCE,   40, 12000, 0.30,  400,  3.0),
    AdapterClass("NVIDIA",           "nvidia",   (),        132, 40000, 1.00, 3000,  3.0, True),
    AdapterClass("AMD integrated",   "amd",      _APU,        8,  2400, 0.05,   60,  5.0),
    AdapterClass("AMD",              "amd",      (),         36, 11000, 0.25,  400,  4.0),
    AdapterClass("Intel Arc",        "intel",    _ARC,       24,  7000, 0.15,  400,  5.0),
    AdapterClass("Intel integrated", "intel",    (),          6,  1800, 0.03,   60,  5.0),
    AdapterClass("Apple",            "apple",    (),         10,  3000, 0.08,  120,  5.0),
    AdapterClass("Qualcomm Adreno",  "qualcomm", (),          6,  1800, 0.03,   50, 10.0),
    AdapterClass("Arm Mali",         "arm",      (),          8,  2000, 0.02,   40, 10.0),
    AdapterClass("Samsung Xclipse",  "samsung",  (),          6,  1800, 0.03,   50, 10.0),
    AdapterClass("Imagination",      "img-tec",  (),          4,  1000, 0.01,   30, 10.0),
)  # fmt: skip
# Words in a description that name the vendor if WebGPU does not.
_VENDOR_WORDS = {
    "nvidia": ("nvidia", "geforce"),
    "amd": ("radeon", "amd "),
    "intel": ("intel",),
    "apple": ("apple",),
    "qualcomm": ("adreno",),
    "arm": ("mali",),
    "samsung": ("xclipse",),
    "img-tec": ("powervr",),
}
# Without a known vendor, as in some versions of Firefox.
PHONE = AdapterClass("Phone", "", (), 6, 1800, 0.02, 40, 10.0)
UNKNOWN = AdapterClass("Unknown", "", (), 24, 7000, 0.15, 200, 5.0)
LARGE = next(row for row in CLASSES if row.measured)
BY_LIMITS = replace(LARGE, name="NVIDIA, by its limits", measured=False)
# A CPU gets plain kernels, which have no tiles. In tests of a GPU's kernels it runs them as the
# measured GPU does.
SOFTWARE = replace(LARGE, name="CPU", vendor="")


def class_of(
    vendor: str, architecture: str, description: str, limits: Mapping[str, int], software: bool
) -> AdapterClass:
    """Return the row of the table that matches WebGPU's description of an adapter."""
    if software:
        return SOFTWARE
    names = f"{architecture} {description}".lower()
    vendor = vendor.lower() or _vendor_in(names)
    for row in CLASSES:
        words = not row.words or any(word in names for word in row.words)
        if row.vendor == vendor and words:
            return row
    if 0 < limits.get(BUFFER_LIMIT, 0) <= PHONE_BUFFER:
        return PHONE
    return BY_LIMITS if limits.get(SHARED_LIMIT) == NVIDIA_SHARED else UNKNOWN


def _vendor_in(names: str) -> str:
    """Return the vendor found in an adapter's names, by WebGPU's name for it, or ""."""
    found = (vendor for vendor, words in _VENDOR_WORDS.items() if any(w in names for w in words))
    return next(found, "")
