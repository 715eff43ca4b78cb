"""The kernels that move, pick and make elements, on WebGPU, against the NumPy references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.cases.elementwise.ternary_cases import TERNARY_CASES
from support.cases.elementwise.where_cases import WHERE_CASES
from support.cases.gpu_kernels import GPU, cases_for, for_browser
from support.cases.live_cases import LiveCase, random_bits
from support.cases.move.cat_cases import CAT_CASES
from support.cases.move.fill_cases import FILL_CASES
from support.cases.move.indexing_cases import INDEXING_CASES
from support.cases.move.pad_cases import PAD_CASES
from support.cases.move.scatter_cases import SCATTER_CASES
from support.cases.move.slice_scatter_cases import SLICE_SCATTER_CASES
from support.cases.move.slicing_cases import SLICING_CASES
from support.cases.move.strided_cases import STRIDED_CASES
from support.cases.quant.embedding_quantized_cases import EMBEDDING_CASES
from support.harness import limits
from support.page.page import encode_bytes, python
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

PREPARE = """
import base64
import numpy as np
import webpte

def unpack(dtype, shape, data):
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)

async def outputs(case, device):
    # Strict: what no kernel takes would run on the host, and be compared with itself.
    pte = base64.b64decode(case["pte"])
    async with await webpte.load(pte, device=device, strict=True) as program:
        return [
            await program.forward(*(unpack(*item) for item in step)) for step in case["steps"]
        ]
"""

# Every output of every step, bit by bit where there is no tolerance.
COMPARE = f"""{PREPARE}
def same(a, b, rtol):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if rtol == 0 or a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol))

wrong, compared = [], 0
for case in cases:
    try:
        pairs = zip(await outputs(case, "webgpu"), await outputs(case, "numpy"), strict=True)
        for step, (gpu, reference) in enumerate(pairs):
            for a, b in zip(gpu, reference, strict=True):
                compared += 1
                if not same(a, b, case["rtol"]):
                    wrong.append([case["name"], step, a.tolist()[:9], b.tolist()[:9]])
    except Exception as error:
        wrong.append([case["name"], repr(error)])
return [compared, wrong]
"""

FAMILIES = {
    "strided": for_browser(STRIDED_CASES),
    "slice_scatter": for_browser(SLICE_SCATTER_CASES),
    "slicing": for_browser(SLICING_CASES),
    "cat": for_browser(CAT_CASES),
    "pad": for_browser(PAD_CASES),
    "indexing": for_browser(INDEXING_CASES),
    "embedding_quantized": for_browser(EMBEDDING_CASES),
    "scatter": for_browser(SCATTER_CASES),
    "ternary": for_browser(TERNARY_CASES),
    "where": for_browser(WHERE_CASES),
    "fill": for_browser(FILL_CASES),
}


def compare(harness: Harness, cases: Sequence[LiveCase]) -> None:
    packed = [case.as_json() for case in cases]
    compared, wrong = harness.python(COMPARE, cases=packed, timeout=limits.CALL_SECONDS)
    assert wrong == []
    assert compared == sum(len(case.steps) * case.outputs for case in cases)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_agree_with_the_references(harness: Harness, family: str) -> None:
    compare(harness, FAMILIES[family])


@pytest.mark.parametrize("family", ["strided", "slicing"])
def test_transposes_of_a_gpu(harness: Harness, family: str) -> None:
    with cases_for(GPU, harness, FAMILIES[family]) as cases:
        compare(harness, cases)


def test_a_large_grid_folds(harness: Harness) -> None:
    """More than 65,535 workgroups of 64 words."""
    rows = random_bits((1, 67))
    case = LiveCase("aten.expand_copy.default", [(rows, [62700, 67])], np.broadcast_to)
    compare(harness, [case])


TABLE = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
PACKED = np.full((5, 2), 0x99, np.uint8)


def picking_program(op: str, computed: bool) -> bytes:
    """Rows of a table of five by up to four indices, which are an input or computed on the GPU."""
    g = GraphWriter()
    given, offset = g.tensor((4,), "int32"), g.tensor((1,), "int32")
    index = given
    if computed:
        index = g.op("aten.add.Tensor", given, offset, g.int(1), g.tensor((4,), "int32"))
    table = g.tensor(TABLE.shape, constant=TABLE)
    out = g.tensor((4, 3))
    match op:
        case "aten.gather.default":
            columns = g.op(
                "aten.expand_copy.default",
                g.op("aten.unsqueeze_copy.default", index, g.int(1), g.tensor((4, 1), "int32")),
                g.int_list([4, 3]),
                g.tensor((4, 3), "int32"),
            )
            g.op(op, table, g.int(0), columns, out)
        case "aten.index.Tensor":
            g.op(op, table, g.value_list([index]), out)
        case "aten.index_select.default":
            g.op(op, table, g.int(0), index, out)
        case "aten.embedding.default":
            g.op(op, table, index, out)
        case "et_vk.embedding_q4gsw.default":
            out = g.tensor((4, 4))
            packed = g.tensor(PACKED.shape, "uint8", constant=PACKED)
            scales = g.tensor((5, 1), constant=np.ones((5, 1), np.float32))
            g.op(op, packed, scales, g.int(4), index, g.bool_(True), out)
        case "quantized_decomposed.embedding_byte.default":
            rows = g.tensor(TABLE.shape, "int8", constant=TABLE.astype(np.int8))
            scales = g.tensor((5,), constant=np.ones(5, np.float32))
            g.op(op, rows, scales, g.null(), g.int(-128), g.int(127), index, out)
        case "aten.index_put.default":
            out = g.tensor(TABLE.shape)
            row = g.tensor((3,), constant=np.full(3, 7, np.float32))
            g.op(op, table, g.value_list([index]), row, g.bool_(False), out)
    g.inputs(given, offset)
    g.outputs(out)
    return write_pte(g)


def picked(op: str, index: list[int]) -> list[list[float]]:
    if op == "aten.index_put.default":
        written = TABLE.copy()
        written[index] = 7
        return [[float(item) for item in row] for row in written]
    return [[1.0] * 4] * 4 if "q4gsw" in op else [[float(i) for i in TABLE[row]] for row in index]


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    "op",
    [
        "aten.gather.default",
        "aten.index.Tensor",
        "aten.index_select.default",
        "aten.embedding.default",
        "et_vk.embedding_q4gsw.default",
        "quantized_decomposed.embedding_byte.default",
        "aten.index_put.default",
    ],
)
def test_an_index_out_of_range_is_an_error_and_the_next_call_is_right(
    harness: Harness, op: str, computed: bool
) -> None:
    code = """
    inside, none = np.array([1, -5, 4, 0], np.int32), np.zeros(1, np.int32)
    messages = []
    async with await webpte.load(base64.b64decode(program), strict=True) as loaded:
        (first,) = await loaded.forward(inside, none)
        for outside in (5, -6, 2**31 - 1, -(2**31)):
            index = np.array([0, 1, outside, 2], np.int32)
            messages.append(await raises(webpte.errors.ExecutionError, loaded.forward(index, none)))
        (second,) = await loaded.forward(inside, none)
    return first, second, messages
    """
    first, second, messages = python(
        harness, code, program=encode_bytes(picking_program(op, computed))
    )
    assert first == second == picked(op, [1, -5, 4, 0])
    for message in messages:
        assert f"({op}): an index is out of range; valid are -5 to 4" in message


def test_an_index_out_of_range_is_an_error_of_a_run_that_is_not_read_too(harness: Harness) -> None:
    code = """
    from webpte.runtime.program import decoder_of
    inside, none = np.array([1, -5, 4, 0], np.int32), np.zeros(1, np.int32)
    async with await webpte.load(base64.b64decode(program)) as loaded:
        outside = decoder_of(loaded, "forward").run_unread([inside + 1, none])
        message = await raises(webpte.errors.ExecutionError, outside)
        return message, await loaded.forward(inside, none)
    """
    program = picking_program("aten.embedding.default", computed=True)
    message, (rows,) = python(harness, code, program=encode_bytes(program))
    assert "out of range" in message
    assert rows == TABLE[[1, -5, 4, 0]].tolist()
