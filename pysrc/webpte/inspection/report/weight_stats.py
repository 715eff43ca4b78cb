"""Statistics of a file's constants, read in pieces: a constant can exceed Python's memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.files.source import Region
from webpte.engine.shapes import Dims, numel
from webpte.errors import InputError
from webpte.inspection.report.report import HIDDEN, Report, ReportTable

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Histogram(Report):
    """A histogram of the finite values of a constant: counts between edges."""

    counts: tuple[int, ...]
    edges: tuple[float, ...]  # an edge more than counts
    low: float
    high: float
    mean: float
    std: float
    zeros: int
    nans: int
    infinities: int

    def table(self) -> ReportTable:
        rows = list(zip(self.edges, self.edges[1:], self.counts, strict=False))
        title = f"{self.low:.4g} to {self.high:.4g}, mean {self.mean:.4g}, std {self.std:.4g}"
        notes = (f"{self.zeros} zeros, {self.nans} NaN, {self.infinities} infinite",)
        return ReportTable(title, ("from", "to", "count"), rows, notes)


@dataclass(frozen=True)
class StoredConstant:
    """The bytes in the file that initialize a tensor; `name` is their key, if any."""

    name: str | None
    shape: Dims
    dtype: str
    nbytes: int
    _region: Region = field(repr=False, compare=False, metadata=HIDDEN)

    async def histogram(self, bins: int = 32) -> Histogram:
        """Read the constant twice, a few megabytes at a time, and count its values."""
        if bins < 1:
            raise InputError(f"a histogram of {bins} bins; at least one is needed")
        low, high, zeros, nans, infinities = np.inf, -np.inf, 0, 0, 0
        total, squares, count = 0.0, 0.0, 0
        async for part in self._parts():
            finite = part[np.isfinite(part)]
            nans += int(np.isnan(part).sum())
            infinities += int(np.isinf(part).sum())
            zeros += int((part == 0).sum())
            if finite.size:
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
                total, squares = total + float(finite.sum()), squares + float((finite**2).sum())
                count += finite.size
        if not count:
            low = high = 0.0
        mean = total / count if count else 0.0
        std = max(0.0, squares / count - mean * mean) ** 0.5 if count else 0.0
        edges = np.linspace(low, high if high > low else low + 1, bins + 1)
        counts = np.zeros(bins, np.int64)
        async for part in self._parts():
            counts += np.histogram(part[np.isfinite(part)], edges)[0]
        return Histogram(
            tuple(counts.tolist()),
            tuple(edges.tolist()),
            low,
            high,
            mean,
            std,
            zeros,
            nans,
            infinities,
        )

    async def _parts(self) -> AsyncIterator[np.ndarray]:
        dtype = DTYPES[self.dtype]
        nbytes = numel(self.shape) * dtype.itemsize
        step = CHUNK_BYTES // dtype.itemsize * dtype.itemsize
        for start in range(0, nbytes, step):
            await asyncio.sleep(0)  # lets other tasks run: reading from memory does not wait
            data = await self._region.read(start, min(step, nbytes - start))
            yield dtype.from_bytes(data).astype(np.float64)
