"""The program: round trips with the independent writer, real files, and every cross reference."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.pte_writer import GraphWriter, MethodWriter, Node, Scalar, Vector, write_pte
from support.reading import read_delegates, read_graph, read_pte, run
from webpte.errors import FormatError, InputError
from webpte.format.pte import (
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
    Program,
    ScalarType,
    Span,
    TensorList,
    TensorMeta,
    read_program,
)
from webpte.source import BytesSource

DATA = Path(__file__).parents[2] / "data" / "format"


def add_graph() -> GraphWriter:
    g = GraphWriter()
    x, y = g.tensor((2, 3)), g.tensor((2, 3))
    w = g.tensor((3,), constant=np.arange(3, dtype=np.float32))
    g.op("aten.add.Tensor", x, g.prepack(w), g.int(1), y)
    g.inputs(x)
    g.outputs(y)
    return g


def every_kind() -> MethodWriter:
    """A method with every kind of value and instruction."""
    m = MethodWriter.of(add_graph())
    x, y = m.input(0), m.output(0)
    flag = m.value(True)
    z = m.tensor((2, 3), "int64", dynamic=True)
    m.kernel("aten::topk.values", x, 2, -1, None, 0.5, "text", [1, 2], [0.5, 1.5], [True, False])
    m.kernel("aten::copy_", [x, y], [x, None, y], z, z)
    m.jump_false(flag, 5)
    m.move(x, y)
    m.free(z)
    m.outputs(z)
    return m


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


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "form", "value", "message", "offset"),
    [
        (4, "4s", b"PK12", "not an ExecuTorch program: its identifier is b'PK12'", 4),
        (4, "4s", b"ET\0\0", "not an ExecuTorch program", 4),
        (12, "<I", 23, "an extended header of 23 bytes lacks its fields", 12),
        (16, "<Q", 1 << 63, "the header gives the program 9223372036854775808 bytes", 16),
        (16, "<Q", 31, "the header gives the program 31 bytes", 16),
        (24, "<Q", 1 << 40, "the header gives what is before the segments", 24),
        (32, "<Q", 1 << 40, "the header gives the file", 32),
    ],
)
def test_header_errors(at: int, form: str, value: int | bytes, message: str, offset: int) -> None:
    data = bytearray(write_pte(add_graph()))
    struct.pack_into(form, data, at, value)
    with pytest.raises(FormatError) as raised:
        read_pte(bytes(data))
    assert str(raised.value).startswith(message)
    assert raised.value.offset == offset


def test_a_truncated_file_says_so() -> None:
    with pytest.raises(FormatError, match="is it truncated"):
        read_pte(write_pte(add_graph())[:-1])


def test_a_segment_past_the_end_is_found_without_a_data_size_in_the_header() -> None:
    with pytest.raises(FormatError, match=r"Program.segments\[2\].size: .* is it truncated"):
        read_pte(write_pte(add_graph(), header_length=24)[:-1])


def plan_node(program: Node) -> Node:
    plans = program.slots[1]
    assert isinstance(plans, list)
    return plans[0]


def part(node: Node, *path: int) -> Node:
    """The node at the end of a path of slots and indices."""
    here: Any = node
    for step in path:
        here = here[step] if isinstance(here, list) else here.slots[step]
    assert isinstance(here, Node)
    return here


def edit_value(index: int, slot: int, field: Any) -> Callable[[Node], None]:
    def edit(program: Node) -> None:
        part(plan_node(program), 2, index, 1).slots[slot] = field

    return edit


def edit_instruction(index: int, slot: int, field: Any) -> Callable[[Node], None]:
    def edit(program: Node) -> None:
        part(plan_node(program), 5, 0, 2, index, 1).slots[slot] = field

    return edit


def edit_at(*path: int, slot: int, field: Any) -> Callable[[Node], None]:
    def edit(program: Node) -> None:
        part(program, *path).slots[slot] = field

    return edit


P = "Program.execution_plan[0]"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edit_at(1, 0, slot=3, field=Vector("i32", [0, 99])), f"{P}.inputs[1]: value 99 does"),
        (edit_at(1, 0, slot=4, field=Vector("i32", [-1])), f"{P}.outputs[0]: value -1 does"),
        (
            edit_at(1, 0, slot=8, field=Vector("i64", [0, -8])),
            f"{P}.non_const_buffer_sizes[1]: size -8 is negative",
        ),
        (
            edit_at(1, 0, 7, 0, slot=1, field=None),
            f"{P}.delegates[0].processed: is missing",
        ),
        (
            edit_at(1, 0, 7, 0, 1, slot=1, field=Scalar("u32", 9)),
            f"{P}.delegates[0].processed.index: segment 9 does not exist, there are 3",
        ),
        (
            edit_at(1, 0, 7, 0, 1, slot=0, field=Scalar("i8", 0)),
            f"{P}.delegates[0].processed.index: inline delegate 1 does not exist, there are 0",
        ),
        (
            edit_at(1, 0, 7, 0, 1, slot=0, field=Scalar("i8", 7)),
            f"{P}.delegates[0].processed.location: unknown DelegateLocation 7",
        ),
        (
            edit_instruction(0, 0, Scalar("i32", 1)),
            f"{P}.chains[0].instructions[0].delegate_index: delegate 1 does not exist",
        ),
        (
            edit_instruction(1, 0, Scalar("i32", 2)),
            f"{P}.chains[0].instructions[1].op_index: operator 2 does not exist, there are 2",
        ),
        (
            edit_instruction(2, 1, Vector("i32", [0, 1, 16])),
            f"{P}.chains[0].instructions[2].args[2]: value 16 does not exist, there are 16",
        ),
        (
            edit_instruction(3, 1, Scalar("i32", 7)),
            f"{P}.chains[0].instructions[3].destination_instruction: instruction 7 does not",
        ),
        (
            edit_instruction(4, 1, Scalar("i32", -1)),
            f"{P}.chains[0].instructions[4].move_to: value -1 does not exist",
        ),
        (
            edit_at(1, 0, 5, 0, 2, 5, slot=0, field=Scalar("u8", 6)),
            f"{P}.chains[0].instructions[5].instr_args_type: unknown kind of instruction 6",
        ),
        (
            edit_at(1, 0, 5, 0, 2, 5, slot=1, field=None),
            f"{P}.chains[0].instructions[5].instr_args: is missing",
        ),
        (
            edit_at(1, 0, 2, 0, slot=0, field=Scalar("u8", 12)),
            f"{P}.values[0].val_type: unknown kind of value 12",
        ),
        (edit_value(0, 0, Scalar("i8", 8)), f"{P}.values[0].scalar_type: unknown ScalarType 8"),
        (edit_value(0, 2, Vector("i32", [2, -3])), f"{P}.values[0].sizes[1]: size -3 is negative"),
        (edit_value(0, 2, Vector("i32", [1] * 65)), f"{P}.values[0].sizes: rank 65 is over 64"),
        (
            edit_value(0, 2, Vector("i32", [1 << 30, 1 << 21])),
            f"{P}.values[0].sizes: the tensor would have 2**53 bytes or more",
        ),
        (
            edit_value(0, 3, Vector("u8", [0, 0])),
            f"{P}.values[0].dim_order: [0, 0] does not order 2 dims",
        ),
        (edit_value(0, 3, None), f"{P}.values[0].dim_order: [] does not order 2 dims"),
        (edit_value(0, 8, Scalar("i8", 3)), f"{P}.values[0].shape_dynamism: unknown Dynamism 3"),
        (
            edit_value(0, 5, Scalar("u32", 1)),
            f"{P}.values[0].data_buffer_idx: buffer 1 does not exist, there are 0",
        ),
        (
            edit_value(11, 0, Vector("i64", [9, 99])),
            f"{P}.values[11].items[1]: value 99 does not exist, there are 16",
        ),
        (
            edit_value(11, 0, Vector("i64", [9, 11])),
            f"{P}.values[11].items[1]: value 11 cannot be a member of IntListRef",
        ),
        (
            edit_value(11, 0, Vector("i64", [2])),
            f"{P}.values[11].items[0]: value 2 cannot be a member of IntListRef",
        ),
        (
            edit_value(14, 0, Vector("i32", [-1])),
            f"{P}.values[14].items[0]: value -1 does not exist",
        ),
        (
            edit_value(14, 0, Vector("i32", [6])),
            f"{P}.values[14].items[0]: value 6 cannot be a member of TensorList",
        ),
        (
            edit_value(15, 0, Vector("i32", [-2])),
            f"{P}.values[15].items[0]: value -2 does not exist",
        ),
        (
            edit_at(7, 0, slot=1, field=Scalar("u32", 3)),
            "Program.named_data[0].segment_index: segment 3 does not exist, there are 3",
        ),
        (
            edit_at(4, 2, slot=1, field=Scalar("u64", 1 << 63)),
            "Program.segments[2].size: bytes ",
        ),
        (
            edit_at(5, slot=0, field=Scalar("u32", 5)),
            "Program.constant_segment.segment_index: segment 5 does not exist, there are 3",
        ),
        (
            edit_at(5, slot=1, field=Vector("u64", [0, 1])),
            "Program.constant_segment.offsets[1]: offset 1 is outside of segment 0, which has 0",
        ),
    ],
)
def test_cross_references(edit: Callable[[Node], None], message: str) -> None:
    with pytest.raises(FormatError) as raised:
        read_pte(write_pte(every_kind(), edit=edit))
    assert str(raised.value).startswith(message)


def test_a_jump_to_the_end_is_allowed_and_large_but_empty_tensors_too() -> None:
    read_pte(write_pte(every_kind(), edit=edit_instruction(3, 1, Scalar("i32", 6))))
    empty = edit_value(0, 2, Vector("i32", [1 << 30, 0]))
    tensor = read_pte(write_pte(every_kind(), edit=empty)).method("forward").values[0]
    assert isinstance(tensor, TensorMeta)
    assert tensor.nbytes == 0


def test_a_constant_longer_than_its_segment() -> None:
    m = MethodWriter()
    m.outputs(m.tensor((3,), data=np.ones(3, np.float32)))
    enlarge = edit_value(0, 2, Vector("i32", [5]))
    with pytest.raises(FormatError, match="data_buffer_idx: the tensor has 20 bytes, its data"):
        read_pte(write_pte(m, edit=enlarge))


def test_two_methods_of_one_name_and_two_segments_of_one_key() -> None:
    def same_name(program: Node) -> None:
        part(program, 1, 1).slots[0] = "forward"

    def same_key(program: Node) -> None:
        part(program, 7, 1).slots[0] = part(program, 7, 0).slots[0]

    with pytest.raises(FormatError, match="two methods are called 'forward'"):
        read_pte(write_pte(add_graph(), methods={"other": add_graph()}, edit=same_name))
    with pytest.raises(FormatError, match="stands for two different segments"):
        read_pte(write_pte(add_graph(), named_data={"b": b"12"}, edit=same_key))


def test_segments_without_a_header() -> None:
    def add_segment(program: Node) -> None:
        program.slots[4] = [Node({1: Scalar("u64", 8)})]

    with pytest.raises(
        FormatError, match=r"segments\[0\].size: a segment with data, but no header"
    ):
        read_pte(write_pte(add_graph(), extended_header=False, edit=add_segment))


def test_programs_are_values() -> None:
    data = write_pte(every_kind())
    program = read_pte(data)
    assert program == read_pte(data)
    assert isinstance(program, Program)
    with pytest.raises(AttributeError):
        program.version = 1  # type: ignore[misc]
