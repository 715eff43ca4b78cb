"""Reader of `.pte` files: the extended header and the program's flatbuffer.

    byte  0  u32  root table            8  "eh00"                24  u64  start of the segments
          4  "ET12"                    12  u32  header length    32  u64  bytes of the segments
                                       16  u64  flatbuffer bytes

Only files with segments have the header after the identifier, and only a header of full length has
its last field. The segments (delegate blobs, constants) follow the flatbuffer and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct

from webpte.engine.files.source import ByteSource
from webpte.engine.format.flat import I32, I64, IDENTIFIER_AT, U32, U64, FlatBuffer, FlatTable, Span
from webpte.engine.format.frames import Frame, read_frames
from webpte.engine.format.kinds import kind_of
from webpte.engine.format.program import (
    Allocation,
    BackendDelegate,
    BoolList,
    CompileSpec,
    DataLocation,
    DelegateCall,
    DelegateLocation,
    DoubleList,
    Dynamism,
    EValue,
    ExecutionPlan,
    ExtraTensorInfo,
    FreeCall,
    Instruction,
    IntListRef,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    OptionalTensorList,
    ProgramFile,
    Subsegments,
    TensorList,
    TensorMeta,
)
from webpte.engine.format.shared import (
    ScalarType,
    read_named_data,
    read_segments,
    read_shape,
    shown,
)
from webpte.errors import FormatError, OtherFileError

__all__ = [
    "Allocation",
    "BackendDelegate",
    "BoolList",
    "CompileSpec",
    "DataLocation",
    "DelegateCall",
    "DelegateLocation",
    "DoubleList",
    "Dynamism",
    "EValue",
    "ExecutionPlan",
    "ExtendedHeader",
    "ExtraTensorInfo",
    "FreeCall",
    "Instruction",
    "IntListRef",
    "JumpFalseCall",
    "KernelCall",
    "MoveCall",
    "Operator",
    "OptionalTensorList",
    "ProgramFile",
    "ScalarType",
    "Span",
    "Subsegments",
    "TensorList",
    "TensorMeta",
    "parse_header",
    "parse_program",
    "read_program",
]

HEAD_SIZE = 256  # suffices for the header, and to recognize other files
HEADER_AT = 8
HEADER_MAGIC = b"eh00"
MIN_HEADER = 24
FULL_HEADER = 32


@dataclass(frozen=True, slots=True)
class ExtendedHeader:
    """The size of the flatbuffer, and the start of the segments (0: no segments)."""

    program_size: int
    segment_base: int
    segment_data_size: int


async def read_program(source: ByteSource) -> ProgramFile:
    """Read only the flatbuffer of a `.pte`."""
    head = await source.read(0, min(HEAD_SIZE, source.size))
    size = parse_header(head, source.size).program_size
    return parse_program(await source.read(0, size), source.size)


def is_program(head: bytes) -> bool:
    """Return whether a file starts like a `.pte`, in any version."""
    identifier = head[IDENTIFIER_AT : IDENTIFIER_AT + 4]
    return len(identifier) == 4 and identifier[:2] == b"ET" and identifier[2:].isalnum()


def parse_header(head: bytes, file_size: int) -> ExtendedHeader:
    """Parse the extended header; without a header the whole file is a flatbuffer."""
    if not is_program(head):
        raise OtherFileError(*kind_of(head), IDENTIFIER_AT)
    if head[HEADER_AT : HEADER_AT + 4] != HEADER_MAGIC:
        return ExtendedHeader(file_size, 0, 0)
    length = _head_field(head, U32, 12)
    if length < MIN_HEADER:
        raise FormatError(f"an extended header of {length} bytes lacks its fields", 12)
    program_size = _head_field(head, U64, 16)
    segment_base = _head_field(head, U64, 24)
    data_size = _head_field(head, U64, 32) if length >= FULL_HEADER else 0
    if not HEADER_AT + MIN_HEADER <= program_size <= file_size:
        raise _beyond("the program", program_size, file_size, 16)
    if segment_base > file_size:
        raise _beyond("what is before the segments", segment_base, file_size, 24)
    if segment_base + data_size > file_size:
        raise _beyond("the file", segment_base + data_size, file_size, 32)
    return ExtendedHeader(program_size, segment_base, data_size)


def _head_field(head: bytes, codec: Struct, at: int) -> int:
    if at + codec.size > len(head):
        raise FormatError("the file ends inside of its header", len(head))
    value: int = codec.unpack_from(head, at)[0]
    return value


def _beyond(what: str, needed: int, file_size: int, at: int) -> FormatError:
    return FormatError(
        f"the header gives {what} {needed} bytes, the file has {file_size}; is it truncated?", at
    )


def parse_program(flatbuffer: bytes, file_size: int) -> ProgramFile:
    """Parse the first `program_size` bytes of a `.pte`; further bytes are ignored."""
    header = parse_header(flatbuffer, file_size)
    root = FlatBuffer(flatbuffer[: header.program_size]).root("Program")
    segments = read_segments(root, 4, header.segment_base, file_size)
    constant_segment = root.table(5, "constant_segment")
    named_data: dict[str, Span] = {}
    for item in root.tables(7, "named_data"):
        key, span = read_named_data(item, segments, named_data)
        named_data[key] = span
    program = ProgramFile(
        version=root.u32(0, "version"),
        methods=(),
        segments=segments,
        constant_segment=_subsegments(constant_segment, segments) if constant_segment else None,
        constant_buffers=tuple(t.span(0, "storage") for t in root.tables(2, "constant_buffer")),
        mutable_data_segments=tuple(
            _subsegments(item, segments) for item in root.tables(6, "mutable_data_segments")
        ),
        inline_delegates=tuple(
            item.span(0, "data") for item in root.tables(3, "backend_delegate_data")
        ),
        named_data=named_data,
    )
    return replace(program, methods=tuple(_methods(root, program)))


def _subsegments(table: FlatTable, segments: tuple[Span, ...]) -> Subsegments:
    offsets = table.integers(1, "offsets", U64)
    # Without offsets the index is a default that refers to nothing.
    if not offsets:
        return Subsegments(table.u32(0, "segment_index"), (), ())
    index = table.unsigned_index(0, "segment_index", len(segments), "segment")
    segment = segments[index]
    for i, offset in enumerate(offsets):
        if offset > segment.size:
            message = (
                f"offset {offset} is outside of segment {index}, which has {segment.size} bytes"
            )
            raise table.element_error(1, "offsets", U64, i, message)
    spans = tuple(Span(segment.offset + offset, segment.size - offset) for offset in offsets)
    return Subsegments(index, offsets, spans)


def _methods(root: FlatTable, program: ProgramFile) -> Iterator[ExecutionPlan]:
    names: set[str] = set()
    for table in root.tables(1, "execution_plan"):
        plan = _plan(table, program)
        if plan.name in names:
            raise table.error(0, "name", f"two methods are called {shown(plan.name)}")
        names.add(plan.name)
        yield plan


def _plan(table: FlatTable, program: ProgramFile) -> ExecutionPlan:
    count = table.count(2, "values")
    container = table.table(1, "container_meta_type")
    operators = tuple(
        Operator(item.text(0, "name"), item.text(1, "overload"))
        for item in table.tables(6, "operators")
    )
    delegates = tuple(_delegate(item, program) for item in table.tables(7, "delegates"))
    sizes = table.integers(8, "non_const_buffer_sizes", I64)
    for i, size in enumerate(sizes):
        if size < 0:
            message = f"size {size} is negative"
            raise table.element_error(8, "non_const_buffer_sizes", I64, i, message)
    return ExecutionPlan(
        name=table.text(0, "name"),
        inputs=table.indices(3, "inputs", I32, count, "value"),
        outputs=table.indices(4, "outputs", I32, count, "value"),
        values=_values(table, count, program),
        chains=tuple(
            _chain(item, count, len(operators), len(delegates))
            for item in table.tables(5, "chains")
        ),
        operators=operators,
        delegates=delegates,
        non_const_buffer_sizes=sizes,
        container_inputs=container.text(0, "encoded_inp_str") if container else "",
        container_outputs=container.text(1, "encoded_out_str") if container else "",
    )


def _delegate(table: FlatTable, program: ProgramFile) -> BackendDelegate:
    reference = table.required(1, "processed")
    location = reference.enum(0, "location", DelegateLocation)
    if location is DelegateLocation.INLINE:
        limit, what = len(program.inline_delegates), "inline delegate"
    else:
        limit, what = len(program.segments), "segment"
    return BackendDelegate(
        id=table.text(0, "id"),
        location=location,
        index=reference.unsigned_index(1, "index", limit, what),
        compile_specs=tuple(
            CompileSpec(item.text(0, "key"), item.octets(1, "value"))
            for item in table.tables(2, "compile_specs")
        ),
    )


def _chain(
    table: FlatTable, values: int, operators: int, delegates: int
) -> tuple[Instruction, ...]:
    length = table.count(2, "instructions")
    frames = read_frames(table, 3, length)

    def instruction(item: FlatTable, lines: tuple[Frame, ...]) -> Instruction:
        tag, args = item.union(0, "instr_args")
        match tag:
            case 1:
                return KernelCall(
                    args.index(0, "op_index", operators, "operator"),
                    args.indices(1, "args", I32, values, "value"),
                    lines,
                )
            case 2:
                return DelegateCall(
                    args.index(0, "delegate_index", delegates, "delegate"),
                    args.indices(1, "args", I32, values, "value"),
                    lines,
                )
            case 3:
                return MoveCall(
                    args.index(0, "move_from", values, "value"),
                    args.index(1, "move_to", values, "value"),
                )
            case 4:
                return JumpFalseCall(
                    args.index(0, "cond_value_index", values, "value"),
                    args.index(1, "destination_instruction", length + 1, "instruction"),
                )
            case 5:
                return FreeCall(args.index(0, "value_index", values, "value"))
        raise item.error(0, "instr_args_type", f"unknown kind of instruction {tag}")

    items = table.tables(2, "instructions")
    return tuple(instruction(*each) for each in zip(items, frames, strict=True))


def _values(plan: FlatTable, count: int, program: ProgramFile) -> tuple[EValue, ...]:
    values: list[EValue] = []
    lists: list[tuple[FlatTable, IntListRef | TensorList | OptionalTensorList]] = []
    for item in plan.tables(2, "values"):
        tag, table = item.union(0, "val")
        value = _value(item, tag, table, count, program)
        if isinstance(value, IntListRef | TensorList | OptionalTensorList):
            lists.append((table, value))
        values.append(value)
    # A list may come before its members. Checking their kinds also excludes lists in lists.
    for table, value in lists:
        codec = I64 if isinstance(value, IntListRef) else I32
        for i, index in enumerate(value.items):
            member = None if index < 0 else values[index]
            if not _may_contain(value, member):
                message = f"value {index} cannot be a member of {type(value).__name__}"
                raise table.element_error(0, "items", codec, i, message)
    return tuple(values)


def _may_contain(container: IntListRef | TensorList | OptionalTensorList, member: EValue) -> bool:
    if isinstance(container, IntListRef):
        return isinstance(member, int) and not isinstance(member, bool)
    if isinstance(container, TensorList):
        return isinstance(member, TensorMeta)
    return member is None or isinstance(member, TensorMeta)


def _value(item: FlatTable, tag: int, table: FlatTable, count: int, program: ProgramFile) -> EValue:
    match tag:
        case 1:
            return None
        case 2:
            return table.i64(0, "int_val")
        case 3:
            return table.boolean(0, "bool_val")
        case 4:
            return table.f64(0, "double_val")
        case 5:
            return _tensor(table, program)
        case 6:
            return table.text(0, "string_val")
        case 7:
            return IntListRef(table.indices(0, "items", I64, count, "value"))
        case 8:
            return DoubleList(table.floats(0, "items"))
        case 9:
            return BoolList(table.booleans(0, "items"))
        case 10:
            return TensorList(table.indices(0, "items", I32, count, "value"))
        case 11:
            return OptionalTensorList(table.indices(0, "items", I32, count, "value", least=-1))
    raise item.error(0, "val_type", f"unknown kind of value {tag}")


def _tensor(table: FlatTable, program: ProgramFile) -> TensorMeta:
    scalar_type = table.enum(0, "scalar_type", ScalarType)
    sizes, dim_order = read_shape(table, 2, 3, scalar_type)
    details = table.table(6, "allocation_info")
    extra = table.table(9, "extra_tensor_info")
    tensor = TensorMeta(
        scalar_type=scalar_type,
        sizes=sizes,
        dim_order=dim_order,
        data_buffer_idx=table.u32(5, "data_buffer_idx"),
        allocation=_allocation(details) if details else None,
        dynamism=table.enum(8, "shape_dynamism", Dynamism),
        extra=_extra(extra) if extra else None,
    )
    places = program.initial_data(tensor)
    if places is not None:
        index = table.unsigned_index(5, "data_buffer_idx", len(places), "buffer")
        if places[index].size < tensor.nbytes:
            message = f"the tensor has {tensor.nbytes} bytes, its data only {places[index].size}"
            raise table.error(5, "data_buffer_idx", message)
    return tensor


def _allocation(table: FlatTable) -> Allocation:
    low, high = table.u32(1, "memory_offset_low"), table.u32(2, "memory_offset_high")
    return Allocation(table.u32(0, "memory_id"), high << 32 | low)


def _extra(table: FlatTable) -> ExtraTensorInfo:
    return ExtraTensorInfo(
        mutable_data_segments_idx=table.u64(0, "mutable_data_segments_idx"),
        fully_qualified_name=table.text(1, "fully_qualified_name"),
        location=table.enum(2, "location", DataLocation),
        device_type=table.i8(3, "device_type"),
        device_index=table.i8(4, "device_index"),
    )
