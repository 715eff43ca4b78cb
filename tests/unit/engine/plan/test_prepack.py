"""The prepack contract: one transfer per constant, before the first call, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import load, make_delegate, run_once, wait
from support.graphs.prepacks import ADD, PREPACK, W, X, add_graph, constant, prepacked
from support.write.pte_writer import GraphWriter, write_pte
from webpte import errors
from webpte.engine.gpu.device import Transfer
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest


def transfers_of(device: SimulatedDevice) -> list[Transfer]:
    return [t for name, detail in device.log if name == "transfer" for t in detail]  # type: ignore[attr-defined]


@pytest.mark.parametrize("weights", [prepacked, constant])
def test_the_sum_is_the_sum(weights: Callable[[GraphWriter], int]) -> None:
    (result,) = wait(run_once(add_graph(weights), X))
    np.testing.assert_array_equal(result, X + W)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("weights", [prepacked, constant])
def test_the_gpu_gets_the_bytes(weights: Callable[[GraphWriter], int], inline: bool) -> None:
    data = write_pte(add_graph(weights), inline_constants=inline)

    async def run() -> None:
        import webpte

        device = SimulatedDevice()
        await webpte.load(data, device=device)
        assert list(device.contents.values()) == [W.tobytes()]

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_transfers_happen_once(device: str) -> None:
    def weights(g: GraphWriter) -> int:
        first = g.op(ADD, prepacked(g), constant(g), g.int(1), g.tensor((3,)))
        return g.op(ADD, first, prepacked(g), g.int(1), g.tensor((3,)))

    async def run() -> None:
        recording = SimulatedDevice()
        program = await load(add_graph(weights), device=recording if device != "numpy" else device)
        after_load = program.stats.prepack_transfers
        assert after_load == 3
        for _ in range(10):
            await program.forward(X)
        assert program.stats.prepack_transfers == after_load
        assert program.stats.executions == 10
        if device != "numpy":
            assert len(transfers_of(recording)) == 3

    wait(run())


def test_transfers_come_before_the_first_run_and_nothing_waits() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(add_graph(prepacked))
        await delegate.run(RunRequest([X]))
        names = [name for name, _ in device.log]
        assert names.count("transfer") == 1
        assert names.index("transfer") < names.index("run")
        known = {"create_buffers", "create_pipelines", "transfer", "write", "create_plan", "run"}
        assert set(names) == known

    wait(run())


def test_a_constant_used_only_through_prepack_has_no_buffer_of_its_own() -> None:
    async def run() -> None:
        delegate, device = await make_delegate(add_graph(prepacked))
        # the weights [3], then x and its sum [2, 3], each in whole quads
        made = [("create_buffers", ((16,), "constant")), ("create_buffers", ((32, 32), "storage"))]
        assert device.log[:2] == made
        assert len(transfers_of(device)) == 1
        assert len(delegate.allocated) == 3 + 1

    wait(run())


def test_a_constant_used_both_ways_has_two() -> None:
    def weights(g: GraphWriter) -> int:
        w = constant(g)
        return g.op(ADD, g.prepack(w), w, g.int(1), g.tensor((3,)))

    g = add_graph(weights)
    (result,) = wait(run_once(g, X))
    np.testing.assert_array_equal(result, X + 2 * W)

    async def run() -> None:
        _, device = await make_delegate(g)
        moved = transfers_of(device)
        assert len({t.buffer for t in moved}) == len(moved) == 2
        assert len({t.region for t in moved}) == 1

    wait(run())


def test_two_prepack_nodes() -> None:
    other = np.array([100, 200, 300], np.float32)

    def weights(g: GraphWriter) -> int:
        second = g.prepack(g.tensor((3,), constant=other))
        return g.op(ADD, prepacked(g), second, g.int(1), g.tensor((3,)))

    g = add_graph(weights)
    (result,) = wait(run_once(g, X))
    np.testing.assert_array_equal(result, X + W + other)

    async def run() -> None:
        _, device = await make_delegate(g)
        assert sorted(device.contents.values()) == sorted([W.tobytes(), other.tobytes()])

    wait(run())


def test_a_tied_constant_goes_through_two_prepacks() -> None:
    def weights(g: GraphWriter) -> int:
        w = constant(g)
        return g.op(ADD, g.prepack(w), g.prepack(w), g.int(1), g.tensor((3,)))

    g = add_graph(weights)
    (result,) = wait(run_once(g, X))
    np.testing.assert_array_equal(result, X + 2 * W)

    async def run() -> None:
        _, device = await make_delegate(g)
        assert list(device.contents.values()) == [W.tobytes()] * 2

    wait(run())


def test_equal_bytes_under_one_key_have_a_buffer_per_value() -> None:
    """Two caches that start as zeros are one key in the file and two states at run time."""

    def weights(g: GraphWriter) -> int:
        return g.op(ADD, constant(g, "same"), constant(g, "same"), g.int(1), g.tensor((3,)))

    g = add_graph(weights)

    async def run() -> None:
        _, device = await make_delegate(g)
        moved = transfers_of(device)
        assert len(moved) == 2
        assert moved[0].region == moved[1].region
        assert moved[0].buffer != moved[1].buffer

    wait(run())


def test_an_unused_constant_is_not_moved() -> None:
    def weights(g: GraphWriter) -> int:
        g.tensor((3,), constant=W * 7)
        return prepacked(g)

    async def run() -> None:
        delegate, device = await make_delegate(add_graph(weights))
        assert delegate.transfers == len(transfers_of(device)) == 1

    wait(run())


def test_only_as_many_bytes_as_the_tensor_has_are_moved() -> None:
    def weights(g: GraphWriter) -> int:
        return g.prepack(g.tensor((3,), constant=np.append(W, W)))

    async def run() -> None:
        _, device = await make_delegate(add_graph(weights))
        assert list(device.contents.values()) == [W.tobytes()]

    wait(run())


def test_an_empty_constant_is_fine() -> None:
    g = GraphWriter()
    x = g.tensor((0, 3))
    w = g.prepack(g.tensor((0, 3), constant=b""))
    g.inputs(x)
    g.outputs(g.op(ADD, x, w, g.int(1), g.tensor((0, 3))))
    empty = np.zeros((0, 3), np.float32)
    for device in ("numpy", SimulatedDevice()):
        (result,) = wait(run_once(g, empty, device=device))
        assert result.shape == (0, 3)


def packed_late(written: bool = False) -> GraphWriter:
    """x + w, where w is prepacked only behind the sum; or x + relu(x), where that is written to w.

    Whatever is prepacked is there before the first call.
    """
    g = GraphWriter()
    x, w = g.tensor((3,)), g.tensor((3,))
    if written:
        g.op("aten.relu.default", x, w)
    out = g.op(ADD, x, w, g.int(1), g.tensor((3,)))
    g.op(PREPACK, constant(g), w)
    g.inputs(x)
    g.outputs(out)
    return g


def test_a_prepack_behind_its_reader_comes_before_it() -> None:
    x = np.array([1, -2, 3], np.float32)

    async def run() -> None:
        program = await load(packed_late())
        for _ in range(2):
            (result,) = await program.forward(x)
            np.testing.assert_array_equal(result, x + W)
        delegate, device = await make_delegate(packed_late())
        (moved,) = transfers_of(device)
        assert device.contents == {moved.buffer: W.tobytes()}
        await delegate.run(RunRequest([x]))
        names = [name for name, _ in device.log]
        assert names.index("transfer") < names.index("run")
        (plan,) = device.plans.values()
        (dispatch,) = plan.dispatches
        assert moved.buffer in {resource.buffer for resource in dispatch.resources}

    wait(run())


def test_a_prepack_does_not_undo_what_a_call_before_it_wrote() -> None:
    x = np.array([1, -2, 3], np.float32)
    (result,) = wait(run_once(packed_late(written=True), x))
    np.testing.assert_array_equal(result, x + np.maximum(x, 0))


@pytest.mark.parametrize(
    ("dtype", "convert"),
    [("float32", None), ("float16", "float16"), ("float64", "float64"), ("int64", "int64")],
)
def test_constants_are_converted_to_what_the_gpu_stores(dtype: str, convert: str | None) -> None:
    def weights(g: GraphWriter) -> int:
        return g.prepack(g.tensor((3,), dtype, constant=np.array([1, -2, 3], dtype)))

    g = add_graph(weights)
    (result,) = wait(run_once(g, X))
    np.testing.assert_array_equal(result, X + np.array([1, -2, 3], np.float32))

    async def run() -> None:
        _, device = await make_delegate(g)
        (moved,) = transfers_of(device)
        assert moved.convert == convert
        assert device.buffers[moved.buffer] == 16

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "recording"])
@pytest.mark.parametrize("weights", [prepacked, constant])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"named_data": {"k": None}}, "no named data under the key k"),
        ({"named_data": {"k": W.tobytes()[:11]}}, "12 bytes are needed, 11 are in the file"),
        ({"named_data": {"k": b""}}, "12 bytes are needed, 0 are in the file"),
    ],
)
def test_a_sum_without_its_weights_does_not_load(
    weights: Callable[[GraphWriter], int], options: dict[str, Any], message: str, device: str
) -> None:
    """x + w must not become x + 0."""
    import webpte

    def keyed(g: GraphWriter) -> int:
        w = constant(g, "k")
        return g.prepack(w) if weights is prepacked else w

    data = write_pte(add_graph(keyed), **options)
    recording = SimulatedDevice()
    with pytest.raises(errors.ConstantError, match=message):
        wait(webpte.load(data, device=recording if device == "recording" else device))
    assert recording.log == []


@pytest.mark.parametrize("weights", [prepacked, constant])
def test_a_missing_table_does_not_load(weights: Callable[[GraphWriter], int]) -> None:
    with pytest.raises(errors.ConstantError, match="no table of constants"):
        wait(load(add_graph(weights, constants_table=False)))


def test_a_transfer_that_fails_gives_everything_back() -> None:
    class Failing(SimulatedDevice):
        async def transfer(self, transfers: Any, progress: Any = None) -> None:
            raise errors.SourceError("the file went away")

    async def run() -> None:
        device = Failing()
        with pytest.raises(errors.SourceError, match="the file went away"):
            await make_delegate(add_graph(prepacked), device)
        assert device.buffers == {}
        assert device.plans == {}

    wait(run())


def test_the_delegate_does_not_read_constants_into_python() -> None:
    """Their way is from the file to the device: the delegate only says from where to where."""

    async def run() -> None:
        from webpte.engine.files.source import BytesSource
        from webpte.engine.load.program_file import read_contents
        from webpte.engine.plan.shaders import ShaderLibrary

        reads: list[tuple[int, int]] = []

        class Watched(BytesSource):
            async def read(self, offset: int, length: int) -> bytes:
                reads.append((offset, length))
                return await super().read(offset, length)

        class NoReading(SimulatedDevice):
            async def transfer(self, transfers: Any, progress: Any = None) -> None:
                self._record("transfer", tuple(transfers))

        contents = await read_contents(Watched(write_pte(add_graph(prepacked))))
        (graph,) = contents.methods["forward"].graphs
        assert graph is not None
        reads.clear()
        await GpuDelegate.create(graph, NoReading(), ShaderLibrary())
        assert reads == []

    wait(run())
