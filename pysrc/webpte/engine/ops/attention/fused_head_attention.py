"""From x to attention in three dispatches, where heads get biases or norms.

    head_attention   as `attention_block`, but queries, keys and values get biases (for a single
                     token, results of LoRA's branches), or queries and keys are RMS-normalized
                     (each head, or all heads of a token at once); the rotary embedding may be
                     missing

For few tokens one kernel computes all three GEMMs, and attention adds biases, normalizes and
rotates as it reads them. Otherwise all calls run one after the other, but the three GEMMs at once
where a kernel takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from webpte.engine.ops.attention.attention import stored_as
from webpte.engine.ops.attention.attention_calls import read_cached
from webpte.engine.ops.attention.attention_kernels import (
    Attention,
    lower_split,
    scratch,
    writes_cache,
)
from webpte.engine.ops.attention.fused_attention import (
    ROPES,
    parts_are_dense,
    qkv_steps,
    rotates_quads,
)
from webpte.engine.ops.attention.rope import angles_of, operands, start_of
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import FusedStep, Part, grouped, parts_of, register_fusion
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, pack
from webpte.engine.ops.gemm.computed_row import lower_with_row
from webpte.engine.ops.gemm.fused_linear_epilogue import biased_gemm
from webpte.engine.ops.gemm.fused_linear_q4 import (
    ALL_LINEARS,
    LINEAR_OF,
    centered_first,
    linears_of,
    lower_qkv,
    prologue_of,
    steps_after_norm,
)
from webpte.engine.ops.gemm.fused_matmul import qkv_dispatches
from webpte.engine.ops.gemm.gemv_multi import lower_gemv_multi
from webpte.engine.ops.gemm.linear_int8 import rounded_once
from webpte.engine.ops.gemm.linear_q4 import bias_of
from webpte.engine.ops.gemm.matmul import LINEAR
from webpte.engine.ops.norm.fused_norm import RMS_NORM, NormedSum

HEAD_ATTENTION = "webpte.head_attention"
ADD = "aten.add.Tensor"
STORAGE_BUFFERS = 10  # buffers in wgsl/attention/attention_flash_split_heads.wgsl
UNCHANGED, BIASED, NORMED_HEADS, NORMED_TOKENS = range(4)  # values of the shader's constant
MASK_BINDING = 7


@dataclass(frozen=True)
class HeadSource:
    """The linear layer that computes queries, keys or values, with its bias and norm."""

    linear: Args
    bias: TensorArg | None = None
    norm: Args | None = None


@dataclass(frozen=True)
class HeadPrologue:
    """The change of queries, keys and values: its kind, tensors and epsilon."""

    kind: int
    tensors: tuple[TensorArg | None, TensorArg | None, TensorArg | None] = (None, None, None)
    eps: float = 0.0


def lower_head_attention(args: Args) -> list[Dispatch]:
    parts = list(parts_of(args))
    return rounded_once(lower_with_row(args, parts, fused_dispatches, head_attention_steps))


def head_attention_steps(args: Args, parts: list[Part]) -> list[FusedStep]:
    """Return the steps from x to attention, as few as the kernels allow."""
    found = fused_dispatches(args, parts)
    if found is not None:
        return [FusedStep(tuple(parts), lambda _: found)]
    if centered_first(parts) and (rest := fused_dispatches(args, parts[1:])) is not None:
        return steps_after_norm(parts, lambda _: rest)
    if parts_are_dense(parts):
        return grouped(parts, {LINEAR}, qkv_dispatches)
    return qkv_steps(parts) or steps_with_biases(parts)


def steps_with_biases(parts: Sequence[Part]) -> list[FusedStep]:
    """Return a step per part; a linear layer and the sum with its bias are a single step."""
    made = {part[1].out.id: i for i, part in enumerate(parts) if part[0].name in LINEAR_OF}
    sums = dict[int, Part]()  # by the index of the linear layer
    for part in parts:
        op, args = part
        if op.name == ADD:
            ids = (args.tensor("self").id, args.tensor("other").id)
            sums |= {made[i]: part for i in ids if i in made}
    merged = {id(part) for part in sums.values()}
    return [
        FusedStep((part, sums[i]), biased_gemm) if i in sums else FusedStep((part,))
        for i, part in enumerate(parts)
        if id(part) not in merged
    ]


def fused_dispatches(
    args: Args, parts: list[Part], row: NormedSum | None = None
) -> list[Dispatch] | None:
    """Return the fused kernels, or None if they do not take the sizes."""
    attention = parts[-1][1]
    if args.target.software or args.target.storage_buffers < STORAGE_BUFFERS:
        return None
    names = ("query", "k_cache", "v_cache", "key", "value")
    call = stored_as(attention, read_cached(attention, writes=True), *names)
    rope = next((part for part in parts if part[0].name in ROPES), None)
    if attention.out.numel == 0 or not writes_cache(call):
        return None
    if rope is not None and not rotates_quads(rope):
        return None
    sources = sources_of(parts, rope)
    change = head_prologue_of(call, sources)
    if change is None:
        return None
    linears = [source.linear for source in sources]
    sizes = [linear.out.numel for linear in linears]
    qkv, norm = scratch("attention_qkv", sum(sizes) * 4), prologue_of(parts)
    if parts_are_dense(parts):
        gemms = lower_gemv_multi(linears, norm, qkv, "f32", biases_follow=True)
    else:
        gemms = lower_qkv(linears_of(parts), norm, qkv, biases_follow=True, row=row)
    if gemms is None:
        return None
    call = replace(call, width=linears[0].tensor("x").dims[-1])
    return gemms + head_dispatches(call, rope, change, qkv, (sizes[0], sizes[0] + sizes[1]), args)


def sources_of(parts: Sequence[Part], rope: Part | None) -> list[HeadSource]:
    """Return the linear layers of queries, keys and values, with later biases and norms."""
    makers = {out.id: part for part in parts for out in part[1].outs}
    attention = parts[-1][1]
    ids = [attention.tensor(name).id for name in ("query", "key", "value")]
    if rope is not None:
        ids[:2] = [rope[1].tensor(name).id for name in ("xq", "xk")]
    return [source_of(makers, value_id) for value_id in ids]


def source_of(makers: Mapping[int, Part], value_id: int) -> HeadSource:
    """Walk back from a value to its linear layer."""
    bias, norm = None, None
    while (made := makers[value_id])[0].name not in ALL_LINEARS:
        op, args = made
        if op.name == RMS_NORM:
            norm, value_id = args, args.tensor("input").id
        elif op.name == ADD:
            both = args.tensor("self"), args.tensor("other")
            inner, bias = both if both[0].id in makers else both[::-1]
            value_id = inner.id
        else:
            assert op.alias_of is not None, "the rule matches nothing else"
            value_id = args.tensor(op.alias_of).id
    op, linear = made
    own = (
        linear.optional_tensor("bias")
        if op.name == LINEAR
        else bias_of(LINEAR_OF[op.name], linear, linear.out.dims[-1])
    )
    if bias is not None and own is not None:
        raise AssertionError("the rule matches one bias")
    return HeadSource(linear, own if bias is None else bias, norm)


def head_prologue_of(call: Attention, sources: Sequence[HeadSource]) -> HeadPrologue | None:
    """Return the change of the heads; None if the kernel does not have it."""
    biases, norms = [s.bias for s in sources], [s.norm for s in sources[:2]]
    if not any(biases) and not any(norms):
        return HeadPrologue(UNCHANGED)
    if any(biases):
        widths = [source.linear.out.dims[-1] for source in sources]
        whole = all(b is not None and b.numel >= n for b, n in zip(biases, widths, strict=True))
        # For a single token the result of a LoRA branch is a bias; more tokens have different
        # results.
        tokens = call.out.sizes[0] * call.out.sizes[2]
        whole &= tokens == 1 or all(bias is not None and bias.rank == 1 for bias in biases)
        # The kernel binds the biases of values in place of a mask.
        fits = whole and not any(norms) and call.mask is None and is_stored(call, *biases)
        return HeadPrologue(BIASED, tuple(biases)) if fits else None  # type: ignore[arg-type]
    if not all(norms):
        return None
    first, second = norms
    assert first is not None, "both are norms"
    assert second is not None, "both are norms"
    gains = first.tensor("weight"), second.tensor("weight")
    eps = {norm.number("eps") for norm in (first, second)}
    if len(eps) > 1 or not is_stored(call, *gains):
        return None
    change = HeadPrologue(NORMED_HEADS, (*gains, None), eps.pop())
    if [gain.numel for gain in gains] == [call.q.sizes[3]] * 2:
        return change
    widths = [source.linear.out.dims[-1] for source in sources[:2]]
    one = call.out.sizes[0] * call.out.sizes[2] == 1
    whole = one and [gain.numel for gain in gains] == widths
    return replace(change, kind=NORMED_TOKENS) if whole else None


def is_stored(call: Attention, *tensors: TensorArg | None) -> bool:
    """Return whether tensors have the element type that the queries have in memory."""
    return all(tensor is not None and tensor.dtype.wgsl == call.stored for tensor in tensors)


def head_dispatches(
    call: Attention,
    rope: Part | None,
    change: HeadPrologue,
    qkv: Scratch,
    places: tuple[int, int],
    args: Args,
) -> list[Dispatch]:
    """Return attention that makes its queries and new keys as it reads them from `qkv`."""
    angles, half, tables = (0, 0, 0), False, tuple[int | None, ...]((None, None))
    start: Binding = pack("4i", 0, 0, 0, 0)
    if rope is not None:
        op, turning = rope
        half = ROPES[op.name]
        _, _, cosines, sines = operands(turning)
        angles, tables = angles_of(turning, half), (cosines.id, sines.id)
        start = start_of(turning, half)
    call = replace(call, rotary=(*angles, *places), target=args.target)
    ids = [None if tensor is None else tensor.id for tensor in change.tensors]
    first, *rest = lower_split(
        call, call.new, "attention_flash_split_heads", (qkv, *tables, *ids[:2])
    )
    bindings, types = first.bindings, first.types
    if change.kind == BIASED:
        bindings = (*bindings[:MASK_BINDING], ids[2], *bindings[MASK_BINDING + 1 :])
        types = tuple((n, call.stored if n == "MASK_TYPE" else t) for n, t in types)
    making = replace(
        first,
        bindings=(*bindings, start),
        types=types,
        overrides=(
            *first.overrides,
            ("ROTATE_HALF", int(half)),
            ("ROTATED", int(rope is not None)),
            ("HEAD_PROLOGUE", change.kind),
            ("EPS", change.eps),
        ),
    )
    return [making, *rest]


register_fusion(HEAD_ATTENTION, lower_head_attention)
