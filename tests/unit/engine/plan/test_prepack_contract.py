"""Violations of the prepack contract, and their errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.graphs.graphs import build_graph, load, wait
from support.graphs.prepacks import PREPACK, add_graph, constant
from support.write.pte_writer import GraphWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.rewrite.validate import check_prepack, constant_transfers

# What breaks the contract

Broken = Callable[[GraphWriter], int]


def arity(count: int) -> Broken:
    def write(g: GraphWriter) -> int:
        ids = [constant(g), g.tensor((3,)), g.tensor((3,))][:count]
        return g.op(PREPACK, *ids)

    return write


def never_written(g: GraphWriter) -> int:
    return g.op(PREPACK, g.tensor((3,)), g.tensor((3,)))


def computed_later(g: GraphWriter) -> int:
    source = g.tensor((3,))
    packed = g.op(PREPACK, source, g.tensor((3,)))
    g.op("aten.relu.default", constant(g), source)
    return packed


def computed_in_another_shape(g: GraphWriter) -> int:
    source = g.op("aten.relu.default", constant(g), g.tensor((3,)))
    return g.op(PREPACK, source, g.tensor((1, 3)))


def element_size(g: GraphWriter) -> int:
    g.op(PREPACK, constant(g), g.tensor((6,), "float16"))
    return constant(g)


def dtypes(source: str, target: str) -> Broken:
    """Elements of one size: without a check, the bits of one type would be read as the other."""

    def write(g: GraphWriter) -> int:
        data = np.array([1, 0, 1], source)
        return g.op(PREPACK, g.tensor((3,), source, constant=data), g.tensor((3,), target))

    return write


def byte_size(g: GraphWriter) -> int:
    g.op(PREPACK, constant(g), g.tensor((4,)))
    return constant(g)


def dims(g: GraphWriter) -> int:
    g.op(PREPACK, constant(g), g.tensor((3, 1)))
    return constant(g)


def shared_memory(g: GraphWriter) -> int:
    return g.op(PREPACK, constant(g), g.tensor((3,), mem_obj_id=0))


def into_a_constant(g: GraphWriter) -> int:
    return g.op(PREPACK, constant(g), constant(g))


def into_an_input(g: GraphWriter) -> int:
    target = g.tensor((3,))
    g.inputs(target)
    return g.op(PREPACK, constant(g), target)


def packed_twice(g: GraphWriter) -> int:
    target = g.prepack(constant(g))
    return g.op(PREPACK, constant(g), target)


def no_tensor(g: GraphWriter) -> int:
    g.op(PREPACK, g.int(3), g.tensor((3,)))
    return constant(g)


CONTRACT: list[tuple[Broken, type[errors.WebpteError], str]] = [
    (arity(1), errors.PrepackArityError, "takes a source and an output, not 1 ids"),
    (arity(3), errors.PrepackArityError, "takes a source and an output, not 3 ids"),
    (never_written, errors.PrepackSourceError, "neither a constant, nor an input, nor computed"),
    (computed_later, errors.PrepackSourceError, "neither a constant, nor an input, nor computed"),
    (computed_in_another_shape, errors.PrepackShapeError, "dims differ"),
    (element_size, errors.PrepackElementSizeError, "elements have different sizes"),
    *[
        (dtypes(*pair), errors.PrepackDTypeError, r"{} \[3\]\) into .*{} \[3\]\): ".format(*pair))
        for pair in [
            *(("int32", "float32"), ("float32", "int32"), ("int64", "float64")),
            *(("int8", "uint8"), ("uint8", "int8"), ("bool", "uint8"), ("int8", "bool")),
        ]
    ],
    (byte_size, errors.PrepackByteSizeError, "12 bytes into 16"),
    (dims, errors.PrepackShapeError, "dims differ"),
    (shared_memory, errors.PrepackBufferError, "needs a buffer of its own"),
    (into_a_constant, errors.PrepackBufferError, "needs a buffer of its own"),
    (into_an_input, errors.PrepackBufferError, "needs a buffer of its own"),
    (packed_twice, errors.PrepackBufferError, "needs a buffer of its own"),
    (no_tensor, errors.ValueKindError, "is an int, not a tensor"),
]
IDS = [f"{row[0].__name__} {row[1].__name__}" for row in CONTRACT]


@pytest.mark.parametrize(("weights", "error", "message"), CONTRACT, ids=IDS)
def test_each_check_has_its_error(
    weights: Broken, error: type[errors.WebpteError], message: str
) -> None:
    graph = build_graph(add_graph(weights))
    with pytest.raises(error, match=message):
        constant_transfers(graph)


@pytest.mark.parametrize("device", ["numpy", "recording"])
@pytest.mark.parametrize(("weights", "error", "message"), CONTRACT, ids=IDS)
def test_a_program_that_breaks_the_contract_does_not_load(
    weights: Broken, error: type[errors.WebpteError], message: str, device: str
) -> None:
    recording = SimulatedDevice()
    with pytest.raises(error, match=message):
        wait(load(add_graph(weights), device=recording if device == "recording" else device))
    assert recording.buffers == {}
    assert recording.plans == {}


def test_errors_name_call_values_and_shapes() -> None:
    g = add_graph(byte_size)
    graph = build_graph(g)
    (call,) = (call for call in graph.calls if call.name == PREPACK)
    with pytest.raises(errors.PrepackByteSizeError) as caught:
        check_prepack(graph, call)
    source, out = call.args
    assert str(caught.value) == (
        f"op 0 (et_vk.prepack.default): value {source} (float32 [3]) into "
        f"value {out} (float32 [4]): 12 bytes into 16"
    )
