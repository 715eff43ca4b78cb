"""What a lowering may know of the device: which kernels suit it, never what they compute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`software`: a CPU in disguise, where large kernels take minutes to compile.

    `storage_buffers`: how many a kernel may bind; 8 is what every GPU has. `subgroup`: so many
    invocations always fit into one subgroup; 0 if kernels are to do without subgroups.
    """

    software: bool = False
    storage_buffers: int = 8
    subgroup: int = 0


GPU = Target()
