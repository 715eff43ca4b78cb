"""f16 where shaders have it: every op's kernels read and write it as f16."""

from __future__ import annotations

import pytest

import webpte
from support.cases.tables import Row, one_row_per_op
from support.graphs.graphs import make_delegate, temporary_op, wait
from support.harness.every import check_every
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.errors import ShaderError


def half_device() -> SimulatedDevice:
    return SimulatedDevice(features=("shader-f16",))


def test_kernels_are_told_of_halves() -> None:
    """A plan is not made where a kernel would see a tensor as another type."""

    def check(row: Row) -> None:
        wait(webpte.load(row.half_program(), device=half_device())).close()

    check_every(one_row_per_op(), check)


def relu_graph(dtype: str) -> GraphWriter:
    g = GraphWriter()
    x, out = g.tensor((4,), dtype), g.tensor((4,), dtype)
    g.op("test.relu", x, out)
    g.inputs(x)
    g.outputs(out)
    return g


def lower_as(args: Args, kind: str) -> list[Dispatch]:
    types = {"COMPUTE": "f32", "FORMULA": "x", "RESULT": "f32", "SCALAR": "f32"}
    types |= {"IN": args.tensor("x").dtype.wgsl, "OUT": kind}
    bindings = (args.tensor("x").id, args.out.id)
    return [Dispatch("unary", bindings, pack("I3i", 1, 0, 0, 0), (1, 1, 1), tuple(types.items()))]


@pytest.mark.parametrize(
    ("dtype", "kind", "seen", "stored"),
    [
        ("float16", "f32", "f32", "float16"),
        ("float16", "i32", "i32", "float16"),
        ("float32", "f16", "f16", "float32"),
        ("int32", "f32", "f32", "int32"),
        ("int64", "f16", "f16", "int32"),
        ("uint8", "i32", "i32", "uint8"),
        ("bool", "f32", "f32", "bool"),
    ],
)
def test_a_tensor_that_a_kernel_takes_for_another_type(
    dtype: str, kind: str, seen: str, stored: str
) -> None:
    message = rf"unary\.wgsl: binding 1, output, is of {seen}, but value 1 is stored as {stored}"
    with (
        temporary_op(
            "test.relu",
            "x: tensor -> tensor",
            shape=lambda args: (args.tensor("x").dims,),
            lower=lambda args: lower_as(args, kind),
        ),
        pytest.raises(ShaderError, match=message),
    ):
        wait(make_delegate(relu_graph(dtype), half_device()))
