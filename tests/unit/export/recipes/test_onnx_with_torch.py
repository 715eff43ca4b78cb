"""Operators of ONNX as PyTorch computes them, against NumPy. Skipped without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from webpte_export.networks import onnx  # noqa: E402
from webpte_export.networks.onnx_file import Graph, Node  # noqa: E402

X = np.random.default_rng(4).normal(0, 1, (2, 3, 7)).astype(np.float32)


def network(
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[tuple[str, str, str, dict[str, Any]]],
    outputs: list[str],
    wanted: tuple[str, ...] = (),
    **constants: Any,
) -> Any:
    """Return the network of a graph whose input is x."""
    made = [Node(op, tuple(names.split()), (out,), more) for op, names, out, more in nodes]
    kept = {name: np.asarray(value) for name, value in constants.items()}
    monkeypatch.setattr(onnx, "read_onnx", lambda _: Graph(made, kept, ["x"], outputs))
    return onnx.OnnxNetwork(Path("small.onnx"), wanted)


def run(net: Any, x: np.ndarray = X) -> Any:
    found = net(torch.from_numpy(x))
    return [one.numpy() for one in found] if isinstance(found, tuple) else found.numpy()


PADS = [0, 1, 3, 0, 0, 2]  # before each axis, then after each
ROWS: list[tuple[str, dict[str, Any], dict[str, Any], np.ndarray]] = [
    ("Pad", {"mode": "reflect"}, {"a": PADS}, np.pad(X, ((0, 0), (1, 0), (3, 2)), "reflect")),
    ("Pad", {}, {"a": PADS}, np.pad(X, ((0, 0), (1, 0), (3, 2)))),
    (
        "Pad",
        {"mode": "constant"},
        {"a": PADS, "b": np.float32(4)},
        np.pad(X, ((0, 0), (1, 0), (3, 2)), constant_values=4),
    ),
    ("ReduceMax", {"axes": [1, 2], "keepdims": 0}, {}, X.max((1, 2))),
    ("ReduceMin", {"axes": [-1, 0]}, {}, X.min((0, 2), keepdims=True)),
    ("ReduceSum", {"keepdims": 0}, {"a": [-1]}, X.sum(-1)),
    ("Unsqueeze", {}, {"a": [-3]}, X[:, None]),
    ("Slice", {}, {"a": [0, -2], "b": [2**31 - 1] * 2, "c": [0, 2]}, X[..., -2:]),
    ("Slice", {}, {"a": [1], "b": [-2], "c": [2]}, X[..., 1:-2]),
    ("Neg", {}, {}, -X),
    ("Sub", {}, {"a": np.float32(0.5)}, X - np.float32(0.5)),
]


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_operators_are_as_in_numpy(monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    op, attributes, constants, wanted = ROWS[row]
    names = " ".join(["x", *constants])
    found = run(network(monkeypatch, [(op, names, "y", attributes)], ["y"], **constants))
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, atol=1e-6)


def test_a_division_by_zero_is_chosen_away(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[Any] = [
        ("Log", "x", "logs", {}),
        ("Sqrt", "x", "roots", {}),
        ("Div", "logs roots", "shares", {}),
        ("Equal", "roots zero", "none", {}),
        ("Where", "none zero shares", "y", {}),
    ]
    found = run(
        network(monkeypatch, nodes, ["y"], zero=np.float32(0)), np.array([0.0, 4.0], np.float32)
    )
    assert found == pytest.approx([0, np.log(4) / 2])


def test_outputs_are_returned_in_the_order_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[Any] = [("Relu", "x", "up", {}), ("Neg", "up", "down", {})]
    down, up = run(network(monkeypatch, nodes, ["up", "down"], ("down", "up")))
    assert np.array_equal(down, -up)
    for wanted in ((), ("side",)):
        with pytest.raises(ValueError, match="outputs up, down"):
            network(monkeypatch, nodes, ["up", "down"], wanted)


def test_other_paddings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(monkeypatch, [("Pad", "x a", "y", {"mode": "edge"})], ["y"], a=PADS)
    with pytest.raises(ValueError, match="edge"):
        run(made)
