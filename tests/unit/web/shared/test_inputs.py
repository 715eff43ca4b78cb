from __future__ import annotations

import numpy as np
import pytest

from page.shared.cards.fills import fill_array, fills_for
from page.shared.inputs.inputs import ScalarInput, TensorInput, inputs_of
from page.shared.inputs.typed import parse_values
from page.shared.npy import NpyError, check_fits
from webpte import ScalarInfo, TensorInfo

DTYPES = [
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_fill_has_the_shape_and_type(dtype: str) -> None:
    for fill in fills_for(dtype):
        if fill != "file":
            array = fill_array(fill, (3, 5, 7), dtype)
            assert array.shape == (3, 5, 7)
            assert array.dtype == (np.float32 if dtype == "bfloat16" else np.dtype(dtype))


def test_random_is_repeatable_and_spread() -> None:
    one, two = (fill_array("normal", (1000,), "float32", seed=3) for _ in range(2))
    assert (one == two).all()
    assert abs(float(one.mean())) < 0.2
    assert 0.8 < float(one.std()) < 1.2


def test_a_seed_that_is_too_large_names_the_largest() -> None:
    state = TensorInput(0, "x", "float32", ((3, 3),))
    state.set_seed("9" * 20)
    assert state.error == "A seed is an integer from 0 to 9,223,372,036,854,775,807."
    state.set_seed("9223372036854775807")
    assert not state.error
    assert state.array().shape == (3,)


def test_random_integers_stay_below() -> None:
    array = fill_array("integers", (1000,), "int64", below=4)
    assert set(array.tolist()) == {0, 1, 2, 3}
    assert fill_array("integers", (1000,), "int8").min() < 0
    assert set(fill_array("integers", (100,), "bool").tolist()) == {True, False}


def test_range_wraps_where_the_type_ends() -> None:
    assert fill_array("range", (300,), "int8").tolist()[126:130] == [126, 127, 0, 1]
    assert fill_array("range", (2, 2), "float32").tolist() == [[0, 1], [2, 3]]


def test_ramp() -> None:
    assert fill_array("ramp", (5,), "float32").tolist() == [-1, -0.5, 0, 0.5, 1]


def test_scalar_and_empty_shapes() -> None:
    assert fill_array("normal", (), "float32").shape == ()
    assert fill_array("range", (0, 3), "int32").shape == (0, 3)


def test_unknown_fill() -> None:
    with pytest.raises(ValueError, match="no fill named"):
        fill_array("noise", (1,), "float32")


def dynamic_input() -> TensorInput:
    return TensorInput(0, "x", "float32", ((1, 9), (3, 3)))


def test_default_is_random_at_the_largest_size() -> None:
    state = dynamic_input()
    assert state.array().shape == (9, 3)
    assert state.is_random


def test_a_lone_integer_starts_at_zero() -> None:
    assert TensorInput(1, "input_pos", "int64", ((1, 1),)).array().tolist() == [0]
    assert TensorInput(1, "ids", "int64", ((1, 1), (4, 4))).fill == "integers"


def test_dims() -> None:
    state = dynamic_input()
    state.set_dim(0, "4")
    assert state.array().shape == (4, 3)
    for wrong in ("10", "0", "", "2.5", "x"):
        state.set_dim(0, wrong)
        assert "from 1 to 9" in state.error
        assert state.array().shape == (4, 3)
    state.set_dim(0, "2")
    assert not state.error


def test_the_array_is_made_once() -> None:
    state = dynamic_input()
    first = state.array()
    assert state.array() is first
    state.reroll()
    assert not (state.array() == first).all()


def test_fill_and_below() -> None:
    state = TensorInput(0, "ids", "int64", ((2, 2), (5, 5)))
    assert state.takes_below
    state.set_below("2")
    assert state.array().max() <= 1
    state.set_below("nine")
    assert state.error
    state.set_fill("zeros")
    assert not state.error
    assert not state.array().any()
    with pytest.raises(ValueError, match="not a fill for int64"):
        state.set_fill("normal")


def test_file() -> None:
    state = dynamic_input()
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3)
    state.take_array(wanted, "x.npy")
    assert (state.array() == wanted).all()
    assert state.dims == [2, 3]
    with pytest.raises(NpyError):
        state.take_array(np.zeros((2, 4), np.float32), "y.npy")
    assert state.file_name == "x.npy"
    assert (state.array() == wanted).all()
    state.set_dim(0, "5")  # a file cannot be resized: back to a rule
    assert state.fill == "normal"
    assert state.array().shape == (5, 3)


def test_plain_values() -> None:
    state = ScalarInput(0, "n", "int", 3)
    state.set_value("8")
    assert state.array() == 8
    state.set_value("8.5")
    assert "integer" in state.error
    assert state.array() == 8
    number = ScalarInput(0, "s", "float", 0.5)
    number.set_value("1e-3")
    assert number.array() == 1e-3
    flag = ScalarInput(0, "b", "bool", False)
    flag.set_value("true")
    assert flag.array() is True
    word = ScalarInput(0, "w", "str", "")
    word.set_value("hi")
    assert word.array() == "hi"


def test_inputs_of_a_method() -> None:
    states = inputs_of((TensorInfo("x", (4, 3), "float32", True), ScalarInfo("n", "int", 7)))
    assert isinstance(states[0], TensorInput)
    assert states[0].bounds == ((1, 4), (1, 3))
    assert isinstance(states[1], ScalarInput)
    assert states[1].array() == 7


def test_an_input_without_bounds_starts_at_its_declared_sizes() -> None:
    (state,) = inputs_of((TensorInfo("x", (4, 3), "float32", True, unbounded=True),))
    assert isinstance(state, TensorInput)
    assert state.array().shape == (4, 3)
    state.set_dim(0, "70")
    assert state.array().shape == (70, 3)


def test_bfloat16_is_typed_and_read_as_float32() -> None:
    state = TensorInput(0, "x", "bfloat16", ((4, 4),))
    assert state.fill == "normal"
    made = state.of_bytes(b"\xcd\x3d\x00\xc0\x00\x00\x7f\x7f", "x.bin")
    assert made.dtype == np.float32
    assert made.tolist() == [0.10009765625, -2, 0, 3.3895313892515355e38]
    assert check_fits(made, dtype="bfloat16", bounds=((4, 4),)) is not None
    with pytest.raises(NpyError, match=r"takes bfloat16\. Save it with array.astype\('float32'\)"):
        check_fits(made.astype(np.float64), dtype="bfloat16", bounds=((4, 4),))
    typed = parse_values("1 2.5 -3 inf", dtype="bfloat16", dims=(4,), bounds=((4, 4),))
    assert typed.tolist() == [1, 2.5, -3, np.inf]
