"""Arguments by name: signatures, and what each kind takes, gives and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.graphs.graphs import build_graph
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.graph import Call
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import SymIntBound, SymIntUniform
from webpte.engine.ops.core.signature import parse_signature
from webpte.errors import GraphError, ValueKindError

# Signatures


def test_a_signature() -> None:
    signature = parse_signature("self: tensor, dims: ints?, keepdim: bool = False -> tensor")
    assert [p.name for p in signature.parameters] == ["self", "dims", "keepdim"]
    assert [p.kind for p in signature.parameters] == ["tensor", "ints", "bool"]
    assert [p.nullable for p in signature.parameters] == [False, True, False]
    assert [p.optional for p in signature.parameters] == [False, False, True]
    assert [p.default for p in signature.parameters] == [None, None, False]
    assert signature.positions == {"self": 0, "dims": 1, "keepdim": 2}
    assert signature.required == 2
    assert signature.output == "tensor"


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("a: int = -1 -> tensor", -1),
        ("a: number = 0.5 -> tensor", 0.5),
        ("a: str = 'none' -> tensor", "none"),
        ("a: any = None -> tensor", None),
    ],
)
def test_defaults_are_python(text: str, default: object) -> None:
    (parameter,) = parse_signature(text).parameters
    assert parameter.optional
    assert parameter.default == default


@pytest.mark.parametrize("output", ["tensor", "tensors", "symint", "any"])
def test_outputs(output: str) -> None:
    assert parse_signature(f"a: int -> {output}").output == output


@pytest.mark.parametrize(
    "text",
    [
        "self: tensor",
        "self: tensor -> list",
        "self: matrix -> tensor",
        "self tensor -> tensor",
        "self:tensor -> tensor",
        "self: tensor ? -> tensor",
        "self: int = -> tensor",
    ],
)
def test_a_mistake_in_a_signature_shows_at_import(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a parameter declaration|no output"):
        parse_signature(text)


# Values

Write = Callable[[GraphWriter], int]


def bind(signature: str, *writes: Write, symints: dict[int, int] | None = None) -> Args:
    """The arguments of a call whose values are written by `writes`; the output is last."""
    g = GraphWriter()
    ids = [write(g) for write in writes]
    out = g.tensor((2,))
    graph = build_graph(g)
    live = LiveState(graph)
    for value_id, value in (symints or {}).items():
        live.set_symint(value_id, value)
    return Args(parse_signature(signature), Call(3, "test.op", (*ids, out)), graph, live)


def int_(value: int) -> Write:
    return lambda g: g.int(value)


def double(value: float) -> Write:
    return lambda g: g.double(value)


def flag(value: bool) -> Write:
    return lambda g: g.bool_(value)


def null(g: GraphWriter) -> int:
    return g.null()


def text(g: GraphWriter) -> int:
    return g.string("tanh")


def tensor(g: GraphWriter) -> int:
    return g.tensor((2, 3), "int32")


def symint(g: GraphWriter) -> int:
    return g.symint(7)


def ints(g: GraphWriter) -> int:
    return g.int_list([1, 2])


@pytest.mark.parametrize(
    ("write", "value"),
    [(int_(3), 3), (double(2.5), 2.5), (flag(True), True), (symint, 7), (int_(2**40), 2**40)],
)
def test_numbers(write: Write, value: float) -> None:
    assert bind("a: number -> tensor", write).number("a") == value


def test_a_number_is_the_symints_live_value() -> None:
    assert bind("a: number -> tensor", symint, symints={0: 9}).number("a") == 9


@pytest.mark.parametrize(("write", "value"), [(int_(-3), -3), (double(4.0), 4), (symint, 7)])
def test_integers(write: Write, value: int) -> None:
    """The exporter writes 4 and 4.0 as one value, of the type of whichever came first."""
    result = bind("a: int -> tensor", write).integer("a")
    assert result == value
    assert type(result) is int


@pytest.mark.parametrize("value", [2.5, float("inf"), float("nan")])
def test_a_fraction_is_no_integer(value: float) -> None:
    with pytest.raises(
        GraphError, match=rf"op 3 \(test.op\): argument 'a' must be an integer, not {value}"
    ):
        bind("a: int -> tensor", double(value)).integer("a")


def test_absent_arguments_have_their_default() -> None:
    args = bind("a: number = 2, b: str = 'x', c: bool = True, d: tensor? = None -> tensor")
    assert args.number("a") == 2
    assert args.string("b") == "x"
    assert args.flag("c") is True
    assert args.optional_tensor("d") is None


def test_null_stands_for_the_default_and_for_none() -> None:
    args = bind("a: number = 2, b: number?, c: ints?, d: floats? -> tensor", null, null, null, null)
    assert args.number("a") == 2
    assert args.optional_number("b") is None
    assert args.optional_integers("c") is None
    assert args.optional_floats("d") is None


@pytest.mark.parametrize(
    ("signature", "read"),
    [
        ("a: number? -> tensor", lambda args: args.number("a")),
        ("a: int? -> tensor", lambda args: args.integer("a")),
        ("a: ints? -> tensor", lambda args: args.integers("a")),
        ("a: tensor? -> tensor", lambda args: args.tensor("a")),
    ],
)
def test_null_where_the_op_needs_a_value(signature: str, read: Callable[[Args], Any]) -> None:
    with pytest.raises(GraphError, match=r"op 3 \(test.op\): argument 'a' must be .* not null"):
        read(bind(signature, null))


WRONG: list[tuple[str, Write, Callable[[Args], Any], str]] = [
    ("tensor", int_(1), lambda args: args.tensor("a"), "an int"),
    ("tensor", null, lambda args: args.tensor("a"), "null"),
    ("tensors", tensor, lambda args: args.tensors("a"), "a tensor"),
    ("number", text, lambda args: args.number("a"), "a string"),
    ("number", tensor, lambda args: args.number("a"), "a tensor"),
    ("number", null, lambda args: args.number("a"), "null"),
    ("int", ints, lambda args: args.integer("a"), "a list of ints"),
    ("ints", int_(1), lambda args: args.integers("a"), "an int"),
    ("ints", lambda g: g.double_list([0.5]), lambda args: args.integers("a"), "a list of doubles"),
    ("bool", double(1), lambda args: args.flag("a"), "a double"),
    ("str", int_(1), lambda args: args.string("a"), "an int"),
    ("floats", text, lambda args: args.optional_floats("a"), "a string"),
]


@pytest.mark.parametrize(
    ("kind", "write", "read", "found"), WRONG, ids=[f"{w[0]} is {w[3]}" for w in WRONG]
)
def test_the_wrong_kind(kind: str, write: Write, read: Callable[[Args], Any], found: str) -> None:
    with pytest.raises(GraphError) as caught:
        read(bind(f"a: {kind} -> tensor", write))
    assert str(caught.value) == (
        f"op 3 (test.op): argument 'a' (value 0) is {found}, expected {kind}"
    )


@pytest.mark.parametrize(
    ("write", "value"), [(flag(True), True), (flag(False), False), (int_(1), True)]
)
def test_flags(write: Write, value: bool) -> None:
    assert bind("a: bool -> tensor", write).flag("a") is value


def test_lists_of_ints() -> None:
    assert bind("a: ints -> tensor", ints).integers("a") == [1, 2]
    empty = bind("a: ints, b: ints -> tensor", lambda g: g.bool_list([]), lambda g: g.int_list([]))
    assert empty.integers("a") == empty.integers("b") == []


def test_lists_with_symint_members_have_live_values() -> None:
    def mixed(g: GraphWriter) -> int:
        return g.value_list([g.int(5), g.symint(7), g.int(-1)])

    assert bind("a: ints -> tensor", mixed).integers("a") == [5, 7, -1]
    assert bind("a: ints -> tensor", mixed, symints={1: 3}).integers("a") == [5, 3, -1]


def test_an_integral_double_in_a_list_of_values_counts() -> None:
    """A list with a SymInt shares its plain members with other arguments, 4.0 among them."""

    def mixed(g: GraphWriter) -> int:
        return g.value_list([g.double(4.0), g.symint(7)])

    assert bind("a: ints -> tensor", mixed).integers("a") == [4, 7]


def test_a_list_member_of_the_wrong_kind() -> None:
    def mixed(g: GraphWriter) -> int:
        return g.value_list([g.tensor((2,)), g.symint(7)])

    with pytest.raises(GraphError, match=r"list member \(value 0\) is a tensor"):
        bind("a: ints -> tensor", mixed).integers("a")


def test_floats_take_ints() -> None:
    args = bind("a: floats, b: floats -> tensor", lambda g: g.double_list([0.5]), ints)
    assert args.optional_floats("a") == [0.5]
    assert args.optional_floats("b") == [1.0, 2.0]


def test_tensors_are_seen_at_their_live_dims() -> None:
    g = GraphWriter()
    x, out = g.tensor((4, 3), "int64"), g.tensor((4, 3))
    graph = build_graph(g)
    live = LiveState(graph)
    live.set_cur_dims(x, (2, 3))
    args = Args(parse_signature("self: tensor -> tensor"), Call(0, "t", (x, out)), graph, live)
    seen = args.tensor("self")
    assert (seen.id, seen.dims, seen.maximum, seen.rank, seen.numel) == (x, (2, 3), (4, 3), 2, 6)
    assert seen.dtype.name == "int64"
    assert args.out.dims == (4, 3)
    assert [out.id for out in args.outs] == [args.out.id]


def test_lists_of_tensors_may_have_null_members() -> None:
    args = bind("a: tensors -> tensor", lambda g: g.value_list([g.tensor((2,)), g.null()]))
    first, second = args.tensors("a")
    assert first is not None
    assert second is None


def test_several_outputs() -> None:
    g = GraphWriter()
    x, a, b = g.tensor((2,)), g.tensor((1,)), g.tensor((1,))
    both = g.value_list([a, b])
    graph = build_graph(g)
    signature = parse_signature("self: tensor -> tensors")
    args = Args(signature, Call(0, "t", (x, both)), graph, LiveState(graph))
    assert [out.id for out in args.outs] == [a, b]


@pytest.mark.parametrize("count", [0, 3])
def test_the_number_of_arguments(count: int) -> None:
    with pytest.raises(
        GraphError, match=rf"takes 2 arguments and an output, but the file gives {count + 1} ids"
    ):
        bind("a: number, b: number = 1 -> tensor", *[int_(1)] * count)


def test_an_output_of_the_wrong_kind() -> None:
    g = GraphWriter()
    x, n = g.tensor((2,)), g.int(1)
    graph = build_graph(g)
    args = Args(
        parse_signature("self: tensor -> tensor"), Call(0, "t", (x, n)), graph, LiveState(graph)
    )
    with pytest.raises(ValueKindError, match=f"value {n} is an int, not a tensor"):
        _ = args.out


# Live integers


def test_a_live_symint_is_bound_and_a_fixed_one_is_a_block() -> None:
    args = bind("a: live, b: live -> tensor", symint, int_(-2))
    assert args.uniform("a") == SymIntUniform(0)
    assert args.uniform("b") == (-2).to_bytes(4, "little", signed=True) + bytes(12)


def test_a_bound_of_a_live_symint_is_a_record_and_of_a_fixed_one_a_check() -> None:
    args = bind("a: live, b: live -> tensor", symint, int_(5))
    assert args.bound("a", 0, 9, "too far") == [SymIntBound(0, 0, 9, "op 3 (test.op): too far")]
    assert args.bound("b", 0, 5, "too far") == []
    with pytest.raises(GraphError, match=r"op 3 \(test.op\): too far: b is 5, not 0 to 4"):
        args.bound("b", 0, 4, "too far")
