"""Attention of int8 tensors: ExecuTorch's numbers, lowering at any position, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.attention.quantized_attention_cases import (
    OP,
    QUANTIZED_ATTENTION_CASES,
    QuantizedCase,
    random_rows,
)
from support.cases.cases import Array
from support.graphs.graphs import make_delegate, make_planner, read_graph, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.run.request import RunRequest
from webpte.errors import WebpteError

TALK = QUANTIZED_ATTENTION_CASES[0]
LONGER = QuantizedCase(4, 2, 64, [(40, 3)], positions=64)


def lowered(case: QuantizedCase, target: Target = GPU) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(case.program()), target)
    planner.lower_all()
    assert [planned.host for planned in planner.calls if planned.call.name == OP] == [None]
    return planner.dispatches()


@pytest.mark.parametrize("case", QUANTIZED_ATTENTION_CASES, ids=str)
@pytest.mark.parametrize("software", [False, True])
def test_a_gpu_runs_every_case_with_eight_buffers(case: QuantizedCase, software: bool) -> None:
    records = lowered(case, Target(software=software))
    assert [record.kernel for record in records[:3]] == ["attention_dequantize"] * 3
    for record in records:
        bound = [b for b in record.bindings if b is None or isinstance(b, int | Scratch)]
        assert len(bound) <= 8


def test_kernels_by_the_number_of_queries() -> None:
    few, many = lowered(QuantizedCase(4, 2, 64, [(1, 3)], positions=64)), lowered(LONGER)
    assert few[3].kernel == "attention_flash_split"
    assert many[3].kernel == "attention_flash"
    assert lowered(LONGER, Target(shared_bytes=32768))[3].kernel == "attention_flash_small_heads"
    matrices = Target(shared_bytes=1 << 16, subgroup_matrices=True)
    long = QuantizedCase(4, 2, 64, [(70, 3)], positions=80)
    assert lowered(long, matrices)[3].kernel == "attention_split_f16"
    assert lowered(LONGER, Target(software=True))[3].kernel == "attention_naive_logits"


def test_a_new_position_needs_no_lowering() -> None:
    case = QuantizedCase(4, 2, 16, [(1, position) for position in (5, 6, 63, 0)])

    graph = read_graph(case.program())

    async def run() -> None:
        delegate, device = await make_delegate(graph)
        await delegate.run(RunRequest(case.inputs(0)))
        before = delegate.lowerings, len(device.plans), len(device.pipelines)
        for index in range(1, len(case.steps)):
            await delegate.run(RunRequest(case.inputs(index)))
        assert (delegate.lowerings, len(device.plans), len(device.pipelines)) == before

    wait(run())


def test_floats_that_no_buffer_holds_stay_on_the_host() -> None:
    planner, _ = make_planner(read_graph(TALK.program()), Target(binding_bytes=8000))
    planner.lower_all()
    (planned,) = (planned for planned in planner.calls if planned.call.name == OP)
    assert planned.host is not None
    assert "the key [1, 64, 2, 16] as floats are 8,192 bytes" in planned.host


def given(**changed: Any) -> tuple[GraphWriter, list[Array]]:
    """Write a call of 3 queries at position 2 of 7, with some arguments changed."""
    rng = np.random.default_rng(1)
    (q, qz, qs), (k, kz, ks), (v, vz, vs) = (
        random_rows(rng, 1, *dims, 8) for dims in ((3, 4), (7, 2), (7, 2))
    )
    args: dict[str, Any] = {"q": q, "k": k, "v": v, "at": 2, "mask": None, "dropout": 0.0}
    args |= {"causal": True, "scale": None, "qz": qz, "qs": qs, "kz": kz, "ks": ks}
    args |= {"vz": vz, "vs": vs, "heads_before": False, **changed}
    g = GraphWriter()
    ids, arrays = [], []
    for arg in args.values():
        match arg:
            case np.ndarray():
                ids.append(g.tensor(arg.shape, str(arg.dtype)))
                g.inputs(ids[-1])
                arrays.append(arg)
            case None:
                ids.append(g.null())
            case bool():
                ids.append(g.bool_(arg))
            case int():
                ids.append(g.int(arg))
            case _:
                ids.append(g.double(arg))
    g.outputs(g.op(OP, *ids, g.tensor(args["q"].shape)))
    return g, arrays


BYTES = np.zeros((1, 7, 2, 8), np.int8)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"qs": None}, "the query has no scales or no zero points"),
        ({"vz": None}, "the value has no scales or no zero points"),
        ({"k": BYTES.astype(np.float32)}, "the key is float32, with zero points of int8"),
        ({"kz": np.zeros((1, 7, 2, 1), np.int32)}, "zero points of int32 and scales of float32"),
        ({"ks": np.zeros((1, 7, 2, 8), np.float32)}, r"scales \[1, 7, 2, 8\] and zero points"),
        ({"vs": np.zeros((1, 6, 2, 1), np.float32)}, r"scales \[1, 6, 2, 1\] and zero points"),
        ({"q": BYTES[0], "qz": BYTES[0, ..., :1]}, "it has 4 dims"),
        ({"heads_before": True}, r"all are \[batch, heads, tokens, head size\]"),
        ({"k": BYTES[:, :5], "kz": BYTES[:, :5, :, :1]}, "scales .1, 7, 2, 1. and zero points"),
        ({"at": 5}, "3 tokens in 7 cache positions: input_pos is 5, not 0 to 4"),
        ({"dropout": 0.5}, "only dropout_p 0 is supported"),
        ({"mask": np.zeros((3, 8), np.float32)}, "a mask for 8 keys, but 7 positions"),
        ({"mask": np.zeros((2, 7), np.float32)}, "does not broadcast to"),
    ],
)
def test_errors_name_the_call_and_the_tensor(changed: dict[str, Any], message: str) -> None:
    g, arrays = given(**changed)
    with pytest.raises(WebpteError, match=message) as raised:
        wait(run_once(g, *arrays))
    assert OP in str(raised.value)


def test_no_queries_give_nothing() -> None:
    parts = {"q": (8, "int8"), "qz": (1, "int8"), "qs": (1, "float32")}
    arrays = {name: np.zeros((1, 0, 4, size), dtype) for name, (size, dtype) in parts.items()}
    g, inputs = given(**arrays)
    (result,) = wait(run_once(g, *inputs))
    assert result.shape == (1, 0, 4, 8)
