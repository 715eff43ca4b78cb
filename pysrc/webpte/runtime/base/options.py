"""Options that change how a program runs on a device: for comparison, and to find a fault.

Results are the same with all of them, up to the order of sums and the width of floats.
docs/adapters.md says how far they may differ, and `serve.py verify SUITE --options` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from webpte.gpu.device import HALVES, DeviceInfo


@dataclass(frozen=True)
class Options:
    """Options of `load`. None means: as suits the adapter.

    fuse       let one kernel do the work of several calls where it can
    halves     store and compute f16 as f16 where shaders have it, not as float32
    matrices   GEMM of many rows by f16 subgroup matrices, where shaders have them; None: where
               that is known to be faster
    plain      use the plain kernels that software adapters get, which compile quickly
    tuned      use the tile configs that `Program.tune` has measured as fastest on this adapter
    """

    fuse: bool = True
    halves: bool = True
    matrices: bool | None = None
    plain: bool | None = None
    tuned: bool = True

    def applied_to(self, info: DeviceInfo) -> DeviceInfo:
        """Return the device info that programs with these options see."""
        features = tuple(name for name in info.features if self.halves or name != HALVES)
        matrices = info.prefers_matrices if self.matrices is None else self.matrices
        plain = info.software if self.plain is None else self.plain
        return replace(
            info,
            features=features,
            prefers_matrices=matrices,
            software=plain,
        )


AS_SUITS = Options()
