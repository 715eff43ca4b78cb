"""Batches of rows as calls: cut, padded, grouped by shape, and joined again in order."""

from __future__ import annotations

import numpy as np
import pytest

from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte_serve.ray.row_calls import RowMethod


def tensor(name: str, *shape: int, dynamic: bool = False, dtype: str = "float32") -> TensorInfo:
    return TensorInfo(name, shape, dtype, dynamic)


def method(
    *inputs: TensorInfo | ScalarInfo,
    outputs: tuple[TensorInfo | ScalarInfo, ...] = (tensor("out", 4, 1),),
    keeps_state: bool = False,
) -> MethodInfo:
    return MethodInfo("forward", inputs, outputs, {}, {}, {}, (), False, keeps_state)


def counted(rows: int, *dims: int) -> np.ndarray:
    return np.arange(rows * int(np.prod(dims)), dtype=np.float32).reshape(rows, *dims)


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 11])
@pytest.mark.parametrize(
    ("shape", "dynamic", "fixed_size"),
    [((1, 3), False, 1), ((4, 3), False, 4), ((4, 3), True, None), ((1, 3), True, 1)],
)
def test_calls_have_the_sizes_that_the_method_takes(
    rows: int, shape: tuple[int, int], dynamic: bool, fixed_size: int | None
) -> None:
    x = counted(rows, 3)
    made = RowMethod(method(tensor("x", *shape, dynamic=dynamic)))
    calls = made.calls([x])
    assert [row for call in calls for row in call.rows] == list(range(rows))
    for call in calls:
        (given,) = call.inputs
        assert len(given) == call.size == (fixed_size or len(call.rows)) <= shape[0]
        assert np.array_equal(given[: len(call.rows)], x[list(call.rows)])
        assert (given[len(call.rows) :] == given[len(call.rows) - 1]).all()
    assert len(calls) == -(-rows // shape[0])
    (found,) = made.join(rows, calls, [(call.inputs[0] * 2,) for call in calls])
    assert np.array_equal(found, x * 2)


@pytest.mark.parametrize("shape", [(3,), ()])
def test_a_method_without_a_batch_dim_runs_for_each_row(shape: tuple[int, ...]) -> None:
    x = counted(3, *shape)
    made = RowMethod(method(tensor("x", *shape), outputs=(tensor("out", *shape),)))
    calls = made.calls([x])
    assert [call.inputs[0].shape for call in calls] == [shape] * 3
    (found,) = made.join(3, calls, [(call.inputs[0] + 1,) for call in calls])
    assert np.array_equal(found, x + 1)


def test_rows_of_equal_shapes_share_calls_and_keep_their_places() -> None:
    lengths = [2, 5, 2, 3, 5, 2]
    rows = [np.full(n, at, np.float32) for at, n in enumerate(lengths)]
    ragged = np.empty(len(rows), object)
    ragged[:] = rows
    made = RowMethod(method(tensor("x", 2, 5, dynamic=True)))
    calls = made.calls([ragged])
    assert [list(call.rows) for call in calls] == [[0, 2], [5], [1, 4], [3]]
    (found,) = made.join(len(rows), calls, [call.inputs for call in calls])
    assert found.dtype == object
    assert all(np.array_equal(one, row) for one, row in zip(found, rows, strict=True))
    (sums,) = made.join(len(rows), calls, [(call.inputs[0].sum(1),) for call in calls])
    assert sums.tolist() == [row.sum() for row in rows]


def test_fixed_inputs_are_in_every_call() -> None:
    inputs = (
        tensor("x", 2, 3),
        ScalarInfo("n", "int", 0),
        tensor("w", 3),
        ScalarInfo("z", "None", 0),
    )
    weight = np.ones(3, np.float32)
    calls = RowMethod(method(*inputs), {"n": 5, "w": weight}).calls([counted(3, 3)])
    assert [len(call.rows) for call in calls] == [2, 1]
    for call in calls:
        _, number, given, nothing = call.inputs
        assert (number, nothing) == (5, None)
        assert given is weight


def test_a_number_of_rows_that_only_the_caller_knows() -> None:
    made = RowMethod(method(tensor("x", 4, 3, dynamic=True)), rows_per_call=2)
    assert [call.size for call in made.calls([counted(5, 3)])] == [2, 2, 2]
    with pytest.raises(InputError, match="rows_per_call is 9"):
        RowMethod(method(tensor("x", 4, 3)), rows_per_call=9).calls([counted(5, 3)])
    with pytest.raises(InputError, match="at least 1"):
        RowMethod(method(tensor("x", 4, 3)), rows_per_call=0)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [("float64", "float32"), ("float32", "float16"), ("int64", "int32"), ("uint8", "int64")],
)
def test_numbers_of_the_same_kind_are_converted(given: str, dtype: str) -> None:
    made = RowMethod(method(tensor("x", 4, 3, dtype=dtype)))
    (call,) = made.calls([counted(4, 3).astype(given)])
    assert call.inputs[0].dtype == dtype
    assert np.array_equal(call.inputs[0], counted(4, 3))


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.full((4, 3), 1e300), "float32"),
        (np.full((4, 3), 2**31), "int32"),
        (np.full((4, 3), -1), "uint8"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(array: np.ndarray, dtype: str) -> None:
    with pytest.raises(InputError, match="does not fit"):
        RowMethod(method(tensor("x", 4, 3, dtype=dtype))).calls([array])


def test_infinities_and_nan_stay() -> None:
    x = np.array([[np.inf, -np.inf, np.nan]])
    (call,) = RowMethod(method(tensor("x", 1, 3))).calls([x])
    assert np.array_equal(call.inputs[0], x.astype(np.float32), equal_nan=True)


def test_a_batch_without_rows_has_results_without_rows() -> None:
    made = RowMethod(method(tensor("x", 4, 3), outputs=(tensor("out", 4, 2, dtype="int64"),)))
    assert made.calls([counted(0, 3)]) == []
    (found,) = made.join(0, [], [])
    assert found.shape == (0, 2)
    assert found.dtype == np.int64


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(InputError, match="keeps state"):
        RowMethod(method(tensor("x", 4, 3), keeps_state=True))
    with pytest.raises(InputError, match="no input w"):
        RowMethod(method(tensor("x", 4, 3)), {"w": 1})
    with pytest.raises(InputError, match="give n: int in `fixed`"):
        RowMethod(method(tensor("x", 4, 3), ScalarInfo("n", "int", 0)))
    with pytest.raises(InputError, match="it returns out: float"):
        RowMethod(method(tensor("x", 4, 3), outputs=(ScalarInfo("out", "float", 0.0),)))
    made = RowMethod(method(tensor("x", 4, 3)))
    with pytest.raises(InputError, match=r"the columns are \[2, 5, 4, 3\]"):
        made.calls([counted(2, 5, 4, 3)])
    two = RowMethod(method(tensor("x", 4, 3), tensor("y", 2, 3)))
    with pytest.raises(InputError, match="no number of rows fits"):
        two.calls([counted(4, 3), counted(4, 3)])
    with pytest.raises(InputError, match=r"\[3, 4\] rows"):
        two.calls([counted(4, 3), counted(3, 3)])
    calls = made.calls([counted(4, 3)])
    with pytest.raises(ExecutionError, match=r"returned \[1, 3\] for 4 rows"):
        made.join(4, calls, [(counted(1, 3),)])
