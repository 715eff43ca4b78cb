"""The GPU memory of a method, and the steps that need it, as `Program.memory` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webpte.engine.shapes import Dims
from webpte.inspection.report.report import Report, ReportTable

KINDS = {
    "weights": "constants of the file",
    "state": "caches and mutable buffers, from call to call",
    "activations": "inputs, outputs and intermediate tensors, which share buffers",
    "scratch": "working memory of kernels, and of samplers that choose tokens",
    "copies": "copies of state, to restore it if a call fails",
    "params": "uniforms and error flags",
}


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor at `offset` of a buffer, in use from node `first` to node `last`.

    -1 is before the first node of the method; the number of nodes, after the last.
    """

    value: str  # its key in `Program.graph`
    dtype: str  # as the GPU stores it
    shape: Dims
    offset: int
    nbytes: int  # at the largest shape
    live_nbytes: int  # at the shape of the last run
    first: int
    last: int


@dataclass(frozen=True)
class Buffer:
    """A GPU buffer; tensors in it that overlap in time are views of each other."""

    number: int
    kind: str
    nbytes: int
    tensors: tuple[PlacedTensor, ...]
    shared_with: tuple[str, ...]  # other methods that read the same weights


@dataclass(frozen=True)
class MemoryReport(Report):
    """The buffers of a method; `needed` has the bytes of live activations at each node."""

    program: str
    method: str
    device: str
    buffers: tuple[Buffer, ...]
    needed: tuple[int, ...]
    limits: Mapping[str, int]  # limits of the adapter

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in self.buffers)

    @property
    def by_kind(self) -> dict[str, int]:
        """Bytes of each kind that occurs; `KINDS` explains them."""
        found = dict.fromkeys(KINDS, 0)
        for buffer in self.buffers:
            found[buffer.kind] += buffer.nbytes
        return {kind: nbytes for kind, nbytes in found.items() if nbytes}

    @property
    def peak(self) -> int:
        """The most bytes of live activations at any node; at least as many are allocated."""
        return max(self.needed, default=0)

    @property
    def peak_node(self) -> int | None:
        return self.needed.index(self.peak) if self.needed else None

    @property
    def unshared(self) -> int:
        """Bytes of the activations if each tensor, with its views, had a separate buffer."""
        total = 0
        for buffer in self.buffers:
            if buffer.kind == "activations":
                total += sum(max(t.nbytes for t in group) for group in _groups(buffer.tensors))
        return total

    @property
    def largest(self) -> Buffer | None:
        return max(self.buffers, key=lambda buffer: buffer.nbytes, default=None)

    @property
    def used_of_limit(self) -> float | None:
        """The largest buffer as a share of the adapter's binding limit; None without a limit."""
        names = ("maxBufferSize", "maxStorageBufferBindingSize")
        known = [self.limits[name] for name in names if name in self.limits]
        return self.largest.nbytes / min(known) if self.largest is not None and known else None

    def table(self) -> ReportTable:
        counts = {k: sum(b.kind == k for b in self.buffers) for k in self.by_kind}
        rows = [
            (kind, counts[kind], nbytes, 100 * nbytes / max(1, self.nbytes), KINDS[kind])
            for kind, nbytes in self.by_kind.items()
        ]
        title = f"{self.program}, {self.method} on {self.device}: {self.nbytes:,} bytes on the GPU"
        notes = [
            f"activations need {self.peak:,} bytes at most, at call {self.peak_node}; "
            f"without buffer reuse they would take {self.unshared:,}"
        ]
        if self.used_of_limit is not None and self.largest is not None:
            notes.append(
                f"the largest buffer, {self.largest.nbytes:,} bytes of {self.largest.kind}, is "
                f"{100 * self.used_of_limit:.1f} % of what this adapter can bind"
            )
        return ReportTable(title, ("kind", "buffers", "bytes", "%", "what"), rows, tuple(notes))


def _groups(tensors: tuple[PlacedTensor, ...]) -> list[list[PlacedTensor]]:
    """Group tensors that overlap in time; they are sorted by their first node."""
    groups: list[list[PlacedTensor]] = []
    until = -2
    for tensor in tensors:
        if groups and tensor.first <= until:
            groups[-1].append(tensor)
        else:
            groups.append([tensor])
        until = max(until, tensor.last) if tensor.first <= until else tensor.last
    return groups
