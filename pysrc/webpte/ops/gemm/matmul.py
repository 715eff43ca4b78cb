"""Products of plain matrices.

    mm        a[M, K] @ b[K, N]
    bmm       a[B, M, K] @ b[B, K, N]
    addmm     beta * self + alpha * mat1[M, K] @ mat2[K, N], self broadcast to [M, N]
    linear    x[..., K] @ weight[N, K]^T + bias[N]
    linear_dW d_out[..., N]^T @ x[..., K], the gradient of a linear's weight: [N, K]

A row of the table says where the op's operands and its addend are, and how they lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from webpte.errors import GraphError, UnsupportedError
from webpte.ops.core.args import Args, TensorArg
from webpte.ops.core.quads import float_type
from webpte.ops.core.records import Dispatch, ceil_div, pack
from webpte.ops.core.registry import register
from webpte.ops.gemm.gemm import (
    MAX_SLICED_ROWS,
    Gemm,
    GemmKernel,
    choose_skinny_config,
    is_skinny,
    simple_dispatches,
    skinny_dispatches,
    tile_dispatches,
)
from webpte.ops.gemm.gemm_small import Epilogue, SmallGemm, adding, is_small
from webpte.ops.gemm.matmul_subgroup_matrix import matrix_matmul, takes_matmul
from webpte.shapes import Dims, broadcast, broadcast_strides, numel

Array = np.ndarray


@dataclass(frozen=True)
class Operands:
    """What is multiplied. `a_k_first`: A is [m, k] in memory, not [k, m]; B is [n, k] or [k, n]."""

    a: TensorArg
    b: TensorArg
    product: Gemm
    out_dims: Dims
    a_k_first: bool = True
    b_k_first: bool = False


@dataclass(frozen=True)
class Matmul:
    """One op: its arguments, what is multiplied, and the same in NumPy (in float64 or int64)."""

    name: str
    signature: str
    operands: Callable[[Args], Operands]
    numpy: Callable[[Args, Callable[[str], Array]], Array]


def wrong(args: Args, *tensors: TensorArg) -> GraphError:
    shapes = " and ".join(str(list(tensor.dims)) for tensor in tensors)
    return GraphError(f"{args.call}: matrices of shapes {shapes} cannot be multiplied")


def mm_operands(args: Args) -> Operands:
    a, b = args.tensor("self"), args.tensor("mat2")
    if a.rank != 2 or b.rank != 2 or a.dims[1] != b.dims[0]:
        raise wrong(args, a, b)
    product = Gemm(a.dims[0], b.dims[1], a.dims[1])
    return Operands(a, b, product, (product.m, product.n))


def bmm_operands(args: Args) -> Operands:
    a, b = args.tensor("self"), args.tensor("mat2")
    if a.rank != 3 or b.rank != 3 or a.dims[0] != b.dims[0] or a.dims[2] != b.dims[1]:
        raise wrong(args, a, b)
    product = Gemm(a.dims[1], b.dims[2], a.dims[2], a.dims[0])
    return Operands(a, b, product, (product.batches, product.m, product.n))


def addmm_operands(args: Args) -> Operands:
    addend, a, b = args.tensor("self"), args.tensor("mat1"), args.tensor("mat2")
    if a.rank != 2 or b.rank != 2 or a.dims[1] != b.dims[0]:
        raise wrong(args, a, b)
    dims = (a.dims[0], b.dims[1])
    if broadcast(addend.dims, dims) != dims:
        raise GraphError(f"{args.call}: {list(addend.dims)} does not broadcast to {list(dims)}")
    alpha, beta = args.number("alpha"), args.number("beta")
    # As in torch: what is multiplied by 0 is not looked at, so NaN does not spread from there.
    strides = broadcast_strides(addend.dims, dims) if beta else (0, 0)
    product = Gemm(
        m=dims[0],
        n=dims[1],
        k=a.dims[1],
        addend=addend if beta else None,
        addend_strides=(strides[0], strides[1]),
        alpha=alpha,
        beta=beta,
    )
    return Operands(a, b, product, dims)


def linear_operands(args: Args) -> Operands:
    x, weight, bias = args.tensor("x"), args.tensor("weight"), args.optional_tensor("bias")
    if x.rank < 1 or weight.rank not in (1, 2) or x.dims[-1] != weight.dims[-1]:
        raise wrong(args, x, weight)
    columns = weight.dims[:-1]  # a weight of one dim gives one column, which has no dim
    if bias is not None and bias.dims not in (columns, (1,)):
        raise GraphError(f"{args.call}: bias {list(bias.dims)} for {list(columns)} columns")
    product = Gemm(numel(x.dims[:-1]), numel(columns), x.dims[-1]).with_bias(bias)
    return Operands(x, weight, product, (*x.dims[:-1], *columns), b_k_first=True)


def gradient_operands(args: Args) -> Operands:
    d_out, x = args.tensor("d_out"), args.tensor("x")
    if d_out.rank < 1 or x.rank < 1 or d_out.dims[:-1] != x.dims[:-1]:
        raise wrong(args, d_out, x)
    product = Gemm(d_out.dims[-1], x.dims[-1], numel(x.dims[:-1]))
    return Operands(d_out, x, product, (product.m, product.n), a_k_first=False)


def flat(array: Array) -> Array:
    return array.reshape(numel(array.shape[:-1]), array.shape[-1])


def np_addmm(args: Args, wide: Callable[[str], Array]) -> Array:
    product = args.number("alpha") * (wide("mat1") @ wide("mat2"))
    beta = args.number("beta")
    return product + beta * wide("self") if beta else product


def np_linear(args: Args, wide: Callable[[str], Array]) -> Array:
    result = wide("x") @ wide("weight").T
    return result if args.optional_tensor("bias") is None else result + wide("bias")


MATMUL = (
    Matmul(
        "aten.mm.default",
        "self: tensor, mat2: tensor -> tensor",
        mm_operands,
        lambda args, wide: wide("self") @ wide("mat2"),
    ),
    Matmul(
        "aten.bmm.default",
        "self: tensor, mat2: tensor -> tensor",
        bmm_operands,
        lambda args, wide: wide("self") @ wide("mat2"),
    ),
    Matmul(
        "aten.addmm.default",
        "self: tensor, mat1: tensor, mat2: tensor, beta: number = 1, alpha: number = 1 -> tensor",
        addmm_operands,
        np_addmm,
    ),
    Matmul(
        "aten.linear.default",
        "x: tensor, weight: tensor, bias: tensor? = None -> tensor",
        linear_operands,
        np_linear,
    ),
    Matmul(
        "et_vk.linear_dW.default",
        "d_out: tensor, x: tensor -> tensor",
        gradient_operands,
        lambda args, wide: flat(wide("d_out")).T @ flat(wide("x")),
    ),
)

# Threads per workgroup, and slices along k at most, for few rows. Where B is [k, n], neighbours
# along n read neighbouring memory: two lanes read 32 bytes, the least that memory gives.
THREADS, MOST_SLICES = {True: 128, False: 256}, 128


def stored_type(args: Args, operands: Operands) -> str:
    """f32 or f16, or i32 where everything is an integer of 32 bits (or narrowed to them)."""
    given = (operands.a, operands.b, operands.product.addend, args.out)
    tensors = [tensor for tensor in given if tensor is not None]
    if all(tensor.dtype.is_float for tensor in tensors):
        return float_type(args, *tensors)
    if any(tensor.dtype.wgsl != "i32" for tensor in tensors):
        raise UnsupportedError(
            f"{args.call}: multiplies {operands.a.dtype.name} by {operands.b.dtype.name} into "
            f"{args.out.dtype.name}; all floats or all int32 or int64 are supported"
        )
    return "i32"


def typed(args: Args, product: Gemm, stored: str) -> Gemm:
    """Scalars in the type that is computed in; a fraction cannot scale integers."""
    alpha, beta = product.alpha, product.beta
    if stored == "i32":
        if int(alpha) != alpha or int(beta) != beta:
            raise GraphError(f"{args.call}: integers are scaled by integers, not {alpha}, {beta}")
        alpha, beta = int(alpha), int(beta)
    return replace(product, alpha=alpha, beta=beta, stored=stored)


def as_row(operands: Operands) -> Operands:
    """One column is as good as one row: the same memory, and B read only once."""
    product, (row, column) = operands.product, operands.product.addend_strides
    if product.n != 1 or product.m == 1:
        return operands
    return replace(
        operands,
        a=operands.b,
        b=operands.a,
        a_k_first=True,
        b_k_first=operands.a_k_first,
        product=replace(product, m=1, n=product.m, addend_strides=(column, row)),
    )


def spread_of(op: Matmul, args: Args, ending: Epilogue) -> SmallGemm | None:
    """The product as one dispatch with its ending, if it is of a size for that."""
    operands = op.operands(args)
    product = typed(args, operands.product, stored_type(args, operands))
    few = product.m <= MAX_SLICED_ROWS or product.n == 1
    if args.target.software or few or not operands.a_k_first or not is_small(product):
        return None
    return SmallGemm(
        product,
        operands.a.id,
        operands.b.id,
        product.m * product.k,
        product.n * product.k,
        operands.b_k_first,
        ending,
        args.target,
    )


def lower_matmul(
    op: Matmul, args: Args, added: TensorArg | None = None, out: TensorArg | None = None
) -> list[Dispatch]:
    """With something `added` to it, and to another place, where that is asked for."""
    out, operands = out or args.out, op.operands(args)
    spread = spread_of(op, args, adding(added))
    if spread is not None:
        return [spread.dispatch(out.id)]
    operands = as_row(replace(operands, product=operands.product.plus(added)))
    product = typed(args, operands.product, stored_type(args, operands))
    if args.target.software:
        return simple_dispatches(simple_kernel(operands), product, out.id)
    sliced = is_skinny(product) and operands.a_k_first
    kernel = vector_kernel(operands, product, sliced)
    if sliced:
        return few_rows(kernel, product, operands.b_k_first, adding(None), out.id)
    if operands.a_k_first and operands.b_k_first and takes_matmul(product, args.target):
        return matrix_matmul(kernel, product, out.id, args.target)
    return tile_dispatches(kernel, product, out.id, args.target)


def few_rows(
    kernel: GemmKernel, product: Gemm, b_k_first: bool, ending: Epilogue, out: int
) -> list[Dispatch]:
    """A product that is read as fast as B can be, with its ending."""
    slicing = choose_skinny_config(ceil_div(product.k, 4), THREADS[b_k_first], MOST_SLICES)
    kernel = replace(
        kernel,
        types=(*kernel.types, ("FORMULA", ending.formula)),
        overrides=(*kernel.overrides, ("BESIDE", ending.beside is not None)),
        params=kernel.params + pack("3f", *[*ending.scalars, 0.0, 0.0, 0.0][:3]),
    )
    found = skinny_dispatches(kernel, product, out, slicing)
    beside = None if ending.beside is None else ending.beside.id
    return [replace(d, bindings=(*d.bindings[:-1], beside, d.bindings[-1])) for d in found]


def ended_product(
    op: Matmul, args: Args, ending: Epilogue, out: TensorArg
) -> list[Dispatch] | None:
    """The product with its ending in one dispatch, if a kernel has it at this size."""
    spread = spread_of(op, args, ending)
    if spread is not None:
        return [spread.dispatch(out.id)]
    operands = op.operands(args)
    product = typed(args, operands.product, stored_type(args, operands))
    fits = is_skinny(product) and operands.a_k_first and product.stored != "i32" and product.n > 1
    if args.target.software or not fits:
        return None
    return few_rows(vector_kernel(operands, product), product, operands.b_k_first, ending, out.id)


def vector_kernel(operands: Operands, product: Gemm, sliced: bool = True) -> GemmKernel:
    a_line = product.k if operands.a_k_first else product.m
    b_line = product.k if operands.b_k_first else product.n
    return GemmKernel(
        name="matmul_skinny" if sliced else "matmul",
        operands=(operands.a.id, operands.b.id),
        overrides=(
            ("A_ALIGNED", a_line % 4 == 0),
            ("A_K_FIRST", operands.a_k_first),
            ("B_ALIGNED", b_line % 4 == 0),
            ("B_K_FIRST", operands.b_k_first),
        ),
    )


def simple_kernel(operands: Operands) -> GemmKernel:
    m, n, k = operands.product.m, operands.product.n, operands.product.k
    a_steps = (k, 1) if operands.a_k_first else (1, m)
    b_steps = (k, 1) if operands.b_k_first else (1, n)
    return GemmKernel(
        name="matmul_simple",
        operands=(operands.a.id, operands.b.id),
        params=pack("8I", m * k, *a_steps, 0, n * k, *b_steps, 0),
    )


def run_matmul(op: Matmul, args: Args) -> Array:
    """In float64 or int64, which wraps to the output's type as the GPU's integers do."""
    wide = np.float64 if args.out.dtype.is_float else np.int64
    return op.numpy(args, lambda name: args.array(name).astype(wide)).astype(args.out.dtype.numpy)


for _op in MATMUL:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: (op.operands(args).out_dims,),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_matmul(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_matmul(op, args),  # type: ignore[misc]
    )
