"""Rewrites of ONNX graphs: parts of a layer norm, heads of attention, constants that are nodes."""

from __future__ import annotations

import numpy as np
import pytest

from webpte_export.networks.onnx_file import Graph, Node
from webpte_export.networks.onnx_rewrites import with_constants, with_heads, with_layer_norms


def graph(nodes: list[Node], **constants: np.ndarray) -> Graph:
    return Graph(nodes, dict(constants), ["x"], [nodes[-1].outputs[0]])


def node(op: str, inputs: str, output: str, **attributes: object) -> Node:
    return Node(op, tuple(inputs.split()), (output,), attributes)


def layer_norm(root: str = "Sqrt") -> Graph:
    return graph(
        [
            node("ReduceMean", "x", "mean", axes=[-1]),
            node("Sub", "x mean", "centred"),
            node("Pow", "centred two", "squares"),
            node("ReduceMean", "squares", "variance", axes=[-1]),
            node("Add", "variance epsilon", "more"),
            node(root, "more", "root"),
            node("Div", "centred root", "scaled"),
            node("Mul", "scaled weight", "weighted"),
            node("Add", "weighted bias", "y"),
            node("Relu", "y", "z"),
        ],
        two=np.array(2, np.float32),
        epsilon=np.array([1e-6], np.float32),
        weight=np.ones(4, np.float32),
        bias=np.zeros(4, np.float32),
    )


def test_the_parts_of_a_layer_norm_become_one_node() -> None:
    first, second = with_layer_norms(layer_norm()).nodes
    assert (first.op, first.inputs, first.outputs) == ("LayerNorm", ("x", "weight", "bias"), ("y",))
    assert first.attributes["epsilon"] == pytest.approx(1e-6)
    assert second.op == "Relu"


def test_other_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="Sqrt is Exp"):
        with_layer_norms(layer_norm("Exp"))


def test_a_difference_of_other_values_stays() -> None:
    given = graph([node("Sub", "x offset", "y")], offset=np.ones(4, np.float32))
    assert with_layer_norms(given).nodes == given.nodes


def test_parts_of_attention_are_cut_before_they_have_heads() -> None:
    given = graph(
        [
            node("Reshape", "x shape", "split"),
            node("Transpose", "split", "turned", perm=[2, 0, 3, 1, 4]),
            node("Slice", "turned one two zero", "second"),
            node("Squeeze", "second", "k", axes=[0]),
        ],
        shape=np.array([0, -1, 3, 2, 5]),
        zero=np.array([0]),
        one=np.array([1]),
        two=np.array([2]),
    )
    made = with_heads(given)
    assert [one.op for one in made.nodes] == ["Slice", "Reshape", "Transpose"]
    cut, split, turned = made.nodes
    x = np.arange(2 * 3 * 30).reshape(2, 3, 30)
    start, end, axis = (int(made.constants[name][0]) for name in cut.inputs[1:])
    found = np.take(x, range(start, end), axis).reshape(2, 3, *made.constants[split.inputs[1]][2:])
    wanted = x.reshape(2, 3, 3, 2, 5).transpose(2, 0, 3, 1, 4)[1]
    assert np.array_equal(found.transpose(turned.attributes["perm"]), wanted)
    assert turned.outputs == ("k",)


def test_constants_are_no_nodes() -> None:
    given = graph(
        [
            Node("Constant", (), ("shape",), {"value": np.array([1, 4, 1, 1])}),
            node("Reshape", "offset shape", "bias"),
            node("Add", "x bias", "y"),
        ],
        offset=np.arange(4.0),
    )
    made = with_constants(given)
    assert [one.op for one in made.nodes] == ["Add"]
    assert made.constants["bias"].shape == (1, 4, 1, 1)
