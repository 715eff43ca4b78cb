"""The live values of one call, and views that nothing writes."""

from __future__ import annotations

import numpy as np
import pytest

from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.dtypes import DTYPES
from webpte.engine.format.program import Allocation, Dynamism, EValue, ExecutionPlan, TensorMeta
from webpte.engine.format.shared import ScalarType
from webpte.engine.load.state import Cell
from webpte.engine.load.values import Values
from webpte.errors import ExecutionError


def tensor(*sizes: int, offset: int | None = None) -> TensorMeta:
    place = None if offset is None else Allocation(1, offset)
    order = tuple(range(len(sizes)))
    return TensorMeta(ScalarType.FLOAT, sizes, order, 0, place, Dynamism.STATIC, None)


def plan(*values: EValue) -> ExecutionPlan:
    return ExecutionPlan("forward", (), (), values, (), (), (), (), "", "")


# Values 0 and 1 share a place, 2 has another place, 3 has no place, 4 is a number.
PLAN = plan(tensor(2, 3, offset=0), tensor(6, offset=0), tensor(6, offset=64), tensor(0), 7)
ARRAY = np.arange(6, dtype="float32").reshape(2, 3)


def test_a_view_is_what_was_written_last_to_its_place() -> None:
    values = Values(PLAN, {})
    values.store(0, ARRAY)
    assert values[1].tolist() == ARRAY.reshape(6).tolist()
    values.store(0, ARRAY + 1)
    assert values[1].tolist() == (ARRAY + 1).reshape(6).tolist()
    assert not values.is_written(1)


def test_a_view_of_a_tensor_on_the_gpu_stays_there() -> None:
    values = Values(PLAN, {})
    float32 = DTYPES["float32"]
    values.store(0, DeviceTensor(5, float32, float32, (2, 3)))
    assert values[1] == DeviceTensor(5, float32, float32, (6,))


def test_nothing_is_read_from_another_place_or_of_another_size() -> None:
    values = Values(PLAN, {})
    values.store(0, ARRAY[:1])
    for index in (1, 2):
        with pytest.raises(ExecutionError, match=f"value {index} is read before"):
            values[index]


def test_a_tensor_without_elements_needs_no_writing() -> None:
    assert Values(PLAN, {})[3].shape == (0,)


def test_numbers_come_from_the_file_until_they_are_written() -> None:
    values = Values(PLAN, {})
    assert values[4] == 7
    values.store(4, 8)
    assert values[4] == 8
    values.free(4)
    assert values[4] == 7


def test_state_changes_only_when_a_call_succeeds() -> None:
    state = {2: Cell(np.zeros(6, "float32"), DTYPES["float32"])}
    values = Values(PLAN, state)
    values.store(2, np.ones(6, "float32"))
    assert state[2].array.tolist() == [0] * 6
    values.keep_state()
    assert state[2].array.tolist() == [1] * 6
