"""Cases of the training ops, and a small classifier that trains itself inside of its program."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.reduce.reduce_cases import SPECIAL
from support.cases.row_cases import Given, RowCase, normal
from support.write.pte_writer import GraphWriter, write_pte

CROSS_ENTROPY, ADAMW = "et_vk.fused_ce.default", "et_vk.adamw_step.default"
ADAMW_DEFAULTS = (1e-3, 0.9, 0.999, 1e-8, 0.01)


def expect_cross_entropy(logits: Array, labels: Array, n: float) -> tuple[Array, Array]:
    loss, gradient = 0.0, np.zeros(logits.shape)
    for i, label in enumerate(labels.tolist()):
        if label < 0:
            continue
        row = logits[i].tolist()
        top = max(row)
        total = math.fsum(math.exp(v - top) for v in row)
        loss += (top - row[label] + math.log(total)) / n if label < len(row) else math.nan
        for j, v in enumerate(row):
            gradient[i, j] = (math.exp(v - top) / total - (j == label)) / n
    return np.array(loss), gradient


def cross_entropy(logits: Array, labels: list[int], n: float, **options: Any) -> RowCase:
    args = (logits, np.array(labels, np.int32), n)
    return RowCase(
        CROSS_ENTROPY, args, expect_cross_entropy, **{"outs": ("float32",) * 2, **options}
    )


def labels_for(rows: int, columns: int) -> list[int]:
    return [(i * 7 + 3) % columns for i in range(rows)]


def cross_entropy_cases() -> list[RowCase]:
    cases = [
        cross_entropy(normal((rows, columns), scale=2), labels_for(rows, columns), rows)
        for rows, columns in ((4, 32), (5, 7), (1, 1), (3, 1001), (2, 5000), (67, 3), (300, 5))
    ]
    masked = [*labels_for(5, 128), -1, -100, -1]
    live = (
        (normal((3, 12), 2), np.array([11, -1, 0], np.int32)),
        (normal((5, 7), 3), np.arange(5, dtype=np.int32)),
    )
    return [
        *cases,
        cross_entropy(normal((8, 128)), masked, 5.0, label="masked"),
        cross_entropy(normal((3, 9)), [-1, -1, -1], 1, label="nothing counts"),
        cross_entropy(normal((2, 8), scale=1e4), [3, 4], 2, rtol=1e-4, label="large logits"),
        cross_entropy(normal((2, 8)), [8, 1], 2, label="no such column"),
        cross_entropy(SPECIAL, [2, 1, 0, 1, 1, 0, 3], 7, label="special"),
        cross_entropy(SPECIAL[3:], [2, 1, 0, 3], 4, label="infinite"),
        cross_entropy(normal((0, 4)), [], 1, label="no rows"),
        cross_entropy(normal((6, 12)), labels_for(6, 12), 6, live=live, label="live"),
    ]


def expect_adamw(p: Array, m: Array, v: Array, g: Array, *scalars: float) -> tuple[Array, ...]:
    lr, beta1, beta2, eps, decay, correction1, correction2 = scalars
    p = p - lr * decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    return p - lr * (m / correction1) / (np.sqrt(v / correction2) + eps), m, v


def adamw(shape: tuple[int, ...], *scalars: float, **options: Any) -> RowCase:
    """Outputs under new names; test_training.py has outputs in place."""
    state = (normal(shape, 1), normal(shape, 2, 0.1), np.asarray(np.abs(normal(shape, 3, 0.01))))
    args: tuple[Given, ...] = (*state, normal(shape, 4), *scalars)
    return RowCase(ADAMW, args, expect_adamw, **{"outs": ("float32",) * 3, **options})


def adamw_cases() -> list[RowCase]:
    first = (1 - 0.9, 1 - 0.999)
    shapes: tuple[tuple[int, ...], ...] = ((64,), (7, 11), (1,), (), (0, 3), (331,))
    cases = [adamw(shape, *ADAMW_DEFAULTS, *first) for shape in shapes]
    return [
        *cases,
        adamw((67,), 0.1, 0.9, 0.999, 1e-8, 0.0, 1 - 0.9**10, 1 - 0.999**10, label="tenth step"),
        adamw((5,), 1, 0, 0, 1, 0, 1, 1, label="integers"),
    ]


TRAINING_CASES = cross_entropy_cases() + adamw_cases()


class Classifier:
    """logits = x @ wᵀ + b, with cross entropy and AdamW, all of it in one graph.

    x [B, K] and labels [B] come in, the loss goes out; w [C, K], b [C] and the optimizer's state
    are constants of the file that the program changes from call to call.
    """

    batch, features, classes = 12, 5, 3
    optimizer = (0.05, 0.9, 0.99, 1e-8, 0.01, 1.0, 1.0)

    def __init__(self) -> None:
        rng = np.random.default_rng(8)
        self.labels = rng.integers(0, self.classes, self.batch).astype(np.int32)
        self.labels[-1] = -1
        x = rng.normal(0, 1, (self.batch, self.features))
        x[:, : self.classes] += 2 * np.eye(self.classes)[self.labels]
        self.x = x.astype(np.float32)
        self.weights = rng.normal(0, 0.3, (self.classes, self.features)).astype(np.float32)
        self.bias = np.zeros(self.classes, np.float32)

    def program(self) -> bytes:
        """Products by broadcasting: x [B, 1, K] times w [1, C, K], summed."""
        g, (b, k, c) = GraphWriter(), (self.batch, self.features, self.classes)
        x, labels = g.tensor((b, k)), g.tensor((b,), "int32")
        state = [
            [g.tensor(start.shape, constant=data) for data in (start, start * 0, start * 0)]
            for start in (self.weights, self.bias)
        ]
        (w, *_), (bias, *_) = state
        one, keepdim = g.int(1), g.bool_(False)

        def unsqueeze(value: int, dim: int, shape: tuple[int, ...]) -> int:
            return g.op("aten.unsqueeze_copy.default", value, g.int(dim), g.tensor(shape))

        def summed(value: int, dim: int, shape: tuple[int, ...]) -> int:
            dims, dtype, out = g.int_list([dim]), g.null(), g.tensor(shape)
            return g.op("aten.sum.dim_IntList", value, dims, keepdim, dtype, out)

        rows = unsqueeze(x, 1, (b, 1, k))
        product = g.op("aten.mul.Tensor", rows, unsqueeze(w, 0, (1, c, k)), g.tensor((b, c, k)))
        linear = summed(product, -1, (b, c))
        logits = g.op("aten.add.Tensor", linear, bias, one, g.tensor((b, c)))
        loss, dlogits = g.tensor(()), g.tensor((b, c))
        counted = g.double(float(np.sum(self.labels >= 0)))
        g.op(CROSS_ENTROPY, logits, labels, counted, g.value_list([loss, dlogits]))
        outer = g.op("aten.mul.Tensor", unsqueeze(dlogits, 2, (b, c, 1)), rows, g.tensor((b, c, k)))
        gradients = summed(outer, 0, (c, k)), summed(dlogits, 0, (c,))
        scalars = [g.double(scalar) for scalar in self.optimizer]
        for ids, gradient in zip(state, gradients, strict=True):
            g.op(ADAMW, *ids, gradient, *scalars, g.value_list(ids))
        g.inputs(x, labels)
        g.outputs(loss, w)
        return write_pte(g)

    def expected(self, steps: int) -> list[float]:
        """The losses of the same steps in float64."""
        counted = self.labels >= 0
        x, w, b = (a.astype(np.float64) for a in (self.x, self.weights, self.bias))
        w_m, w_v, b_m, b_v = w * 0, w * 0, b * 0, b * 0
        losses = []
        for _ in range(steps):
            loss, dlogits = expect_cross_entropy(x @ w.T + b, self.labels, counted.sum())
            losses.append(float(loss))
            w, w_m, w_v = expect_adamw(w, w_m, w_v, dlogits.T @ x, *self.optimizer)
            b, b_m, b_v = expect_adamw(b, b_m, b_v, dlogits.sum(axis=0), *self.optimizer)
        return losses
