"""Vectors in NumPy and on a simulated GPU: the same rows are found, at every size."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from support.harness.embedders import check_search, check_vectors, unit_rows
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.device_info import BINDING_LIMIT, with_limits
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import OutOfMemoryError
from webpte.tasks.retrieval import vectors as vectors_module
from webpte.tasks.retrieval.vectors import GpuVectors, HostVectors, Vectors


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "FEWEST_ROWS", 8)
    monkeypatch.setattr(vectors_module, "MOST_ROWS", 64)


@pytest.mark.parametrize("width", [1, 7, 16])
def test_host(width: int) -> None:
    asyncio.run(check_vectors(HostVectors(width), width, (1, 1, 9, 40, 101, 3)))


@pytest.mark.parametrize("width", [1, 7, 16])
def test_gpu(width: int) -> None:
    device = SimulatedDevice()
    vectors = GpuVectors(device, width)
    asyncio.run(check_vectors(vectors, width, (1, 1, 9, 40, 101, 3)))
    vectors.close()
    assert not device.buffers


def test_a_search_reads_only_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    device, sizes = SimulatedDevice(), list[int]()
    plain = device.run

    async def counted(given: PlanRun) -> bytes:
        data = await plain(given)
        sizes.append(len(data))
        return data

    async def run() -> None:
        vectors, rows = GpuVectors(device, 16), unit_rows(200, 16)
        await vectors.append(rows)
        vectors.commit()
        monkeypatch.setattr(device, "run", counted)
        await vectors.search(rows[3], 5)
        vectors.close()

    asyncio.run(run())
    assert sizes
    assert sum(sizes) < 200  # five scores and five rows, not the vectors


def test_blocks_are_no_larger_than_a_binding() -> None:
    device = SimulatedDevice()
    device.info = with_limits(device.info, {BINDING_LIMIT: 4096})
    vectors = GpuVectors(device, 64)

    async def run() -> None:
        rows = unit_rows(150, 64)
        await vectors.append(rows)
        vectors.commit()
        await check_search(vectors, rows, (1, 20))
        assert list(device.buffers.values())[:10] == [4096] * 10

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["host", "gpu"])
def test_fill(kind: str) -> None:
    device = SimulatedDevice()
    vectors: Vectors = HostVectors(5) if kind == "host" else GpuVectors(device, 5)

    async def run() -> None:
        old, rows = unit_rows(20, 5), unit_rows(131, 5, 4)
        await vectors.append(old)
        vectors.commit()
        data = b"head" + rows.tobytes() + b"tail"
        region = Region(BytesSource(data), 4, rows.nbytes)
        await vectors.fill(region, len(rows))
        await check_search(vectors, rows, (1, 9))
        await vectors.append(old)
        vectors.commit()
        await check_search(vectors, np.concatenate([rows, old]), (1, 9))

    asyncio.run(run())
    vectors.close()
    assert not device.buffers


def test_memory_that_is_short_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimulatedDevice()
    vectors, rows = GpuVectors(device, 4), unit_rows(100, 4)

    async def fail(*_: object, **__: object) -> list[int]:
        raise OutOfMemoryError("no room")

    async def run() -> None:
        await vectors.append(rows)
        vectors.commit()
        with monkeypatch.context() as patch:
            patch.setattr(device, "create_buffers", fail)
            with pytest.raises(OutOfMemoryError):
                await vectors.append(unit_rows(300, 4))
            vectors.discard()
            with pytest.raises(OutOfMemoryError):
                await vectors.keep([(0, 3), (90, 100)])
            region = Region(BytesSource(rows.tobytes()), 0, rows.nbytes)
            with pytest.raises(OutOfMemoryError):
                await vectors.fill(region, len(rows))
        await check_search(vectors, rows, (1, 9))

    asyncio.run(run())


def test_one_search_is_one_submission() -> None:
    device = SimulatedDevice()
    vectors = GpuVectors(device, 8)

    async def run() -> list[str]:
        rows = unit_rows(200, 8)
        await vectors.append(rows)
        vectors.commit()
        await vectors.search(rows[0], 5)
        del device.log[:]
        await vectors.search(rows[1], 5)
        return [name for name, _ in device.log]

    assert asyncio.run(run()) == ["run"]
