"""Programs take inputs that suit them, and refuse the rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.devices.recorded import DEVICES, add_graph, device_of, narrowed_graph, ones
from support.graphs.graphs import load, run_once, temporary_op, wait
from support.write.pte_writer import GraphWriter
from webpte import errors

# Types at the border


@pytest.mark.parametrize("device", DEVICES)
def test_int64_arrays_for_an_int32_graph(device: str) -> None:
    g = narrowed_graph(3)

    async def run() -> None:
        program = await load(g, device=device_of(device))
        (result,) = await program.forward(np.array([1, 2**31 - 1, -(2**31) + 1]))
        assert result.dtype == np.int64
        if device == "numpy":
            assert result.tolist() == [-1, -(2**31) + 1, 2**31 - 1]
        for value in (2**31, -(2**31) - 1):
            with pytest.raises(errors.ExecutionError, match="outside the range of int32"):
                await program.forward(np.array([0, 1, value]))
        await program.forward(np.array([0, 1, 2]))

    wait(run())


def test_float64_arrays_for_a_float32_graph() -> None:
    async def run() -> None:
        program = await load(add_graph(host="float64"))
        (result,) = await program.forward(ones(2, 3, dtype="float64"), ones(2, 3, dtype="float64"))
        assert result.dtype == np.float64
        assert result.tolist() == [[2] * 3] * 2

    wait(run())


def test_a_host_type_that_the_graph_cannot_mean_is_refused() -> None:
    """A float array for an int32 graph would lose its fractions without a word."""
    g = GraphWriter()
    x = g.tensor((3,), "int32")
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((3,), "int32")))
    g.host(x, "float32")

    async def run() -> None:
        with pytest.raises(errors.WebpteError, match=r"float32.*int32"):
            await run_once(g, np.array([1.5, 2.5, 3.5], np.float32))

    wait(run())


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_smaller_integers_are_widened(dtype: str) -> None:
    g = GraphWriter()
    x = g.tensor((3,), "int64")
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((3,), "int64")))

    async def run() -> None:
        program = await load(g)
        (result,) = await program.forward(np.array([1, 2, 3], dtype))
        assert result.dtype == np.int64
        assert result.tolist() == [-1, -2, -3]

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "array",
    [
        ones(2, 6)[:, ::2],
        np.asfortranarray(ones(2, 3)),
        ones(3, 2).T,
        np.broadcast_to(np.float32(1), (2, 3)),
    ],
)
def test_arrays_of_any_layout(array: np.ndarray, device: str) -> None:
    async def run() -> None:
        program = await load(add_graph(), device=device_of(device))
        (result,) = await program.forward(array, array)
        assert result.shape == (2, 3)
        if device == "numpy":
            assert (result == 2).all()

    wait(run())


@pytest.mark.parametrize("value", [np.float32(3), np.array(3, np.float32)])
def test_numpy_scalars_for_rank_0(value: Any) -> None:
    async def run() -> None:
        program = await load(add_graph(()))
        (result,) = await program.forward(value, value)
        assert isinstance(result, np.ndarray)
        assert (result.shape, float(result)) == ((), 6)

    wait(run())


# What is refused

WRONG_INPUTS: list[tuple[str, list[Any], str]] = [
    (
        "none",
        [],
        "takes 2 inputs .input0: float32 .2, 3.; input1: float32 .2, 3.., but 0 were given",
    ),
    ("one", [ones(2, 3)], "takes 2 inputs .*, but 1 were given"),
    ("three", [ones(2, 3)] * 3, "takes 2 inputs .*, but 3 were given"),
    ("rank", [ones(2, 3), ones(6)], r"input1: float32 \[2, 3\]: rank 2 is needed, not 1: \[6\]"),
    ("size", [ones(2, 3), ones(2, 4)], r"input1: float32 \[2, 3\]: \[2, 4\] was given"),
    ("smaller", [ones(1, 3), ones(2, 3)], r"input0: float32 \[2, 3\]: \[1, 3\] was given"),
    ("empty", [ones(0, 3), ones(0, 3)], r"input0: float32 \[2, 3\]: \[0, 3\] was given"),
    (
        "float64",
        [ones(2, 3, dtype="float64"), ones(2, 3)],
        r"input0: .*: float32 is needed, not float64; convert with array.astype\(np.float32\)",
    ),
    ("int32", [ones(2, 3), ones(2, 3, dtype="int32")], "input1: .*: float32 is needed, not int32"),
    ("bool", [ones(2, 3, dtype="bool"), ones(2, 3)], "input0: .*: float32 is needed, not bool"),
    ("list", [[[1.0] * 3] * 2, ones(2, 3)], "input0: .*: a NumPy array is needed, not a list"),
    ("None", [None, ones(2, 3)], "input0: .*: a NumPy array is needed, not a NoneType"),
    ("float", [ones(2, 3), 1.0], "input1: .*: a NumPy array is needed, not a float"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("inputs", "message"), [row[1:] for row in WRONG_INPUTS], ids=[row[0] for row in WRONG_INPUTS]
)
def test_wrong_inputs_are_refused_and_right_ones_still_work(
    inputs: list[Any], message: str, device: str
) -> None:
    async def run() -> None:
        program = await load(add_graph(), device=device_of(device))
        before = await program.forward(ones(2, 3), ones(2, 3))
        with pytest.raises(errors.InputError, match=rf"method 'forward'.*{message}"):
            await program.forward(*inputs)
        after = await program.forward(ones(2, 3), ones(2, 3))
        np.testing.assert_array_equal(before[0], after[0])
        assert program.stats.executions == 2

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_dynamic_inputs_have_upper_bounds(device: str) -> None:
    async def run() -> None:
        program = await load(add_graph((8, 3), dynamic=True), device=device_of(device))
        for rows in (8, 1, 5, 0, 8):
            (result,) = await program.forward(ones(rows, 3), ones(rows, 3))
            assert result.shape == (rows, 3)
        # The bound is the memory: a dim may be larger than it was exported with.
        for shape in ((3, 8), (24, 1), (1, 23)):
            x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
            (result,) = await program.forward(x, ones(*shape))
            assert result.shape == shape
            if device == "numpy":
                np.testing.assert_array_equal(result, x + 1)
        message = r"input0: float32 \[≤8, ≤3\]: \[9, 3\] was given: 27 elements, .* for 24"
        with pytest.raises(errors.InputError, match=message):
            await program.forward(ones(9, 3), ones(9, 3))
        with pytest.raises(errors.InputError, match="rank 2 is needed, not 3"):
            await program.forward(ones(1, 8, 3), ones(8, 3))
        (result,) = await program.forward(ones(4, 3), ones(4, 3))
        assert result.shape == (4, 3)

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_an_error_inside_names_the_step_and_has_its_cause(device: str) -> None:
    async def run() -> None:
        program = await load(add_graph((8, 3), dynamic=True), device=device_of(device))
        with pytest.raises(errors.ExecutionError) as caught:
            await program.forward(ones(4, 3), ones(5, 3))
        assert type(caught.value) is errors.ExecutionError
        assert str(caught.value) == (
            "method 'forward', delegate 0: op 0 (aten.add.Tensor): "
            "shapes [4, 3] and [5, 3] do not broadcast together"
        )
        assert isinstance(caught.value.__cause__, errors.GraphError)
        (result,) = await program.forward(ones(5, 3), ones(5, 3))
        assert result.shape == (5, 3)

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("failure", [ValueError("odd"), KeyError("odd"), errors.GraphError("odd")])
def test_any_error_inside_is_one_execution_error(device: str, failure: Exception) -> None:
    """Callers catch one type, for any error inside of a call."""

    def fail_later(args: Any) -> Any:
        if args.tensor("self").dims[0] == 5:
            raise failure
        return [] if device == "recording" else args.array("self")

    async def run() -> None:
        with temporary_op(
            "test.picky.default",
            "self: tensor -> tensor",
            shape=lambda args: [args.tensor("self").dims],
            lower=fail_later if device == "recording" else lambda args: [],
            reference=fail_later,
        ):
            g = GraphWriter()
            x = g.tensor((8,))
            g.inputs(x)
            g.outputs(g.op("test.picky.default", x, g.tensor((8,))))
            g.host(x, dynamic=True)
            program = await load(g, device=device_of(device))
            with pytest.raises(
                errors.ExecutionError, match=r"method 'forward', delegate 0.*odd"
            ) as caught:
                await program.forward(ones(5))
            assert caught.value.__cause__ is not None
            (result,) = await program.forward(ones(3))
            assert result.shape == (3,)

    wait(run())
