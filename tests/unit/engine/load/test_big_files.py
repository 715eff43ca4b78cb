"""A file of 3 GiB: constants beyond 2 and 3 GiB, and no more memory than the small parts take.

The file is sparse: ranges that were never written read as zeros and take no room on the disk.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, Node, Scalar, write_pte
from webpte.engine.gpu.simulated.device import MAX_KEPT, SimulatedDevice

GIB = 1 << 30
FAR = np.array([1.5, -2, 3.25], np.float32)
FARTHER = np.array([10, 20, 30], np.float32)
BULK = GIB // 2


def write_sparse(path: Path, *, bulk: bool) -> None:
    """M(x) = x + FAR + FARTHER; with `bulk` there is half a GiB of zeros that it reads, too."""
    g = GraphWriter()
    x = g.tensor((3,))
    far = g.prepack(g.tensor((3,), constant=FAR))
    farther = g.tensor((3,), constant=FARTHER)
    between = g.op(ADD, x, far, g.int(1), g.tensor((3,)))
    g.inputs(x)
    g.outputs(g.op(ADD, between, farther, g.int(1), g.tensor((3,))))
    if bulk:
        rows = g.tensor((BULK >> 10, 1 << 10), "uint8", constant=b"placeholder")
        most = g.tensor((BULK >> 10,), "uint8")
        g.op("aten.amax.default", rows, g.int_list([1]), g.bool_(False), most)
    places = {2: (2 * GIB, FAR.nbytes), 3: (3 * GIB, FARTHER.nbytes), 4: (GIB, BULK)}

    def move(root: Node) -> None:
        segments = root.slots[4]
        assert isinstance(segments, list)
        for index, (offset, size) in list(places.items())[: len(segments) - 2]:
            segments[index].slots |= {0: Scalar("u64", offset), 1: Scalar("u64", size)}

    data = write_pte(g, edit=move)
    base = int.from_bytes(data[24:32], "little")
    with path.open("wb") as file:
        file.write(data)
        for array, (offset, _) in zip((FAR, FARTHER), places.values(), strict=False):
            file.seek(base + offset)
            file.write(array.tobytes())


def test_constants_beyond_three_gib_are_the_right_ones(tmp_path: Path) -> None:
    path = tmp_path / "big.pte"
    write_sparse(path, bulk=False)
    assert path.stat().st_size > 3 * GIB

    async def run() -> np.ndarray:
        async with await webpte.load(path, device="numpy") as program:
            (result,) = await program.forward(np.ones(3, np.float32))
            return np.asarray(result)

    np.testing.assert_array_equal(wait(run()), 1 + FAR + FARTHER)
    path.unlink()


def test_loading_takes_no_memory_for_the_bulk(tmp_path: Path) -> None:
    path = tmp_path / "big.pte"
    write_sparse(path, bulk=True)

    async def run(device: SimulatedDevice) -> None:
        async with await webpte.load(path, device=device) as program:
            constants = program.methods["forward"].constants
            assert [constant.nbytes for constant in constants] == [BULK, 12, 12]
            await program.forward(np.ones(3, np.float32))
            kept = sorted(device.contents.values(), key=len)
            assert {kept[0], kept[1]} == {FAR.tobytes(), FARTHER.tobytes()}
            assert len(kept[2]) == MAX_KEPT
            assert max(device.buffers.values()) == BULK

    wait(run(SimulatedDevice()))  # fills imports and caches, which are not measured
    tracemalloc.start()
    try:
        wait(run(SimulatedDevice()))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    path.unlink()


@pytest.mark.parametrize("missing", [1, GIB])
def test_a_big_file_that_was_cut_off(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "big.pte"
    write_sparse(path, bulk=True)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - missing)
    with pytest.raises(webpte.errors.FormatError, match="at byte"):
        wait(webpte.load(path, device=SimulatedDevice()))
    path.unlink()
