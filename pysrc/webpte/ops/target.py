"""What a lowering may know of the device: which kernels suit it, never what they compute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`software`: a CPU in disguise, where large kernels take minutes to compile.

    `storage_buffers`: how many a kernel may bind; 8 is what every GPU has.
    """

    software: bool = False
    storage_buffers: int = 8


GPU = Target()
