"""The least work of a call: bytes of its tensors, and FLOPs of GEMMs, convolutions, attention.

    GEMM          2 x output elements x length of the sums
    convolutions  2 x output elements x taps x channels of a group; transposed: x input elements
    attention     4 x elements of the queries x keys that are attended to
    experts       GEMMs of the gate, and of the experts that each token goes to

Bytes count every tensor that is read or written once, as the GPU stores it. For an op that picks
rows or elements, only the picked elements count; for a KV cache, the filled part; for experts, the
experts of a single token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from webpte.engine.ops import OpDef
from webpte.engine.ops.attention.quantized_attention import QUANTIZED_SDPA
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import parts_of
from webpte.engine.shapes import numel

Flops = Callable[[Args], int]

EXPERTS = "webpte.quantized_moe.default"


@dataclass(frozen=True)
class Work:
    """Bytes and FLOPs of a call; `flops` is None without a formula for its operator."""

    read: int  # bytes
    written: int
    flops: int | None

    @property
    def nbytes(self) -> int:
        return self.read + self.written


# FLOPs


def _gemm(summed: str) -> Flops:
    """Return the formula of a GEMM that sums along the last dim of one argument."""
    return lambda args: 2 * args.out.numel * args.tensor(summed).dims[-1]


def _weight_gradient(args: Args) -> int:
    return 2 * args.out.numel * numel(args.tensor("d_out").dims[:-1])


def _convolution(args: Args) -> int:
    """Count a convolution; if transposed, each input element goes to that many places."""
    times = args.tensor("input") if args.flag("transposed") else args.out
    return 2 * times.numel * numel(args.tensor("weight").dims[1:])


def _quantized_convolution(args: Args) -> int:
    channels = args.tensor("x").dims[1] // args.integer("groups")
    return 2 * args.out.numel * channels * numel(tuple(args.integers("kernel_size")))


def _transposed_quantized_convolution(args: Args) -> int:
    channels = args.out.dims[1] // args.integer("groups")
    return 2 * args.tensor("x").numel * channels * numel(tuple(args.integers("kernel_size")))


def _cached_attention(args: Args) -> int:
    query = args.tensor("query")  # [batch, tokens, heads, size]
    return 4 * query.numel * (args.integer("input_pos") + query.dims[1])


def _quantized_attention(args: Args) -> int:
    query = args.tensor("query")
    return 4 * query.numel * (args.integer("input_pos") + _tokens(args, query))


def _tokens(args: Args, tensor: TensorArg) -> int:
    """Return the tokens of queries, or the positions of a cache, of quantized attention."""
    return tensor.dims[2 if args.flag("is_seq_at_dim_2") else 1]


def _masked_attention(args: Args) -> int:
    return 4 * args.out.numel * args.tensor("key").dims[1]


def _attention(args: Args) -> int:
    return 4 * args.out.numel * args.tensor("key").dims[-2]


def _experts(args: Args) -> int:
    """Count the gate, and three matrices of each chosen expert."""
    chosen = 3 * args.integer("num_activated_experts") * args.integer("hidden_dim")
    return 2 * args.out.numel * (args.integer("num_experts") + chosen)


FLOPS: Mapping[str, Flops] = {
    "aten.mm.default": _gemm("self"),
    "aten.bmm.default": _gemm("self"),
    "aten.addmm.default": _gemm("mat1"),
    **dict.fromkeys(
        (
            "aten.linear.default",
            "aten._weight_int8pack_mm.default",
            "et_vk.linear_q4gsw.default",
            "et_vk.linear_qcs4w.default",
            "et_vk.linear_dq8ca_q4gsw.default",
            "et_vk.linear_q8ta_q8csw.default",
            "et_vk.q8ta_linear.default",
            "et_vk.q8ta_linear_gemv.default",
            "webpte.linear_dq8ca_q8csw.default",
            "webpte.q8_linear.default",
        ),
        _gemm("x"),
    ),
    "et_vk.linear_q4gsw_backward.default": _gemm("d_out"),
    "et_vk.linear_dW.default": _weight_gradient,
    "aten.convolution.default": _convolution,
    "et_vk.conv_with_clamp.default": _convolution,
    "webpte.dq8_conv_in_floats.default": _convolution,
    "et_vk.q8ta_conv2d.default": _quantized_convolution,
    "et_vk.q8ta_conv2d_dw.default": _quantized_convolution,
    "et_vk.q8ta_conv2d_pw.default": _quantized_convolution,
    "et_vk.q8ta_conv2d_transposed.default": _transposed_quantized_convolution,
    "webpte.q8_conv.default": _quantized_convolution,
    "webpte.q8_conv_transposed.default": _transposed_quantized_convolution,
    "sdpa_with_kv_cache.default": _cached_attention,
    "custom_sdpa.default": _cached_attention,
    QUANTIZED_SDPA: _quantized_attention,
    "et_vk.sdpa.default": _attention,
    "et_vk.gemma4_sdpa.default": _masked_attention,
    EXPERTS: _experts,
}

# Bytes

# Arguments of which an op reads as many elements as it outputs.
PICKED = {
    "aten.embedding.default": ("weight",),
    "aten.slice_copy.Tensor": ("self",),
    "aten.select_copy.int": ("self",),
    "aten.index_select.default": ("self",),
    "aten.index.Tensor": ("self",),
    "aten.gather.default": ("self",),
}
# Arguments of which an op reads a row per index.
ROWS = ("weight", "scales", "zero_points")
CACHED = ("sdpa_with_kv_cache.default", "custom_sdpa.default")
UPDATE = "update_cache.default"


def stored_bytes(tensor: TensorArg) -> int:
    return tensor.numel * tensor.dtype.storage.itemsize


def work_of(op: OpDef, args: Args) -> Work:
    """Return the work of a call at its live shapes; empty for a call that yields a number."""
    if op.scalar is not None:
        return Work(0, 0, None)
    if args.call.parts:
        return _work_of_parts(args)
    formula = FLOPS.get(op.name)
    flops = None if formula is None else formula(args)
    if op.name == UPDATE:
        fresh = stored_bytes(args.tensor("value"))
        return Work(fresh, fresh, None)
    read = sum(_read(op.name, name, tensor, args) for name, tensor in _tensors(args).items())
    written = sum(map(stored_bytes, args.outs))
    if op.name == CACHED[0]:  # keys and values go into the caches
        written += stored_bytes(args.tensor("key")) + stored_bytes(args.tensor("value"))
    elif op.mutates:
        changed = [t for name, t in _tensors(args).items() if name.partition("[")[0] in op.mutates]
        written += sum(map(stored_bytes, changed))
    return Work(read, written, flops)


def _work_of_parts(args: Args) -> Work:
    """Sum the work of a fused call's parts, without the tensors between them."""
    parts = [(op, part, work_of(op, part)) for op, part in parts_of(args)]
    between = {out.id for _, part, _ in parts for out in part.outs} - {out.id for out in args.outs}
    seen, read, written = set(between), 0, 0
    for op, part, work in parts:
        for name, tensor in _tensors(part).items():
            read += 0 if tensor.id in seen else _read(op.name, name, tensor, part)
            seen.add(tensor.id)
        written += work.written - sum(stored_bytes(o) for o in part.outs if o.id in between)
    counted = [work.flops for _, _, work in parts if work.flops is not None]
    return Work(read, written, sum(counted) if counted else None)


def _tensors(args: Args) -> dict[str, TensorArg]:
    """Return the tensor arguments by name, tensors in lists with their index; each tensor once."""
    found: dict[int, tuple[str, TensorArg]] = {}
    for parameter, _ in args.given:
        if parameter.kind == "tensor":
            tensor = args.optional_tensor(parameter.name)
            listed = [] if tensor is None else [(parameter.name, tensor)]
        elif parameter.kind == "tensors":
            members = enumerate(args.tensors(parameter.name))
            listed = [(f"{parameter.name}[{i}]", t) for i, t in members if t is not None]
        else:
            listed = []
        for name, tensor in listed:
            found.setdefault(tensor.id, (name, tensor))
    return dict(found.values())


def _read(op: str, name: str, tensor: TensorArg, args: Args) -> int:
    whole = stored_bytes(tensor)
    if name in PICKED.get(op, ()):
        return min(whole, args.out.numel * tensor.dtype.storage.itemsize)
    if "embedding" in op and name in ROWS and tensor.dims and tensor.dims[0]:
        return min(whole, args.tensor("indices").numel * (whole // tensor.dims[0]))
    if op in CACHED and name in ("k_cache", "v_cache"):
        filled = args.integer("input_pos") + args.tensor("query").dims[1]
        return whole * min(filled, tensor.dims[1]) // max(1, tensor.dims[1])
    if op == EXPERTS and name.startswith("packed"):
        return whole * args.integer("num_activated_experts") // args.integer("num_experts")
    if op == QUANTIZED_SDPA and name.startswith(("k", "v")):  # the caches, scales, zero points
        filled = args.integer("input_pos") + _tokens(args, args.tensor("query"))
        positions = _tokens(args, tensor)
        return whole * min(filled, positions) // max(1, positions)
    return whole
