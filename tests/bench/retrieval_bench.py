"""Times the exact search in many vectors on this machine's GPU, and compares it with NumPy.

    PYTHONPATH=pysrc:tests python -m bench.retrieval_bench [--passages 100000] [--width 384]

A figure is the time of one search with its read-back, as a caller sees it. The rate is that of
reading all vectors once.
"""

from __future__ import annotations

import argparse
import asyncio
from statistics import median
from time import perf_counter

import numpy as np

from support.harness.embedders import nearest
from webpte.engine.gpu.native.device import NativeDevice
from webpte.tasks.retrieval.vectors import GpuVectors, HostVectors, Vectors


async def show(name: str, vectors: Vectors, rows: np.ndarray, counts: list[int]) -> None:
    """Print how long rows take to be added, and searches for so many of them."""
    started = perf_counter()
    await vectors.append(rows)
    vectors.commit()
    print(f"{name}: {1000 * (perf_counter() - started):.0f} ms to add")
    for count in counts:
        times = []
        for query in rows[:23]:
            started = perf_counter()
            scores, _ = await vectors.search(query, count)
            times.append(1000 * (perf_counter() - started))
        wanted, _ = nearest(rows, query, count)
        np.testing.assert_allclose(scores, wanted, atol=1e-5)
        taken = median(times[3:])
        rate = rows.nbytes / taken / 1e6
        print(f"    {count:4} nearest: {taken:8.3f} ms, best {min(times):8.3f}, {rate:6.0f} GB/s")


async def compare(passages: int, width: int) -> None:
    rows = np.random.default_rng(0).standard_normal((passages, width), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    device = await NativeDevice.create()
    print(f"{passages:,} passages x {width}, {device.info.description}")
    await show("GPU", GpuVectors(device, width), rows, [1, 10, 64])
    await show("NumPy", HostVectors(width), rows, [10])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    options = parser.parse_args()
    asyncio.run(compare(options.passages, options.width))
