"""Weights that several delegates read, of one program or of several, are on the GPU once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, ones
from support.graphs.graphs import build_graph, wait
from support.write.pte_writer import (
    GraphWriter,
    MethodWriter,
    constants_of,
    write_ptd,
    write_pte,
)
from webpte import errors
from webpte.engine.gpu.device import Transfer
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.shared_weights import ConstantStore

W = np.arange(1000, dtype=np.float32)


def plus(*weights: np.ndarray, prepack: bool = True, dtype: str = "float32") -> GraphWriter:
    """x + every one of the weights; equal ones are under one key."""
    g = GraphWriter()
    value = x = g.tensor((1000,), dtype)
    for array in weights:
        w = g.tensor((1000,), dtype, constant=array)
        added = g.prepack(w) if prepack else w
        value = g.op(ADD, value, added, g.int(1), g.tensor((1000,), dtype))
    g.inputs(x)
    g.outputs(value)
    return g


def remembering() -> GraphWriter:
    """Writes x into a cache that starts as zeros, and returns it."""
    g = GraphWriter()
    shape = (1, 4, 1, 2)
    x, position, pos = g.tensor((1, 1, 1, 2)), g.tensor((1,), "int64"), g.symint(0)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
    cache = g.prepack(g.tensor(shape, constant=np.zeros(shape, np.float32), key="zeros"))
    fixed = g.prepack(g.tensor(shape, constant=np.zeros(shape, np.float32), key="zeros"))
    g.op("llama.update_cache.default", x, cache, pos, g.tensor((1,)))
    g.inputs(x, position)
    g.outputs(g.op(ADD, cache, fixed, g.int(1), g.tensor(shape)))
    return g


def transfers(device: SimulatedDevice) -> list[Transfer]:
    return [t for name, detail in device.log if name == "transfer" for t in detail]  # type: ignore[attr-defined]


async def load(device: Any, **methods: Any) -> webpte.Program:
    return await webpte.load(write_pte(methods=methods), device=device)


def weight_buffers(device: SimulatedDevice) -> list[set[int]]:
    """Return for each plan the buffers of constants that its dispatches bind."""
    constants = {transfer.buffer for transfer in transfers(device)}
    return [
        {r.buffer for d in plan.dispatches for r in d.resources} & constants
        for plan in device.plans.values()
    ]


@pytest.mark.parametrize("prepack", [True, False])
def test_two_methods_read_one_buffer(prepack: bool) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        first, second = plus(W, prepack=prepack), plus(W, W + 1)
        program = await load(device, prefill=first, decode=second)
        assert len(transfers(device)) == program.stats.prepack_transfers == 2
        prefill, decode = weight_buffers(device)
        assert len(prefill) == 1
        assert len(decode) == 2
        assert prefill < decode
        assert program.stats.buffers == len(device.buffers)
        assert program.stats.buffer_bytes == sum(device.buffers.values())
        for method in ("prefill", "decode"):
            await program.run(method, ones(1000))
        program.close()
        assert device.buffers == {}

    wait(run())


def test_two_delegates_of_one_method_read_one_buffer() -> None:
    m = MethodWriter()
    x, y, z = (m.tensor((1000,)) for _ in range(3))
    m.inputs(x)
    summed = m.tensor((1000,))
    m.delegate(plus(W), [x, y])
    m.kernel("aten::logcumsumexp.out", y, 0, summed, summed)  # on the host
    m.delegate(plus(W), [summed, z])
    m.outputs(z)

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(device, forward=m)
        first, second = weight_buffers(device)
        assert first == second
        assert program.stats.prepack_transfers == 1

    wait(run())


def test_every_value_of_a_graph_has_a_buffer_of_its_own() -> None:
    """Equal constants of a graph stay apart; the first shares its buffer with other graphs."""

    async def run() -> None:
        device = SimulatedDevice()
        await load(device, one=plus(W), two=plus(W, W), three=plus(W, W, W))
        one, two, three = weight_buffers(device)
        assert [len(one), len(two), len(three)] == [1, 2, 3]
        assert one < two < three

    wait(run())


def test_what_is_converted_in_another_way_is_another_constant() -> None:
    """Equal bytes as float64, converted to float32, and as int64, converted to int32, differ."""
    wide = W.astype(np.int64)
    doubles, longs = plus(wide.view(np.float64), dtype="float64"), plus(wide, dtype="int64")

    async def run() -> None:
        device = SimulatedDevice()
        await load(device, doubles=doubles, longs=longs, again=doubles)
        first, second = transfers(device)
        assert first.region == second.region
        assert (first.convert, second.convert) == ("float64", "int64")

    wait(run())


def written(device: SimulatedDevice) -> set[int]:
    """The buffers that some dispatch writes to."""
    accesses = {number: spec.bindings for spec, number in device.pipelines.items()}
    return {
        resource.buffer
        for plan in device.plans.values()
        for dispatch in plan.dispatches
        for resource, access in zip(dispatch.resources, accesses[dispatch.pipeline], strict=True)
        if access == "write"
    }


def test_a_cache_is_not_shared() -> None:
    """Two methods with a cache each, and each with a constant of the same zeros."""

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(device, one=remembering(), two=remembering())
        one, two = weight_buffers(device)
        assert len(one) == len(two) == 2
        (shared,) = one & two
        assert (one | two) - written(device) == {shared}
        assert len(transfers(device)) == program.stats.prepack_transfers == 3
        assert program.stats.buffers == len(device.buffers)

    wait(run())


def test_a_constant_that_is_an_input_is_not_shared() -> None:
    """The bytes in the file are only its initial value; every call brings other bytes."""

    def started() -> GraphWriter:
        g = GraphWriter()
        x = g.tensor((1000,), constant=W)
        g.inputs(x)
        g.outputs(g.op("aten.neg.default", x, g.tensor((1000,))))
        return g

    async def run() -> None:
        device = SimulatedDevice()
        await load(device, constant=plus(W), one=started(), two=started())
        buffers = [transfer.buffer for transfer in transfers(device)]
        assert len(set(buffers)) == len(buffers) == 3

    wait(run())


def test_a_shared_constant_is_freed_with_its_last_reader() -> None:
    graph = build_graph(plus(W))

    async def run() -> None:
        device, library, constants = SimulatedDevice(), ShaderLibrary(), ConstantStore()
        first = await GpuDelegate.create(graph, device, library, constants=constants)
        second = await GpuDelegate.create(graph, device, library, constants=constants)
        (shared,) = {buffer for buffers in weight_buffers(device) for buffer in buffers}
        first.close()
        assert shared in device.buffers
        second.close()
        assert device.buffers == {}

    wait(run())


@pytest.mark.parametrize("failing", ["create_buffers", "transfer", "create_plan"])
def test_a_method_that_cannot_be_built_frees_what_it_shares(failing: str) -> None:
    class Failing(SimulatedDevice):
        """From the second time on."""

        def __getattribute__(self, name: str) -> Any:
            if name == failing and any(entry == "create_plan" for entry, _ in self.log):
                raise errors.OutOfMemoryError("no more")
            return super().__getattribute__(name)

    async def run() -> None:
        device = Failing()
        with pytest.raises(errors.OutOfMemoryError):
            await load(device, prefill=plus(W), decode=plus(W, W + 1))
        assert transfers(device)
        assert device.buffers == {}

    wait(run())


# Several programs


@dataclass(frozen=True)
class Foundation:
    """Two programs whose weights are in one file of data."""

    adding: bytes
    more: bytes
    data: bytes

    @classmethod
    def make(cls) -> Foundation:
        graphs = plus(W), plus(W, W + 1)
        adding, more = (write_pte(graph, external_constants=True) for graph in graphs)
        return cls(adding, more, write_ptd(constants_of(graphs[1])))


@pytest.mark.parametrize("kind", ["bytes", "path"])
def test_programs_that_share_a_file_of_data_read_one_buffer(kind: str, tmp_path: Path) -> None:
    async def run() -> None:
        made, device = Foundation.make(), SimulatedDevice()
        data: Any = made.data
        if kind == "path":
            data = tmp_path / "weights.ptd"
            data.write_bytes(made.data)
        first = await webpte.load(made.adding, data=[data], device=device)
        second = await webpte.load(made.more, data=[data], device=device)
        assert (first.stats.prepack_transfers, second.stats.prepack_transfers) == (1, 1)
        assert len(transfers(device)) == 2
        x = ones(1000)
        first.close()
        (sums,) = await second.forward(x)
        np.testing.assert_array_equal(sums, x + W + W + 1)
        third = await webpte.load(made.adding, data=[data], device=device)
        assert third.stats.prepack_transfers == 0
        np.testing.assert_array_equal((await third.forward(x))[0], x + W)
        second.close()
        third.close()
        assert device.buffers == {}

    wait(run())


def test_weights_in_the_programs_themselves_are_shared_by_content() -> None:
    """Exporters name weights by their hash; bytes of one name are compared."""

    async def run() -> None:
        device = SimulatedDevice()
        first = await webpte.load(write_pte(plus(W)), device=device)
        second = await webpte.load(write_pte(plus(W, W + 1)), device=device)
        assert (first.stats.prepack_transfers, second.stats.prepack_transfers) == (1, 1)
        first.close()
        x = ones(1000)
        np.testing.assert_array_equal((await second.forward(x))[0], x + W + W + 1)
        third = await webpte.load(write_pte(plus(W)), device=device)
        assert third.stats.prepack_transfers == 0
        second.close()
        np.testing.assert_array_equal((await third.forward(x))[0], x + W)
        third.close()
        assert device.buffers == {}

    wait(run())


def test_other_bytes_under_the_same_name_are_not_shared() -> None:
    def named(array: np.ndarray) -> bytes:
        g = GraphWriter()
        x, w = g.tensor((1000,)), g.tensor((1000,), constant=array, key="weights")
        g.inputs(x)
        g.outputs(g.op(ADD, x, g.prepack(w), g.int(1), g.tensor((1000,))))
        return write_pte(g)

    async def run() -> None:
        device, x = SimulatedDevice(), ones(1000)
        programs = [await webpte.load(named(W + n % 2), device=device) for n in range(3)]
        assert [program.stats.prepack_transfers for program in programs] == [1, 1, 0]
        for n, program in enumerate(programs):
            np.testing.assert_array_equal((await program.forward(x))[0], x + W + n % 2)
            program.close()
        assert device.buffers == {}

    wait(run())


def test_other_files_are_not_shared(tmp_path: Path) -> None:
    """A file that was written anew, bytes that may change, and another device."""

    async def run() -> None:
        made, device = Foundation.make(), SimulatedDevice()
        path = tmp_path / "weights.ptd"
        path.write_bytes(made.data)
        changing = bytearray(made.data)
        for data in (path, changing):
            first = await webpte.load(made.adding, data=[data], device=device)
            if data is path:
                other = write_ptd({key: bytes(len(v)) for key, v in constants_of(plus(W)).items()})
                path.unlink()
                path.write_bytes(other)
            second = await webpte.load(made.adding, data=[data], device=device)
            assert second.stats.prepack_transfers == 1
            expected = 0 if data is path else W
            np.testing.assert_array_equal((await second.forward(ones(1000)))[0], 1 + expected)
            apart = await webpte.load(made.adding, data=[data], device=SimulatedDevice())
            assert apart.stats.prepack_transfers == 1
            for program in (first, second, apart):
                program.close()
        assert device.buffers == {}

    wait(run())


def test_a_load_does_not_wait_for_another_nor_use_its_half_of_a_constant() -> None:
    async def run() -> None:
        made, device = Foundation.make(), SimulatedDevice()
        device.pauses = lambda: 3
        both = [webpte.load(made.adding, data=[made.data], device=device) for _ in range(2)]
        first, second = await asyncio.gather(*both)
        x = ones(1000)
        for program in (first, second):
            np.testing.assert_array_equal((await program.forward(x))[0], x + W)
            program.close()
        assert device.buffers == {}

    wait(run())


@pytest.mark.parametrize("failing", ["create_buffers", "transfer", "create_plan"])
def test_a_program_that_cannot_be_loaded_takes_nothing_from_others(failing: str) -> None:
    async def run() -> None:
        made, device = Foundation.make(), SimulatedDevice()
        first = await webpte.load(made.adding, data=[made.data], device=device)
        device.inject(errors.DeviceError, method=failing)
        with pytest.raises(errors.DeviceError):
            await webpte.load(made.more, data=[made.data], device=device)
        x = ones(1000)
        np.testing.assert_array_equal((await first.forward(x))[0], x + W)
        first.close()
        assert device.buffers == {}

    wait(run())


def test_a_recovered_program_shares_again() -> None:
    async def run() -> None:
        made, device, fresh = Foundation.make(), SimulatedDevice(), SimulatedDevice()
        programs = [
            await webpte.load(made.adding, data=[made.data], device=device) for _ in range(2)
        ]
        for program in programs:
            await program.recover(fresh)
        assert device.buffers == {}
        assert len(transfers(fresh)) == 1
        for program in programs:
            np.testing.assert_array_equal((await program.forward(ones(1000)))[0], 1 + W)

    wait(run())
