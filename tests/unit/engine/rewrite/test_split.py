"""Constants over the binding limit are bound in parts, and results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.split_graphs import MOST_ROWS, PROGRAMS, ROWS, SplitProgram, linear, tied
from support.harness import extent
from support.write.pte_writer import GraphWriter, constants_of, write_ptd, write_pte
from webpte import errors
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.files.source import BytesSource, ColumnSource, Region
from webpte.engine.gpu.device import Resource, Transfer
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.rewrite.split import row_ranges


def uploads(device: SimulatedDevice) -> list[Transfer]:
    return [t for name, found in device.log if name == "transfer" for t in found]  # type: ignore[attr-defined]


def bound(device: SimulatedDevice) -> list[Resource]:
    dispatches = [d for plan in device.plans.values() for d in plan.dispatches]
    return [resource for dispatch in dispatches for resource in dispatch.resources]


async def run(program: SplitProgram, device: Any, limit: int | None, **how: Any) -> list[Any]:
    options = DeveloperOptions(binding_bytes=limit, **how)
    loading = webpte.load(write_pte(program.graph), device=device, options=options)
    async with await loading as loaded:
        return [(await loaded.forward(x))[0] for x in program.steps]


@pytest.mark.parametrize("rows", [1, 4, 5, 97, 128256])
@pytest.mark.parametrize("most", [1, 3, 4, 16, 64, 1000])
def test_ranges_cover_all_rows_evenly(rows: int, most: int) -> None:
    ranges = row_ranges(rows, most)
    assert [row for first, last in ranges for row in range(first, last)] == list(range(rows))
    sizes = [last - first for first, last in ranges]
    assert max(sizes) <= most
    assert min(sizes) > 0
    assert len(set(sizes[:-1])) <= 1


@pytest.mark.parametrize("fuse", extent.some([True], False))
@pytest.mark.parametrize("parts", extent.share(list(MOST_ROWS), 2))
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_stay_the_same(name: str, parts: int, fuse: bool) -> None:
    async def compare() -> None:
        program, device = PROGRAMS[name](), SimulatedDevice()
        limit = program.limit(parts)
        options = DeveloperOptions(binding_bytes=limit, fuse=fuse)
        data = write_pte(program.graph)
        async with await webpte.load(data, device=device, options=options) as loaded:
            got = [(await loaded.forward(x))[0] for x in program.steps]
            assert max(resource.nbytes for resource in bound(device)) <= max(limit, 1024)
        assert not device.buffers
        want = await run(program, "numpy", None)
        if want[0].dtype.kind == "f" and "embedding" not in name:
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(got, want)

    wait(compare())


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_has_its_parts(name: str) -> None:
    """The constant is really uploaded in seven parts, and not as a whole."""

    async def check() -> None:
        program, device = PROGRAMS[name](), SimulatedDevice()
        await run(program, device, program.limit(7))
        sizes = [t.region.size for t in uploads(device)]
        row_bytes = program.row_bytes // (2 if "halves" in name else 1)  # in the file
        assert sizes.count(16 * row_bytes) >= 6
        assert max(sizes) < ROWS * row_bytes

    wait(check())


def test_a_tied_table_is_split_once() -> None:
    async def check() -> None:
        program, device = tied(), SimulatedDevice()
        await run(program, device, program.limit(7))
        weights = [t.region for t in uploads(device) if t.region.size in (16 * 64, 64)]
        assert len(weights) == len(set(weights)) >= 7

    wait(check())


def test_methods_share_the_parts() -> None:
    async def check() -> None:
        device, program = SimulatedDevice(), linear()
        data = write_pte(methods={"prefill": linear().graph, "decode": linear().graph})
        options = DeveloperOptions(binding_bytes=program.limit(7))
        async with await webpte.load(data, device=device, options=options) as loaded:
            # Seven parts of the weight and seven of the bias.
            assert len(uploads(device)) == 14
            for method in ("prefill", "decode"):
                await loaded.run(method, *program.steps)
        assert not device.buffers

    wait(check())


def test_constants_of_a_ptd() -> None:
    async def check() -> None:
        program = linear()
        data = write_pte(program.graph, external_constants=True)
        weights = write_ptd(constants_of(program.graph))
        options = DeveloperOptions(binding_bytes=program.limit(7))
        device = SimulatedDevice()
        loading = webpte.load(data, data=[weights], device=device, options=options)
        async with await loading as loaded:
            (got,) = await loaded.forward(*program.steps)
        (want,) = await run(program, "numpy", None)
        np.testing.assert_allclose(got, want, rtol=1e-6)

    wait(check())


@pytest.mark.parametrize(
    "method", ["create_buffers", "transfer", "create_pipelines", "create_plan"]
)
def test_a_load_that_fails_frees_all_parts(method: str) -> None:
    async def check() -> None:
        program, device = tied(), SimulatedDevice()
        device.inject(errors.OutOfMemoryError, method=method)
        with pytest.raises(errors.OutOfMemoryError, match="injected"):
            await run(program, device, program.limit(7))
        assert not device.buffers
        await run(program, device, program.limit(7))
        assert not device.buffers

    wait(check())


@pytest.mark.parametrize(
    ("name", "index", "valid"),
    [
        *((name, index, "0") for name in ("embedding", "embedding_q4") for index in (97, -1, -98)),
        *(("index_tensor", index, "-97") for index in (97, -98)),
    ],
)
def test_an_index_outside_of_the_table_is_an_error(name: str, index: int, valid: str) -> None:
    async def check() -> None:
        program = PROGRAMS[name]()
        indices = np.array([[3, index]], np.int64)
        wrong = SplitProgram(program.graph, program.row_bytes, (indices,))
        with pytest.raises(errors.IndexRangeError, match=f"valid are {valid} to 96"):
            await run(wrong, SimulatedDevice(), program.limit(7))

    wait(check())


def other(op: str) -> GraphWriter:
    """A large constant that is added, or that is changed in place, or that has groups."""
    g = GraphWriter()
    x = g.tensor((1, 8))
    weight = g.prepack(g.tensor((ROWS, 8), constant=np.ones((ROWS, 8), np.float32)))
    g.inputs(x)
    g.outputs(g.op(op, weight, x, g.int(1), g.tensor((ROWS, 8))))
    return g


def test_what_cannot_be_split_is_refused_by_name() -> None:
    async def check() -> None:
        device = SimulatedDevice()
        options = DeveloperOptions(binding_bytes=1024)
        graph = other("aten.add.Tensor")
        with pytest.raises(errors.OutOfMemoryError) as caught:
            await webpte.load(write_pte(graph), device=device, options=options)
        message = str(caught.value)
        assert "(float32 [97, 8], 3,104 bytes)" in message
        assert "op 1 (aten.add.Tensor)" in message
        assert "over this GPU's limit of 1,024 bytes for one buffer" in message
        assert not device.buffers

    wait(check())


def test_columns_of_a_file() -> None:
    async def check() -> None:
        table = np.arange(60, dtype=np.uint8).reshape(5, 12)
        source = ColumnSource(Region(BytesSource(b"ab" + table.tobytes()), 2, 60), 12, 4, 3)
        wanted = table[:, 4:7].tobytes()
        assert source.size == len(wanted) == 15
        for offset in range(16):
            for length in range(16 - offset):
                assert await source.read(offset, length) == wanted[offset : offset + length]
        with pytest.raises(errors.SourceError):
            await source.read(10, 6)

    wait(check())
