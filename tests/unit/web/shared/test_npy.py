from __future__ import annotations

import io

import numpy as np
import pytest

from page.shared.npy import NpyError, check_fits, read_npy, write_npy


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 5), (3, 5, 7)])
def test_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    again = read_npy(write_npy(array))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert (again == array).all()


def test_numpy_reads_what_we_write() -> None:
    array = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    assert (np.load(io.BytesIO(write_npy(array))) == array).all()


def test_not_a_npy() -> None:
    with pytest.raises(NpyError, match=r"x\.png is not a \.npy"):
        read_npy(b"\x89PNG....", "x.png")


def test_cut_off() -> None:
    with pytest.raises(NpyError, match="800 bytes, but has 792: it is damaged or cut off"):
        read_npy(write_npy(np.ones(100))[:-8])


def test_pickles_are_refused() -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(NpyError, match="pickle"):
        read_npy(stream.getvalue())


def test_fits() -> None:
    array = np.zeros((7, 3), np.float32)
    assert check_fits(array, dtype="float32", bounds=((1, 9), (3, 3))).shape == (7, 3)


def test_fits_takes_any_byte_and_memory_order() -> None:
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    taken = check_fits(array, dtype="float32", bounds=((2, 2), (3, 3)))
    assert taken.dtype == np.float32
    assert taken.flags.c_contiguous
    assert (taken == array).all()


def test_fits_keeps_a_scalar_a_scalar() -> None:
    assert check_fits(np.full((), 2, np.float32), dtype="float32", bounds=()).shape == ()


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros((7, 3), np.float64), r"holds float64, but this input takes float32.*astype"),
        (np.zeros(7, np.float32), "has 1 dimensions"),
        (np.zeros((10, 3), np.float32), "dimension 0 is 10, but this input takes 1 to 9"),
        (np.zeros((7, 4), np.float32), "dimension 1 is 4, but this input takes 3 there"),
    ],
)
def test_does_not_fit(array: np.ndarray, told: str) -> None:
    with pytest.raises(NpyError, match=told):
        check_fits(array, dtype="float32", bounds=((1, 9), (3, 3)), name="x.npy")
