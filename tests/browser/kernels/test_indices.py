"""Indices out of range on WebGPU: the call fails, and the next call is right."""

from __future__ import annotations

import pytest

from support.graphs.index_programs import OPS, TABLE, least_of, picked, picking_program
from support.harness import extent
from support.page.page import encode_bytes, python
from webpte_host.harness.browser import Harness


@pytest.mark.parametrize("computed", extent.some([True], False))
# tests/native has the other operators.
@pytest.mark.parametrize("op", extent.some(["aten.index.Tensor", "aten.scatter.value"], *OPS))
def test_an_index_out_of_range_is_an_error_and_the_next_call_is_right(
    harness: Harness, op: str, computed: bool
) -> None:
    least = least_of(op)
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
