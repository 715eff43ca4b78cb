"""Which of the optional ways a program takes on a device: for comparison, and to find a fault.

What a program computes is the same on every way, up to the order of sums and the width of floats.
docs/adapters.md says how far they may differ, and `serve.py verify SUITE --options` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from webpte.gpu.device import HALVES, DeviceInfo


@dataclass(frozen=True)
class Options:
    """What `load` takes as `options`. None: as suits the adapter.

    fuse       let one kernel do the work of several calls where it can
    halves     store and compute half floats as such where shaders have them, not as float32
    matrices   products of many rows by subgroup matrices, where shaders have them, of half floats;
               None: where that is known to be faster
    plain      the plain kernels that a CPU in disguise gets, which compile quickly
    tuned      kernels cut as `Program.tune` has measured to be the fastest on this adapter
    """

    fuse: bool = True
    halves: bool = True
    matrices: bool | None = None
    plain: bool | None = None
    tuned: bool = True

    def applied_to(self, info: DeviceInfo) -> DeviceInfo:
        """The device as programs with these options see it."""
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
