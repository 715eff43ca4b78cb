"""Calls of the kernels of language models and of gradients, with odd sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases.portable.kernel_cases import Array, KernelCase, ints, positives, reals, units

L = "llama::"


def caches() -> Iterator[KernelCase]:
    cache, one = reals(2, 7, 3, 5), (reals(1, 1, 1, 1), reals(1, 1, 1, 1) + 1)
    out = ("float32", "float32")
    yield KernelCase(f"{L}update_cache.out", (units(2, 3, 3, 5), cache, 4), out)
    yield KernelCase(f"{L}update_cache.out", (*one, 0), out, "one")
    whole = ints(1, 2, 3, 4, dtype="int8"), ints(1, 5, 3, 4, dtype="int8") + np.int8(1)
    yield KernelCase(f"{L}update_cache.out", (*whole, 1), ("int8", "int8"), "bytes")
    ring = np.array([[6, 0, 1], [2, 3, 4]])
    with_indices = f"{L}update_cache_with_indices.out"
    yield KernelCase(with_indices, (units(2, 3, 3, 5), cache, 6, ring), out)
    twice = np.array([[2, 2, 0], [1, 0, 1]])
    yield KernelCase(with_indices, (units(2, 3, 3, 5), cache, 0, twice), out, "twice")


def attention() -> Iterator[KernelCase]:
    q, k, v = units(2, 3, 4, 5), units(2, 7, 2, 5)[::-1].copy(), reals(2, 7, 2, 5)
    rest = (0.0, True, None)
    yield KernelCase(f"{L}custom_sdpa.out", (q, k, v, 2, None, *rest))
    yield KernelCase(f"{L}custom_sdpa.out", (q, k, v, 4, None, 0.0, False, 0.7), name="all keys")
    mask = np.where(ints(3, 7) % 3 == 0, -np.inf, units(3, 7)).astype("float32")
    mask[:, 0] = 0
    yield KernelCase(f"{L}custom_sdpa.out", (q, k, v, 0, mask, 0.0, False, None), name="mask")
    single = (units(1, 1, 1, 2) + 1, units(1, 1, 1, 2) + 2, reals(1, 1, 1, 2))
    yield KernelCase(f"{L}custom_sdpa.out", (*single, 0, None, *rest), name="one")
    new = units(2, 3, 2, 5) + 1, reals(2, 3, 2, 5) - 1
    yield KernelCase(
        f"{L}sdpa_with_kv_cache.out", (q, *new, k, v, 2, 3, None, *rest), ("float32",) * 3
    )


def quantized_attention() -> Iterator[KernelCase]:
    def bytes_of(*shape: int) -> tuple[Array, Array, Array]:
        dims = (*shape[:-1], 1)
        numbers = ints(*shape, low=-128, high=128, dtype="int8")
        return numbers, ints(*dims, low=-5, high=5, dtype="int8"), positives(*dims) / 64

    name = f"{L}custom_quantized_sdpa.out"
    (q, qz, qs), (k, kz, ks), (v, vz, vs) = (
        bytes_of(1, 3, 4, 8),
        bytes_of(1, 7, 2, 8),
        bytes_of(1, 7, 2, 8),
    )
    parameters = (qz, qs, kz, ks, vz, vs)
    yield KernelCase(name, (q, k, v, 2, None, 0.0, True, None, *parameters, False))
    heads_first = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v, *parameters)]
    rest = (2, None, 0.0, True, None)
    yield KernelCase(
        name, (*heads_first[:3], *rest, *heads_first[3:], True), name="heads before tokens"
    )


def others() -> Iterator[KernelCase]:
    name = f"{L}fast_hadamard_transform.out"
    for shape in ((3, 1), (2, 3, 8), (2, 28), (3, 56)):
        yield KernelCase(name, (reals(*shape),), name="x".join(map(str, shape)))
    for name, channels, sizes in (
        ("gated_delta_rule", False, (1, 4, 2, 5, 3, 7)),
        ("gated_delta_rule", True, (2, 2, 2, 3, 5, 2)),
        ("gated_delta_rule", True, (1, 1, 1, 1, 1, 1)),
        ("channelwise_gated_delta_rule", True, (1, 3, 1, 4, 2, 3)),
    ):
        batch, heads, states, tokens, keys, size = sizes
        state = (batch, states)
        decay = positives(*state, tokens, *([keys] if channels else [])) / 4
        yield KernelCase(
            f"{L}{name}.out",
            (
                units(batch, heads, tokens, keys),
                units(*state, tokens, keys)[..., ::-1].copy(),
                reals(*state, tokens, size),
                decay,
                positives(*state, tokens) / 4,
                units(*state, keys, size),
            ),
            ("float32", "float32"),
            "x".join(map(str, sizes)),
        )


def packed(matrices: Array, bits: int) -> Array:
    """Pack integer matrices [experts, N, K], of which a group is a row, with scales by row.

    Written number by number, as torchao's universal layout has them.
    """
    experts, n, k = matrices.shape
    rows = []
    for expert in range(experts):
        found = bytearray(np.array([6712, 1, *[0] * 14], "<i4").tobytes())
        for first in range(0, n, 8):
            for column in range(0, k, 16):
                values = [
                    int(matrices[expert, row, column + half * 8 + i]) if row < n else 0
                    for half in range(2)
                    for row in range(first, first + 8)
                    for i in range(8)
                ]
                if bits == 8:
                    found += bytes(value & 255 for value in values)
                    continue
                for at in range(0, 128, 32):
                    low, high = values[at : at + 16], values[at + 16 : at + 32]
                    found += bytes(a + 8 | b + 8 << 4 for a, b in zip(low, high, strict=True))
            scales = [(row % 5 + 1) / 64 if row < n else 0 for row in range(first, first + 8)]
            found += np.array(scales, "<f4").tobytes() + bytes(32)
        rows.append(np.frombuffer(bytes(found), np.uint8))
    return np.stack(rows)


def experts() -> Iterator[KernelCase]:
    count, dim, hidden = 3, 32, 32
    for bits, score, bias, scale, tokens in (
        (4, "sigmoid", True, 2.5, 5),
        (8, "softmax", False, 1.0, 3),
        (4, "softmax", False, 1.0, 1),
        (8, "sigmoid", False, 1.5, 4),
    ):
        most = 8 if bits == 4 else 100
        numbers = ints(count, 2 * hidden, dim, low=-most, high=most, dtype="int32")
        w13, w2 = packed(numbers, bits), packed(numbers[:, :dim, ::-1], bits)
        yield KernelCase(
            f"{L}quantized_moe_ffn.out",
            (
                units(tokens, dim) / 8,
                units(count, dim)[:, ::-1].copy(),
                units(count) if bias else np.zeros(0, "float32"),
                *(w13, w2, 2, count, hidden, dim, 32, bits, score, scale),
            ),
            name=f"{bits} bits {score} {tokens}",
        )


def gradients() -> Iterator[KernelCase]:
    out = ("float32",) * 3
    mask = [True, True, True]
    rows = (
        # grad, input, weight, stride, padding, dilation, transposed, output padding, groups
        ((2, 4, 5, 7), (2, 3, 5, 7), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
        ((1, 4, 2, 4), (1, 6, 5, 7), (4, 3, 2, 3), (2, 2), (0, 1), (2, 1), False, (0, 0), 2),
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        ((2, 5, 4), (2, 2, 9), (5, 2, 3), (2,), (0,), (1,), False, (0,), 1),
        ((1, 4, 8, 10), (1, 6, 3, 4), (6, 2, 3, 3), (3, 3), (1, 1), (1, 1), True, (1, 0), 2),
    )
    for number, (grad, x, weight, *window, transposed, extra, groups) in enumerate(rows):
        channels = [grad[1]]
        yield KernelCase(
            "aten::convolution_backward.out",
            (
                *(units(*grad), reals(*x), units(*weight), channels, *map(list, window)),
                *(transposed, list(extra), groups, mask),
            ),
            out,
            str(number),
        )
    indices = np.array([[[0, 1], [0, 11]], [[5, 5], [5, 9]]])
    yield KernelCase(
        "aten::max_pool2d_with_indices_backward.grad_input",
        (reals(2, 2, 2), units(2, 3, 4), [2, 2], [1, 2], [0, 0], [1, 1], False, indices),
    )
    yield KernelCase("executorch_prim::floordiv.int", (-7, 2), ("number",))
    yield KernelCase("executorch_prim::mod.int", (-7, 4), ("number",))


CASES = [
    *caches(),
    *attention(),
    *quantized_attention(),
    *others(),
    *experts(),
    *gradients(),
]
