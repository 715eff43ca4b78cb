"""The program: round trips with the independent writer, real files, and every cross reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness.reading import read_delegates, read_graph, read_pte, run
from support.harness.samples import add_graph, every_kind
from support.write.pte_writer import MethodWriter, write_pte
from webpte.engine.files.source import BytesSource
from webpte.engine.format.pte import (
    Allocation,
    BoolList,
    DataLocation,
    DelegateCall,
    DelegateLocation,
    DoubleList,
    Dynamism,
    FreeCall,
    IntListRef,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    OptionalTensorList,
    ScalarType,
    Span,
    TensorList,
    TensorMeta,
    read_program,
)
from webpte.errors import InputError

DATA = Path(__file__).parents[3] / "data" / "format"


# --- real files --------------------------------------------------------------------------------


def test_real_file_with_a_prepacked_constant() -> None:
    data = (DATA / "log10.pte").read_bytes()
    program = read_pte(data)
    plan = program.method("forward")
    assert (plan.inputs, plan.outputs) == ((0,), (1,))
    assert plan.chains == ((DelegateCall(0, (0, 1)),),)
    assert plan.delegates[0].id == "VulkanBackend"
    assert program.delegate_span(plan.delegates[0]) == program.segments[1]
    ((key, span),) = program.named_data.items()
    assert span == Span(2048, 4)
    assert read_graph(data).constants[0].named_key == key
    assert '"builtins.tuple"' in plan.container_inputs


def test_real_file_without_an_extended_header() -> None:
    data = (DATA / "argmax_first.pte").read_bytes()
    assert data[8:12] != b"eh00"
    plan = read_pte(data).method("forward")
    assert [op.full_name for op in plan.operators] == ["aten::argmax.out"]
    assert plan.chains == ((KernelCall(0, (0, 2, 3, 1, 1)),),)
    assert plan.values[2:] == (0, False)


def test_real_file_with_a_kernel_beside_the_delegate() -> None:
    plan = read_pte((DATA / "two_outputs.pte").read_bytes()).method("forward")
    assert plan.outputs == (3, 2, 4)
    assert plan.chains == ((KernelCall(0, (0, 1, 2, 2)), DelegateCall(0, (0, 1, 3, 4))),)
    assert plan.operators == (Operator("aten::maximum", "out"),)
    assert plan.non_const_buffer_sizes == (0, 400)


def test_real_llama_with_constant_methods() -> None:
    # The weights behind the first 23 kB are never read, so zeros do.
    data = (DATA / "llama_tiny_q4.head").read_bytes().ljust(159616, b"\0")
    program = read_pte(data)
    constants = {
        plan.name: plan.values[plan.outputs[0]] for plan in program.methods if not plan.delegates
    }
    assert constants == {
        "get_max_seq_len": 64,
        "get_max_context_len": 128,
        "get_n_layers": 2,
        "get_vocab_size": 512,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
        "enable_dynamic_shape": True,
    }
    forward = program.method("forward")
    tokens = forward.values[forward.inputs[0]]
    assert isinstance(tokens, TensorMeta)
    assert tokens.dynamism is Dynamism.DYNAMIC_BOUND
    (delegate,) = read_delegates(data, program)
    keys = {constant.named_key for constant in delegate.graph.constants}
    assert keys == set(program.named_data)


def test_real_control_flow() -> None:
    """`torch.cond`: the second jump is taken always, and past the last instruction."""
    plan = read_pte((DATA / "cond.pte").read_bytes()).method("forward")
    (chain,) = plan.chains
    assert [type(instruction).__name__ for instruction in chain] == [
        "JumpFalseCall",
        "KernelCall",
        "MoveCall",
        "JumpFalseCall",
        "KernelCall",
        "MoveCall",
    ]
    assert chain[0] == JumpFalseCall(0, 4)
    assert chain[3] == JumpFalseCall(8, len(chain))
    assert plan.values[8] is False


def test_real_mutable_state_and_lists() -> None:
    data = (DATA / "mutable_state.pte").read_bytes()
    program = read_pte(data)
    values = program.method("forward").values
    state = values[0]
    assert isinstance(state, TensorMeta)
    span = program.tensor_span(state)
    assert span is not None
    assert np.frombuffer(data, np.float32, 5, span.offset).tolist() == [1, 2, 3, 4, 5]
    kinds = {type(value) for value in values}
    assert {IntListRef, TensorList, OptionalTensorList} <= kinds


def test_only_the_flatbuffer_is_read() -> None:
    ends: list[int] = []

    class Recorder(BytesSource):
        async def read(self, offset: int, length: int) -> bytes:
            ends.append(offset + length)
            return await super().read(offset, length)

    source = Recorder((DATA / "log10.pte").read_bytes())
    program = run(read_program(source))
    assert max(ends) <= program.segments[1].offset


# --- round trips -------------------------------------------------------------------------------


def test_every_kind_of_value_and_instruction() -> None:
    plan = read_pte(write_pte(every_kind())).method("forward")
    x, y, flag, z = plan.values[:4]
    assert x == TensorMeta(
        ScalarType.FLOAT, (2, 3), (0, 1), 0, Allocation(1, 0), Dynamism.STATIC, None
    )
    assert isinstance(y, TensorMeta)
    assert y.allocation == Allocation(1, 32)
    assert flag is True
    assert isinstance(z, TensorMeta)
    assert (z.scalar_type, z.dynamism) == (ScalarType.LONG, Dynamism.DYNAMIC_BOUND)
    assert plan.values[4:9] == (2, -1, None, 0.5, "text")
    assert plan.values[9:12] == (1, 2, IntListRef((9, 10)))
    assert plan.values[12:14] == (DoubleList((0.5, 1.5)), BoolList((True, False)))
    assert plan.values[14:] == (TensorList((0, 1)), OptionalTensorList((0, -1, 1)))
    assert plan.chains == (
        (
            DelegateCall(0, (0, 1)),
            KernelCall(0, (0, 4, 5, 6, 7, 8, 11, 12, 13)),
            KernelCall(1, (14, 15, 3, 3)),
            JumpFalseCall(2, 5),
            MoveCall(0, 1),
            FreeCall(3),
        ),
    )
    assert [op.full_name for op in plan.operators] == ["aten::topk.values", "aten::copy_"]
    assert (plan.inputs, plan.outputs) == ((0,), (1, 3))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"header_length": 24},
        {"inline_constants": True},
        {"inline_delegates": True},
        {"extended_header": False},
    ],
    ids=str,
)
def test_both_kinds_of_header_and_both_places_of_a_delegate(options: dict[str, Any]) -> None:
    data = write_pte(add_graph(), **options)
    program = read_pte(data)
    inline = "inline_delegates" in options or "extended_header" in options
    reference = program.method("forward").delegates[0]
    assert reference.location is (DelegateLocation.INLINE if inline else DelegateLocation.SEGMENT)
    span = program.delegate_span(reference)
    assert data[span.offset + 4 : span.offset + 8] == b"VH00"
    (delegate,) = read_delegates(data, program)
    (constant,) = delegate.graph.constants
    if constant.offset is None:
        assert constant.named_key is not None
        place = program.named_data[constant.named_key]
    else:
        place = Span(delegate.constants.offset + constant.offset, constant.length)
    stored = np.frombuffer(data, np.float32, constant.length // 4, place.offset)
    assert stored.tolist() == [0, 1, 2]


def test_methods_share_named_data_and_constant_methods_return_values() -> None:
    data = write_pte(
        add_graph(),
        methods={"prefill": add_graph()},
        constant_methods={"eos": [1, 2], "rate": 0.5, "cached": True, "kind": "llama"},
    )
    program = read_pte(data)
    assert [plan.name for plan in program.methods][:2] == ["forward", "prefill"]
    assert len(program.named_data) == 1
    returned = {plan.name: [plan.values[i] for i in plan.outputs] for plan in program.methods[2:]}
    assert returned == {"eos": [1, 2], "rate": [0.5], "cached": [True], "kind": ["llama"]}
    assert all(plan.chains == ((),) for plan in program.methods[2:])


@pytest.mark.parametrize("extended_header", [True, False])
def test_the_bytes_of_host_constants(extended_header: bool) -> None:
    m = MethodWriter()
    weights = np.arange(5, dtype=np.int64)
    m.outputs(m.tensor((3,), data=np.ones(3, np.float32)), m.tensor((5,), "int64", data=weights))
    data = write_pte(m, extended_header=extended_header)
    program = read_pte(data)
    tensor = program.method("forward").values[1]
    assert isinstance(tensor, TensorMeta)
    span = program.tensor_span(tensor)
    assert span is not None
    assert span.size == tensor.nbytes == 40
    assert data[span.offset : span.end] == weights.tobytes()
    assert len(program.constant_buffers) == (0 if extended_header else 3)


def test_the_bytes_of_mutable_external_and_planned_tensors() -> None:
    m = MethodWriter()
    state = np.array([1.5, 2.5], np.float32)
    m.outputs(m.tensor((2,), data=state, mutable=True), m.tensor((2,), external="w"), m.tensor(()))
    data = write_pte(m)
    program = read_pte(data)
    mutable, external, planned = program.method("forward").values
    assert isinstance(mutable, TensorMeta)
    assert isinstance(external, TensorMeta)
    assert isinstance(planned, TensorMeta)
    span = program.tensor_span(mutable)
    assert span is not None
    assert data[span.offset : span.end] == state.tobytes()
    assert external.extra is not None
    assert external.extra.location is DataLocation.EXTERNAL
    assert external.extra.fully_qualified_name == "w"
    assert program.tensor_span(external) is None
    assert program.tensor_span(planned) is None


def test_compile_specs_and_foreign_delegates() -> None:
    m = MethodWriter()
    m.delegate(b"whatever", [], delegate_id="XnnpackBackend", compile_specs={"fast": b"\1"})
    (reference,) = read_pte(write_pte(m)).method("forward").delegates
    assert reference.id == "XnnpackBackend"
    assert [(spec.key, spec.value) for spec in reference.compile_specs] == [("fast", b"\1")]


def test_an_unknown_method_is_named_with_those_that_exist() -> None:
    program = read_pte(write_pte(add_graph(), constant_methods={"get_max_seq_len": 8}))
    with pytest.raises(InputError, match=r"no method 'decode'; .* forward, get_max_seq_len"):
        program.method("decode")
