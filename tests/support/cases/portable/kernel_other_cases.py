"""Calls of the kernels that are not PyTorch's own: of quantized tensors, layouts and sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases.portable.kernel_cases import KernelCase, ints, odd, positives, reals, units

BYTE, CHAR, FLOAT = 0, 1, 6  # as files number element types
D = "quantized_decomposed::"


def quantized() -> Iterator[KernelCase]:
    x, tokens, numbers = reals(3, 4), reals(2, 3, 4), ints(3, 4, low=-128, high=128, dtype="int8")
    scales, zeros = positives(4), ints(4, low=-5, high=5)
    scale, zero = np.full((1,), 0.0625, "float32"), np.full((1,), 3)
    full = (-128, 127, CHAR)
    yield KernelCase(f"{D}quantize_per_tensor.out", (x, 0.03, 2, *full), ("int8",))
    yield KernelCase(
        f"{D}quantize_per_tensor.out", (x, 0.03, 100, 0, 255, BYTE), ("uint8",), "bytes"
    )
    ties = odd(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1000)
    yield KernelCase(f"{D}quantize_per_tensor.out", (ties, 1.0, 0, *full), ("int8",), "ties")
    yield KernelCase(f"{D}quantize_per_tensor.Tensor_out", (x, scale, zero, *full), ("int8",))
    yield KernelCase(f"{D}dequantize_per_tensor.out", (numbers, 0.03, 2, *full, None))
    yield KernelCase(f"{D}dequantize_per_tensor.Tensor_out", (numbers, scale, zero, *full, None))
    yield KernelCase(f"{D}quantize_per_channel.out", (x, scales, zeros, 1, *full), ("int8",))
    yield KernelCase(f"{D}dequantize_per_channel.out", (numbers, scales, zeros, -1, *full, None))
    yield KernelCase(
        f"{D}dequantize_per_channel.out", (numbers, scales[:3], None, 0, *full, None), name="zeros"
    )
    by_token = positives(2, 3, 1), ints(2, 3, 1, low=-5, high=5)
    yield KernelCase(f"{D}quantize_per_token.out", (tokens, *by_token, *full), ("int8",))
    yield KernelCase(
        f"{D}dequantize_per_token.out",
        (ints(2, 3, 4, dtype="int8"), *by_token, *full, FLOAT),
    )
    pair = ("float64", "int64")
    yield KernelCase(f"{D}choose_qparams.Tensor_out", (x, -128, 127, 1e-5, CHAR), pair)
    yield KernelCase(f"{D}choose_qparams_per_token_asymmetric.out", (tokens, CHAR), pair)
    side, unsigned = (0.03, 2, 0, 255), ints(3, 4, low=0, high=256, dtype="uint8")
    yield KernelCase(
        f"{D}add.out", (unsigned, *side, unsigned[::-1].copy(), *side, 0.07, 3, 0, 255), ("uint8",)
    )


def tables() -> Iterator[KernelCase]:
    indices = np.array([[2, 0], [1, 2]])
    row_scales, group_scales = positives(3), positives(3, 2)
    row_zeros, group_zeros = reals(3), reals(3, 2)
    for kind, per_byte, low, high in (
        ("byte", 1, -128, 127),
        ("4bit", 2, -8, 7),
        ("2bit", 4, -2, 1),
    ):
        packed = ints(3, 8 // per_byte, low=0, high=256, dtype="uint8")
        if per_byte == 1:
            packed = packed.view("int8")
        call = (low, high, indices)
        yield KernelCase(f"{D}embedding_{kind}.out", (packed, row_scales, row_zeros, *call))
        yield KernelCase(
            f"{D}embedding_{kind}.out", (packed, group_scales, group_zeros, *call), name="groups"
        )
        yield KernelCase(
            f"{D}embedding_{kind}.dtype_out", (packed, group_scales, None, *call, FLOAT)
        )
    weight = ints(4, 6, dtype="int8")
    yield KernelCase(f"{D}mixed_mm.out", (reals(2, 4), weight, positives(4), None))
    yield KernelCase(f"{D}mixed_linear.out", (reals(2, 6), weight, positives(4), None, FLOAT))
    yield KernelCase(
        f"{D}mixed_linear.out", (reals(2, 6), weight, positives(4, 2), None, FLOAT), name="groups"
    )


def layouts() -> Iterator[KernelCase]:
    x = reals(2, 3)
    yield KernelCase("dim_order_ops::_to_dim_order_copy.out", (x, False, [0, 1]), ("int64",))
    yield KernelCase("dim_order_ops::_clone_dim_order.out", (x, False, [0, 1]))
    yield KernelCase("et_copy::_h2d_copy.out", (x,))
    yield KernelCase("et_copy::_d2h_copy.out", (x,))


def sizes() -> Iterator[KernelCase]:
    number = ("number",)
    arithmetic = ("add", "sub", "mul", "floordiv", "truediv", "mod", "sym_max", "sym_min")
    for name in (*arithmetic, "eq", "gt", "lt", "ge", "le"):
        yield KernelCase(f"executorch_prim::{name}.Scalar", (7, 3), number)
    for name in ["neg", "ceil", "round", "trunc", "sym_float", "sym_int"]:
        yield KernelCase(f"executorch_prim::{name}.Scalar", (2.5,), number)
    yield KernelCase("executorch_prim::sym_not.Scalar", (True,), number)
    yield KernelCase("executorch_prim::sym_ite.Scalar", (False, 3, 4), number)
    x = units(2, 3, 4)
    yield KernelCase("aten::sym_size.int", (x, -2), number)
    yield KernelCase("aten::sym_stride.int", (x, 0), number)
    yield KernelCase("aten::sym_numel", (x,), number)
    yield KernelCase("aten::_local_scalar_dense", (np.array([7]),), number)
    yield KernelCase("executorch_prim::et_view.default", (x, [4, -1]))
    yield KernelCase("executorch_prim::et_copy_index.tensor", (reals(3, 2), units(2), 2))
    yield KernelCase("executorch_prim::et_copy_index.tensor", (None, units(2), 0), name="first")


CASES = [*quantized(), *tables(), *layouts(), *sizes()]
