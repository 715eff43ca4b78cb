"""Logits to scores, and scores to labels, by the rules of transformers' pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.errors import InputError

Array = np.ndarray
Found = dict[str, Any]


def softmax(logits: Array) -> Array:
    """Return probabilities along the last dim."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Array = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def sigmoid(logits: Array) -> Array:
    """Return the probability of each logit separately."""
    low = np.exp(-np.abs(logits))  # at most 1
    shares: Array = np.where(logits >= 0, 1, low) / (1 + low)
    return shares


FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "sigmoid": sigmoid,
    "softmax": softmax,
    "none": lambda logits: logits,
}


def labels_of(config: Table, count: int, known: Sequence[str] = ()) -> list[str]:
    """Return the names of `count` labels; LABEL_0 and so on if the config has no names.

    known   names for a config without names, if there are as many
    """
    named = config.table("id2label", None)
    if named is None and len(known) == count:
        return list(known)
    if named is None:
        return [f"LABEL_{number}" for number in range(count)]
    found = [named.text(str(number), None) for number in range(count)]
    if len(named.content) != count or not all(found):
        raise InputError(
            f"{config.name} names {len(named.content)} labels (id2label), but the program returns "
            f"{count} numbers: they do not belong together"
        )
    return [str(label) for label in found]


def function_name(name: str | None, config: Table, count: int) -> str:
    """Return the name in FUNCTIONS for a name that was given, or by the config."""
    if name is None:
        problem = config.content.get("problem_type")
        if problem == "regression":
            return "none"
        return "sigmoid" if problem == "multi_label_classification" or count == 1 else "softmax"
    if str(name).lower() not in FUNCTIONS:
        raise InputError(f"function_to_apply is {name!r}; there are {', '.join(FUNCTIONS)}")
    return str(name).lower()


def function_of(name: str | None, config: Table, count: int) -> Callable[[Array], Array]:
    """Return the function from logits to scores: by name, or by the config."""
    return FUNCTIONS[function_name(name, config, count)]


def best(labels: list[str], scores: Array, top_k: int | None) -> list[Found]:
    """Return labels with scores, the highest first; all labels if `top_k` is None."""
    check_top(top_k)
    found: list[Found] = [
        {"label": label, "score": float(score)} for label, score in zip(labels, scores, strict=True)
    ]
    return sorted(found, key=lambda one: -one["score"])[:top_k]


def check_top(top_k: Any) -> None:
    """Raise InputError unless a value is None or a valid number of results."""
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise InputError(f"top_k is {top_k!r}; give a number of results above 0, or None for all")
