"""Features of the writer that other tests use and the readers' tests do not cover."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from support.harness.reading import read_graph, read_pte
from support.harness.samples import add_graph
from support.write.pte_writer import GraphWriter, MethodWriter, constants_of, write_pte
from webpte.engine.format.pte import Dynamism, ScalarType, TensorMeta


def test_host_values_mirror_the_graph() -> None:
    g = GraphWriter()
    tokens, length = g.tensor((1, 8), "int32"), g.symint(5)
    g.inputs(tokens, length)
    g.outputs(tokens, g.null())
    g.host(tokens, "int64", dynamic=True, sizes=(1, 7))
    plan = read_pte(write_pte(g)).method("forward")
    tensor = plan.values[0]
    assert isinstance(tensor, TensorMeta)
    assert (tensor.scalar_type, tensor.sizes) == (ScalarType.LONG, (1, 7))
    assert tensor.dynamism is Dynamism.DYNAMIC_BOUND
    assert plan.values[1:] == (5, None)
    # An input that is an output too is one value.
    assert (plan.inputs, plan.outputs) == ((0, 1), (0, 2))


def test_constants_are_named_by_their_hash_and_equal_ones_share_a_segment() -> None:
    g = GraphWriter()
    zeros = np.zeros(4, np.float32)
    g.tensor((4,), constant=zeros)
    g.tensor((2, 2), constant=zeros)
    key = hashlib.sha256(zeros.tobytes()).hexdigest()
    data = write_pte(g)
    assert [constant.named_key for constant in read_graph(data).constants] == [key, key]
    assert list(read_pte(data).named_data) == [key] == list(constants_of(g))


def test_named_data_can_be_dropped_shortened_and_added() -> None:
    g = add_graph()
    (key,) = constants_of(g)
    assert read_pte(write_pte(g, named_data={key: None})).named_data == {}
    named = read_pte(write_pte(g, named_data={key: b"1234", "more": np.ones(2)})).named_data
    assert {name: span.size for name, span in named.items()} == {key: 4, "more": 16}


def test_delegates_of_other_backends_and_several_in_one_method() -> None:
    foreign = read_pte(write_pte(add_graph(), delegate_id="XnnpackBackend")).method("forward")
    assert [delegate.id for delegate in foreign.delegates] == ["XnnpackBackend"]
    m = MethodWriter.of(add_graph())
    z = m.tensor((2, 3))
    m.delegate(add_graph(), [m.output(0), z])
    program = read_pte(write_pte(m))
    spans = [program.delegate_span(d) for d in program.method("forward").delegates]
    assert len(set(spans)) == 2


def test_data_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="need segments"):
        write_pte(add_graph(), extended_header=False, named_data={"key": b"data"})
