"""Programs of attention, and their expected outputs: in float64, apart from the code under test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from support.cases.cases import Array
from support.write.pte_writer import GraphWriter, write_pte

RTOL, ATOL = 1e-4, 1e-5


def randoms(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def softmax_attention(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    hidden: Array,
    added: Array,
    cap: float | None = None,
) -> Array:
    """q [B, H, S, D], k and v [B, K, N, ..] with H a multiple of K; `hidden` keys do not count."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    logits = np.einsum("bhsd,bhnd->bhsn", q.astype(np.float64), k) * scale
    logits = (logits if cap is None else cap * np.tanh(logits / cap)) + added
    logits = np.where(hidden, -np.inf, logits)
    with np.errstate(invalid="ignore"):
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-np.inf))
        weights /= weights.sum(axis=-1, keepdims=True)
    # Rows that see nothing are 0 / 0 here, and zero by definition.
    weights = np.where(hidden.all(axis=-1, keepdims=True) | np.isnan(weights), 0, weights)
    return np.einsum("bhsn,bhnd->bhsd", weights, v)


@dataclass(frozen=True)
class CacheCase:
    """Steps (tokens, position) of one program whose caches persist from step to step.

    `mask` is None or the shape of the mask with letters for sizes: B, H, S, P (all positions of
    the cache), N (the keys up to the last query), 1. `live` makes the position a SymInt.
    """

    heads: int
    key_heads: int
    size: int
    steps: Sequence[tuple[int, int]]
    positions: int = 64
    batch: int = 1
    op: str = "sdpa_with_kv_cache.default"
    causal: bool = True
    mask: str | None = None
    mask_type: str = "float32"
    scale: float | None = None
    window: int = 0
    cap: float | None = None
    live: bool = True
    cache_inputs: bool = False
    label: str = ""
    seed: int = field(default=7, repr=False)

    def __str__(self) -> str:
        words = [
            self.op.partition(".")[0],
            f"{self.heads}x{self.key_heads}x{self.size}",
            *("causal" for _ in range(self.causal)),
            *(f"{self.mask}:{self.mask_type}" for _ in range(self.mask is not None)),
            *("caches-in" for _ in range(self.cache_inputs)),
            *(f"{tokens}at{position}" for tokens, position in self.steps[:3]),
            *(f"B{self.batch}" for _ in range(self.batch > 1)),
            *("int" for _ in range(not self.live)),
            *(f"window{self.window}" for _ in range(self.window > 0)),
            *(f"cap{self.cap}" for _ in range(self.cap is not None)),
        ]
        return "-".join([*words, *self.label.split()])

    @property
    def writes(self) -> bool:
        return "with_kv_cache" in self.op

    @cached_property
    def caches(self) -> tuple[Array, Array]:
        """Return the initial caches: not empty, so that a read or write at a wrong place shows."""
        rng = np.random.default_rng(self.seed + 1)
        shape = (self.batch, self.positions, self.key_heads, self.size)
        return randoms(rng, *shape) * 3, randoms(rng, *shape) * 3

    @cached_property
    def data(self) -> list[dict[str, Array]]:
        """q, k, v and mask of each step."""
        rng = np.random.default_rng(self.seed)
        result = []
        for tokens, position in self.steps:
            shape = (self.batch, tokens)
            step = {
                "q": randoms(rng, *shape, self.heads, self.size),
                "k": randoms(rng, *shape, self.key_heads, self.size),
                "v": randoms(rng, *shape, self.key_heads, self.size),
            }
            if self.mask is not None:
                step["mask"] = self._make_mask(rng, tokens, position)
            result.append(step)
        return result

    def _make_mask(self, rng: np.random.Generator, tokens: int, position: int) -> Array:
        letters = {"B": self.batch, "H": self.heads, "S": tokens, "P": self.positions, "1": 1}
        letters["N"] = position + tokens
        shape = tuple(letters[letter] for letter in self.mask or "")
        visible = rng.random(shape) < 0.7
        visible[..., :1] = True
        if self.mask_type == "bool":
            return visible
        return np.where(visible, randoms(rng, *shape), -np.inf).astype(np.float32)

    @cached_property
    def expected(self) -> list[list[Array]]:
        """Return the outputs of each step, with the caches if they are inputs."""
        keys, values = (cache.copy() for cache in self.caches)
        result = []
        for (tokens, position), step in zip(self.steps, self.data, strict=True):
            if self.cache_inputs:
                keys, values = (cache.copy() for cache in self.caches)
            if self.writes:
                keys[:, position : position + tokens] = step["k"]
                values[:, position : position + tokens] = step["v"]
            outputs = [self._attend(step, keys, values, position)]
            if self.cache_inputs and self.writes:
                outputs += [keys.copy(), values.copy()]
            result.append(outputs)
        return result

    def _attend(self, step: dict[str, Array], keys: Array, values: Array, position: int) -> Array:
        q, mask = step["q"], step.get("mask")
        count = position + q.shape[1]
        if mask is not None and (self.mask or "").endswith("P"):
            count = self.positions
        hidden = np.zeros((self.batch, self.heads, q.shape[1], count), bool)
        added = np.zeros_like(hidden, dtype=np.float64)
        if mask is not None and mask.dtype == bool:
            hidden = hidden | ~mask
        elif mask is not None:
            added = added + mask
        if self.causal:
            ago = position + np.arange(q.shape[1])[:, None] - np.arange(count)[None]
            hidden = hidden | (ago < 0) | (ago >= (self.window or count))
        scale = 1 / math.sqrt(self.size) if self.scale is None else self.scale
        q, k, v = (x.swapaxes(1, 2) for x in (q, keys[:, :count], values[:, :count]))
        hidden = hidden | np.isneginf(added)
        result = softmax_attention(q, k, v, scale, hidden, np.where(hidden, 0, added), self.cap)
        return result.swapaxes(1, 2)

    def program(self) -> bytes:
        g = GraphWriter()
        tokens = max(tokens for tokens, _ in self.steps)
        dynamic = len({tokens for tokens, _ in self.steps}) > 1
        q = g.tensor((self.batch, tokens, self.heads, self.size))
        fresh = [g.tensor((self.batch, tokens, self.key_heads, self.size)) for _ in range(2)]
        caches = [
            g.tensor(cache.shape, constant=None if self.cache_inputs else cache)
            for cache in self.caches
        ]
        position = g.int(self.steps[0][1])
        inputs = [q, *fresh] if self.writes else [q]
        if self.live:
            source = g.tensor((1,), "int32")
            position = g.symint()
            g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), position)
            inputs.append(source)
        mask = g.null()
        if self.mask is not None:
            shapes = [step["mask"].shape for step in self.data]
            largest = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
            mask = g.tensor(largest, self.mask_type)
            inputs.append(mask)
        if self.cache_inputs:
            inputs += caches
        out = g.tensor((self.batch, tokens, self.heads, self.size))
        scale = g.null()
        if self.scale is not None:
            whole = self.scale == int(self.scale)
            scale = g.int(int(self.scale)) if whole else g.double(self.scale)
        rest: tuple[int, ...] = (mask, g.int(0), g.bool_(self.causal), scale)
        if self.window or self.cap is not None:
            cap = g.null() if self.cap is None else g.double(self.cap)
            rest = (*rest, g.int(self.window), cap)
        if self.writes:
            g.op(self.op, q, *fresh, *caches, position, g.int(1), *rest, out)
        else:
            g.op(self.op, q, *caches, position, *rest, out)
        g.inputs(*inputs)
        g.outputs(out, *(caches if self.cache_inputs and self.writes else ()))
        for value in (q, *fresh, out, *([mask] if self.mask is not None else ())):
            g.host(value, dynamic=dynamic or value == mask)
        return write_pte(g)

    def inputs(self, index: int) -> list[Array]:
        step, (_, position) = self.data[index], self.steps[index]
        arrays = [step["q"], step["k"], step["v"]] if self.writes else [step["q"]]
        if self.live:
            arrays.append(np.array([position], np.int32))
        arrays += [step["mask"]] if self.mask is not None else []
        return arrays + (list(self.caches) if self.cache_inputs else [])

    def check(self, index: int, results: Sequence[Array]) -> None:
        wanted = self.expected[index]
        assert len(results) == len(wanted)
        for result, want in zip(results, wanted, strict=True):
            assert result.dtype == np.float32
            np.testing.assert_allclose(
                result, want, rtol=RTOL, atol=ATOL, err_msg=f"{self} step {self.steps[index]}"
            )


@dataclass(frozen=True)
class PlainCase:
    """et_vk.sdpa at one or several shapes of (queries, keys, values); the first is the largest."""

    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]
    mask: Sequence[tuple[int, ...]] | None = None
    mask_type: str = "float32"
    scale: float | None = None
    same: bool = False  # keys and values are one tensor
    label: str = ""

    def __str__(self) -> str:
        q, k, _ = self.shapes[0]
        mask = "" if self.mask is None else f" mask {list(self.mask[0])} {self.mask_type}"
        return f"sdpa {list(q)} {list(k)}{mask} {self.label}".strip().replace(" ", "-")

    @cached_property
    def data(self) -> list[list[Array]]:
        rng = np.random.default_rng(5)
        result = []
        for index, shapes in enumerate(self.shapes):
            step = [randoms(rng, *shape) for shape in shapes]
            if self.same:
                step = step[:2]
            if self.mask is not None:
                mask = randoms(rng, *self.mask[index])
                step.append(mask > 0 if self.mask_type == "bool" else mask)
            result.append(step)
        return result

    @cached_property
    def expected(self) -> list[Array]:
        return [self._attend(step) for step in self.data]

    def _attend(self, step: list[Array]) -> Array:
        q, k = (x.astype(np.float64) for x in step[:2])
        v = k if self.same else step[2].astype(np.float64)
        if q.ndim > 2 and k.ndim > 2 and 1 < k.shape[-3] < q.shape[-3]:
            k, v = (np.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        logits = q @ k.swapaxes(-1, -2) * scale
        if self.mask is not None:
            logits = logits + step[-1]
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-1e30))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ v)

    def program(self) -> bytes:
        g = GraphWriter()
        tensors = []
        for versions in zip(*self.data, strict=True):
            shapes = [version.shape for version in versions]
            dims = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
            tensors.append(g.tensor(dims, str(versions[0].dtype)))
        q, k = tensors[:2]
        v = k if self.same else tensors[2]
        mask = g.null() if self.mask is None else tensors[-1]
        scale = g.null() if self.scale is None else g.double(self.scale)
        out_shapes = [want.shape for want in self.expected]
        out = g.tensor(tuple(max(sizes) for sizes in zip(*out_shapes, strict=True)))
        g.op("et_vk.sdpa.default", q, k, v, mask, scale, out)
        g.inputs(*tensors)
        g.outputs(out)
        for value in (*tensors, out):
            g.host(value, dynamic=len(self.shapes) > 1)
        return write_pte(g)

    @property
    def steps(self) -> range:
        return range(len(self.shapes))

    def inputs(self, index: int) -> list[Array]:
        return self.data[index]

    def check(self, index: int, results: Sequence[Array]) -> None:
        (result,) = results
        assert result.shape == self.expected[index].shape, str(self)
        np.testing.assert_allclose(
            result, self.expected[index], rtol=RTOL, atol=ATOL, err_msg=str(self)
        )
