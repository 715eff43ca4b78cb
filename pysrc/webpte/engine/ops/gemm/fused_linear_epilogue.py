"""Quantized linear layers with a bias, an activation and a residual after them.

    linear_epilogue   (rms_norm,) a GEMM with quantized weights, then optionally a bias, an
                      activation and a residual

For few rows a single kernel does everything. For many rows, the bias becomes the addend of the
GEMM, and the activation and the sum with the residual are a second kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import (
    FusedStep,
    Part,
    is_view,
    lower_parts,
    parts_of,
    register_fusion,
    single_steps,
)
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.elementwise import unary
from webpte.engine.ops.elementwise.fused_elementwise import chain_dispatches
from webpte.engine.ops.gemm.fused_linear_q4 import (
    LINEAR_OF,
    are_alike,
    centered_first,
    fits_skinny,
    gemv_kernel,
    lower_after_norm,
    multi_config,
    multi_kernel,
    prologue_of,
)
from webpte.engine.ops.gemm.gemv_q4 import choose_gemv_config, gemv_dispatch, is_gemv
from webpte.engine.ops.gemm.lib.epilogue import Epilogue
from webpte.engine.ops.gemm.lib.gemm import Gemm, skinny_dispatches
from webpte.engine.ops.gemm.lib.prologue import is_centered, pack_prologue, quantizes_x
from webpte.engine.ops.gemm.linear_q4 import gemm_of, lower_linear, weights_of

LINEAR_EPILOGUE = "webpte.linear_epilogue"
ADD = "aten.add.Tensor"


@dataclass(frozen=True)
class LinearEpilogue:
    """Optional operations after a linear layer: a bias, an activation and a residual."""

    bias: TensorArg | None = None
    activation: Part | None = None
    residual: TensorArg | None = None

    @property
    def formula(self) -> Epilogue:
        """The activation and the residual as a formula."""
        text, scalars = "x", tuple[float, ...]()
        if self.activation is not None:
            found = unary.float_formula(self.activation[0].name, self.activation[1])
            assert found is not None, "see unary.ACTIVATIONS"
            text, scalars = found
        if self.residual is not None:
            text = f"{text} + y"
        return Epilogue(self.residual, text, scalars)


def lower_linear_epilogue(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    index = next(i for i, (op, _) in enumerate(parts) if op.name in LINEAR_OF)
    before, rest = parts[:index], parts[index:]
    epilogue = epilogue_of(rest)
    if epilogue is None:
        return lower_parts(args)
    found = one_dispatch(args, parts, epilogue)
    if found is None and centered_first(parts) and one_dispatch(args, rest, epilogue) is not None:
        return lower_after_norm(args, parts, lambda own: one_dispatch(args, own, epilogue))
    return lower_parts(args, steps_of(before, rest, epilogue)) if found is None else found


def epilogue_of(parts: Sequence[Part]) -> LinearEpilogue | None:
    """Return the epilogue after the leading linear layer; None if sizes or types change."""
    linear, epilogue = parts[0][1], LinearEpilogue()
    made, rows = {linear.out.id}, linear.out
    for op, part in parts[1:]:
        if part.out.numel != rows.numel or part.out.dtype != rows.dtype:
            return None
        if op.name == ADD:
            both = part.tensor("self"), part.tensor("other")
            added = next(tensor for tensor in both if tensor.id not in made)
            if added.dtype != rows.dtype:
                return None
            if is_bias(added, linear, part):
                epilogue = replace(epilogue, bias=added)
            elif added.numel == rows.numel:
                epilogue = replace(epilogue, residual=added)
            else:
                return None
        elif not is_view(op, part):
            epilogue = replace(epilogue, activation=(op, part))
        made.add(part.out.id)
    return epilogue


def is_bias(added: TensorArg, linear: Args, sum_: Args) -> bool:
    """Return whether a sum adds a number to each column of the linear layer's result."""
    columns = linear.out.dims[-1]
    return added.dims == (columns,) and sum_.out.dims[-1] == columns


def with_bias(gemm: Gemm, bias: TensorArg | None) -> Gemm | None:
    """Return the GEMM with a bias as its addend; None if it has one already."""
    if bias is None:
        return gemm
    return gemm.with_bias(bias) if gemm.addend is None else None


def one_dispatch(args: Args, parts: list[Part], epilogue: LinearEpilogue) -> list[Dispatch] | None:
    """Return a dispatch for all parts, or None if no kernel takes them."""
    norm, (out,) = prologue_of(parts), args.outs
    name, linear = next((op.name, part) for op, part in parts if op.name in LINEAR_OF)
    op = LINEAR_OF[name]
    weights, x = weights_of(op, linear), linear.tensor("x")
    gemm = with_bias(gemm_of(op, linear), epilogue.bias)
    rounded_before = op.quantized and not quantizes_x(norm)
    if args.target.software or gemm is None or gemm.empty or rounded_before:
        return None
    if not are_alike([weights]) or not fits_skinny(gemm, norm, x, args.target):
        return None
    gain = norm.gain if norm else None
    read = (x, weights.scales, gain, gemm.addend, epilogue.residual, out)
    gemm = replace(gemm, stored=float_type(args, *read))
    formula = epilogue.formula
    params = weights.params + pack_prologue(norm) + pack("3f", *formula.first_scalars(3))
    after = (("RESIDUAL", epilogue.residual is not None),)
    ids = (gemm.addend_id, formula.residual_id, out.id)
    if is_gemv(gemm, [weights], norm, args.target):
        gemv = choose_gemv_config(weights, 1, args.target, norm)
        types = (*gemv.types(weights, 1), *formula.types)
        kernel = gemv_kernel("gemv_q4", x, [weights], norm, types)
        kernel = replace(kernel, params=params, overrides=(*kernel.overrides, *after))
        return [gemv_dispatch(kernel, gemm, ids, gemv)]
    if is_centered(norm):
        return None
    kernel = multi_kernel("linear_q4_skinny_epilogue", x, [weights], norm)
    kernel = replace(
        kernel,
        params=params,
        types=(*kernel.types, *formula.types),
        overrides=(*kernel.overrides, *after),
    )
    found = skinny_dispatches(kernel, gemm, out.id, multi_config(weights, gemm, args.target))
    return [replace(d, bindings=(*kernel.operands, *ids)) for d in found]


def steps_of(before: list[Part], rest: list[Part], epilogue: LinearEpilogue) -> list[FusedStep]:
    """Return steps for many rows: the GEMM with its bias, then the rest in a second kernel."""
    index = 1
    if epilogue.bias is not None:
        index += next(i for i, part in enumerate(rest) if adds(part, epilogue.bias))
    gemm, after = tuple(rest[:index]), rest[index:]
    first = FusedStep(gemm, biased_gemm if index > 1 else None)
    whole = len(after) > 1 and not any(is_view(*part) for part in after)
    last = [FusedStep(tuple(after), chain_dispatches)] if whole else single_steps(after)
    return [*single_steps(before), first, *last]


def adds(part: Part, tensor: TensorArg) -> bool:
    """Return whether a part is a sum with a tensor."""
    op, args = part
    return op.name == ADD and tensor.id in (args.tensor("self").id, args.tensor("other").id)


def biased_gemm(parts: Sequence[Part]) -> list[Dispatch] | None:
    """Return a GEMM whose addend is the bias or residual that the last part adds."""
    (op, linear), (_, addition) = parts[0], parts[-1]
    epilogue = epilogue_of(parts)
    gemm = gemm_of(LINEAR_OF[op.name], linear)
    if epilogue is not None and epilogue.residual is not None and gemm.can_add(epilogue.residual):
        return lower_linear(LINEAR_OF[op.name], linear, epilogue.residual, out=addition.out)
    if epilogue is None or epilogue.bias is None or gemm.addend is not None:
        return None
    return lower_linear(LINEAR_OF[op.name], linear, out=addition.out, bias=epilogue.bias)


register_fusion(LINEAR_EPILOGUE, lower_linear_epilogue)
