"""Chains of element-wise float ops in one kernel, built from the formulas of their tables.

    elementwise   calls of `unary` and `binary` with one output; all tensors have one type

Operands have as many elements as the output, or a single element. Calls with other operands (live
sizes may cause this) or with more inputs than the kernel takes run on the ops' own kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.fused_call import Part, lower_parts, parts_of, register_fusion
from webpte.engine.ops.core.quads import quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.elementwise import binary, unary

ELEMENTWISE = "webpte.elementwise"
NAMES = frozenset({*unary.FLOAT_UNARY, unary.GELU_NAME, *binary.FLOAT_BINARY})

MAX_STEPS, MAX_INPUTS = 16, 4  # also in wgsl/elementwise/fused_elementwise.wgsl
STEP = "fn step_{}(x: Vec, y: Vec, a: f32, b: f32, c: f32, alpha: f32) -> Vec {{ return {}; }}"


def names_of(op: str) -> tuple[str, ...]:
    return ("self", "other") if op in binary.FLOAT_BINARY else ("self",)


def operands_of(part: Part) -> list[int]:
    op, args = part
    return [args.tensor(name).id for name in names_of(op.name)]


def formula_of(part: Part) -> tuple[str, tuple[float, ...]]:
    op, args = part
    found = unary.float_formula(op.name, args) or binary.float_formula(op.name, args)
    assert found is not None, "see NAMES"
    return found


def lower_elementwise(args: Args) -> list[Dispatch]:
    found = chain_dispatches(list(parts_of(args)))
    return lower_parts(args) if found is None else found


def chain_dispatches(parts: Sequence[Part]) -> list[Dispatch] | None:
    """Return a dispatch for all parts; the last gives the result. None if the kernel cannot."""
    out, given = parts[-1][1].out, {part.out.id for _, part in parts}
    if out.numel == 0:
        return []
    read = [part.tensor(name) for op, part in parts for name in names_of(op.name)]
    inputs = list({tensor.id: tensor for tensor in read if tensor.id not in given}.values())
    sizes = {tensor.numel for tensor in inputs} | {part.out.numel for _, part in parts}
    types = {tensor.dtype for tensor in (*inputs, *(part.out for _, part in parts))}
    fits = sizes <= {1, out.numel} and len(types) == 1 and out.dtype.is_float
    if not fits or len(inputs) > MAX_INPUTS or len(parts) > MAX_STEPS:
        return None
    named = {tensor.id: f"input_{i}" for i, tensor in enumerate(inputs)}
    steps, body, scalars = list[str](), list[str](), list[float]()
    for i, part in enumerate(parts):
        formula, values = formula_of(part)
        x, *other = (named[operand] for operand in operands_of(part))
        s = f"params.scalars[{i}]"
        steps.append(STEP.format(i, formula))
        body.append(f"let step_{i}_gives = step_{i}({x}, {other[0] if other else x}, ")
        body[-1] += f"{s}.x, {s}.y, {s}.z, {s}.x);"
        scalars += [*values, *[0.0] * 4][:4]
        named[part[1].out.id] = f"step_{i}_gives"
    body.append(f"let result = {named[out.id]};")
    singles = sum(1 << i for i, tensor in enumerate(inputs) if tensor.numel < out.numel)
    ids = [*(tensor.id for tensor in inputs), *[None] * MAX_INPUTS][:MAX_INPUTS]
    quads, rest = quad_count(out.numel), [0.0] * (4 * MAX_STEPS - len(scalars))
    return [
        Dispatch(
            kernel="fused_elementwise",
            bindings=(*ids, out.id),
            params=pack(f"I12x{4 * MAX_STEPS}f", quads, *scalars, *rest),
            grid=quad_grid(quads),
            types=(
                ("BODY", "\n    ".join(body)),
                ("FORMULA", ", ".join(op.name.split(".")[1] for op, _ in parts)),
                ("IN", out.dtype.wgsl),
                ("STEPS", "\n".join(steps)),
            ),
            overrides=(("SINGLES", singles),),
        )
    ]


register_fusion(ELEMENTWISE, lower_elementwise)
