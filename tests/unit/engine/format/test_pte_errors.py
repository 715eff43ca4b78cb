"""Programs that contradict themselves: every check has its message and its place."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.harness.reading import read_pte
from support.harness.samples import add_graph, every_kind
from support.write.pte_writer import MethodWriter, Node, Scalar, Vector, write_pte
from webpte.engine.format.pte import ProgramFile, TensorMeta
from webpte.errors import FormatError


@pytest.mark.parametrize(
    ("at", "form", "value", "message", "offset"),
    [
        (4, "4s", b"PK12", "not an ExecuTorch program but a file of an unknown kind: if it", 4),
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
        (edit_value(0, 0, Scalar("i8", 30)), f"{P}.values[0].scalar_type: unknown ScalarType 30"),
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
        FormatError, match=r"segments\[0\].size: the segment has data, but there is no header"
    ):
        read_pte(write_pte(add_graph(), extended_header=False, edit=add_segment))


def test_programs_are_values() -> None:
    data = write_pte(every_kind())
    program = read_pte(data)
    assert program == read_pte(data)
    assert isinstance(program, ProgramFile)
    with pytest.raises(AttributeError):
        program.version = 1  # type: ignore[misc]
