"""Kinds of calls, by words in the names of their operators, and the attributes shown on boxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from page.shared.html.units import shape_text
from webpte.inspection.report import MethodGraph, Node

# In the order in which they are looked for; the last is for all other operators.
_WORDS = {
    "convolution": ("conv",),
    "attention": ("attention", "sdpa", "rotary", "kv_cache", "update_cache", "rope"),
    "linear": ("linear", "matmul", "addmm", "bmm", "mm.", "_mm"),
    "normalization": ("norm",),
    "activation": ("relu", "gelu", "silu", "sigmoid", "tanh", "swish", "clamp", "elu", "softmax"),
    "pooling": ("pool", "upsample", "pixel_shuffle", "grid_sampl", "interpolate"),
    "shape": (
        *("view", "reshape", "permute", "transpose", "squeeze", "expand", "slice", "select"),
        *("cat", "clone", "copy", "split", "stack", "flip", "repeat", "pad", "sym", "index"),
        *("gather", "unbind", "chunk", "flatten", "embedding"),
    ),
}
MATH = "math"
KINDS = (*_WORDS, MATH)
_SHOWN = ("kernel_size", "stride", "dilation", "groups", "dim")
_USUAL: dict[str, object] = {"stride": 1, "dilation": 1, "groups": 1}


def kind_of(node: Node) -> str:
    """Return the kind of a call; of a fused call the first of its parts in the order above."""
    names = [f"{name.lower()}." for name in (node.op, *node.parts)]
    found = (
        kind
        for kind, words in _WORDS.items()
        if any(word in name for name in names for word in words)
    )
    return next(found, MATH)


def attributes_text(graph: MethodGraph, node: Node) -> str:
    """Return what tells a call from others of its operator, such as "3 × 3, stride 2"."""
    return ", ".join(_attributes(graph, node))


def _attributes(graph: MethodGraph, node: Node) -> Iterator[str]:
    given = {one.name: one for one in node.arguments}
    weight = graph.values.get(given["weight"].values[0]) if _has_weight(given) else None
    if weight is not None and kind_of(node) == "convolution" and len(weight.shape) > 2:
        yield shape_text(weight.shape[2:])
    for name in _SHOWN:
        one = given.get(name)
        if one is None or one.values or one.value is None:
            continue
        value = _single(one.value)
        if value != _USUAL.get(name):
            yield f"{name.replace('_', ' ')} {value}"


def _has_weight(given: dict[str, Any]) -> bool:
    return "weight" in given and bool(given["weight"].values)


def _single(value: Any) -> Any:
    """Return a list of equal numbers as one number, other lists as text."""
    if not isinstance(value, list | tuple):
        return value
    return value[0] if value and len(set(value)) == 1 else " × ".join(map(str, value))
