"""Grids of more workgroups than one dimension holds: they are folded, and no element is left out.

Most cases lower the limit, so that a few workgroups are too many; three go over the real one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.attention.rope_cases import PAIRS
from support.cases.conv.conv_cases import conv
from support.cases.conv.resample_cases import linear, nearest, sampled
from support.cases.gemm import linear_q4_cases
from support.cases.gemm.matmul_cases import bmm, mm
from support.cases.gpu_kernels import both_kernels, cases_for
from support.cases.int8 import q8ta_cases, q8ta_conv_cases, q8ta_linear_cases
from support.cases.live_cases import LiveCase, random_bits
from support.cases.norm.norm_cases import batch_norm, group_norm, layer_norm, rms_norm
from support.cases.pool.pool_cases import average, digits, with_indices
from support.cases.quant.choose_qparams_cases import affine, per_token
from support.cases.quant.quantize_cases import BY_NUMBERS, TOKEN, both, scales, zeros
from support.cases.reduce.reduce_cases import ARGMAX, SUM, arg_reduction, reduction
from support.cases.reduce.softmax_cases import SOFTMAX, softmax
from support.cases.row_cases import normal
from support.cases.training.training_cases import ADAMW_DEFAULTS, adamw, cross_entropy, labels_for
from support.harness import extent
from support.page.page import encode_bytes, python
from support.page.table_page import check_rows, forced
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

# 10 to 80 workgroups each, for a limit of 9.
FOLDED: dict[str, list[Any]] = {
    "conv": [
        conv((2, 3, 20, 20), (40, 3, 3, 3)),
        conv((1, 8, 22, 24), (20, 8, 1, 1)),
        conv((1, 300, 6, 6), (70, 300, 3, 3)),
        conv((2, 20, 14, 14), (20, 1, 3, 3), groups=20),
        conv((1, 3, 12, 12), (3, 40, 2, 2), stride=[2], transposed=True),
        average(normal((4, 10, 16, 16)), [2, 2]),
        average(normal((1, 20, 20, 20)), [8, 8]),
        with_indices(digits((4, 10, 16, 16)), [3, 3], [1, 1]),
        nearest(normal((2, 3, 16, 16)), [24, 24], None),
        linear(normal((2, 3, 16, 16)), [30, 30], False, None),
        sampled(normal((2, 17, 8, 8)), normal((2, 20, 20, 2), 2), 0, 0, False),
    ],
    "gemm": [
        *(mm(1, 401, 9), mm(40, 401, 9), bmm(13, 2, 9, 5), bmm(13, 33, 34, 5), mm(20, 24, 2000)),
        linear_q4_cases.q4gsw((1, 64), 401, 32),
        linear_q4_cases.q4gsw((40, 64), 401, 32),
        linear_q4_cases.requant(70, 90, 9, 70),
    ],
    "quantized": [
        affine(normal((70, 12)), [1, 12]),
        affine(normal((2, 40000)), [1, 40000]),
        per_token(normal((70, 65))),
        *both(BY_NUMBERS, (3000,), 0.05, 3),
        *both(TOKEN, (300, 10), scales(300, 1), zeros(300, 1)),
        q8ta_cases.add((3000,), (3000,), *q8ta_cases.EXACT),
        q8ta_linear_cases.linear(q8ta_linear_cases.LINEAR, (1, 16), 43),
        q8ta_linear_cases.linear(q8ta_linear_cases.LINEAR, (130, 16), 131),
        q8ta_conv_cases.conv(q8ta_conv_cases.CONV, (2, 3, 20, 20), 20, padding=(1, 1)),
        q8ta_conv_cases.conv(
            q8ta_conv_cases.DEPTHWISE, (2, 10, 12, 12), 10, groups=10, padding=(1, 1)
        ),
    ],
    "rows": [
        reduction(SUM, normal((40, 300)), [-1]),
        reduction(SUM, normal((2, 40, 300)), [1]),
        reduction(SUM, normal((1, 60000)), [-1]),
        arg_reduction(ARGMAX, normal((40, 300)), -1),
        arg_reduction(ARGMAX, normal((1, 20000)), -1),
        softmax(SOFTMAX, normal((40, 300)), -1),
        softmax(SOFTMAX, normal((2, 40, 300)), 1),
        layer_norm(normal((40, 300)), 1),
        rms_norm(normal((40, 300))),
        group_norm(normal((10, 4, 25, 25)), 4),
        batch_norm(normal((2, 6, 30, 30))),
        cross_entropy(normal((40, 300)), labels_for(40, 300), 40),
        adamw((3000,), *ADAMW_DEFAULTS, 1, 1),
    ],
}


@both_kernels
@pytest.mark.parametrize("kind", extent.some(["rows"], "conv", "gemm", "quantized"))
def test_folded(harness: Harness, kind: str, kernels: str) -> None:
    with (
        cases_for(kernels, harness, FOLDED[kind]) as cases,
        forced(harness, max_workgroups=9),
    ):
        check_rows(harness, cases)


@pytest.mark.thorough
def test_quads_of_bytes_over_the_limit(harness: Harness) -> None:
    """65,536 workgroups and a bit: the grid is folded, and the last quad is a partial one."""
    count = 65_536 * 64 * 4 + 5
    g = GraphWriter()
    x = g.tensor((count,), "uint8")
    g.inputs(x)
    g.outputs(g.op("aten.bitwise_not.default", x, g.tensor((count,), "uint8")))
    code = """
    x = (np.arange(count) * 7 % 251).astype(np.uint8)
    async with await webpte.load(base64.b64decode(program)) as loaded:
        (y,) = await loaded.forward(x)
    return [y.shape == x.shape, np.flatnonzero(y != ~x)[:5]]
    """
    same_shape, wrong = python(harness, code, program=encode_bytes(write_pte(g)), count=count)
    assert same_shape
    assert wrong == []


@pytest.mark.thorough
def test_pairs_of_a_rotary_embedding_over_the_limit(harness: Harness) -> None:
    """65,536 workgroups of pairs and a few more, for queries and keys together."""
    tokens = 65_536 * 64 // (64 + 32) + 5
    g = GraphWriter()
    q, k = (g.tensor((1, tokens, heads, 2)) for heads in (64, 32))
    cosines, sines = (g.tensor((tokens, 1)) for _ in range(2))
    outs = [g.tensor((1, tokens, heads, 2)) for heads in (64, 32)]
    g.op(PAIRS, q, k, cosines, sines, g.value_list(outs))
    g.inputs(q, k, cosines, sines)
    g.outputs(*outs)
    code = """
    angle = np.arange(tokens) % 977 / 100
    tables = [f(angle).astype(np.float32)[:, None] for f in (np.cos, np.sin)]
    x = (np.arange(tokens * 96 * 2) % 1009).astype(np.float32)
    q, k = (part.reshape(1, tokens, -1, 2) for part in np.split(x, [tokens * 128]))
    async with await webpte.load(base64.b64decode(program)) as loaded:
        results = await loaded.forward(q, k, *tables)
    turn = (tables[0] + 1j * tables[1])[:, :, None]
    wanted = [(part[..., 0] + 1j * part[..., 1])[..., None] * turn for part in (q, k)]
    errors = [abs(got.view(np.complex64) - want).max() for got, want in zip(results, wanted)]
    return [float(error) for error in errors]
    """
    program = encode_bytes(write_pte(g))
    assert max(python(harness, code, program=program, tokens=tokens)) < 1e-3


@pytest.mark.thorough
def test_words_over_the_limit(harness: Harness) -> None:
    """More than 65,535 workgroups of 64 words."""
    rows = random_bits((1, 67))
    case = LiveCase("aten.expand_copy.default", [(rows, [62700, 67])], np.broadcast_to)
    check_rows(harness, [case])
