"""Programs that read or write rows of a table by indices, which may be out of range."""

from __future__ import annotations

import numpy as np

from support.write.pte_writer import GraphWriter, write_pte

TABLE = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
PACKED = np.full((5, 2), 0x99, np.uint8)
EXPAND, VALUE = "aten.expand_copy.default", "aten.scatter.value"
WRAPPING = ("aten.index.Tensor", "aten.index_put.default")  # take negative indices
OPS = (
    *("aten.gather.default", "aten.index.Tensor", "aten.index_select.default"),
    *("aten.embedding.default", "et_vk.embedding_q4gsw.default", "aten.index_put.default"),
    *("quantized_decomposed.embedding_byte.default", "aten.scatter.src", VALUE),
    *("aten.scatter_add.default", "et_vk.scatter_src_unique.default"),
)


def picking_program(op: str, computed: bool) -> bytes:
    """Write a program that reads or writes rows of a table of five by four indices.

    The indices are an input, or computed on the GPU.
    """
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
                EXPAND,
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
        case "aten.scatter.value" | "aten.scatter.src" | "aten.scatter_add.default":
            out = g.tensor(TABLE.shape)
            places = g.op("aten.unsqueeze_copy.default", index, g.int(1), g.tensor((4, 1), "int32"))
            places = g.op(EXPAND, places, g.int_list([4, 3]), g.tensor((4, 3), "int32"))
            source = g.tensor((4, 3), constant=np.full((4, 3), 7, np.float32))
            g.op(op, table, g.int(0), places, g.double(7) if op == VALUE else source, out)
        case "et_vk.scatter_src_unique.default":
            out, turned = g.tensor((3, 5)), g.tensor((3, 5), constant=TABLE.T.copy())
            places = g.op("aten.unsqueeze_copy.default", index, g.int(0), g.tensor((1, 4), "int32"))
            places = g.op(EXPAND, places, g.int_list([3, 4]), g.tensor((3, 4), "int32"))
            source = g.tensor((3, 4), constant=np.full((3, 4), 7, np.float32))
            g.op(op, turned, g.int(1), places, source, out)
        case "aten.index_put.default":
            out = g.tensor(TABLE.shape)
            row = g.tensor((3,), constant=np.full(3, 7, np.float32))
            g.op(op, table, g.value_list([index]), row, g.bool_(False), out)
    g.inputs(given, offset)
    g.outputs(out)
    return write_pte(g)


def least_of(op: str) -> int:
    """Return the least index into the five rows that an operator takes."""
    return -5 if op in WRAPPING else 0


def picked(op: str, index: list[int]) -> list[list[float]]:
    """Return the output of the program."""
    if "put" in op or "scatter" in op:
        written = TABLE.copy()
        written[index] = 7 + (TABLE[index] if "add" in op else 0)
        return written.T.tolist() if "unique" in op else written.tolist()
    return [[1.0] * 4] * 4 if "q4gsw" in op else [[float(i) for i in TABLE[row]] for row in index]
