"""Training on the device: a loss with its gradient, and an optimizer step.

et_vk.fused_ce.default(logits [N, V], labels int [N], n_valid) -> [loss, dlogits [N, V]]
    loss = sum(logsumexp(logits) - logits[label]) / n_valid over the rows with a label >= 0,
    dlogits = (softmax(logits) - one_hot(label)) / n_valid there, 0 in the other rows
et_vk.adamw_step.default(param, m, v, grad, lr, beta1, beta2, eps, weight_decay,
    bias_correction1, bias_correction2) -> [param, m, v], updated in place
"""

from __future__ import annotations

import math

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, Scratch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats, contiguous_layout, float_item
from webpte.engine.ops.reduce.reduce import SUM, ReduceOperand, reduce, rows_walk
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray

STATE = ("param", "m", "v")  # tensors that an optimizer step updates


# Cross entropy


def cross_entropy_shape(args: Args) -> tuple[Dims, Dims]:
    logits, labels, (loss, _) = args.tensor("logits"), args.tensor("labels"), args.outs
    check_floats(args, logits)
    if logits.rank != 2 or labels.dims != logits.dims[:1] or labels.dtype.stored != "int32":
        raise GraphError(
            f"{args.call}: takes logits [N, V] and int32 labels [N], not {list(logits.dims)} "
            f"and {labels.dtype.name} {list(labels.dims)}"
        )
    if numel(loss.maximum) != 1:
        raise GraphError(f"{args.call}: the loss is one number, not {list(loss.maximum)}")
    return loss.maximum, logits.dims


def lower_cross_entropy(args: Args) -> list[Dispatch]:
    logits, (loss, gradient) = args.tensor("logits"), args.outs
    rows, columns = logits.dims
    losses = Scratch("cross entropy", 4 * rows)
    stored = float_type(args, logits, loss, gradient)
    walk = rows_walk(1, rows, args.target)
    total = reduce(SUM, walk, ReduceOperand(losses, "f32"), ReduceOperand(loss.id, stored), "f32")
    if rows == 0:
        return total
    item, elements = float_item(columns)
    layout = contiguous_layout(columns // elements, args.target)
    n_valid = float(args.number("n_valid"))
    return [
        Dispatch(
            kernel="training_cross_entropy",
            bindings=(logits.id, args.tensor("labels").id, gradient.id, losses),
            params=pack(
                "3I2f",
                *(rows, columns // elements, columns),
                *(1 / n_valid if n_valid else math.inf, math.nan),
            ),
            grid=layout.grid(rows),
            types=(("FLOAT", stored), ("ITEM", item)),
            overrides=layout.overrides,
        ),
        *total,
    ]


def run_cross_entropy(args: Args) -> list[Array]:
    logits, labels = args.array("logits").astype(np.float64), args.array("labels")
    n_valid = np.float64(args.number("n_valid"))
    columns = logits.shape[1]
    maximum = np.max(logits, axis=1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(logits - maximum)
    sums = np.sum(exponentials, axis=1, keepdims=True)
    one_hot = labels[:, None] == np.arange(columns)
    picked = np.sum(np.where(one_hot, logits, 0), axis=1)
    losses = np.where(labels < columns, maximum[:, 0] - picked + np.log(sums)[:, 0], np.nan)
    counted = labels >= 0
    gradient = np.where(counted[:, None], (exponentials / sums - one_hot) / n_valid, 0)
    loss = np.sum(np.where(counted, losses / n_valid, 0))
    return [np.reshape(loss, args.outs[0].maximum), gradient]


# AdamW


def adamw_shape(args: Args) -> list[Dims]:
    state = [args.tensor(name) for name in STATE]
    gradient = args.tensor("grad")
    check_floats(args, *state, gradient)
    if any(tensor.dims != gradient.dims for tensor in state):
        listed = ", ".join(str(list(tensor.dims)) for tensor in (*state, gradient))
        raise GraphError(f"{args.call}: param, m, v and grad have different shapes: {listed}")
    if len({tensor.id for tensor in (*state, gradient)}) != 4:
        raise GraphError(f"{args.call}: param, m, v and grad must be different tensors")
    return [gradient.dims] * len(args.outs)


def lower_adamw(args: Args) -> list[Dispatch]:
    state, gradient = [args.tensor(name) for name in STATE], args.tensor("grad")
    if gradient.numel == 0:
        return []
    lr, beta1, beta2 = (args.number(name) for name in ("lr", "beta1", "beta2"))
    quads = quad_count(gradient.numel)
    update = Dispatch(
        kernel="training_adamw",
        bindings=(*(tensor.id for tensor in state), gradient.id),
        params=pack(
            "I8f",
            *(quads, 1 - lr * args.number("weight_decay"), beta1, 1 - beta1, beta2, 1 - beta2),
            lr / args.number("bias_correction1"),
            1 / args.number("bias_correction2"),
            args.number("eps"),
        ),
        grid=quad_grid(quads),
        types=(("FLOAT", float_type(args, *state, gradient)),),
    )
    # The outputs are usually the state itself; a functionalized export gives them other ids.
    copies = [
        copy(tensor, out)
        for tensor, out in zip(state, args.outs, strict=False)
        if tensor.id != out.id
    ]
    return [update, *copies]


def copy(source: TensorArg, out: TensorArg) -> Dispatch:
    quads = quad_count(source.numel)
    return Dispatch("view", (source.id, out.id), pack("I", quads), quad_grid(quads))


def run_adamw(args: Args) -> list[Array]:
    param, m, v = (args.array(name) for name in STATE)
    gradient = args.array("grad").astype(np.float64)
    lr, beta1, beta2 = (args.number(name) for name in ("lr", "beta1", "beta2"))
    first = beta1 * m.astype(np.float64) + (1 - beta1) * gradient
    second = beta2 * v.astype(np.float64) + (1 - beta2) * gradient**2
    denominator = np.sqrt(second / args.number("bias_correction2")) + args.number("eps")
    kept = param.astype(np.float64) * (1 - lr * args.number("weight_decay"))
    param[...] = kept - lr * (first / args.number("bias_correction1")) / denominator
    m[...], v[...] = first, second
    return [
        array if tensor_id == out.id else array.copy()
        for array, tensor_id, out in zip(
            (param, m, v), (args.tensor(name).id for name in STATE), args.outs, strict=False
        )
    ]


register(
    "et_vk.fused_ce.default",
    "logits: tensor, labels: tensor, n_valid: number -> tensors",
    shape=cross_entropy_shape,
    lower=lower_cross_entropy,
    reference=run_cross_entropy,
)

register(
    "et_vk.adamw_step.default",
    "param: tensor, m: tensor, v: tensor, grad: tensor, lr: number, beta1: number, beta2: number, "
    "eps: number, weight_decay: number, bias_correction1: number, bias_correction2: number "
    "-> tensors",
    shape=adamw_shape,
    lower=lower_adamw,
    reference=run_adamw,
    mutates=STATE,
)
