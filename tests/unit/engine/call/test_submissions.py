"""Programs count how often a call submits work to the GPU."""

from __future__ import annotations

import asyncio
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.devices.recorded import add_graph, ones
from support.graphs.graphs import load, wait
from support.harness.samples import numbers, relu
from support.write.pte_writer import GraphWriter, MethodWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice

SUBMITTING = {"run", "profile", "copy", "read"}


def handed_over(device: SimulatedDevice) -> int:
    return sum(name in SUBMITTING for name, _ in device.log)


def counter() -> GraphWriter:
    """count += 1; returns count[at], where only the GPU sees `at` if it is there already."""
    g = GraphWriter()
    at, one = g.tensor((1,), "int32"), g.tensor((4,), constant=ones(4))
    count = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
    g.op("aten.add.Tensor", count, one, g.int(1), count)
    g.inputs(at)
    g.outputs(g.op("aten.index_select.default", count, g.int(0), at, g.tensor((1,))))
    return g


def test_a_call_is_one_submission_and_outside_of_calls_nothing_counts() -> None:
    async def run() -> None:
        program = await load(add_graph(), device=SimulatedDevice())
        assert program.stats.submissions == 0
        for _ in range(2):
            (y,) = await program.forward(ones(2, 3), ones(2, 3), output="gpu")
            assert program.stats.submissions == 1
        await y.numpy()
        assert program.stats.submissions == 1

    wait(run())


def test_looking_inside_leaves_the_count_of_the_last_call() -> None:
    async def run() -> None:
        program = await load(counter(), device=SimulatedDevice())
        given = (np.array([1], np.int32),)
        await program.forward(*given)
        await program.compare()
        await program.values(nodes=[])
        await program.check(given, [np.full(1, 2, np.float32)])
        await program.trace()
        assert program.stats.submissions == 1

    wait(run())


def test_saving_state_and_putting_it_back_count_too() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(counter(), device=device)
        await program.forward(np.array([1], np.int32))
        assert program.stats.submissions == 1, "the index is checked before"
        indices = await load(_neg(), device=device)
        for index, expected in ((-1, 2), (-9, 3)):
            (at,) = await indices.forward(np.array([index], np.int32), output="gpu")
            before = handed_over(device)
            if expected == 2:
                await program.forward(at)
            else:
                with pytest.raises(errors.ExecutionError, match="index"):
                    await program.forward(at)
            assert program.stats.submissions == expected == handed_over(device) - before

    wait(run())


def _neg() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((1,), "int32")
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((1,), "int32")))
    return g


def test_a_call_that_fails_before_it_is_submitted_counts_nothing() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(add_graph(), device=device)
        await program.forward(ones(2, 3), ones(2, 3))
        device.inject(errors.DeviceError, method="run")
        with pytest.raises(errors.DeviceError, match="injected"):
            await program.forward(ones(2, 3), ones(2, 3))
        assert program.stats.submissions == 0

    wait(run())


def test_calls_that_overlap_count_apart() -> None:
    async def run() -> None:
        m = MethodWriter()
        x, made = m.tensor((4,)), m.tensor((4,))
        m.inputs(x)
        m.kernel("aten::logcumsumexp.out", relu(m, x, (4,)), 0, made, made)
        m.outputs(relu(m, made, (4,)))
        program = await load(m, device=SimulatedDevice())
        counts = []

        async def call() -> None:
            await program.forward(ones(4))
            counts.append(program.stats.submissions)

        await asyncio.gather(*(call() for _ in range(4)))
        assert counts == [2] * 4

    wait(run())


def encoder() -> MethodWriter:
    """Sums of embeddings, without padding, between delegates: as the sentence encoder has them."""
    m = MethodWriter()
    tokens, flags = m.tensor((2, 3), "int64"), m.tensor((2, 3), "bool")
    m.inputs(tokens)
    place = m.planned_bytes
    present = m.tensor((2, 3))
    end, m.planned_bytes = m.planned_bytes, place
    row, m.planned_bytes = m.tensor((2, 1, 3)), end  # a view, which the exporter leaves out
    m.kernel("aten::ne.Scalar_out", tokens, 0, flags, flags)
    m.kernel("dim_order_ops::_to_dim_order_copy.out", flags, False, [0, 1], present, present)
    g = GraphWriter()
    weight = g.prepack(g.tensor((5, 4), constant=numbers(5, 4)))
    given, made = g.tensor((2, 3), "int32"), g.tensor((2, 3, 4))
    options = (g.int(-1), g.bool_(False), g.bool_(False))
    g.inputs(given)
    g.outputs(g.op("aten.embedding.default", weight, given, *options, made))
    hidden = m.tensor((2, 3, 4))
    m.delegate(g, [tokens, hidden])
    place = m.planned_bytes
    total = m.tensor((2, 1, 4))
    end, m.planned_bytes = m.planned_bytes, place
    view, m.planned_bytes = m.tensor((2, 4)), end
    m.kernel("aten::bmm.out", row, hidden, total, total)
    m.outputs(relu(m, view, (2, 4)))
    return m


def test_an_encoder_of_sentences_is_one_submission() -> None:
    async def run() -> None:
        program = await load(encoder(), device=SimulatedDevice())
        expected = await load(encoder(), device="numpy")
        tokens = np.array([[3, 1, 0], [4, 0, 0]])
        (y,), (wanted,) = await program.forward(tokens), await expected.forward(tokens)
        np.testing.assert_allclose(y, wanted, rtol=1e-6)
        assert program.stats.submissions == 1
        assert {row.op: row.where for row in program.report}["aten::bmm.out"] == "gpu"

    wait(run())


@pytest.mark.parametrize(
    "name", ["mobilenetv2_small", "resnet_small", "encoder_dynamic_seq", "unet_small", "vit_small"]
)
def test_models_as_the_exporter_writes_them_are_one_submission(root: Path, name: str) -> None:
    async def run() -> None:
        with zipfile.ZipFile(io.BytesIO((root / "tests/suites/models.zip").read_bytes())) as suite:
            (path,) = [n for n in suite.namelist() if n.endswith(f"{name}.pte")]
            data = suite.read(path)
        device = SimulatedDevice()
        async with await webpte.load(data, device=device) as program:
            info = program.methods["forward"]
            inputs = [ones(*i.shape) for i in info.inputs if isinstance(i, webpte.TensorInfo)]
            await program.forward(*inputs)
            assert program.stats.submissions == 1
            assert not [row for row in program.report if "::" in row.op and row.where == "host"]

    wait(run())
