"""Matrix multiplication of plain matrices (floats or integers).

    mm        a[M, K] @ b[K, N]
    bmm       a[B, M, K] @ b[B, K, N]
    addmm     beta * self + alpha * mat1[M, K] @ mat2[K, N], self broadcast to [M, N]
    linear    x[..., K] @ weight[N, K]^T + bias[N]
    linear_dW d_out[..., N]^T @ x[..., K], the gradient of a linear's weight: [N, K]

A row of the table has the names and the memory layout of the op's operands and addend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.gemm.gemm_small import SmallGemm, is_small
from webpte.engine.ops.gemm.lib.epilogue import Epilogue, adding
from webpte.engine.ops.gemm.lib.gemm import (
    MAX_SKINNY_ROWS,
    Gemm,
    GemmKernel,
    choose_skinny_config,
    is_skinny,
    simple_dispatches,
    skinny_dispatches,
    tile_dispatches,
)
from webpte.engine.ops.gemm.subgroup_matrix.matmul import matrix_matmul, takes_matmul
from webpte.engine.shapes import Dims, broadcast, broadcast_strides, numel
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

LINEAR = "aten.linear.default"


@dataclass(frozen=True)
class Operands:
    """The operands of a GEMM. `a_k_first`: A is [m, k], not [k, m]; `b_k_first`: B is [n, k]."""

    a: TensorArg
    b: TensorArg
    gemm: Gemm
    out_dims: Dims
    a_k_first: bool = True
    b_k_first: bool = False


@dataclass(frozen=True)
class Matmul:
    """A single op: its arguments, its operands, and its NumPy reference (in float64 or int64)."""

    name: str
    signature: str
    operands: Callable[[Args], Operands]
    numpy: Callable[[Args, Callable[[str], Array]], Array]


def wrong(args: Args, *tensors: TensorArg) -> GraphError:
    """Build the error for shapes that do not match."""
    shapes = " and ".join(str(list(tensor.dims)) for tensor in tensors)
    return GraphError(f"{args.call}: matrices of shapes {shapes} cannot be multiplied")


def mm_operands(args: Args) -> Operands:
    a, b = args.tensor("self"), args.tensor("mat2")
    if a.rank != 2 or b.rank != 2 or a.dims[1] != b.dims[0]:
        raise wrong(args, a, b)
    gemm = Gemm(a.dims[0], b.dims[1], a.dims[1])
    return Operands(a, b, gemm, (gemm.m, gemm.n))


def bmm_operands(args: Args) -> Operands:
    a, b = args.tensor("self"), args.tensor("mat2")
    if a.rank != 3 or b.rank != 3 or a.dims[0] != b.dims[0] or a.dims[2] != b.dims[1]:
        raise wrong(args, a, b)
    gemm = Gemm(a.dims[1], b.dims[2], a.dims[2], a.dims[0])
    return Operands(a, b, gemm, (gemm.batches, gemm.m, gemm.n))


def addmm_operands(args: Args) -> Operands:
    addend, a, b = args.tensor("self"), args.tensor("mat1"), args.tensor("mat2")
    if a.rank != 2 or b.rank != 2 or a.dims[1] != b.dims[0]:
        raise wrong(args, a, b)
    dims = (a.dims[0], b.dims[1])
    if broadcast(addend.dims, dims) != dims:
        raise GraphError(f"{args.call}: {list(addend.dims)} does not broadcast to {list(dims)}")
    alpha, beta = args.number("alpha"), args.number("beta")
    # torch does not read the addend with beta = 0, so its NaNs do not spread.
    strides = broadcast_strides(addend.dims, dims) if beta else (0, 0)
    gemm = Gemm(
        m=dims[0],
        n=dims[1],
        k=a.dims[1],
        addend=addend if beta else None,
        addend_strides=(strides[0], strides[1]),
        alpha=alpha,
        beta=beta,
    )
    return Operands(a, b, gemm, dims)


def linear_operands(args: Args) -> Operands:
    x, weight, bias = args.tensor("x"), args.tensor("weight"), args.optional_tensor("bias")
    if x.rank < 1 or weight.rank not in (1, 2) or x.dims[-1] != weight.dims[-1]:
        raise wrong(args, x, weight)
    columns = weight.dims[:-1]  # a weight of rank 1 gives a column without a dim
    if bias is not None and bias.dims not in (columns, (1,)):
        raise GraphError(f"{args.call}: bias {list(bias.dims)} for {list(columns)} columns")
    gemm = Gemm(numel(x.dims[:-1]), numel(columns), x.dims[-1]).with_bias(bias)
    return Operands(x, weight, gemm, (*x.dims[:-1], *columns), b_k_first=True)


def gradient_operands(args: Args) -> Operands:
    d_out, x = args.tensor("d_out"), args.tensor("x")
    if d_out.rank < 1 or x.rank < 1 or d_out.dims[:-1] != x.dims[:-1]:
        raise wrong(args, d_out, x)
    gemm = Gemm(d_out.dims[-1], x.dims[-1], numel(x.dims[:-1]))
    return Operands(d_out, x, gemm, (gemm.m, gemm.n), a_k_first=False)


def flat(array: Array) -> Array:
    return array.reshape(numel(array.shape[:-1]), array.shape[-1])


def np_addmm(args: Args, wide: Callable[[str], Array]) -> Array:
    gemm = args.number("alpha") * (wide("mat1") @ wide("mat2"))
    beta = args.number("beta")
    return gemm + beta * wide("self") if beta else gemm


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
        LINEAR,
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

MATMUL_OF = {op.name: op for op in MATMUL}

# Threads per workgroup and the most slices along k of the skinny kernel, by B's order. If B is [k,
# n], neighbours along n read neighbouring memory: two lanes read 32 bytes, the least unit.
THREADS, MOST_SLICES = {True: 128, False: 256}, 128


def stored_type(args: Args, operands: Operands) -> str:
    """Return f32 or f16, or i32 if all tensors are integers of (or narrowed to) 32 bits."""
    given = (operands.a, operands.b, operands.gemm.addend, args.out)
    tensors = [tensor for tensor in given if tensor is not None]
    if all(tensor.dtype.is_float for tensor in tensors):
        return float_type(args, *tensors)
    if any(tensor.dtype.wgsl != "i32" for tensor in tensors):
        raise UnsupportedError(
            f"{args.call}: multiplies {operands.a.dtype.name} by {operands.b.dtype.name} into "
            f"{args.out.dtype.name}; all floats or all int32 or int64 are supported"
        )
    return "i32"


def typed(args: Args, gemm: Gemm, stored: str) -> Gemm:
    """Convert alpha and beta to the type of the arithmetic; integers need integer scalars."""
    alpha, beta = gemm.alpha, gemm.beta
    if stored == "i32":
        if int(alpha) != alpha or int(beta) != beta:
            raise GraphError(
                f"{args.call}: alpha and beta of integers are integers, not {alpha}, {beta}"
            )
        alpha, beta = int(alpha), int(beta)
    return replace(gemm, alpha=alpha, beta=beta, stored=stored)


def as_row(operands: Operands) -> Operands:
    """Turn a GEMM with a single column into one with a single row, to read B only once."""
    gemm, (row, column) = operands.gemm, operands.gemm.addend_strides
    if gemm.n != 1 or gemm.m == 1:
        return operands
    return replace(
        operands,
        a=operands.b,
        b=operands.a,
        a_k_first=True,
        b_k_first=operands.a_k_first,
        gemm=replace(gemm, m=1, n=gemm.m, addend_strides=(column, row)),
    )


def small_gemm_of(op: Matmul, args: Args, epilogue: Epilogue) -> SmallGemm | None:
    """Return the GEMM as a dispatch with its epilogue, if its size suits the small kernel."""
    operands = op.operands(args)
    gemm = typed(args, operands.gemm, stored_type(args, operands))
    few = gemm.m <= MAX_SKINNY_ROWS or gemm.n == 1
    if args.target.software or few or not operands.a_k_first or not is_small(gemm):
        return None
    return SmallGemm(
        gemm,
        operands.a.id,
        operands.b.id,
        gemm.m * gemm.k,
        gemm.n * gemm.k,
        operands.b_k_first,
        epilogue,
        args.target,
    )


def lower_matmul(
    op: Matmul, args: Args, added: TensorArg | None = None, out: TensorArg | None = None
) -> list[Dispatch]:
    """Lower a matmul, with an addend `added` and another output if they are given."""
    out, operands = out or args.out, op.operands(args)
    small = small_gemm_of(op, args, adding(added))
    if small is not None:
        return [small.dispatch(out.id)]
    operands = as_row(replace(operands, gemm=operands.gemm.plus(added)))
    gemm = typed(args, operands.gemm, stored_type(args, operands))
    if args.target.software:
        return simple_dispatches(simple_kernel(operands), gemm, out.id)
    skinny = is_skinny(gemm) and operands.a_k_first
    kernel = quad_kernel(operands, gemm, skinny)
    if skinny:
        return skinny_matmul(kernel, gemm, operands.b_k_first, adding(None), out.id)
    if operands.a_k_first and operands.b_k_first and takes_matmul(gemm, args.target):
        return matrix_matmul(kernel, gemm, out.id, args.target)
    return tile_dispatches(kernel, gemm, out.id, args.target)


def skinny_matmul(
    kernel: GemmKernel, gemm: Gemm, b_k_first: bool, epilogue: Epilogue, out: int
) -> list[Dispatch]:
    """Return the dispatch of the skinny kernel with its epilogue."""
    config = choose_skinny_config(ceil_div(gemm.k, 4), THREADS[b_k_first], MOST_SLICES)
    kernel = replace(
        kernel,
        types=(*kernel.types, *epilogue.types),
        overrides=(*kernel.overrides, ("RESIDUAL", epilogue.residual is not None)),
        params=kernel.params + pack("3f", *epilogue.first_scalars(3)),
    )
    found = skinny_dispatches(kernel, gemm, out, config)
    residual = epilogue.residual_id
    return [replace(d, bindings=(*d.bindings[:-1], residual, d.bindings[-1])) for d in found]


def gemm_with_epilogue(
    op: Matmul, args: Args, epilogue: Epilogue, out: TensorArg
) -> list[Dispatch] | None:
    """Return the GEMM with its epilogue as a dispatch, or None if no kernel takes the size."""
    small = small_gemm_of(op, args, epilogue)
    if small is not None:
        return [small.dispatch(out.id)]
    operands = op.operands(args)
    gemm = typed(args, operands.gemm, stored_type(args, operands))
    fits = is_skinny(gemm) and operands.a_k_first and gemm.stored != "i32" and gemm.n > 1
    if args.target.software or not fits:
        return None
    return skinny_matmul(quad_kernel(operands, gemm), gemm, operands.b_k_first, epilogue, out.id)


def quad_kernel(operands: Operands, gemm: Gemm, skinny: bool = True) -> GemmKernel:
    a_line = gemm.k if operands.a_k_first else gemm.m
    b_line = gemm.k if operands.b_k_first else gemm.n
    return GemmKernel(
        name="matmul_skinny" if skinny else "matmul",
        operands=(operands.a.id, operands.b.id),
        overrides=(
            ("A_ALIGNED", a_line % 4 == 0),
            ("A_K_FIRST", operands.a_k_first),
            ("B_ALIGNED", b_line % 4 == 0),
            ("B_K_FIRST", operands.b_k_first),
        ),
    )


def simple_kernel(operands: Operands) -> GemmKernel:
    m, n, k = operands.gemm.m, operands.gemm.n, operands.gemm.k
    a_steps = (k, 1) if operands.a_k_first else (1, m)
    b_steps = (k, 1) if operands.b_k_first else (1, n)
    return GemmKernel(
        name="matmul_simple",
        operands=(operands.a.id, operands.b.id),
        params=pack("8I", m * k, *a_steps, 0, n * k, *b_steps, 0),
    )


def run_matmul(op: Matmul, args: Args) -> Array:
    """Compute in float64 or int64, which wraps to the output's type as the GPU's integers do."""
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
