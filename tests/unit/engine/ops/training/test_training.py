"""The training ops: against loops, against PyTorch, and at work."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.cases.cases import Array
from support.cases.training.training_cases import ADAMW, CROSS_ENTROPY, Classifier
from support.graphs.fine_tuning import PYTORCH_LOSSES, FineTuning
from support.graphs.graphs import run_once, wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte.errors import WebpteError


def cross_entropy_graph(
    logits: tuple[int, ...],
    labels: tuple[int, ...],
    loss: tuple[int, ...] = (),
    dtype: str = "int32",
) -> GraphWriter:
    g = GraphWriter()
    inputs = g.tensor(logits), g.tensor(labels, dtype)
    outs = g.tensor(loss), g.tensor(logits)
    g.op(CROSS_ENTROPY, *inputs, g.int(2), g.value_list(outs))
    g.inputs(*inputs)
    g.outputs(*outs)
    return g


def test_cross_entropy_as_torch() -> None:
    logits = np.array([[1, 2, 3, -1], [0.5, -np.inf, 4, 2], [9, 8, 7, 6]], np.float32)
    labels = np.array([2, 0, -1], np.int32)
    loss, gradient = wait(run_once(cross_entropy_graph((3, 4), (3,), (1,)), logits, labels))
    assert loss.shape == (1,)
    np.testing.assert_allclose(loss, [2.036447426718814], rtol=1e-6)
    expected = [
        [0.04447340864870214, 0.12089125857940036, -0.17138348858407232, 0.006018821355969727],
        [-0.4870456726412992, 0.0, 0.4289884053042286, 0.058057267337070576],
        [0.0, 0.0, 0.0, 0.0],
    ]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


def adamw_graph(
    shapes: list[tuple[int, ...]],
    *,
    constants: list[Array] | None = None,
    same: bool = False,
    outs: int = 3,
) -> GraphWriter:
    """param, m and v are inputs, or constants of the file; the outputs are the state itself."""
    g = GraphWriter()
    given: list[Array | None] = [*constants] if constants else [None] * 3
    state = [g.tensor(shape, constant=data) for shape, data in zip(shapes[:3], given, strict=True)]
    gradient = g.tensor(shapes[3])
    scalars = [g.double(s) for s in (0.01, 0.9, 0.99, 1e-8, 0.1)] + [g.int(1), g.int(1)]
    state = [state[0]] * 3 if same else state
    g.op(ADAMW, *state, gradient, *scalars, g.value_list(state[:outs]))
    g.inputs(*([] if constants else dict.fromkeys(state)), gradient)
    g.outputs(*state)
    return g


GRADIENTS = [[0.1, -0.2, 3.0], [1.0, 0.0, -0.5], [0.25, 0.25, 0.0]]


def adamw_by_hand(start: list[float], gradients: list[list[float]]) -> list[list[float]]:
    p, m, v = list(start), [0.0] * 3, [0.0] * 3
    for gradient in gradients:
        for i, g in enumerate(gradient):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.99 * v[i] + 0.01 * g * g
            p[i] = p[i] * (1 - 0.01 * 0.1) - 0.01 * m[i] / (v[i] ** 0.5 + 1e-8)
    return [p, m, v]


@pytest.mark.parametrize("outs", [3, 1, 0])
def test_state_in_the_file_is_updated_from_call_to_call(outs: int) -> None:
    start = [1.0, -2.0, 0.5]
    constants = [np.array(start, np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)]
    g = adamw_graph([(3,)] * 4, constants=constants, outs=outs)

    async def run() -> None:
        async with await webpte.load(write_pte(g), device="numpy") as program:
            for step, gradient in enumerate(GRADIENTS, 1):
                results = await program.forward(np.array(gradient, np.float32))
                expected = adamw_by_hand(start, GRADIENTS[:step])
                np.testing.assert_allclose(np.stack(results), expected, rtol=1e-5, atol=1e-8)

    wait(run())


def test_first_step_as_torch() -> None:
    """One step of torch.optim.AdamW has the bias corrections 1 - beta."""
    g = GraphWriter()
    ids = [g.tensor((3,)) for _ in range(4)]
    scalars = [g.double(s) for s in (0.01, 0.9, 0.99, 1e-8, 0.1, 1 - 0.9, 1 - 0.99)]
    g.op(ADAMW, *ids, *scalars, g.value_list(ids[:3]))
    g.inputs(*ids)
    g.outputs(*ids[:3])
    param, zeros = np.array([1, -2, 0.5], np.float32), np.zeros(3, np.float32)
    gradient = np.array(GRADIENTS[0], np.float32)
    p, m, v = wait(run_once(g, param, zeros, zeros, gradient))
    np.testing.assert_allclose(p, [0.989000001, -1.9880000005, 0.4895000000333], rtol=1e-6)
    np.testing.assert_allclose(m, [0.01, -0.02, 0.3], rtol=1e-6)
    np.testing.assert_allclose(v, [0.0001, 0.0004, 0.09], rtol=1e-6)
    np.testing.assert_array_equal(param, np.array([1, -2, 0.5], np.float32))


@pytest.mark.parametrize(
    ("graph", "inputs", "message"),
    [
        (cross_entropy_graph((2, 3), (3,)), ((2, 3), (3,)), r"not \[2, 3\] and int32 \[3\]"),
        (cross_entropy_graph((2, 3), (2,), dtype="float32"), ((2, 3), (2,)), r"and float32 \[2\]"),
        (cross_entropy_graph((2, 3, 4), (2,)), ((2, 3, 4), (2,)), r"not \[2, 3, 4\]"),
        (cross_entropy_graph((2, 3), (2,), (2,)), ((2, 3), (2,)), r"one number, not \[2\]"),
        (adamw_graph([(3,), (3,), (3,), (4,)]), ((3,), (3,), (3,), (4,)), "different shapes"),
        (adamw_graph([(3,)] * 4, same=True), ((3,), (3,)), "must be different tensors"),
    ],
)
def test_wrong_arguments(
    graph: GraphWriter, inputs: tuple[tuple[int, ...], ...], message: str
) -> None:
    arrays = [
        np.zeros(shape, graph.shapes[i][1])
        for shape, i in zip(inputs, graph.input_ids, strict=True)
    ]
    with pytest.raises(WebpteError, match=rf"op 0 \(et_vk\..*{message}"):
        wait(run_once(graph, *arrays))


def losses_of(model: Classifier | FineTuning, steps: int) -> list[float]:
    """Return the program's losses from call to call; it updates its own weights."""

    async def run() -> list[float]:
        async with await webpte.load(model.program(), device="numpy") as program:
            return [float((await program.forward(model.x, model.labels))[0]) for _ in range(steps)]

    return wait(run())


def test_a_classifier_learns() -> None:
    """Forty steps inside of the program follow the same steps in float64."""
    model, steps = Classifier(), 40
    expected = model.expected(steps)
    np.testing.assert_allclose(losses_of(model, steps), expected, rtol=2e-3, atol=1e-5)
    assert expected[-1] < expected[0] / 5


def test_fine_tuning_follows_pytorch() -> None:
    losses = losses_of(FineTuning(), len(PYTORCH_LOSSES))
    np.testing.assert_allclose(losses, PYTORCH_LOSSES, rtol=2e-3, atol=2e-5)
