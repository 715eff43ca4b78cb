"""The table of portable kernels: schemas, fitting outputs, and errors that name the kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from webpte.engine.dtypes import DTYPES
from webpte.engine.ops.elementwise.unary import ROUND_BFLOAT16, UNARY
from webpte.engine.portable import OutSpec, fit_output, kernel_names, lookup_kernel
from webpte.engine.portable.registry import register, register_op
from webpte.errors import ExecutionError

SCHEMAS = Path(__file__).parents[3] / "data" / "kernels" / "schemas.txt"


F, N = np.ones((2, 3), "float32"), np.ones(3, "int64")
BAGS = "aten::_embedding_bag.out"


L, POOL = "llama::", "aten::max_pool2d_with_indices_backward.grad_input"
C, AT = np.ones((1, 3, 2, 4), "float32"), np.array([[0, 3, 1]])


def moe_call(
    *,
    count: int = 1,
    bits: int = 4,
    score: str = "sigmoid",
    packed: np.ndarray = np.zeros((2, 8), "uint8"),  # noqa: B008
) -> tuple[Any, ...]:
    """Return a call for two experts of 16 elements."""
    x, gate, bias = (np.ones(dims, "float32") for dims in ((3, 16), (2, 16), (0,)))
    return x, gate, bias, packed, packed, count, 2, 16, 16, 16, bits, score, 1.0


def bag_call(rows: list[int], offsets: list[int], *, mode: int = 0, **how: Any) -> tuple[Any, ...]:
    rest = (how.get("weights"), how.get("last", False), how.get("padding", -1))
    return F, np.array(rows), np.array(offsets, "int64"), False, mode, False, *rest


def call(name: str, *values: Any, out: str = "float32", dims: tuple[int, ...] = ()) -> Any:
    kernel = lookup_kernel(name)
    assert kernel is not None
    outs = [OutSpec(DTYPES[out], dims, dynamic=False)] * kernel.outputs
    return kernel.run(values, outs)


# Schemas: `name(parameters) -> number of outputs`, written from PyTorch's and ExecuTorch's own


def test_kernels_are_as_their_schemas_say() -> None:
    found = {}
    for line in SCHEMAS.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"(.+)\((.*)\) -> (\d+)", line)
        assert match is not None
        found[match[1]] = (tuple(filter(None, match[2].split(", "))), int(match[3]))
    for name in kernel_names():
        kernel = lookup_kernel(name)
        assert kernel is not None
        outputs = 0 if kernel.in_place else kernel.outputs
        assert found.pop(name) == (kernel.parameters, outputs), name
    assert not found


def test_every_unary_operator_is_a_portable_kernel() -> None:
    names = {op.name for op in UNARY if op.name.endswith(".default")} - {ROUND_BFLOAT16}
    kernels = [lookup_kernel(name.replace(".", "::", 1)[:-7] + "out") for name in names]
    assert {kernel.op for kernel in kernels if kernel} == names


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        register("aten::exp.out", "self", np.exp)


def test_a_row_needs_an_op() -> None:
    with pytest.raises(ValueError, match=r"no op aten\.nothing"):
        register_op("aten::nothing.out", "self", "aten.nothing.default")


def test_an_unknown_kernel_is_none() -> None:
    assert lookup_kernel("aten::nothing.out") is None


# Outputs


@pytest.mark.parametrize(
    ("result", "target"),
    [
        ("float64", "float32"),
        ("float32", "float16"),
        ("int64", "uint8"),
        ("int64", "float32"),
        ("bool", "int64"),
        ("bool", "uint8"),
    ],
)
def test_a_result_of_the_same_or_a_lower_kind_fits(result: str, target: str) -> None:
    out = OutSpec(DTYPES[target], (2,), dynamic=False)
    assert fit_output("k", np.ones(2, result), out).dtype == target


@pytest.mark.parametrize(
    ("result", "target"), [("float32", "int64"), ("int64", "bool"), ("float32", "bool")]
)
def test_a_result_of_a_higher_kind_does_not_fit(result: str, target: str) -> None:
    out = OutSpec(DTYPES[target], (2,), dynamic=False)
    with pytest.raises(ExecutionError, match=f"k: a result of {result} does not fit into {target}"):
        fit_output("k", np.ones(2, result), out)


@pytest.mark.parametrize(
    ("shape", "sizes", "dynamic", "fits"),
    [
        ((2, 3), (2, 3), False, True),
        ((2, 2), (2, 3), False, False),
        ((2, 2), (2, 3), True, True),
        ((0, 3), (2, 3), True, True),
        ((3, 2), (2, 3), True, True),
        ((6, 1), (2, 3), True, True),
        ((3, 2), (2, 3), False, False),
        ((2, 4), (2, 3), True, False),
        ((3,), (2, 3), True, False),
        ((), (), False, True),
    ],
)
def test_sizes_are_exact_or_bounds(
    shape: tuple[int, ...], sizes: tuple[int, ...], dynamic: bool, fits: bool
) -> None:
    out = OutSpec(DTYPES["float32"], sizes, dynamic)
    if fits:
        assert fit_output("k", np.ones(shape), out).shape == shape
    else:
        with pytest.raises(ExecutionError, match=r"k: a result of shape"):
            fit_output("k", np.ones(shape), out)


# Errors


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("aten::add.out", (F, np.ones(2, "float32"), 1), "could not be broadcast"),
        ("aten::add.out", (N, N, 1.5), "alpha 1.5 does not fit a result of int64"),
        ("aten::sub.out", (N > 0, N > 0, 1), "bools cannot be subtracted"),
        ("aten::floor_divide.out", (N, N * 0), "divided by 0"),
        ("aten::remainder.Scalar_out", (N, 0), "divided by 0"),
        ("aten::pow.Tensor_Scalar_out", (N, -1), "power of -1"),
        ("aten::div.out_mode", (F, F, "up"), "use floor or trunc"),
        ("aten::gelu.out", (F, "fast"), "use none or tanh"),
        (
            "aten::masked_fill.Scalar_out",
            (N, N > 0, 0.5),
            "float32 value cannot fill a tensor of int64",
        ),
        ("aten::mean.dtype_out", (F, None), "a mean is a float"),
        ("aten::max.unary_out", (F[:0],), "no elements"),
        ("aten::max.dim_max", (F[:0], 0, False), "no elements along dim 0"),
        ("aten::amax.out", (F[:0], [0], False), "no elements"),
        ("aten::sum.IntList_out", (F, [0, 0], False, None), "twice"),
        ("aten::_softmax.out", (F, 5, False), "dim 5"),
        ("aten::view_copy.out", (F, [4]), r"6 elements .* \[4\]"),
        ("aten::cat.out", ([F, np.ones((1, 2), "float32")], 0), r"\[1, 2\]"),
        ("aten::narrow_copy.out", (F, 1, 2, 5), "5 elements from 2"),
        ("aten::split_copy.Tensor_out", (F, 0, 1), "parts of 0"),
        ("aten::slice_scatter.out", (F, F, 1, 0, 2, 1), "does not fit"),
        ("aten::select_scatter.out", (F, F[0], 0, 7), "index 7"),
        ("aten::as_strided_copy.out", (F, [2, 3], [3, 2], 0), "elements 0 to 7"),
        ("aten::index.Tensor_out", (F, [np.array([5])]), "index 5 is out of bounds"),
        ("aten::scatter.value_out", (F, 0, N, 1.0), "indices"),
        ("aten::index_put_", (None, [N], F, False), "nothing has written"),
        ("aten::masked_scatter.out", (F, F > 0, F[0]), "6 elements are wanted"),
        ("aten::topk.values", (F, 4, 1, True, True), "4 of 3 elements"),
        ("aten::mm.out", (F, F), r"\[2, 3\]"),
        ("aten::glu.out", (F, 1), "no halves"),
        (BAGS, bag_call([0, 2], [0]), "index 2 is out of bounds"),
        (BAGS, bag_call([0, -1], [0], mode=2), "index -1 is out of bounds"),
        (BAGS, bag_call([0, 1], [1]), "do not cut 2 indices"),
        (BAGS, bag_call([0, 1], [0, 3]), "do not cut 2 indices"),
        (BAGS, bag_call([0, 1, 1], [0, 2, 1]), "do not cut 3 indices"),
        (BAGS, bag_call([0, 1], [0, 3], last=True), "do not cut 2 indices"),
        (BAGS, bag_call([0, 1], [0, 1], last=True, mode=2), "do not cut 2 indices"),
        (BAGS, bag_call([0], [], last=True), "needs an offset"),
        (BAGS, bag_call([0, 1], [0], mode=3), "mode 3"),
        (BAGS, bag_call([0, 1], [0], mode=1, weights=F[0, :2]), "mode mean"),
        (BAGS, bag_call([0, 1], [0], weights=F[0]), "weights .3. for 2 indices"),
        (BAGS, bag_call([0, 1], [0], padding=2), "padding_idx 2"),
        ("aten::reflection_pad1d.out", (F, [3, 0]), "borders"),
        ("aten::replication_pad1d.out", (F[:, :0], [1, 0]), "no elements"),
        ("aten::arange.start_out", (0, 5, -1), "from 0 to 5"),
        ("aten::fill.Tensor_out", (F, F), "one element"),
        ("aten::_local_scalar_dense", (F,), "one element"),
        ("executorch_prim::floordiv.Scalar", (1, 0), "zero"),
        ("executorch_prim::et_view.default", (F, [5]), "reshape"),
        ("executorch_prim::et_copy_index.tensor", (None, F, 2), "row 2"),
        ("executorch_prim::mod.int", (1, 0), "zero"),
        (f"{L}update_cache.out", (C, C[:, :2], 1), "3 tokens in 2 cache positions"),
        (f"{L}update_cache_with_indices.out", (C, C, 0, AT), "out of bounds for 3 cache"),
        (f"{L}update_cache_with_indices.out", (C, C, 0, AT[:, :1]), "expected are int64"),
        (f"{L}custom_quantized_sdpa.out", (C, C, C, 0, *[None] * 4, *[None] * 6, False), "scales"),
        (f"{L}fast_hadamard_transform.out", (F,), "rows of 3 elements"),
        (f"{L}gated_delta_rule.out", (C, C, C, C, C[0], C), "expected are query"),
        (f"{L}quantized_moe_ffn.out", moe_call(bits=3), "3 bits"),
        (f"{L}quantized_moe_ffn.out", moe_call(score="max"), "there are sigmoid and softmax"),
        (f"{L}quantized_moe_ffn.out", moe_call(), "an expert has 8 bytes"),
        (f"{L}quantized_moe_ffn.out", moe_call(count=3), "for 3 of 2 experts"),
        (POOL, (C, C, [1], [1], [0], [1], False, N), "indices .3. for gradients"),
        (POOL, (C, C, [1], [1], [0], [1], False, C.astype("int64") + 99), "out of bounds"),
        ("quantized_decomposed::quantize_per_tensor.Tensor_out", (F, F, N, 0, 9, 0), "one scale"),
        ("quantized_decomposed::quantize_per_channel.out", (F, N, N, 0, 0, 9, 0), "3 scales"),
        ("quantized_decomposed::dequantize_per_token.out", (F, N, N, 0, 9, 0, 6), "3 scales"),
    ],
)
def test_an_error_names_the_kernel(name: str, values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ExecutionError, match=rf"^{re.escape(name)}: .*{message}"):
        call(name, *values, out="int64")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("scatter.value_out", (F, 1, -N[None, :1], 1.0)),
        ("scatter.src_out", (F, 1, -N[None, :1], F)),
        ("scatter_add.out", (F, 1, -N[None, :1], F)),
        ("scatter_reduce.two_out", (F, 1, -N[None, :1], F, "sum", True)),
        ("index_add.out", (F, 0, -N[:1], F[:1], 1.0)),
        ("index_copy.out", (F, 0, -N[:1], F[:1])),
    ],
)
def test_a_negative_index_is_refused_as_in_pytorch(name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(ExecutionError, match=rf"^aten::{name}: .*index -1 is out of bounds"):
        call(f"aten::{name}", *values, dims=F.shape)


def test_an_error_of_a_reference_names_the_kernel_too() -> None:
    name, values = f"{L}quantized_moe_ffn.out", moe_call(packed=np.zeros((2, 9999), "uint8"))
    with pytest.raises(ExecutionError, match=rf"^{re.escape(name)}: .*packed as 0, 0"):
        call(name, *values, dims=(3, 16))
    with pytest.raises(ExecutionError, match=r"^aten::gather\.out: .*out of bounds"):
        call("aten::gather.out", F, 0, np.array([[9]]), False, dims=(1, 1))


# What has no expectation


def test_random_numbers_have_the_right_shape_and_range() -> None:
    (numbers,) = call("aten::rand.out", [3, 50])
    assert numbers.shape == (3, 50)
    assert numbers.dtype == np.float32
    assert 0 <= numbers.min() < numbers.max() < 1
    (normal,) = call("aten::randn.out", [2000], out="float64")
    assert abs(normal.mean()) < 0.2
    assert 0.8 < normal.std() < 1.2


def test_dropout() -> None:
    x = np.ones(1000, "float32")
    same, kept = call("aten::native_dropout.out", x, 0.25, False)
    assert np.array_equal(same, x)
    assert kept.all()
    dropped, kept = call("aten::native_dropout.out", x, 0.25, True)
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(4 / 3)}
    assert np.array_equal(dropped != 0, kept)
    assert 600 < kept.sum() < 900


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("aten::empty.out", [2, 3]),
        ("aten::empty_like.out", F),
        ("dim_order_ops::_empty_dim_order.out", [2, 3]),
    ],
)
def test_empty_is_zeros(name: str, first: Any) -> None:
    (array,) = call(name, first, None, out="int64")
    assert np.array_equal(array, np.zeros((2, 3), "int64"))
    assert array.dtype == np.int64


def test_copies_for_the_next_call_share_no_memory() -> None:
    source = np.ones(3, "float32")
    (copied,) = call("aten::copy_", np.zeros(3, "float32"), source, False, dims=(3,))
    source[:] = 9
    assert copied.tolist() == [1, 1, 1]


def test_in_place_kernels_leave_their_arguments_alone() -> None:
    x = np.zeros(3, "float32")
    (result,) = call("aten::index_put_", x, [np.array([1])], np.ones(1, "float32"), False)
    assert result.tolist() == [0, 1, 0]
    assert x.tolist() == [0, 0, 0]
