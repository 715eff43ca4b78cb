"""Graphs of attention whose heads get biases or norms, as decoders of many families have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.decoders.epilogue_graphs import normed
from support.graphs.fusion_graphs import ADD, INNER, POSITIONS, Heads, Net


@dataclass(frozen=True)
class ChangedHeads:
    """An attention, and the steps of its heads.

    change   "bias" (an argument of the linear layer), "added bias" (a sum after it), "branch" (a
             sum with another linear layer's result), "head norm", "token norm" or ""
    turned   whether there is a rotary embedding
    masked   whether attention has a mask, as long as the cache
    """

    heads: Heads
    change: str
    kind: str = "q4"
    turned: bool = True
    masked: bool = False
    norm: str = "rms"  # "layer" or ""

    def __str__(self) -> str:
        words = [str(self.heads), self.change.replace(" ", "_") or "plain", self.kind]
        words += [
            word for word, used in (("no-rope", not self.turned), ("mask", self.masked)) if used
        ]
        words += [f"{self.norm or 'no'}-norm"] * (self.norm != "rms")
        return "-".join(words)


_ONE = Heads(1, 4, 2, 16, half=True, turned=16)
_FEW = Heads(3, 6, 2, 8, half=True, turned=8)
_PARTLY = Heads(1, 3, 1, 20, half=True, turned=8)
_PAIRS = Heads(2, 2, 2, 12)
_MANY = Heads(20, 4, 2, 8, half=True, turned=8)
_LONG = Heads(1, 4, 1, 256, half=True, turned=256)
_NINE = Heads(9, 2, 1, 128, half=True, turned=128)

CHANGED = (
    ChangedHeads(_ONE, "head norm", "int8"),
    ChangedHeads(_FEW, "head norm"),
    ChangedHeads(_PARTLY, "head norm", "float"),
    ChangedHeads(_PAIRS, "head norm", masked=True),
    ChangedHeads(_ONE, "token norm", "int8"),
    ChangedHeads(_PARTLY, "token norm", norm=""),
    ChangedHeads(_ONE, "added bias", "int8"),
    ChangedHeads(_FEW, "added bias", "int8"),
    ChangedHeads(_FEW, "bias"),
    ChangedHeads(_PARTLY, "bias", "float"),
    ChangedHeads(_PAIRS, "bias", "rounded"),
    ChangedHeads(_ONE, "bias", turned=False),
    ChangedHeads(_FEW, "", "int8", turned=False, masked=True),
    ChangedHeads(_ONE, "added bias", "int8", turned=False, norm="layer"),
    ChangedHeads(_ONE, "bias", norm="layer"),
    ChangedHeads(_LONG, "head norm"),
    ChangedHeads(_LONG, "token norm"),
    ChangedHeads(_NINE, "head norm", "int8"),
    ChangedHeads(_NINE, "added bias", "int8"),
    ChangedHeads(_MANY, "head norm", "int8"),
    ChangedHeads(_MANY, "added bias", "int8"),
)

# These run one call after the other: the kernel takes one token, no mask with biases, whole quads.
NOT_FUSED = (
    ChangedHeads(_MANY, "bias", norm="layer"),
    ChangedHeads(_FEW, "token norm"),
    ChangedHeads(_ONE, "bias", masked=True),
    ChangedHeads(Heads(1, 2, 1, 6), "head norm"),
)


def changed_attention(case: ChangedHeads) -> Net:
    """Write norm, q/k/v, what changes them, rope and attention; inputs: x, position (and mask)."""
    net = Net(case.heads.size + case.heads.tokens)
    x = net.g.tensor((1, case.heads.tokens, INNER))
    out, inputs = attention_of(net, case, normed(net, x, case.norm))
    net.g.inputs(x, *inputs)
    net.g.outputs(out)
    return net


def attention_of(net: Net, case: ChangedHeads, source: int) -> tuple[int, tuple[int, ...]]:
    """Write q/k/v of the source, what changes them, rope and attention; return it and its inputs.

    The inputs are the position and, if present, the mask.
    """
    g, heads = net.g, case.heads
    position, place = g.tensor((1,), "int32"), g.symint()
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), place)
    shapes = [(1, heads.tokens, n, heads.size) for n in (heads.heads, *(heads.key_heads,) * 2)]
    made = [_changed(net, case, source, dims, i < 2) for i, dims in enumerate(shapes)]
    if case.turned:
        made[:2] = _turned(net, heads, made[0], made[1], place)
    cache = (1, POSITIONS, heads.key_heads, heads.size)
    caches = [net.constant(net.floats(*cache)) for _ in range(2)]
    mask = g.tensor((heads.tokens, POSITIONS)) if case.masked else g.null()
    out = g.tensor(shapes[0])
    rest = (place, g.int(1), mask, g.int(0), g.bool_(not case.masked), g.null())
    g.op("sdpa_with_kv_cache.default", *made, *caches, *rest, out)
    return out, (position, *((mask,) if case.masked else ()))


def _changed(net: Net, case: ChangedHeads, source: int, dims: tuple[int, ...], normed: bool) -> int:
    """Write a linear layer and the steps of its heads."""
    width = dims[2] * dims[3]
    y = net.linear(source, width, case.kind, bias=case.change == "bias")
    if case.change in ("added bias", "branch"):
        branch = case.change == "branch"
        bias = net.linear(source, width, "float") if branch else net.constant(net.floats(width))
        y = net.g.op(ADD, y, bias, net.g.int(1), net.like(y))
    if case.change == "token norm" and normed:
        y = net.norm(y)
    y = net.view(y, *dims)
    return net.norm(y) if case.change == "head norm" and normed else y


def _turned(net: Net, heads: Heads, q: int, k: int, place: int) -> list[int]:
    """Write the rotary embedding of queries and keys."""
    g = net.g
    if heads.half:
        angles = net.rng.uniform(0, 6, (POSITIONS, heads.turned // 2)).astype(np.float32)
        angles = np.concatenate([angles, angles], axis=1)
    else:
        angles = net.rng.uniform(0, 6, (heads.tokens, heads.size // 2)).astype(np.float32)
    tables = [net.constant(np.cos(angles)), net.constant(np.sin(angles))]
    turned = [net.like(q), net.like(k)]
    name = "et_vk.apply_rotary_emb_hf.default" if heads.half else "et_vk.apply_rotary_emb.default"
    g.op(name, q, k, *tables, *((place,) if heads.half else ()), g.value_list(turned))
    return turned


def changed_steps(net: Net, case: ChangedHeads) -> list[list[np.ndarray]]:
    """Return inputs at several positions; masks hide the future and distant keys."""
    tokens = case.heads.tokens
    steps = []
    for place in dict.fromkeys((0, tokens, POSITIONS - tokens)):
        inputs = [net.floats(1, tokens, INNER), np.array([place], np.int32)]
        if case.masked:
            ago = place + np.arange(tokens)[:, None] - np.arange(POSITIONS)
            seen = (ago >= 0) & (ago < 9)
            inputs.append(np.where(seen, 0, -np.inf).astype(np.float32))
        steps.append(inputs)
    return steps
