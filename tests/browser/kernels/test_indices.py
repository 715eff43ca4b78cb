"""Indices out of range on WebGPU: the call fails, and the next one is right."""

from __future__ import annotations

import numpy as np
import pytest

from support.harness import extent
from support.page.page import encode_bytes, python
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

TABLE = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
PACKED = np.full((5, 2), 0x99, np.uint8)
WRAPPING = ("aten.index.Tensor", "aten.index_put.default")  # take negative indices


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


@pytest.mark.parametrize("computed", extent.some([True], False))
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
    least = -5 if op in WRAPPING else 0
    inside = [1, least, 4, 0]
    code = """
    inside, none = np.array(inside, np.int32), np.zeros(1, np.int32)
    messages = []
    async with await webpte.load(base64.b64decode(program), strict=True) as loaded:
        (first,) = await loaded.forward(inside, none)
        for outside in (5, least - 1, 2**31 - 1, -(2**31)):
            index = np.array([0, 1, outside, 2], np.int32)
            messages.append(await raises(webpte.errors.ExecutionError, loaded.forward(index, none)))
        (second,) = await loaded.forward(inside, none)
    return first, second, messages
    """
    first, second, messages = python(
        harness,
        code,
        program=encode_bytes(picking_program(op, computed)),
        inside=inside,
        least=least,
    )
    assert first == second == picked(op, inside)
    for message in messages:
        assert f"({op}): an index is out of range; valid are {least} to 4" in message


def test_an_index_out_of_range_is_an_error_of_a_run_that_is_not_read_too(harness: Harness) -> None:
    code = """
    from webpte.llm.decode.decoder import decoder_of
    inside, none = np.array([1, 3, 4, 0], np.int32), np.zeros(1, np.int32)
    async with await webpte.load(base64.b64decode(program)) as loaded:
        outside = decoder_of(loaded, "forward").run_unread([inside + 1, none])
        message = await raises(webpte.errors.ExecutionError, outside)
        return message, await loaded.forward(inside, none)
    """
    program = picking_program("aten.embedding.default", computed=True)
    message, (rows,) = python(harness, code, program=encode_bytes(program))
    assert "out of range" in message
    assert rows == TABLE[[1, 3, 4, 0]].tolist()
