"""A small network whose middle layer has 4-bit weights, fine-tuned: every training op in one step.

    h0 = relu(x @ w0ᵀ)    h1 = relu(h0 @ q(latent)ᵀ)    logits = h1 @ w2ᵀ

Each step computes the 4-bit codes from float weights (`latent`), and the gradient passes straight
through the rounding. Weights and the optimizer's state are mutable constants of the file.
"""

from __future__ import annotations

import numpy as np

from support.cases.cases import Array
from support.write.pte_writer import GraphWriter, write_pte

BATCH, FEATURES, HIDDEN, CLASSES, GROUP = 16, 24, 32, 4, 16
OPTIMIZER = (0.003, 0.9, 0.99, 1e-8, 0.01, 1.0, 1.0)  # lr, betas, eps, decay, bias corrections

# The same thirty steps in PyTorch 2.13: autograd, with a custom function for the rounding.
# fmt: off
PYTORCH_LOSSES = [
    1.89917, 1.65168, 1.35403, 1.11238, 0.90591, 0.72383, 0.56924, 0.45458, 0.36126, 0.27426,
    0.21573, 0.16702, 0.12609, 0.09700, 0.07293, 0.05426, 0.04122, 0.03142, 0.02444, 0.01831,
    0.01436, 0.01073, 0.00850, 0.00698, 0.00584, 0.00467, 0.00376, 0.00317, 0.00261, 0.00226,
]
# fmt: on


class FineTuning:
    def __init__(self) -> None:
        rng = np.random.default_rng(21)
        self.labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
        centres = rng.normal(0, 1, (CLASSES, FEATURES))
        x = centres[self.labels] + rng.normal(0, 0.7, (BATCH, FEATURES))
        self.x = x.astype(np.float32)
        self.w0 = rng.normal(0, 0.25, (HIDDEN, FEATURES)).astype(np.float32)
        self.latent = rng.normal(0, 0.2, (HIDDEN, HIDDEN)).astype(np.float32)
        self.w2 = rng.normal(0, 0.2, (CLASSES, HIDDEN)).astype(np.float32)
        blocks = np.abs(self.latent).reshape(HIDDEN, HIDDEN // GROUP, GROUP)
        self.scales: Array = np.ascontiguousarray((blocks.max(axis=2) / 7).T)  # [groups, rows]

    def program(self) -> bytes:
        g = GraphWriter()
        x, labels = g.tensor((BATCH, FEATURES)), g.tensor((BATCH,), "int32")
        state = [
            [g.tensor(start.shape, constant=data) for data in (start, start * 0, start * 0)]
            for start in (self.w0, self.latent, self.w2)
        ]
        (w0, *_), (latent, *_), (w2, *_) = state
        scales, group = g.tensor(self.scales.shape, constant=self.scales), g.int(GROUP)
        zero = g.tensor((1,), constant=np.zeros(1, np.float32))
        wide, null = (BATCH, HIDDEN), g.null()

        def op(name: str, *args: int, dims: tuple[int, ...] = wide, dtype: str = "float32") -> int:
            return g.op(name, *args, g.tensor(dims, dtype))

        def relu(value: int) -> int:
            return op("aten.relu.default", value)

        def relu_backward(gradient: int, result: int) -> int:
            passed = op("aten.gt.Scalar", result, g.int(0), dtype="bool")
            return op("aten.where.self", passed, gradient, zero)

        packed = op(
            "et_vk.q4gsw_requant.default",
            *(latent, scales, group),
            dims=(HIDDEN, HIDDEN // 2),
            dtype="uint8",
        )
        h0 = relu(op("aten.linear.default", x, w0, null))
        h1 = relu(op("et_vk.linear_q4gsw.default", h0, packed, scales, group, null))
        logits = op("aten.linear.default", h1, w2, null, dims=(BATCH, CLASSES))
        loss, dlogits = g.tensor(()), g.tensor((BATCH, CLASSES))
        outputs = g.value_list([loss, dlogits])
        g.op("et_vk.fused_ce.default", logits, labels, g.double(BATCH), outputs)
        d1 = relu_backward(op("aten.mm.default", dlogits, w2), h1)
        back = op("et_vk.linear_q4gsw_backward.default", d1, packed, scales, group)
        d0 = relu_backward(back, h0)
        gradients = [
            op("et_vk.linear_dW.default", d0, x, dims=(HIDDEN, FEATURES)),
            op("et_vk.linear_dW.default", d1, h0, dims=(HIDDEN, HIDDEN)),
            op("et_vk.linear_dW.default", dlogits, h1, dims=(CLASSES, HIDDEN)),
        ]
        scalars = [g.double(scalar) for scalar in OPTIMIZER]
        for ids, gradient in zip(state, gradients, strict=True):
            g.op("et_vk.adamw_step.default", *ids, gradient, *scalars, g.value_list(ids))
        g.inputs(x, labels)
        g.outputs(loss)
        return write_pte(g)
