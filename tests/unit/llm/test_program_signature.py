"""Programs whose language model is not one method `forward` that gives logits."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.llm import Generator, generate

SIZE = 7
NEXT = [3, 0, 5, 2, 1, 6, 4]  # the token after each
TABLE = np.eye(SIZE, dtype=np.float32)[NEXT]


def model(count: int, *, dynamic: bool = False, token: bool = False) -> GraphWriter:
    """Write tokens [1, count] and input_pos [1] -> logits, or the likeliest token."""
    g = GraphWriter()
    tokens, position = g.tensor((1, count), "int64"), g.tensor((1,), "int64")
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), g.symint(0))
    table = g.tensor(TABLE.shape, constant=TABLE)
    out = g.op("aten.embedding.default", table, tokens, g.tensor((1, count, SIZE)))
    if token:
        kept = g.tensor((1, count), "int64")
        out = g.op("aten.argmax.default", out, g.int(-1), g.bool_(False), kept)
    g.inputs(tokens, position)
    g.outputs(out)
    for value in (tokens, out):
        g.host(value, dynamic=dynamic)
    return g


def embeddings() -> GraphWriter:
    g = GraphWriter()
    x, position = g.tensor((1, 4, SIZE)), g.tensor((1,), "int64")
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), g.symint(0))
    g.inputs(x, position)
    g.outputs(g.op("aten.neg.default", x, g.tensor((1, 4, SIZE))))
    return g


def in_parts(each: bool) -> dict[str, GraphWriter]:
    """Write a model of two methods that answers a token with its position, or the last token's."""
    first = GraphWriter()
    tokens, table = first.tensor((1, 8), "int64"), first.tensor(TABLE.shape, constant=TABLE)
    rows = first.op("aten.embedding.default", table, tokens, first.tensor((1, 8, SIZE)))
    first.inputs(tokens)
    first.outputs(rows)
    second = GraphWriter()
    x, places = second.tensor((1, 8, SIZE)), second.tensor((8 if each else 1,), "int64")
    known = 9 * np.eye(SIZE, dtype=np.float32)
    table = second.tensor(known.shape, constant=known)
    dims = (8 if each else 1, SIZE)
    added = second.op("aten.embedding.default", table, places, second.tensor(dims))
    out = second.op("aten.add.Tensor", x, added, second.int(1), second.tensor((1, 8, SIZE)))
    second.inputs(x, places)
    second.outputs(out)
    for writer, values in ((first, (tokens, rows)), (second, (x, out, *([places] * each)))):
        for value in values:
            writer.host(value, dynamic=True)
    return {"token_embedding": first, "text_decoder": second}


@pytest.mark.parametrize(("each", "found"), [(True, [2, 3, 4, 5]), (False, [0, 3, 4, 5])])
@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_a_model_of_two_methods_answers(each: bool, found: list[int], device: str) -> None:
    async def run() -> None:
        on = SimulatedDevice() if device == "simulated" else device
        async with await webpte.load(write_pte(methods=in_parts(each)), device=on) as program:
            generator = Generator(program)
            assert generator.method == "text_decoder"
            assert [token async for token in generator.generate([1, 2, 0], 4)] == found

    wait(run())


def expected(first: int, count: int) -> list[int]:
    tokens = [first]
    for _ in range(count):
        tokens.append(NEXT[tokens[-1]])
    return tokens[1:]


@pytest.mark.parametrize(
    ("methods", "chosen"),
    [
        ({"prefill": model(8, dynamic=True), "decode": model(1)}, "prefill"),
        ({"prefill": model(8), "decode": model(1)}, "decode"),
        ({"prefill": model(8), "other": model(1)}, "other"),
        ({"decode": model(4, dynamic=True), "prefill": model(8, dynamic=True)}, "prefill"),
    ],
    ids=["any number", "fixed numbers", "another name", "the most"],
)
def test_the_method_that_fits_answers(methods: dict[str, GraphWriter], chosen: str) -> None:
    async def run() -> None:
        async with await webpte.load(write_pte(methods=methods), device="numpy") as program:
            assert Generator(program).method == chosen
            found = [token async for token in generate(program, [1, 2, 0], 6)]
            assert found == expected(0, 6)

    wait(run())


def refused(methods: dict[str, GraphWriter]) -> str:
    async def run() -> str:
        async with await webpte.load(write_pte(methods=methods), device="numpy") as program:
            with pytest.raises(InputError) as caught:
                Generator(program)
            return str(caught.value)

    return wait(run())


def test_programs_that_give_tokens_are_refused() -> None:
    told = refused({"forward": model(1, token=True)})
    assert "'forward' gives a token" in told
    assert "export the model without its argmax" in told


def test_programs_of_embeddings_that_do_not_fit_are_refused() -> None:
    told = refused({"token_embedding": model(4), "text_decoder": embeddings()})
    assert "text_decoder takes other things than the embeddings" in told


def test_methods_that_do_not_fit_are_named() -> None:
    told = refused({"prefill": model(8), "verify": model(4)})
    assert "prefill 8, verify 4" in told
    assert "of its methods (encode), none takes tokens" in refused({"encode": embeddings()}).lower()


def test_a_method_that_is_named_is_taken() -> None:
    async def run() -> None:
        methods = {"prefill": model(8, dynamic=True), "decode": model(1)}
        async with await webpte.load(write_pte(methods=methods), device="numpy") as program:
            assert Generator(program, method="decode").method == "decode"
            with pytest.raises(InputError, match="no method 'verify'"):
                Generator(program, method="verify")

    wait(run())
