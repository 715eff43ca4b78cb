"""Calls of the element-wise kernels: of one tensor, of two, and of a tensor and a number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases.portable.kernel_cases import (
    INF,
    SPECIAL,
    KernelCase,
    bools,
    ints,
    positives,
    reals,
    units,
)


def unary() -> Iterator[KernelCase]:
    domains = {
        **dict.fromkeys(("acos", "asin", "atanh"), units(2, 3)),
        **dict.fromkeys(
            ("log", "log10", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"), positives(2, 3)
        ),
        "acosh": positives(2, 3) + 1,
    }
    names = "asinh atan cos cosh erf erfc exp exp2 expm1 sigmoid silu sin sinh tan tanh hardsigmoid"
    for name in (*names.split(), "hardswish", "mish", *domains):
        yield KernelCase(f"aten::{name}.out", (domains.get(name, reals(2, 3)),))
    for name in ["abs", "ceil", "floor", "frac", "neg", "relu", "round", "sign", "square", "trunc"]:
        yield KernelCase(f"aten::{name}.out", (SPECIAL,))
    for name in ["abs", "neg", "relu", "sign", "square"]:
        yield KernelCase(f"aten::{name}.out", (ints(5),), ("int64",), "int64")
    for name in ["isinf", "isnan", "isneginf", "isposinf", "logical_not", "signbit"]:
        yield KernelCase(f"aten::{name}.out", (SPECIAL,), ("bool",))
        yield KernelCase(f"aten::{name}.out", (ints(5, low=-1, high=2),), ("bool",), "int64")
    for name in ["exp", "sigmoid", "reciprocal", "sqrt"]:
        yield KernelCase(f"aten::{name}.out", (ints(4, low=1, high=5),), name="int64")
    yield KernelCase("aten::exp.out", (bools(4),), name="bool")
    yield KernelCase("aten::exp.out", (reals(5, dtype="float16"),), ("float16",), "half")
    yield KernelCase("aten::sigmoid.out", (reals(5, dtype="float64"),), ("float64",), "double")
    yield KernelCase("aten::exp.out", (reals(0, 3),), name="empty")
    yield KernelCase("aten::tanh.out", (np.full((), 0.5, "float32"),), name="rank 0")
    yield KernelCase("aten::bitwise_not.out", (ints(5),), ("int64",))
    yield KernelCase("aten::bitwise_not.out", (bools(5),), ("bool",), "bool")
    yield KernelCase("aten::round.decimals_out", (reals(5), 1))
    for name, arguments in {
        "celu": (1.5,),
        "elu": (1.5, 1.25, 0.5),
        "hardshrink": (0.5,),
        "leaky_relu": (0.125,),
        "logit": (0.25,),
        "softplus": (2.0, 3.0),
        "softshrink": (0.5,),
        "hardtanh": (-0.75, 1.5),
        "threshold": (0.5, -9.0),
    }.items():
        yield KernelCase(f"aten::{name}.out", (reals(3, 4), *arguments))
    yield KernelCase("aten::logit.out", (positives(3) / 4, None), name="no eps")
    yield KernelCase("aten::hardtanh.out", (ints(6), -3, 4), ("int64",), "int64")
    yield KernelCase("aten::nan_to_num.out", (SPECIAL, None, 7.0, None))
    for approximate in ("none", "tanh"):
        yield KernelCase("aten::gelu.out", (reals(2, 3), approximate), name=approximate)


def binary() -> Iterator[KernelCase]:
    pairs = {
        "": (reals(2, 3), reals(3) + 0.25),
        "int64": (ints(2, 3), ints(3, low=1, high=7)),
        "int64 float32": (ints(2, 3), reals(3) + 0.25),
        "int8 uint8": (ints(4, dtype="int8"), ints(4, low=1, high=9, dtype="uint8")),
        "half": (reals(4, dtype="float16"), positives(4, dtype="float16")),
        "int32 int64 of rank 0": (ints(4, dtype="int32"), np.array(7)),
        "float32 float64 of rank 0": (reals(4), np.array(0.3)),
        "int32 float64 of rank 0": (ints(4, dtype="int32"), np.array(0.3)),
        "empty": (reals(0, 3), reals(3)),
    }
    common = {
        **dict.fromkeys(pairs, "float32"),
        "int64": "int64",
        "int8 uint8": "int16",
        "half": "float16",
        "int32 int64 of rank 0": "int32",
        "int32 float64 of rank 0": "float64",
    }
    for name in ("mul.out", "maximum.out", "remainder.Tensor_out", "fmod.Tensor_out"):
        for case, pair in pairs.items():
            yield KernelCase(f"aten::{name}", pair, (common[case],), case)
    for case, pair in pairs.items():
        out = common[case] if common[case].startswith("float") else "float32"
        yield KernelCase("aten::div.out", pair, (out,), case)
        yield KernelCase("aten::lt.Tensor_out", pair, ("bool",), case)
        yield KernelCase("aten::add.out", (*pair, 2), (common[case],), case)
        for mode in ("floor", "trunc"):
            yield KernelCase("aten::div.out_mode", (*pair, mode), (common[case],), f"{case} {mode}")
        yield KernelCase("aten::floor_divide.out", pair, (common[case],), case)
    floats, whole = pairs[""], pairs["int64"]
    chosen = ("minimum", "max", "min", "fmax", "fmin")
    for name in (*chosen, "atan2", "copysign", "hypot", "logaddexp"):
        yield KernelCase(f"aten::{name}.out", floats)
    special = (SPECIAL, np.flip(SPECIAL))
    for name in ["maximum", "minimum", "fmax", "fmin", "atan2", "copysign"]:
        yield KernelCase(f"aten::{name}.out", special, name="special")
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        special = (SPECIAL, np.zeros(10, "float32"))
        yield KernelCase(f"aten::{name}.Tensor_out", special, ("bool",), "special")
        yield KernelCase(f"aten::{name}.Scalar_out", (ints(9), 3), ("bool",))
        yield KernelCase(f"aten::{name}.Scalar_out", (ints(9), 2.5), ("bool",), "float")
    for name in ["logical_and", "logical_or", "logical_xor"]:
        yield KernelCase(f"aten::{name}.out", (SPECIAL, bools(10)), ("bool",))
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        yield KernelCase(f"aten::{name}.Tensor_out", whole, ("int64",))
        yield KernelCase(f"aten::{name}.Tensor_out", (bools(6), ~bools(6)), ("bool",), "bool")
        yield KernelCase(f"aten::{name}.Scalar_out", (ints(5, dtype="int32"), 6), ("int32",))
    for name in ["bitwise_left_shift", "bitwise_right_shift"]:
        yield KernelCase(f"aten::{name}.Tensor_out", whole, ("int64",))
        yield KernelCase(f"aten::{name}.Tensor_Scalar_out", (ints(5), 2), ("int64",))
    for name in ("__lshift__", "__rshift__"):
        yield KernelCase(f"aten::{name}.Tensor_out", whole, ("int64",))
        yield KernelCase(f"aten::{name}.Scalar_out", (ints(5), 2), ("int64",))


def scalars() -> Iterator[KernelCase]:
    whole, floats = ints(5, dtype="int32"), reals(5)
    for name in ("mul", "remainder", "fmod"):
        yield KernelCase(f"aten::{name}.Scalar_out", (floats, 1.5))
        yield KernelCase(f"aten::{name}.Scalar_out", (whole, 3), ("int32",), "int")
        yield KernelCase(f"aten::{name}.Scalar_out", (whole, 1.5), name="int and float")
    yield KernelCase("aten::mul.Scalar_out", (bools(5), 3), ("int64",), "bool and int")
    yield KernelCase("aten::div.Scalar_out", (floats, 3.0))
    yield KernelCase("aten::div.Scalar_out", (whole, 4), name="int")
    yield KernelCase("aten::floor_divide.Scalar_out", (whole, 4), ("int32",))
    yield KernelCase("aten::div.Scalar_mode_out", (whole, 4, "trunc"), ("int32",))
    yield KernelCase("aten::div.Scalar_mode_out", (whole, 4, None), name="none")
    for name in ("add", "sub", "rsub"):
        yield KernelCase(f"aten::{name}.Scalar_out", (floats, 1.5, 2.0))
        yield KernelCase(f"aten::{name}.Scalar_out", (whole, 3, 2), ("int32",), "int")
        yield KernelCase(f"aten::{name}.Scalar_out", (whole, 1.5, 1), name="int and float")
    yield KernelCase("aten::sub.out", (reals(2, 3), reals(3), 2))
    yield KernelCase("aten::rsub.Tensor_out", (reals(2, 3), reals(3), 2))
    yield KernelCase("aten::add.out", (bools(4), ~bools(4), 1), ("bool",), "bool")
    yield KernelCase("aten::pow.Tensor_Tensor_out", (positives(5), reals(5)))
    yield KernelCase("aten::pow.Tensor_Tensor_out", (ints(5), np.arange(5)), ("int64",), "int")
    yield KernelCase("aten::pow.Tensor_Scalar_out", (floats, 3.0))
    yield KernelCase("aten::pow.Tensor_Scalar_out", (whole, 3), ("int32",), "int")
    yield KernelCase("aten::pow.Tensor_Scalar_out", (positives(3), -0.5), name="root")
    yield KernelCase("aten::pow.Scalar_out", (2.0, floats))
    yield KernelCase("aten::pow.Scalar_out", (3, np.arange(4)), ("int64",), "int")
    yield KernelCase("aten::clamp.out", (SPECIAL, -1.0, 0.75))
    yield KernelCase("aten::clamp.out", (whole, None, 4), ("int32",), "int")
    small = ints(5, low=0, high=9, dtype="uint8")
    yield KernelCase("aten::clamp.out", (small, 2, -2), ("uint8",), "bound that wraps")
    yield KernelCase("aten::clamp.out", (whole, 0.5, None), name="int and float")
    yield KernelCase("aten::clamp.Tensor_out", (floats, reals(5) - 1, None))
    yield KernelCase("aten::clamp.Tensor_out", (reals(2, 5), units(5), units(5) / 2), name="both")
    for bound in ("min", "max"):
        yield KernelCase(f"aten::clamp_{bound}.out", (floats, 0.5))
        yield KernelCase(f"aten::clamp_{bound}.Tensor_out", (floats, units(5)))
    yield KernelCase("aten::where.self_out", (bools(2, 3), reals(3), reals(2, 1)))
    yield KernelCase(
        "aten::where.self_out", (bools(4), ints(4), np.array(0.5)), ("float64",), "mixed"
    )
    yield KernelCase("aten::masked_fill.Scalar_out", (reals(2, 3), bools(3), -INF))
    yield KernelCase("aten::masked_fill.Scalar_out", (ints(4), bools(4), 9), ("int64",), "int")
    yield KernelCase(
        "aten::masked_fill.Tensor_out", (reals(2, 3), bools(3), np.full((), 2, "float32"))
    )
    yield KernelCase("aten::lerp.Scalar_out", (reals(5), units(5), 0.75))
    yield KernelCase("aten::lerp.Tensor_out", (reals(5), units(5), positives(5)))
    yield KernelCase("aten::addcmul.out", (reals(2, 3), units(3), positives(2, 1), 0.5))
    yield KernelCase("aten::addcdiv.out", (reals(2, 3), units(3), positives(2, 1), 0.5))


CASES = [*unary(), *binary(), *scalars()]
