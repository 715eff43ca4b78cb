"""Sampling in integers: random bits, logarithms and powers of two, the same on every device.

A GPU's `log` and `exp` are off by some ulps, differently on each GPU, and sums of floats depend on
their order; integers have neither problem. The functions equal wgsl/lib/fixed_point.wgsl and
wgsl/lib/sampling/threefry.wgsl, bit for bit. `Q24` means a number times 2^24.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

WORD = np.uint64(32)
MASK = np.uint64(0xFFFFFFFF)

# -log2(1 - t) / t for t = (1 - f) / 2, as c0 - f (c1 - f (c2 - ...)), times 2^30: off by 2^-21.7.
LOG_COEFFICIENTS = (
    *(2147483333, 950638044, 597453792, 426026991),
    *(303085331, 182182777, 74264941, 14357811),
)
# (1 - 2^-f) / f in the same way, times 2^31: 2^-f is off by 2^-22.1.
POWER_COEFFICIENTS = (1488521742, 515857503, 118990885, 20069627, 2156798)

# Threefry-2x32: rotation of the second word in each of eight rounds, and Skein's parity word.
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20


def threefry(key: tuple[int, int], first: int, second: Array) -> Array:
    """Return the first word of Threefry-2x32-20 for counters (first, second).

    Salmon and others, "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """
    keys = [np.uint32(word) for word in (*key, key[0] ^ key[1] ^ PARITY)]
    with np.errstate(over="ignore"):
        y = second.astype(np.uint32) + keys[1]
        x = np.full_like(y, np.uint32(first) + keys[0])
        for index in range(ROUNDS):
            turn = ROTATIONS[index % 8]
            x = x + y
            y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
            if index % 4 == 3:
                group = index // 4 + 1
                x = x + keys[group % 3]
                y = y + keys[(group + 1) % 3] + np.uint32(group)
    return x


def mul_hi(a: Array, b: Array) -> Array:
    """Return the upper 32 bits of 64-bit products; operands are uint64 below 2^32."""
    return (a * b) >> WORD


def alternating(coefficients: tuple[int, ...], f: Array) -> Array:
    """Evaluate c0 - f (c1 - f (c2 - ...)) for f in Q32."""
    *rest, last = (np.uint64(c) for c in coefficients)
    total = np.full_like(f, last)
    for coefficient in reversed(rest):
        total = coefficient - mul_hi(total, f)
    return total


def leading_zeros(n: Array) -> Array:
    """Count the leading zeros of nonzero 32-bit words, by the exponent of a double."""
    return (WORD - np.frexp(n.astype(np.float64))[1].astype(np.uint64)).astype(np.uint64)


def slope_and_rest(mantissa: Array) -> tuple[Array, Array]:
    """Return -log2(m) / (1 - m) in Q30 and 1 - m in Q32, for m in Q32 from 1/2 to 1."""
    return alternating(LOG_COEFFICIENTS, (mantissa << np.uint64(1)) & MASK), (-mantissa) & MASK


def negative_log2(n: Array) -> Array:
    """Return -log2(n / 2^32) in Q24, for words n >= 1."""
    n = n.astype(np.uint64)
    zeros = leading_zeros(n)
    slope, rest = slope_and_rest(n << zeros)
    return (zeros << np.uint64(24)) + (mul_hi(rest, slope) >> np.uint64(6))


def log2_of_wait(bits: Array) -> Array:
    """Return log2(-log2(u)) in Q24, signed, for u = n / 2^32 with n = bits | 1.

    The result is the logarithm of an exponentially distributed waiting time. Near u = 1 the inner
    logarithm keeps all its digits, because it is computed as a product and not as a difference.
    """
    n = bits.astype(np.uint64) | np.uint64(1)
    zeros = leading_zeros(n)
    slope, rest = slope_and_rest(n << zeros)
    rest_zeros = leading_zeros(rest)
    near = mul_hi(rest << rest_zeros, slope)  # times 2^(30 + rest_zeros)
    far = (zeros << np.uint64(26)) + (mul_hi(rest, slope) >> np.uint64(4))  # Q26
    is_near = zeros == 0
    exponent = np.where(is_near, 2 - rest_zeros.astype(np.int64), 6)
    scaled = np.where(is_near, near, far)
    return (exponent << 24) - negative_log2(scaled).astype(np.int64)


def negative_power(x: Array) -> Array:
    """Return 2^-x in Q31, for x in Q24."""
    x = x.astype(np.uint64)
    f = (x & np.uint64(0xFFFFFF)) << np.uint64(8)
    power = np.uint64(1 << 31) - mul_hi(alternating(POWER_COEFFICIENTS, f), f)
    return power >> np.minimum(x >> np.uint64(24), WORD)
