"""The memory that a program will need on a device, known before its weights are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MB = 1_000_000
# Safari on an iPhone ends a page that uses about this much.
PHONE_BUDGET = 1500 * MB


@dataclass(frozen=True)
class MemoryForecast:
    """Bytes of GPU memory by kind, and whether the device can hold them.

    weights      constants of the file, each once, as the GPU stores them
    state        KV caches and mutable buffers, from call to call
    activations  inputs, outputs and intermediate tensors, at the largest shapes
    scratch      memory of kernels with several dispatches
    staging      host memory through which weights pass while the program is loaded
    largest      bytes of the largest buffer
    budget       bytes that the caller allows, if any
    refusals     reasons why the device cannot run the program at all
    """

    program: str
    weights: int
    state: int
    activations: int
    scratch: int
    staging: int
    largest: int
    limits: Mapping[str, int]
    budget: int | None = None
    refusals: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Bytes on the GPU once the program is loaded."""
        return self.weights + self.state + self.activations + self.scratch

    @property
    def peak(self) -> int:
        """The most bytes at once, while the program is loaded or later."""
        return self.total + self.staging

    @property
    def is_over_budget(self) -> bool:
        return self.budget is not None and self.peak > self.budget

    @property
    def fits(self) -> bool:
        """Whether the device can run the program within the budget."""
        return not self.refusals and not self.is_over_budget

    def __str__(self) -> str:
        kinds = {
            "weights": self.weights,
            "caches": self.state,
            "activations": self.activations + self.scratch,
        }
        listed = ", ".join(f"{kind} {megabytes(n)}" for kind, n in kinds.items() if n)
        text = f"Needs {megabytes(self.total)} MB of GPU memory: {listed}"
        if self.is_over_budget and self.budget is not None:
            text += (
                f". With {megabytes(self.staging)} MB while it loads, that is over the budget of "
                f"{megabytes(self.budget)} MB"
            )
        return text


def megabytes(nbytes: int) -> str:
    """Write a number of bytes in megabytes, with a digit after the point for small numbers."""
    return f"{nbytes / MB:,.0f}" if nbytes >= 10 * MB else f"{max(nbytes / MB, 0.1):.1f}"
