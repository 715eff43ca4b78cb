"""The search for the nearest vectors, with the kernels of real GPUs, finds the same as NumPy."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from support.devices.native import need_native
from support.harness.embedders import check_search, check_vectors, open_retrieval, unit_rows
from webpte.engine.gpu.native.device import NativeDevice
from webpte.tasks.retrieval.vectors import GpuVectors


@pytest.mark.parametrize("software", [False, True], ids=["GPU's kernels", "simple kernels"])
def test_vectors(software: bool) -> None:
    need_native()

    async def run() -> None:
        device = await NativeDevice.create()
        device.info = replace(device.info, software=software)
        for width, sizes in ((1, (1, 3)), (7, (1, 1, 1023, 5)), (33, (1500, 1))):
            vectors = GpuVectors(device, width)
            await check_vectors(vectors, width, sizes)
            vectors.close()

    asyncio.run(run())


def test_many_vectors() -> None:
    """More rows than the kernel of short rows takes."""
    need_native()

    async def run() -> None:
        device = await NativeDevice.create()
        device.info = replace(device.info, software=False)
        vectors, rows = GpuVectors(device, 12), unit_rows(70_001, 12)
        await vectors.append(rows)
        vectors.commit()
        await check_search(vectors, rows, (1, 10, 64))
        vectors.close()

    asyncio.run(run())


def test_task() -> None:
    need_native()

    async def found(device: str) -> list[str]:
        async with await open_retrieval(device) as task:
            for at, text in enumerate(("The fox is quick.", "It will rain.", "Money talks.")):
                await task.add({"name": str(at), "text": text})
            return [one["document"] for one in await task("It will rain.")]

    on_gpu = asyncio.run(found("native"))
    assert on_gpu[0] == "1"
    assert on_gpu == asyncio.run(found("numpy"))
